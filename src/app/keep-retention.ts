import type { Resources } from './resources.ts';

const EVERY_MS = 3_600_000;

/** Removes records older than `retentionMs`, now and every hour, unless the clock is in doubt. Returns a function that stops it. */
export function keepRetention(
  { store, clock, clockWatch: watch, log, events }: Pick<Resources, 'store' | 'clock' | 'clockWatch' | 'log' | 'events'>,
  retentionMs: number,
): () => void {
  let cancel: () => void = () => undefined;
  const run = async () => {
    await watch.check();
    if (!watch.mayExpire) return;
    try {
      const removed = await store.removeRecordsBefore(clock.now() - retentionMs);
      if (removed > 0) log.info({ removed }, 'removed records beyond their retention');
    } catch (error) {
      log.error({ err: error }, 'removing old records failed; it is tried again in an hour');
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
