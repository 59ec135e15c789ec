import type { Environment } from './settings-reader.ts';

/**
 * The value of an environment variable that a stored credential names (`secret_ref: env:NAME`, decision 6.6); undefined when it is unset or
 * blank. Spaces and line ends around it, which files and secret stores like to add, are no part of a key.
 */
export function environmentSecret(name: string): string | undefined {
  const value = process.env[name]?.trim();
  return value === '' ? undefined : value;
}

/** A variable of the shell that a command runs in, which is no setting of ours; undefined when it is unset or empty. */
export function shellVariable(name: string, env: Environment = process.env): string | undefined {
  const value = env[name];
  return value === '' ? undefined : value;
}

/** All variables, for programs that a command starts. */
export function wholeEnvironment(env: Environment = process.env): Environment {
  return env;
}
