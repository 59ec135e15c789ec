import { when } from '../../base/lib/maybe.ts';
import { parseUsd, usdFromPico } from '../../base/lib/money.ts';
import { BUDGET_EXCEEDED } from '../../decide/policy/judge-caps.ts';
import { type CapExceeded, isExceeded } from '../../services/reservation.ts';
import type { Spender } from '../../services/spend-book.ts';
import { writeIntent } from '../answer/intent.ts';
import type { Pipeline } from '../parts/call-services.ts';
import { capAttributes, capCode, overBudget } from '../parts/cap-reached.ts';
import { Hold } from '../parts/hold.ts';
import type { Parts } from '../parts/parts.ts';
import { deny, hiddenCost, type Refusal } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';
import { hidesCost } from '../route/worth.ts';

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
    // What a plan pays for takes nothing from a budget, and is refused by none.
    if (!target.isCall || route.price?.plan === true || (!estimate && !isHidden)) return { hold };
    const monthly = judgement.verdict.effects.monthly_usd_max;
    const monthlyPico = monthly === undefined ? undefined : parseUsd(monthly);
    return when(budgets.reserve(spenderOf(parts), estimate?.reservePico ?? 0n, monthlyPico), (answer) => {
      if (isExceeded(answer)) {
        giveTokensBack(parts, pipeline);
        return exceeded(answer, estimate?.reservePico ?? 0n);
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

function spenderOf({ claims, attribution, route, delegated }: Read): Spender {
  return {
    orgId: claims.orgId,
    workloadId: claims.workloadId,
    projectId: attribution.project_id ?? '',
    connectorId: route.connectorId,
    providerId: route.provider?.id,
    delegations: delegated?.caps,
  };
}

/** Every refusal for money is 403 `budget_exceeded` (decision 6.2); the code and the trace say which cap it was. */
function exceeded(cap: CapExceeded, reservePico: bigint): Refusal {
  const traceAttributes = { cost_estimate_usd: usdFromPico(reservePico), ...capAttributes(cap) };
  return deny(capCode(cap), BUDGET_EXCEEDED, { detail: overBudget(reservePico, cap), traceAttributes });
}
