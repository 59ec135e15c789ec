import type { Clock } from '../base/lib/clock.ts';
import { keepAlive } from './keep-alive.ts';

/** Waits, and holds the process meanwhile. @param ms milliseconds @returns whether the time has passed; false: it was stopped */
export function heldPause(ms: number, signal: AbortSignal, clock: Clock): Promise<boolean> {
  if (signal.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const release = keepAlive();
    const done = (passed: boolean) => {
      cancel();
      release();
      signal.removeEventListener('abort', stopped);
      resolve(passed);
    };
    const stopped = () => done(false);
    const cancel = clock.after(ms, () => done(true));
    signal.addEventListener('abort', stopped);
  });
}
