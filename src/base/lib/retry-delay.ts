import { randomInt } from 'node:crypto';

const FIRST_MS = 1_000;
const LONGEST_MS = 5 * 60_000;
/** Thousandths of a delay that are left to chance, so that not all come back in one moment. */
const JITTER = 200;

/** How long to wait before the next try after this many earlier failures, milliseconds: a second, twice as long each time, `longestMs` at most, a fifth less by chance. */
export function retryDelay(failures: number, longestMs: number = LONGEST_MS): number {
  const ms = Math.min(FIRST_MS * 2 ** failures, longestMs);
  return Math.round((ms * (1_000 - randomInt(JITTER))) / 1_000);
}
