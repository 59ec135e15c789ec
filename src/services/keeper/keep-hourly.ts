import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { ClockWatch } from './clock-watch.ts';

const EVERY_MS = 3_600_000;

/** Something of which what is old is removed. */
export interface Kept {
  /** For the log. */
  readonly what: string;
  /** How long it is kept, milliseconds. */
  readonly ms: number;
  /** @returns how many were removed */
  removeBefore(epochMs: number): Promise<number>;
}

export interface KeepingGround {
  readonly clock: Clock;
  readonly clockWatch: ClockWatch;
  readonly log: Logger;
}

/** Removes what is older than it is to be kept, every hour, unless the clock is in doubt. */
export function keepHourly(
  { clock, clockWatch, log }: KeepingGround,
  kept: readonly Kept[],
): { /** Does it now. */ run(): Promise<void>; stop(): void } {
  let cancel: () => void = () => undefined;
  const run = async () => {
    await clockWatch.check();
    if (!clockWatch.mayExpire) return;
    try {
      for (const { what, ms, removeBefore } of kept) {
        const removed = await removeBefore(clock.now() - ms);
        if (removed > 0) log.info({ removed }, `removed ${what} beyond their retention`);
      }
    } catch (error) {
      log.error({ err: error }, 'removing what is old failed; it is tried again in an hour');
    }
  };
  const schedule = () => {
    cancel = clock.after(EVERY_MS, () => {
      void run();
      schedule();
    });
  };
  schedule();
  return { run, stop: () => cancel() };
}
