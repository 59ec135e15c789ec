import { usdFromPico } from '../base/lib/money.ts';
import type { ReasonCode } from '../base/model/reason-codes.ts';
import type { CapExceeded } from '../services/budgets.ts';

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

/** What the record, the log and a decision trace say of a cap of budgets. */
export function capAttributes({ limit, capPico, settledPico, reservedPico }: CapExceeded): Readonly<Record<string, string>> {
  return {
    ...(limit ? { limit_id: limit.limit_id, limit_usd: usdFromPico(capPico) } : { budget_monthly_usd_max: usdFromPico(capPico) }),
    spent_usd: usdFromPico(settledPico),
    reserved_usd: usdFromPico(reservedPico),
  };
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
  const { limit, capPico } = exceeded;
  const cap = limit ? `the ${limit.period} budget limit of its ${limit.scope}` : 'the cap of its project for this month';
  const attributes = { cost_usd: usdFromPico(costPico), ...capAttributes(exceeded) };
  return { reasonCode: capCode(exceeded), cap: `${cap}, ${usdFromPico(capPico)} USD`, costPico, attributes };
}
