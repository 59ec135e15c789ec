import * as type from './setting-types.ts';
import { required } from './setting-types.ts';

/** The web console and who has signed in to it. */
export const CONSOLE_SETTINGS = {
  consoleEnabled: required(
    'GW_CONSOLE_ENABLED',
    type.boolean,
    'true',
    'The web console at `/console`; `false`: there is nothing of it, and nobody can sign in.',
  ),
  consoleSessionIdle: required(
    'GW_CONSOLE_SESSION_IDLE',
    type.duration('5m', '365d'),
    '12h',
    'A session of the console ends when nothing was asked by it for so long.',
  ),
  consoleSessionMax: required(
    'GW_CONSOLE_SESSION_MAX',
    type.duration('5m', '365d'),
    '7d',
    'A session of the console ends so long after its sign-in, however much it is used.',
  ),
};
