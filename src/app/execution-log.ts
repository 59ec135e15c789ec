import type { Listeners } from '../base/events/bus.ts';
import type { Logger } from '../base/lib/log.ts';

/** One line per recorded request, without content, keys or query. */
export function executionLog(log: Logger): Listeners {
  return {
    execution({ record, durationMs }) {
      log.info(
        {
          record_id: record.record_id,
          org_id: record.org_id,
          workload_id: record.workload_id,
          decision: record.decision,
          reason_codes: record.reason_codes,
          connection_type: record.connection_type,
          traffic_class: record.traffic_class,
          method: record.action_method,
          host: record.target_host,
          provider: record.provider,
          model: record.model,
          status: record.status_code,
          tokens_in: record.metering?.tokens_in,
          tokens_out: record.metering?.tokens_out,
          cost_usd: record.metering?.cost_usd,
          duration_ms: Math.round(durationMs * 10) / 10,
        },
        'request',
      );
    },
    usageSettled: ({ record, outcome }) =>
      log.info(
        {
          record_id: record.record_id,
          settles_record_id: record.settles_record_id,
          org_id: record.org_id,
          workload_id: record.workload_id,
          provider: record.provider,
          model: record.metering?.model,
          tokens_in: record.metering?.tokens_in,
          tokens_out: record.metering?.tokens_out,
          cost_usd: record.metering?.cost_usd,
          outcome,
        },
        'what a response cost that was made after the answer to its call',
      ),
  };
}
