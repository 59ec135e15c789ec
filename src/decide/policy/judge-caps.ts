import { parseUsd, usdFromPico } from '../../base/lib/money.ts';
import type { ReasonCode } from '../../base/model/reason-codes.ts';
import { permits } from '../../base/model/reason-codes.ts';
import type { Effects, Verdict } from './verdict.ts';

/** Every refusal for money says so (decision 6.2). */
export const BUDGET_EXCEEDED = 'budget_exceeded';

/** What a call may cost, after all mutations. Pico-dollars. */
export interface CallCost {
  /** Of the request as it states itself; what `usd_max` looks at. */
  readonly estimatePico: bigint;
  /** What is set aside for it, which is not less; what the caps of months look at. */
  readonly reservePico: bigint;
  /** Nobody can say what it may cost, because its operation is not understood. */
  readonly hidden?: boolean;
  /** A plan pays for it: no cap of dollars holds it. */
  readonly planned?: boolean;
}

/** Why a call is refused that a cap holds and whose cost is hidden. */
export const HIDDEN_COST =
  'a cap or budget limit holds this call, and the gateway cannot know what this operation may cost; to let it pass, except its context.action.target_path where the cap is set';
const HIDDEN_CODE: ReasonCode = 'operation_not_understood';

/** A cap that rules set, with the amounts that it was held against. */
export interface JudgedCap {
  readonly effect: 'usd_max' | 'monthly_usd_max';
  readonly cap_usd: string;
  readonly cost_estimate_usd: string;
  /** Of the project in its month; absent where that does not count. */
  readonly spent_usd?: string;
  readonly exceeded: boolean;
}

/** Whether the estimate of one request is above the cap that rules set for it (specification, "Errors"). */
export function isAboveCap({ usd_max: cap }: Effects, estimatePico: bigint): boolean {
  return cap !== undefined && estimatePico > (parseUsd(cap) ?? 0n);
}

const CODES: Readonly<Record<JudgedCap['effect'], ReasonCode>> = {
  usd_max: 'budget_usd_max_exceeded',
  monthly_usd_max: 'budget_monthly_usd_max_exceeded',
};

/**
 * The caps that rules set, held against a call that the same rules let run, in the order of the gateway (decision 4.6).
 * Budget limits are no rules.
 * @param spentPico what the call's project has spent and set aside this month
 */
export function judgeCaps(
  verdict: Verdict,
  { estimatePico, reservePico, hidden, planned }: CallCost,
  spentPico: bigint,
): { readonly verdict: Verdict; readonly caps: readonly JudgedCap[] } {
  const { decision, effects } = verdict;
  const { usd_max: ofRequest, monthly_usd_max: ofMonth } = effects;
  if (!permits(decision) || (ofRequest === undefined && ofMonth === undefined)) return { verdict, caps: [] };
  if (hidden && !planned) return { verdict: { ...verdict, decision: 'deny', reason: HIDDEN_COST, reason_codes: [HIDDEN_CODE] }, caps: [] };
  const caps: JudgedCap[] = [];
  if (ofRequest !== undefined) {
    const exceeded = isAboveCap(effects, estimatePico);
    caps.push({ effect: 'usd_max', cap_usd: ofRequest, cost_estimate_usd: usdFromPico(estimatePico), exceeded });
  }
  if (ofMonth !== undefined) {
    const exceeded = !planned && spentPico + reservePico > (parseUsd(ofMonth) ?? 0n);
    const amounts = { cap_usd: ofMonth, cost_estimate_usd: usdFromPico(reservePico), spent_usd: usdFromPico(spentPico) };
    caps.push({ effect: 'monthly_usd_max', ...amounts, exceeded });
  }
  const first = caps.find(({ exceeded }) => exceeded);
  if (first === undefined) return { verdict, caps };
  return { verdict: { ...verdict, decision: 'deny', reason: BUDGET_EXCEEDED, reason_codes: [CODES[first.effect]] }, caps };
}
