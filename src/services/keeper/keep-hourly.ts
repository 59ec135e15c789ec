import type { EventBus } from '../../base/events/bus.ts';
import type { Clock } from '../../base/lib/clock.ts';
import type { RunningJob } from '../../base/lib/every.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { ClockWatch } from './clock-watch.ts';
import type { Leases } from './lease.ts';

const EVERY_MS = 3_600_000;

/** What is removed when it is old. */
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
  readonly leases: Leases;
  readonly log: Logger;
}

/** Removes what is older than it is to be kept, every hour, unless the clock is in doubt: in one process of a store. */
export function keepHourly({ clock, clockWatch, leases, log }: KeepingGround, kept: readonly Kept[]): RunningJob {
  return leases.every('retention', {
    everyMs: EVERY_MS,
    run: async (isHeld) => {
      await clockWatch.check();
      if (!clockWatch.mayExpire) return;
      for (const { what, ms, removeBefore } of kept) {
        if (!isHeld()) return;
        const removed = await removeBefore(clock.now() - ms);
        if (removed > 0) log.info({ removed }, `removed ${what} beyond their retention`);
      }
    },
    failed: 'removing what is old failed; it is tried again in an hour',
    failedLevel: 'error',
  });
}

/**
 * As {@link keepHourly}, and also now, and when the clock is believed again.
 * @returns what stops it, after the removal that is under way
 */
export function keepFromNow(ground: KeepingGround & { readonly events: EventBus }, kept: readonly Kept[]): () => Promise<void> {
  const keeping = keepHourly(ground, kept);
  void keeping.now();
  const unsubscribe = ground.events.subscribe(['clockBelieved'], () => void keeping.now());
  return () => {
    unsubscribe();
    return keeping.stop();
  };
}
