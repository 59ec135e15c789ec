import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { AuditTrail } from '../../services/audit-trail.ts';

const EVERY_MS = 3_600_000;

interface Keeping {
  readonly clock: Clock;
  readonly log: Logger;
  readonly keptMs: number;
}

/** Removes entries that are older than they are to be kept, every hour. @returns what ends that */
export function keepAuditTrail(audit: Pick<AuditTrail, 'removeBefore'>, { clock, log, keptMs }: Keeping): () => void {
  let cancel: () => void = () => undefined;
  const schedule = () => {
    cancel = clock.after(EVERY_MS, () => {
      audit
        .removeBefore(clock.now() - keptMs)
        .then((removed) => removed > 0 && log.info({ removed }, 'removed entries of the audit trail beyond their retention'))
        .catch((error: unknown) => log.error({ err: error }, 'removing what is old failed; it is tried again in an hour'));
      schedule();
    });
  };
  schedule();
  return () => cancel();
}
