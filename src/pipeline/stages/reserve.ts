import { parseUsd, usdFromPico } from '../../base/lib/money.ts';
import { BUDGET_EXCEEDED } from '../../decide/policy/judge-caps.ts';
import { type CapExceeded, isExceeded } from '../../services/budgets.ts';
import type { Spender } from '../../services/spend-book.ts';
import { capAttributes, capCode, overBudget } from '../cap-reached.ts';
import { countParsed } from '../count-parsed.ts';
import type { Exchange, Refusal } from '../exchange.ts';
import { writeIntent } from '../intent.ts';
import { deny, hiddenCost } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { hidesCost } from './estimate.ts';

/**
 * Sets the estimate aside until the real cost is known, so that calls at the same time cannot pass a cap together; under a cap an intent is stored before
 * anything is forwarded, so that a crash never makes spend disappear (decisions 6.2, 6.8).
 */
export const reserve: Stage = {
  name: 'reserve',
  run(exchange, pipeline) {
    const { estimate, verdict } = exchange;
    const hidden = hidesCost(exchange);
    if (!exchange.isCall || (!estimate && !hidden)) return undefined;
    const { budgets } = pipeline;
    const monthly = verdict?.effects.monthly_usd_max;
    const answer = budgets.reserve(spenderOf(exchange), estimate?.reservePico ?? 0n, monthly === undefined ? undefined : parseUsd(monthly));
    if (isExceeded(answer)) {
      giveTokensBack(exchange, pipeline);
      return exceeded(exchange, answer);
    }
    if (answer.capped && hidden) {
      budgets.release(answer);
      giveTokensBack(exchange, pipeline);
      return hiddenCost();
    }
    exchange.reservation = answer;
    if (!answer.capped) return undefined;
    countParsed(exchange);
    return intend(exchange, pipeline);
  },
};

async function intend(exchange: Exchange, pipeline: Pipeline): Promise<undefined> {
  try {
    return await writeIntent(exchange, pipeline);
  } catch (error) {
    giveTokensBack(exchange, pipeline);
    throw error;
  }
}

/** A refused call takes none (decision 6.1); the rate was asked before. */
function giveTokensBack({ workloadId, verdict }: Exchange, { rateLimits }: Pipeline): void {
  rateLimits.giveBack(workloadId, verdict?.effects.rate_limits ?? []);
}

function spenderOf({ orgId, workloadId, attribution, connectorId, provider }: Exchange): Spender {
  return { orgId, workloadId, projectId: attribution.project_id ?? '', connectorId: connectorId ?? '', providerId: provider?.id };
}

/** Every refusal for money is 403 `budget_exceeded` (decision 6.2); the code and the trace say which cap it was. */
function exceeded(exchange: Exchange, cap: CapExceeded): Refusal {
  const { reservePico = 0n } = exchange.estimate ?? {};
  exchange.traceAttributes = { cost_estimate_usd: usdFromPico(reservePico), ...capAttributes(cap) };
  return { ...deny(capCode(cap), BUDGET_EXCEEDED), detail: overBudget(reservePico, cap) };
}
