import { when } from '../../base/lib/maybe.ts';
import type { RateRefusal } from '../../services/rate-limits.ts';
import type { LineName } from '../parts/line-name.ts';
import { Refusal, statusOf } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

/** Takes a token from the workload's bucket and from those of the rules that limit this request (decision 6.1). A refused request takes none:
 * what a later stage refuses gives it back. */
export const rate = defineStage({
  name: 'rate',
  reads: ['arrival', 'claims', 'target', 'judgement'],
  run({ arrival, claims: { orgId, workloadId }, target, judgement }, { rateLimits }) {
    if (!target.isCall) return undefined;
    const taken = rateLimits.take(orgId, workloadId, judgement.verdict.effects.rate_limits);
    return when(taken, (refused) => refused && rateRefusal(refused, workloadId, arrival.line));
  },
});

function rateRefusal({ rule, retryAfterSeconds }: RateRefusal, workloadId: string, line: LineName): Refusal {
  const limit = rule ? `${rule.requests_per_minute} requests per minute (rule "${rule.rule_id}")` : 'its rate limit';
  return new Refusal({
    decision: 'rate_limit',
    status: statusOf('rate_limit', line),
    reason: `The workload ${workloadId} is above ${limit}; try again in ${retryAfterSeconds} s.`,
    reasonCodes: ['rate_limited'],
    retryAfterSeconds,
  });
}
