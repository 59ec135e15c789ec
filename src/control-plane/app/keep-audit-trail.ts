import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { AuditTrail } from '../../services/audit-trail.ts';
import type { ClockWatch } from '../../services/clock-watch.ts';

const EVERY_MS = 3_600_000;

interface Keeping {
  readonly clock: Clock;
  readonly clockWatch: ClockWatch;
  readonly log: Logger;
  readonly keptMs: number;
}

/** Removes entries that are older than they are to be kept, every hour, unless the clock is in doubt. @returns what ends that */
export function keepAuditTrail(audit: Pick<AuditTrail, 'removeBefore'>, { clock, clockWatch, log, keptMs }: Keeping): () => void {
  let cancel: () => void = () => undefined;
  const run = async () => {
    await clockWatch.check();
    if (!clockWatch.mayExpire) return;
    try {
      const removed = await audit.removeBefore(clock.now() - keptMs);
      if (removed > 0) log.info({ removed }, 'removed entries of the audit trail beyond their retention');
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
  return () => cancel();
}
