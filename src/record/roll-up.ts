import { picoFromUsd } from '../base/lib/money.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import { rollUpKey, SPEND_DAY, spendKey, USAGE_DAY } from '../storage/contract/counter-spaces.ts';
import type { Effect } from '../storage/contract/store.ts';

/**
 * The counters that one record adds to, committed in the same write as the record itself, so that totals and records can never disagree.
 * `connection` records count in no total (decision 7.3). The model is kept only for calls that an upstream accepted: what callers merely name is theirs to
 * invent, and would let anyone grow the number of counters.
 */
export function rollUp(record: ExecutionRecord): readonly Effect[] {
  if (record.record_tier === 'connection') return [];
  const { metering } = record;
  const day = record.completed_at.slice(0, 10);
  const accepted = record.upstream_status !== undefined && record.upstream_status < 400;
  const key = rollUpKey({
    day,
    org: record.org_id,
    workload: record.workload_id,
    connector: record.connector_id ?? '',
    model: accepted ? (metering?.model ?? '') : '',
    decision: record.decision,
  });
  if (!metering) return [{ op: 'add', space: USAGE_DAY, key, amounts: { requests: 1n } }];
  const amounts = {
    requests: 1n,
    tokens_in: BigInt(metering.tokens_in),
    tokens_out: BigInt(metering.tokens_out),
    cost_pico: picoFromUsd(metering.cost_usd),
  };
  const usage: Effect = { op: 'add', space: USAGE_DAY, key, amounts };
  if (amounts.cost_pico === 0n) return [usage];
  const spendOf = spendKey({ day, org: record.org_id, project: record.project_id ?? '' });
  return [usage, { op: 'add', space: SPEND_DAY, key: spendOf, amounts: { cost_pico: amounts.cost_pico } }];
}
