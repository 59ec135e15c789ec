import { picoFromUsd } from '../base/lib/money.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { Effect } from '../storage/contract/store.ts';

/** Counter space of the daily roll-ups; its keys are made by {@link rollUpKey}. */
export const USAGE_DAY = 'usage_day';

/** What one roll-up counter is kept for. Parts are percent-encoded, so that `|` only ever separates. */
export function rollUpKey(part: {
  readonly day: string;
  readonly org: string;
  readonly workload: string;
  readonly connector: string;
  readonly model: string;
  readonly decision: string;
}): string {
  return [part.day, part.org, part.workload, part.connector, part.model, part.decision].map(encodePart).join('|');
}

/** Nearly every part needs no encoding, and testing for that costs a tenth of it. */
function encodePart(text: string): string {
  return /^[\w.:-]*$/.test(text) ? text : encodeURIComponent(text);
}

/**
 * The counters that one record adds to, committed in the same write as the record itself, so that totals and records can never disagree.
 * `connection` records count in no total (decision 7.3). The model is kept only for calls that an upstream accepted: what callers merely name is theirs to
 * invent, and would let anyone grow the number of counters.
 */
export function rollUp(record: ExecutionRecord): readonly Effect[] {
  if (record.record_tier === 'connection') return [];
  const { metering } = record;
  const accepted = record.upstream_status !== undefined && record.upstream_status < 400;
  const key = rollUpKey({
    day: record.completed_at.slice(0, 10),
    org: record.org_id,
    workload: record.workload_id,
    connector: record.connector_id ?? '',
    model: accepted ? (metering?.model ?? '') : '',
    decision: record.decision,
  });
  const amounts = metering
    ? {
        requests: 1n,
        tokens_in: BigInt(metering.tokens_in),
        tokens_out: BigInt(metering.tokens_out),
        cost_pico: picoFromUsd(metering.cost_usd),
      }
    : { requests: 1n };
  return [{ op: 'add', space: USAGE_DAY, key, amounts }];
}
