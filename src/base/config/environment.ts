/** The value of an environment variable that a stored credential names (`secret_ref: env:NAME`, decision 6.6); undefined when it is unset or empty. */
export function environmentSecret(name: string): string | undefined {
  const value = process.env[name];
  return value === undefined || value === '' ? undefined : value;
}
