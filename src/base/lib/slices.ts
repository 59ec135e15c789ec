import { nextTurn } from './loop-turns.ts';

/** Work that says, each time it may pause, how many steps it has taken since the last time. */
export type Sliced<T> = Generator<number, T>;

/** Steps between two turns of the event loop: some milliseconds of work. */
const SLICE = 500;

/** Does all of it without a pause. */
export function atOnce<T>(work: Sliced<T>): T {
  for (;;) {
    const next = work.next();
    if (next.done === true) return next.value;
  }
}

/**
 * Does it in slices, and serves others between them. Rejects with what the work throws.
 * @param turn waits for the others; default: a later turn of the event loop, which others that look through much have
 * before it
 */
export async function inSlices<T>(work: Sliced<T>, turn: () => Promise<unknown> = nextTurn): Promise<T> {
  let steps = 0;
  for (;;) {
    const next = work.next();
    if (next.done === true) return next.value;
    steps += next.value;
    if (steps < SLICE) continue;
    steps = 0;
    await turn();
  }
}
