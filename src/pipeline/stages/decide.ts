import { permits } from '../../base/model/decision.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { decide } from '../../decide/policy/evaluate.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { observe } from '../../decide/policy/observe.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import { CallFacts } from '../parts/call-facts.ts';
import { type Maybe, type RateLimits, when } from '../parts/call-services.ts';
import { callerOf } from '../parts/known.ts';
import type { Claims } from '../parts/parts.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';
import { refusalFrom } from '../parts/verdict-refusal.ts';

/** Asks the policy snapshot that this request started with. */
export const decidePolicy = defineStage({
  name: 'decide',
  reads: ['arrival', 'claims', 'action', 'attributed', 'offer', 'asked'],
  makes: ['facts', 'judgement'],
  run({ arrival, claims, action, attributed, offer, asked }, { policies, rateLimits, shadow, quarantines }, control) {
    const active = policies.current(claims.orgId);
    const { policy } = active;
    const facts = new CallFacts({ arrival, claims, action, attribution: attributed, route: offer, content: asked });
    return when(withBuckets(decide(policy, facts), { policy, facts, claims }, rateLimits), (verdict) => {
      const judgement = { active, verdict, shadow: shadow?.judge(facts, verdict), observed: observe(policy, facts) };
      if (permits(verdict.decision)) return { facts, judgement };
      return when(refusalFrom(verdict, arrival.line, claims, rateLimits), (refusal) => {
        if (refusal.decision === 'quarantine') {
          const entry = quarantines.hold(callerOf(arrival, claims), { reason: refusal.reason, reason_codes: refusal.reasonCodes });
          if (entry) control.settle(entry);
        }
        return new EndedWith(refusal, { facts, judgement });
      });
    });
  },
});

interface Asked {
  readonly policy: CompiledPolicy;
  readonly facts: Facts;
  readonly claims: Claims;
}

/**
 * A rule that decides `rate_limit` has an opinion only while its bucket is empty. Evaluation knows nothing of buckets, so it is asked once more when one of
 * those that matched is empty (policy.md 2).
 */
function withBuckets(verdict: Verdict, { policy, facts, claims }: Asked, rateLimits: RateLimits): Maybe<Verdict> {
  const rules = verdict.effects.rate_limits;
  if (rules.length === 0) return verdict;
  const { orgId, workloadId } = claims;
  return when(allOf(rules.map((rule) => rateLimits.exhausted(orgId, workloadId, rule))), (exhausted) => {
    const empty = rules.filter((_, at) => exhausted[at]);
    if (empty.length === 0) return verdict;
    return decide(policy, facts, (layer, ruleId) => empty.some((rule) => rule.layer === layer && rule.rule_id === ruleId));
  });
}

function allOf<T>(values: readonly Maybe<T>[]): Maybe<readonly T[]> {
  return values.some((value) => value instanceof Promise) ? Promise.all(values) : (values as readonly T[]);
}
