import { usdFromPico } from '../../base/lib/money.ts';
import { BUDGET_EXCEEDED, isAboveCap } from '../../decide/policy/judge-caps.ts';
import { aboveCap } from '../cap-reached.ts';
import { deny, hiddenCost } from '../refusals.ts';
import type { Stage } from '../stage.ts';
import { hidesCost } from './estimate.ts';

/** The cap that policy sets for one request, against its estimate after all mutations (specification, "Errors"; decision 4.6). */
export const caps: Stage = {
  name: 'caps',
  run(exchange) {
    const { verdict, estimate: { costPico: estimate } = {} } = exchange;
    const cap = verdict?.effects.usd_max;
    if (cap !== undefined && exchange.isCall && hidesCost(exchange)) return hiddenCost();
    if (cap === undefined || estimate === undefined || !verdict || !isAboveCap(verdict.effects, estimate)) return undefined;
    exchange.traceAttributes = { cost_estimate_usd: usdFromPico(estimate), budget_usd_max: cap };
    return { ...deny('budget_usd_max_exceeded', BUDGET_EXCEEDED), detail: aboveCap(estimate, cap) };
  },
};
