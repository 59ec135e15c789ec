import type { RateRefusal } from '../../services/rate-limits.ts';
import type { Exchange, Refusal } from '../exchange.ts';
import { statusOf } from '../refusals.ts';
import type { Stage } from '../stage.ts';

/** Takes a token from the workload's bucket and from those of the rules that limit this request (decision 6.1). A refused request takes none:
 * what a later stage refuses gives it back. */
export const rate: Stage = {
  name: 'rate',
  run(exchange, pipeline) {
    if (!exchange.isCall) return undefined;
    const refused = pipeline.rateLimits.take(exchange.workloadId, exchange.verdict?.effects.rate_limits ?? []);
    return refused && rateRefusal(exchange, refused);
  },
};

function rateRefusal(exchange: Exchange, { rule, retryAfterSeconds }: RateRefusal): Refusal {
  const limit = rule ? `${rule.requests_per_minute} requests per minute (rule "${rule.rule_id}")` : 'its rate limit';
  return {
    decision: 'rate_limit',
    status: statusOf('rate_limit', exchange.door),
    reason: `The workload ${exchange.workloadId} is above ${limit}; try again in ${retryAfterSeconds} s.`,
    reasonCodes: ['rate_limited'],
    retryAfterSeconds,
  };
}
