import type { Resources } from './resources.ts';

const EVERY_MS = 3_600_000;

/** How long things are kept, milliseconds. */
interface Retention {
  readonly records: number;
  readonly audit: number;
}

/** Removes records and entries of the audit trail that are older than that, now and every hour, unless the clock is in doubt. Returns a function that stops it. */
export function keepRetention(
  { store, audit, clock, clockWatch: watch, log, events }: Pick<Resources, 'store' | 'audit' | 'clock' | 'clockWatch' | 'log' | 'events'>,
  retention: Retention,
): () => void {
  let cancel: () => void = () => undefined;
  const run = async () => {
    await watch.check();
    if (!watch.mayExpire) return;
    try {
      const removed = await store.removeRecordsBefore(clock.now() - retention.records);
      if (removed > 0) log.info({ removed }, 'removed records beyond their retention');
      const entries = await audit.removeBefore(clock.now() - retention.audit);
      if (entries > 0) log.info({ removed: entries }, 'removed entries of the audit trail beyond their retention');
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
