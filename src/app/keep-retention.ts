import type { Resources } from './resources.ts';

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

/** Removes what is older than it is to be kept, now and every hour, unless the clock is in doubt. Returns a function that stops it. */
export function keepRetention(
  { clock, clockWatch: watch, log, events }: Pick<Resources, 'clock' | 'clockWatch' | 'log' | 'events'>,
  kept: readonly Kept[],
): () => void {
  let cancel: () => void = () => undefined;
  const run = async () => {
    await watch.check();
    if (!watch.mayExpire) return;
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
  void run();
  schedule();
  const unsubscribe = events.subscribe(['clockBelieved'], () => void run());
  return () => {
    unsubscribe();
    cancel();
  };
}
