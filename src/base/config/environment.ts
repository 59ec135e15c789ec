/**
 * The value of an environment variable that a stored credential names (`secret_ref: env:NAME`, decision 6.6); undefined when it is unset or
 * blank. Spaces and line ends around it, which files and secret stores like to add, are no part of a key.
 */
export function environmentSecret(name: string): string | undefined {
  const value = process.env[name]?.trim();
  return value === '' ? undefined : value;
}
