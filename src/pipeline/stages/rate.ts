import { when } from '../../base/lib/maybe.ts';
import { rateRefusal } from '../parts/limits-of-call.ts';
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
