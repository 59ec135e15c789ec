import { parseUsd, usdFromPico } from '../../base/lib/money.ts';
import { deny, hiddenCost } from '../refusals.ts';
import type { Stage } from '../stage.ts';
import { hidesCost } from './estimate.ts';

/** The cap that policy sets for one request, against its estimate after all mutations (specification, "Errors"; decision 4.6). */
export const caps: Stage = {
  name: 'caps',
  run(exchange) {
    const cap = exchange.verdict?.effects.usd_max;
    if (cap !== undefined && exchange.isCall && hidesCost(exchange)) return hiddenCost();
    const estimate = exchange.estimate?.costPico;
    if (cap === undefined || estimate === undefined || estimate <= (parseUsd(cap) ?? 0n)) return undefined;
    exchange.traceAttributes = { cost_estimate_usd: usdFromPico(estimate), budget_usd_max: cap };
    return deny('budget_usd_max_exceeded', 'budget_exceeded');
  },
};
