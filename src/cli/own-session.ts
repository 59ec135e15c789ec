import { hostname, userInfo } from 'node:os';
import type { AdminSession } from '../base/model/principal.ts';

/** As header fields take them. */
const NOT_SENT = /[^\x20-\x7e]/g;

/**
 * What a program of this machine that works with the admin token says of itself (decision 10.14): a hint for those who
 * read what was done.
 */
export function ownSession(program: string): Required<AdminSession> {
  return { program, user: `${userName()}@${hostname()}`.replace(NOT_SENT, '?').slice(0, 256) };
}

/** As the system knows who runs this; it may not know it. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return 'somebody';
  }
}
