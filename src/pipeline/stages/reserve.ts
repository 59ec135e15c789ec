import { when } from '../../base/lib/maybe.ts';
import { isExceeded } from '../../services/money/reservation.ts';
import { writeIntent } from '../answer/intent.ts';
import type { Pipeline } from '../parts/call-services.ts';
import { Hold } from '../parts/hold.ts';
import { capRefusal, monthlyCapOf, spenderOf } from '../parts/limits-of-call.ts';
import type { Parts } from '../parts/parts.ts';
import { hiddenCost } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';
import { hidesCost, mayCost } from '../route/worth.ts';

const READ = ['arrival', 'claims', 'target', 'judgement', 'attribution', 'route', 'cleared'] as const;
type Read = Pick<Parts, (typeof READ)[number]> & Partial<Pick<Parts, 'delegated'>>;

/**
 * Sets the estimate aside until the real cost is known, so that calls at the same time cannot pass a cap together; under a cap an intent is stored before
 * anything is forwarded, so that a crash never makes spend disappear (decisions 6.2, 6.8).
 */
export const reserve = defineStage({
  name: 'reserve',
  reads: READ,
  sees: ['intake', 'delegated'],
  makes: ['hold'],
  run(parts, pipeline, control) {
    const { arrival, target, judgement, route, intake } = parts;
    const { budgets, settings } = pipeline;
    const hold = new Hold(pipeline, arrival.recordId);
    control.settle(hold);
    const { estimate } = route;
    const isHidden = hidesCost(route);
    if (!target.isCall || !mayCost(route)) return { hold };
    const monthlyPico = judgement.verdict.effects.monthly_usd_max === undefined ? undefined : monthlyCapOf(judgement);
    return when(budgets.reserve(spenderOf(parts), estimate?.reservePico ?? 0n, monthlyPico), (answer) => {
      if (isExceeded(answer)) {
        giveTokensBack(parts, pipeline);
        return capRefusal(answer, estimate?.reservePico ?? 0n);
      }
      if (answer.capped && isHidden) {
        budgets.release(answer);
        giveTokensBack(parts, pipeline);
        return hiddenCost();
      }
      hold.take(answer);
      if (!answer.capped) return { hold };
      intake?.held?.takeMade();
      return writeIntent({ hold, route, draft: () => control.draft() }, settings).then(
        () => ({ hold }),
        (error: unknown) => {
          giveTokensBack(parts, pipeline);
          throw error;
        },
      );
    });
  },
});

/** A refused call takes none (decision 6.1); the rate was asked before. */
function giveTokensBack({ claims: { orgId, workloadId }, judgement }: Read, { rateLimits }: Pipeline): void {
  rateLimits.giveBack(orgId, workloadId, judgement.verdict.effects.rate_limits);
}
