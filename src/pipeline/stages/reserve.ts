import { parseUsd, picoFromUsd, usdFromPico } from '../../base/lib/money.ts';
import { type CapExceeded, isExceeded } from '../../services/budgets.ts';
import type { Spender } from '../../services/spend-book.ts';
import type { Exchange, Refusal } from '../exchange.ts';
import { dropIntent, writeIntent } from '../intent.ts';
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
    const spender = spenderOf(exchange);
    const monthly = verdict?.effects.monthly_usd_max;
    const reserved = budgets.reserve(spender, estimate.reservePico, monthly === undefined ? undefined : parseUsd(monthly));
    if (isExceeded(reserved)) return exceeded(exchange, reserved);
    let open = true;
    const settle = (pico: bigint, at: number) => {
      if (!open) return [];
      open = false;
      return budgets.settle(reserved, pico, at);
    };
    exchange.undo.push(() => settle(0n, exchange.createdAt));
    exchange.settlements.push((record) => settle(picoFromUsd(record.metering?.cost_usd ?? '0'), exchange.completedAt));
    if (!reserved.capped) return undefined;
    exchange.settlements.push((record) => [dropIntent(record.record_id)]);
    return writeIntent(exchange, pipeline);
  },
};

function spenderOf(exchange: Exchange): Spender {
  return {
    orgId: exchange.orgId,
    workloadId: exchange.workloadId,
    projectId: exchange.attribution.project_id ?? '',
    connectorId: exchange.connectorId ?? '',
  };
}

/** Every refusal for money is 403 `budget_exceeded` (decision 6.2); the code and the trace say which cap it was. */
function exceeded(exchange: Exchange, { limit, capPico, settledPico, reservedPico }: CapExceeded): Refusal {
  exchange.traceAttributes = {
    cost_estimate_usd: usdFromPico(exchange.estimate?.reservePico ?? 0n),
    ...(limit ? { limit_id: limit.limit_id, limit_usd: usdFromPico(capPico) } : { budget_monthly_usd_max: usdFromPico(capPico) }),
    spent_usd: usdFromPico(settledPico),
    reserved_usd: usdFromPico(reservedPico),
  };
  return deny(limit ? 'budget_limit_exceeded' : 'budget_monthly_usd_max_exceeded', 'budget_exceeded');
}
