// What tests of several rooms share: clocks, folders, throw-away certificates, upstreams and raw clients. Nothing here
// is imported by src/.
import { type Clock, systemClock } from '../../src/base/lib/clock.ts';

interface Timer {
  readonly due: number;
  readonly order: number;
  readonly callback: () => void;
}

export interface FakeClock extends Clock {
  /** Moves time on by `ms` and runs every callback that falls due, in order of time, each at its own moment. */
  advance(ms: number): void;
  /** Sets the time of day, as an operator or NTP does; timers and the monotonic clock do not notice. */
  set(epochMs: number): void;
  /** Callbacks that are still waiting. */
  readonly pending: number;
}

/**
 * When a test begins that does not say when, milliseconds since the epoch: no day, month or summer time begins or ends
 * within hours of it.
 */
export const TEST_DAY = Date.UTC(2026, 10, 21, 12);
/**
 * Years before the machine's, so that what takes one of the two clocks for the other is wrong on every day, and not
 * only on a later one.
 */
const RUNNING_SINCE = Date.UTC(2024, 4, 15, 12);

/**
 * A clock that goes on as that of the machine does, from a moment of its own at the start of this process, milliseconds
 * since the epoch.
 */
export function runningFrom(startMs: number): Clock {
  return { now: () => startMs + Math.floor(performance.now()), monotonic: systemClock.monotonic, after: systemClock.after };
}

/**
 * For what waits for real sockets, files and processes, and is not asked what day it is. All of one process share it,
 * so that what is opened later on the same folder is later.
 */
export const runningClock: Clock = runningFrom(RUNNING_SINCE);

/** A clock that stands still until it is advanced. `startMs`: Unix epoch milliseconds. */
export function fakeClock(startMs: number = TEST_DAY): FakeClock {
  const timers = new Set<Timer>();
  let elapsed = 0;
  let setBy = 0;
  let order = 0;

  function earliest(limit: number): Timer | undefined {
    let found: Timer | undefined;
    for (const timer of timers) {
      if (timer.due > limit) continue;
      if (found === undefined || timer.due < found.due || (timer.due === found.due && timer.order < found.order)) found = timer;
    }
    return found;
  }

  return {
    now: () => startMs + setBy + Math.floor(elapsed),
    monotonic: () => elapsed,
    after(ms, callback) {
      const timer: Timer = { due: elapsed + Math.max(0, ms), order: order++, callback };
      timers.add(timer);
      return () => {
        timers.delete(timer);
      };
    },
    advance(ms) {
      const target = elapsed + ms;
      for (let timer = earliest(target); timer !== undefined; timer = earliest(target)) {
        timers.delete(timer);
        elapsed = timer.due;
        timer.callback();
      }
      elapsed = target;
    },
    set(epochMs) {
      setBy = epochMs - startMs - Math.floor(elapsed);
    },
    get pending() {
      return timers.size;
    },
  };
}
