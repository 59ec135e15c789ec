import { shellVariable } from '../../base/config/environment.ts';
import { MANAGEMENT_KEY_PREFIX } from '../../base/lib/own-tokens.ts';
import { type CliIo, UsageError } from '../command.ts';

/** Of the shell that a command runs in; no setting of the gateway. */
const KEY_VARIABLE = 'GW_MGMT_KEY';

/** The management key that a command was given, or that stands in its environment; undefined: the admin token makes one. @throws UsageError for what is no such key */
export function givenKey(key: string | undefined, io: CliIo): string | undefined {
  const given = key ?? shellVariable(KEY_VARIABLE, io.env);
  if (given !== undefined && !given.startsWith(MANAGEMENT_KEY_PREFIX))
    throw new UsageError(
      `${key === undefined ? KEY_VARIABLE : '--key'} takes a management key, which begins with ${MANAGEMENT_KEY_PREFIX}`,
    );
  return given;
}
