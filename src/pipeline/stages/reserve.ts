import { parseUsd, usdFromPico } from '../../base/lib/money.ts';
import { type CapExceeded, isExceeded } from '../../services/budgets.ts';
import type { Spender } from '../../services/spend-book.ts';
import { capAttributes, capCode } from '../cap-reached.ts';
import { countParsed } from '../count-parsed.ts';
import type { Exchange, Refusal } from '../exchange.ts';
import { writeIntent } from '../intent.ts';
import { deny } from '../refusals.ts';
import type { Stage } from '../stage.ts';

/**
 * Sets the estimate aside until the real cost is known, so that calls at the same time cannot pass a cap together; under a cap an intent is stored before
 * anything is forwarded, so that a crash never makes spend disappear (decisions 6.2, 6.8).
 */
export const reserve: Stage = {
  name: 'reserve',
  run(exchange, pipeline) {
    const { estimate, verdict } = exchange;
    if (!estimate || !exchange.isCall) return undefined;
    const { budgets } = pipeline;
    const monthly = verdict?.effects.monthly_usd_max;
    const answer = budgets.reserve(spenderOf(exchange), estimate.reservePico, monthly === undefined ? undefined : parseUsd(monthly));
    if (isExceeded(answer)) return exceeded(exchange, answer);
    exchange.reservation = answer;
    if (!answer.capped) return undefined;
    countParsed(exchange);
    return writeIntent(exchange, pipeline);
  },
};

function spenderOf({ orgId, workloadId, attribution, connectorId, provider }: Exchange): Spender {
  return { orgId, workloadId, projectId: attribution.project_id ?? '', connectorId: connectorId ?? '', providerId: provider?.id };
}

/** Every refusal for money is 403 `budget_exceeded` (decision 6.2); the code and the trace say which cap it was. */
function exceeded(exchange: Exchange, cap: CapExceeded): Refusal {
  exchange.traceAttributes = { cost_estimate_usd: usdFromPico(exchange.estimate?.reservePico ?? 0n), ...capAttributes(cap) };
  return deny(capCode(cap), 'budget_exceeded');
}
