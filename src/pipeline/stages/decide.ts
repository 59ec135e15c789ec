import { permits } from '../../base/model/decision.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { decide } from '../../decide/policy/evaluate.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import type { Exchange, Refusal } from '../exchange.ts';
import { ExchangeFacts } from '../exchange-facts.ts';
import { statusOf } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';

/** Asks the policy snapshot that this request started with. */
export const decidePolicy: Stage = {
  name: 'decide',
  run(exchange, pipeline) {
    const active = pipeline.policies.current();
    exchange.active = active;
    exchange.facts = new ExchangeFacts(exchange);
    const verdict = withBuckets(decide(active.policy, exchange.facts), active.policy, exchange, pipeline);
    exchange.verdict = verdict;
    exchange.shadow = pipeline.shadow?.judge(exchange.facts, verdict);
    if (permits(verdict.decision)) {
      exchange.decision = verdict.decision;
      return undefined;
    }
    return refusalFrom(verdict, exchange, pipeline);
  },
};

/**
 * A rule that decides `rate_limit` has an opinion only while its bucket is empty. Evaluation knows nothing of buckets, so it is asked once more when one of
 * those that matched is empty (policy.md 2).
 */
function withBuckets(verdict: Verdict, policy: CompiledPolicy, exchange: Exchange, { rateLimits }: Pipeline): Verdict {
  const empty = verdict.effects.rate_limits.filter((rule) => rateLimits.exhausted(exchange.workloadId, rule));
  if (empty.length === 0 || !exchange.facts) return verdict;
  return decide(policy, exchange.facts, (layer, ruleId) => empty.some((rule) => rule.layer === layer && rule.rule_id === ruleId));
}

/** Decisions whose service does not exist yet answer fail-closed (decisions, head). */
export function refusalFrom(verdict: Verdict, exchange: Exchange, { rateLimits }: Pipeline): Refusal {
  const decision = permits(verdict.decision) ? 'deny' : verdict.decision;
  const retry = decision === 'rate_limit' ? rateLimits.refusalBy(exchange.workloadId, verdict.effects.rate_limits) : undefined;
  return {
    decision,
    status: statusOf(decision, exchange.door),
    reason: verdict.reason ?? defaultReason(verdict),
    reasonCodes: verdict.reason_codes,
    ...(retry === undefined ? {} : { retryAfterSeconds: retry.retryAfterSeconds }),
  };
}

function defaultReason(verdict: Verdict): string {
  if (verdict.decision === 'require_attribution') {
    const missing = verdict.reason_codes.filter((code) => code.startsWith('missing:')).map((code) => code.slice('missing:'.length));
    return `require_attribution: ${missing.join(', ')} required`;
  }
  return verdict.reason_codes[0] ?? verdict.decision;
}
