import type { Listeners } from '../base/events/bus.ts';
import type { Logger } from '../base/lib/log.ts';
import { shorten } from '../base/lib/text.ts';
import { SESSION_OPERATION } from '../services/orgs/audit-trail.ts';

/** One line for what controls do and what people change. */
export function controlLog(log: Logger): Listeners {
  return {
    budgetAlert: ({ limit, level, periodStart, spentUsd, refusal }) =>
      log.warn(
        {
          limit_id: limit.limit_id,
          org_id: limit.org_id,
          scope: limit.scope,
          scope_id: limit.scope_id,
          level,
          period: limit.period,
          period_start: periodStart,
          spent_usd: spentUsd,
          limit_usd: limit.limit_usd,
          ...(refusal === undefined
            ? {}
            : { cost_estimate_usd: refusal.estimateUsd, reserved_usd: refusal.reservedUsd, resets_at: refusal.resetsAt }),
        },
        refusal === undefined ? 'a budget reached a threshold' : 'the cap of a budget refuses calls',
      ),
    approval: ({ approval_id, org_id, workload_id, caller_id, status, reason, record_id, decided_by, decided_by_note }) =>
      log.info(
        {
          approval_id,
          org_id,
          workload_id,
          caller_id,
          status,
          reason,
          record_id,
          ...(decided_by === null ? {} : { decided_by, decided_by_note }),
        },
        status === 'pending' ? 'a request waits for an approval' : `an approval ${status === 'expired' ? 'has' : 'was'} ${status}`,
      ),
    riskNotice: (alert) => log.warn({ ...alert }, 'the risk score of a caller has reached the threshold'),
    quarantine: ({ quarantine_id, org_id, workload_id, caller_id, caller_ip, reason, record_id, released_by, released_by_note }) =>
      log.warn(
        {
          quarantine_id,
          org_id,
          workload_id,
          caller_id,
          caller_ip,
          reason,
          record_id,
          ...(released_by === null ? {} : { released_by, released_by_note }),
        },
        released_by === null ? 'a caller was put into quarantine' : 'a caller was released from quarantine',
      ),
    audit: ({ audit_id, operation, object, principal, from, changes }) =>
      log.info(
        {
          audit_id,
          operation,
          object: object === undefined ? undefined : shorten(object),
          principal: principal.id,
          name: principal.name,
          user: principal.user,
          from,
          members: changes.length,
        },
        operation === SESSION_OPERATION ? 'a program works with the admin token' : 'somebody has changed the gateway',
      ),
  };
}
