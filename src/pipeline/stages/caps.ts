import { usdFromPico } from '../../base/lib/money.ts';
import { BUDGET_EXCEEDED, isAboveCap } from '../../decide/policy/judge-caps.ts';
import { aboveCap, recordedCap } from '../parts/cap-reached.ts';
import { deny, hiddenCost, type Refusal } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';
import { hidesCost } from '../route/worth.ts';

/**
 * The cap that policy sets for one request, against its estimate after all mutations (specification, "Errors"; decision
 * 4.6).
 */
export const caps = defineStage({
  name: 'caps',
  reads: ['target', 'judgement', 'route'],
  run({ target, judgement, route }): Refusal | undefined {
    const { effects } = judgement.verdict;
    const cap = effects.usd_max;
    const estimate = route.estimate?.costPico;
    if (cap !== undefined && target.isCall && hidesCost(route)) return hiddenCost();
    if (cap === undefined || estimate === undefined || !isAboveCap(effects, estimate)) return undefined;
    const traceAttributes = { cost_estimate_usd: usdFromPico(estimate), budget_usd_max: cap };
    return deny('budget_usd_max_exceeded', BUDGET_EXCEEDED, {
      detail: aboveCap(estimate, cap),
      traceAttributes,
      budget: recordedCap(estimate, cap),
    });
  },
});
