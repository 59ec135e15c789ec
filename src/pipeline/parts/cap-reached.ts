import { timestamp } from '../../base/lib/clock.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import type { ReasonCode } from '../../base/model/reason-codes.ts';
import type { RefusalDetail } from '../../inbound/reply/refusal-body.ts';
import type { CapExceeded } from '../../services/budgets.ts';

/** The cap at which a stream was ended. */
export interface CapReached {
  readonly reasonCode: ReasonCode;
  /** For people: which cap it was, with its amount. */
  readonly cap: string;
  /** What the call had cost by then, pico-dollars. */
  readonly costPico: bigint;
  /** For the trace of a decision and the log; decimal text. */
  readonly attributes: Readonly<Record<string, string>>;
}

/** What the log and a decision trace say of a cap of budgets. Its amounts are those of the caller's own org. */
export function capAttributes({ limit, capPico, settledPico, reservedPico, resetsAt }: CapExceeded): Readonly<Record<string, string>> {
  const [cap, spent] = [usdFromPico(capPico), usdFromPico(settledPico)];
  return {
    ...(limit ? { limit_id: limit.limit_id, limit_usd: cap } : { budget_monthly_usd_max: cap }),
    spent_usd: spent,
    reserved_usd: usdFromPico(reservedPico),
    budget_limit_usd: cap,
    budget_spent_usd: spent,
    budget_resets_at: timestamp(resetsAt),
  };
}

/** Why the cap of one request refuses a call, for people. */
export function aboveCap(estimatePico: bigint, capUsd: string): RefusalDetail {
  const message = `This call may cost ${usdFromPico(estimatePico)} USD, which is above the cap of one request, ${capUsd} USD.`;
  return { path: 'budget.usd_max', message };
}

/** Why a cap of budgets refuses a call, for people. */
export function overBudget(estimatePico: bigint, exceeded: CapExceeded): RefusalDetail {
  const { limit, settledPico, reservedPico, resetsAt } = exceeded;
  const sums = `${usdFromPico(settledPico)} USD are spent and ${usdFromPico(reservedPico)} USD set aside for calls under way`;
  const message = `This call may cost ${usdFromPico(estimatePico)} USD, with which it would pass ${nameOf(exceeded)}: ${sums}. It begins anew at ${timestamp(resetsAt)}.`;
  return { path: limit ? `limits.${limit.limit_id}` : 'budget.monthly_usd_max', message };
}

function nameOf({ limit, capPico }: CapExceeded): string {
  const cap = limit ? `the ${limit.period} budget limit of its ${limit.scope}` : 'the cap of its project for this month';
  return `${cap}, ${usdFromPico(capPico)} USD`;
}

/** The code of a cap of budgets. */
export function capCode({ limit }: CapExceeded): ReasonCode {
  return limit ? 'budget_limit_exceeded' : 'budget_monthly_usd_max_exceeded';
}

/** The cap of one request. */
export function ofRequest(costPico: bigint, capPico: bigint): CapReached {
  const usd = usdFromPico(capPico);
  const attributes = { cost_usd: usdFromPico(costPico), budget_usd_max: usd };
  return { reasonCode: 'budget_usd_max_exceeded', cap: `the cap of one request, ${usd} USD`, costPico, attributes };
}

/** The cap of a limit, or of a project's month. */
export function ofBudget(costPico: bigint, exceeded: CapExceeded): CapReached {
  const attributes = { cost_usd: usdFromPico(costPico), ...capAttributes(exceeded) };
  return { reasonCode: capCode(exceeded), cap: nameOf(exceeded), costPico, attributes };
}
