import { parseTime } from '../../base/lib/clock.ts';
import { picoFromUsd, roughMicros } from '../../base/lib/money.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { type RiskOutcome, riskTarget } from '../../decide/risk/risk-profile.ts';
import type { ReplayedCall } from '../../decide/risk/risk-replay.ts';

/** What a record says of a request that was turned away. One that waits for a person is none. */
const REFUSED: ReadonlySet<string> = new Set(['deny', 'quarantine', 'rate_limit', 'require_attribution']);

/** What a record says became of its request. @param at epoch milliseconds */
export function outcomeOf({ decision, metering }: Pick<ExecutionRecord, 'decision' | 'metering'>, at: number): RiskOutcome {
  const costMicros = roughMicros(picoFromUsd(metering?.cost_usd ?? '0'));
  if (REFUSED.has(decision)) return { at, outcome: 'refused', costMicros };
  return { at, outcome: decision === 'require_approval' ? 'waits' : 'let_through', costMicros };
}

/**
 * The request behind a record, with what it used in the place of what was estimated; undefined for one that was never
 * scored: a tunnel, a late cost, a refusal before policy.
 */
export function replayedCall(record: ExecutionRecord): ReplayedCall | undefined {
  const { record_id: id, record_tier: tier, policy_trace: trace, created_at, completed_at, metering } = record;
  const at = parseTime(created_at);
  if (tier !== 'action' || trace === undefined || at === undefined) return undefined;
  const outcome = outcomeOf(record, parseTime(completed_at) ?? at);
  const { org_id: org, workload_id: workload, caller_id: caller, caller_ip: ip = '' } = record;
  return {
    id,
    caller: `${org}/${workload}/${caller ?? ip}`,
    request: {
      at,
      target: riskTarget(record.target_host, record.action_type),
      promptTokens: metering?.tokens_in ?? 0,
      costMicros: outcome.costMicros,
    },
    outcome,
  };
}
