import { picoFromUsd } from '../base/lib/money.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { Effect } from '../storage/contract/store.ts';

/** Counter space of the daily roll-ups; its keys are made by {@link rollUpKey}. */
export const USAGE_DAY = 'usage_day';

/** What one roll-up counter is kept for. Parts are percent-encoded, so that `|` only ever separates. */
export function rollUpKey(part: {
  day: string;
  org: string;
  workload: string;
  connector: string;
  model: string;
  decision: string;
}): string {
  return [part.day, part.org, part.workload, part.connector, part.model, part.decision].map(encodeURIComponent).join('|');
}

/**
 * The counters that one record adds to, committed in the same write as the record itself, so that totals and records can never disagree.
 * `connection` records count in no total (decision 7.3). The model is kept only for calls that an upstream accepted: what callers merely name is theirs to
 * invent, and would let anyone grow the number of counters.
 */
export function rollUp(record: ExecutionRecord): readonly Effect[] {
  if (record.record_tier === 'connection') return [];
  const accepted = record.upstream_status !== undefined && record.upstream_status < 400;
  const key = rollUpKey({
    day: record.completed_at.slice(0, 10),
    org: record.org_id,
    workload: record.workload_id,
    connector: record.connector_id ?? '',
    model: accepted ? (record.metering?.model ?? '') : '',
    decision: record.decision,
  });
  const { metering } = record;
  const amounts: Record<string, bigint> = { requests: 1n };
  if (metering) {
    amounts['tokens_in'] = BigInt(metering.tokens_in);
    amounts['tokens_out'] = BigInt(metering.tokens_out);
    amounts['cost_pico'] = picoFromUsd(metering.cost_usd);
  }
  return [{ op: 'add', space: USAGE_DAY, key, amounts }];
}
