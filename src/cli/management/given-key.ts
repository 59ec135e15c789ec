import { MANAGEMENT_KEY_VARIABLE } from '../../base/config/command-variables.ts';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { MANAGEMENT_KEY_PREFIX } from '../../base/lib/own-tokens.ts';
import { type CliIo, UsageError } from '../command.ts';

/**
 * The management key that a command was given, or that stands in its environment; undefined: the admin token makes one.
 * @throws UsageError for what is no such key
 */
export function givenKey(key: string | undefined, io: CliIo): string | undefined {
  const given = key ?? shellVariable(MANAGEMENT_KEY_VARIABLE, io.env);
  if (given !== undefined && !given.startsWith(MANAGEMENT_KEY_PREFIX))
    throw new UsageError(
      `${key === undefined ? MANAGEMENT_KEY_VARIABLE : '--key'} takes a management key, which begins with ${MANAGEMENT_KEY_PREFIX}`,
    );
  return given;
}

/**
 * What people are told who name an org beside a key: what is of the key's org must not be taken for that of another.
 */
export const ONE_ORG = '--org is for the admin token: a management key is of one org';
