/*
 * npm as a user has it: with the registry and the cache that are set up on this machine.
 */
import { homedir } from 'node:os';

/** Settings that a user's npm is found by; those that `npm test` adds for its own run stay outside. */
const PASSED = ['npm_config_registry', 'npm_config_cache', 'npm_config_userconfig', 'npm_config_globalconfig', 'NODE_EXTRA_CA_CERTS'];

/** npm asks no questions, tells nobody about updates and takes from its cache what is there. */
export function npmEnvironment(): Record<string, string> {
  const passed = PASSED.flatMap((name): [string, string][] => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return {
    HOME: homedir(),
    // A gateway of a test is none of this user's.
    GW_CONFIG_DIR: 'none',
    ...Object.fromEntries(passed),
    npm_config_prefer_offline: 'true',
    npm_config_audit: 'false',
    npm_config_fund: 'false',
    npm_config_update_notifier: 'false',
  };
}

/** What tells a registry that cannot be reached from a package that is broken. */
export const installsByNpm = {
  SKIP: 'no npm registry can be reached, and the cache lacks packages; runs if it can (optional)',
  unreachable: (stderr: string): boolean =>
    /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED)\b/.test(stderr),
} as const;
