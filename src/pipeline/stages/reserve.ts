import { when } from '../../base/lib/maybe.ts';
import { isRefused } from '../../services/money/allowance.ts';
import { writeIntent } from '../answer/intent.ts';
import { limitRefusal } from '../parts/limits-of-call.ts';
import { hiddenCost } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';
import { spendAsk } from '../route/refused-anyway.ts';
import { hidesCost } from '../route/worth.ts';

/**
 * Takes what the call needs, all of it or nothing: a token from the workload's bucket and from those of the rules that
 * limit this request (decision 6.1), and its estimate, which stays set aside until the real cost is known, so that
 * calls at the same time cannot pass a cap together. Under a cap an intent is stored before anything is forwarded, so
 * that a crash never makes spend disappear (decisions 6.2, 6.8). What a later stage refuses gives all of it back.
 */
export const reserve = defineStage({
  name: 'reserve',
  reads: ['arrival', 'claims', 'target', 'judgement', 'attribution', 'route', 'cleared'],
  sees: ['intake', 'delegated'],
  makes: ['hold'],
  run(parts, pipeline, control) {
    const { arrival, claims, target, judgement, route, intake, cleared } = parts;
    const { hold } = control;
    if (!target.isCall) return { hold };
    const { orgId, workloadId } = claims;
    const rate = { rules: judgement.verdict.effects.rate_limits };
    return when(pipeline.allowance.take({ id: arrival.recordId, orgId, workloadId, rate, spend: spendAsk(parts) }), (grant) => {
      if (grant === undefined) return { hold };
      if (isRefused(grant)) return limitRefusal(grant, route.estimate?.reservePico ?? 0n, claims, arrival.line);
      // An approval that another call has spent first refuses the call after this.
      const isMade = cleared.bound === undefined;
      hold.take(grant, isMade && !grant.capped);
      if (!grant.capped) return { hold };
      if (hidesCost(route)) return hiddenCost();
      intake?.held?.takeMade();
      return writeIntent({ hold, route, draft: () => control.draft() }, pipeline.settings).then(() => {
        if (isMade) hold.pass();
        return { hold };
      });
    });
  },
});
