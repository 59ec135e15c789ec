import type { Listeners } from '../base/events/bus.ts';
import type { Logger } from '../base/lib/log.ts';
import type { LogFormat } from '../base/lib/log-forms.ts';
import { doubtNames } from '../base/model/cost-doubt.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { StageTime } from '../pipeline/parts/call-services.ts';
import type { Fields, REQUEST_FIELDS, STAGE_FIELDS } from './log-fields.ts';

/** One line per recorded request, without content, keys or query. */
export function executionLog(log: Logger, format: LogFormat = 'json'): Listeners {
  const isPretty = format === 'pretty';
  return {
    execution({ record, durationMs }) {
      const fields = requestFields(record, durationMs);
      // What a person looks at is in the one line of the pretty form (console-call.ts); the JSON form has no path
      // (decision 12.8).
      log.info(isPretty ? { ...fields, path: record.target_path } : fields, 'request');
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
          cost_doubt: doubtNames(record),
          outcome,
        },
        'what a response cost that was made after the answer to its call',
      ),
  };
}

/**
 * One line for each stage of a call at `GW_LOG_LEVEL=trace`; undefined at every other level, so that no stage is timed.
 */
export function stageLog(log: Logger): ((time: StageTime) => void) | undefined {
  if (!log.isLevelEnabled('trace')) return undefined;
  return ({ recordId, line, stage, microseconds, ended, reasonCodes }) => {
    const fields: Fields<typeof STAGE_FIELDS> = { record_id: recordId, line, stage, microseconds, ended, reason_codes: reasonCodes };
    log.trace(fields, 'stage');
  };
}

function requestFields(record: ExecutionRecord, durationMs: number): Fields<typeof REQUEST_FIELDS> {
  const { metering } = record;
  return {
    record_id: record.record_id,
    request_id: record.request_id,
    trace_id: record.trace_id,
    org_id: record.org_id,
    workload_id: record.workload_id,
    caller_id: record.caller_id,
    caller_ip: record.caller_ip,
    api_key_id: record.api_key_id,
    project_id: record.project_id,
    decision: record.decision,
    reason_codes: record.reason_codes,
    connection_type: record.connection_type,
    traffic_class: record.traffic_class,
    record_tier: record.record_tier,
    action_type: record.action_type,
    method: record.action_method,
    host: record.target_host,
    connector_id: record.connector_id,
    provider: record.provider,
    model: record.model,
    status: record.status_code,
    upstream_status: record.upstream_status,
    error: record.error?.code,
    summed_requests: record.summed_requests,
    stream: record.stream,
    stream_outcome: record.stream_outcome,
    bytes_in: record.request_bytes,
    bytes_out: record.response_bytes,
    tokens_in: metering?.tokens_in,
    tokens_out: metering?.tokens_out,
    cost_usd: metering?.cost_usd,
    cost_doubt: doubtNames(record),
    upstream_ms: tenths(record.upstream_latency_ms),
    duration_ms: tenths(durationMs),
  };
}

function tenths(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 10) / 10;
}
