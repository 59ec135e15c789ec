import { timestamp } from '../../base/lib/clock.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import type { RecordedBudget } from '../../base/model/budget-limit.ts';
import type { ReasonCode } from '../../base/model/reason-codes.ts';
import type { RefusalDetail } from '../../inbound/reply/envelope.ts';
import type { CapExceeded } from '../../services/money/allowance.ts';

/** The cap at which a stream was ended. */
export interface CapReached {
  readonly reasonCode: ReasonCode;
  /** For people: which cap it was, with its amount. */
  readonly cap: string;
  /** What the call had cost by then, pico-dollars. */
  readonly costPico: bigint;
  /** For the trace of a decision and the log; decimal text. */
  readonly attributes: Readonly<Record<string, string>>;
  /** For the record and the answer. */
  readonly budget: RecordedBudget;
}

/** What the log and a decision trace say of a cap of budgets. Its amounts are those of the caller's own org. */
export function capAttributes(exceeded: CapExceeded): Readonly<Record<string, string>> {
  const { capUsd, spentUsd, reservedUsd, resetsAt } = exceeded;
  return {
    ...wordsOf(exceeded).attributes,
    spent_usd: spentUsd,
    reserved_usd: reservedUsd,
    budget_limit_usd: capUsd,
    budget_spent_usd: spentUsd,
    ...(resetsAt === undefined ? {} : { budget_resets_at: timestamp(resetsAt) }),
  };
}

/**
 * What the record and the answer say of a cap of budgets (decision 6.19).
 * @param pico what the call may cost, or has cost
 */
export function recordedBudget(exceeded: CapExceeded, pico: bigint): RecordedBudget {
  const { capUsd, spentUsd, reservedUsd, resetsAt } = exceeded;
  return {
    ...nameIn(exceeded),
    limit_usd: capUsd,
    cost_usd: usdFromPico(pico),
    spent_usd: spentUsd,
    reserved_usd: reservedUsd,
    ...(resetsAt === undefined ? {} : { resets_at: timestamp(resetsAt) }),
  };
}

function nameIn(exceeded: CapExceeded): Pick<RecordedBudget, 'kind' | 'limit_id' | 'delegation_id' | 'scope' | 'scope_id' | 'period'> {
  if (exceeded.kind === 'delegation') return { kind: 'delegation', delegation_id: exceeded.delegationId };
  if (exceeded.kind === 'month') return { kind: 'month', scope: 'project', period: 'monthly' };
  const { limit_id, scope, scope_id, period } = exceeded.limit;
  return { kind: 'limit', limit_id, scope, ...(scope_id === undefined ? {} : { scope_id }), period };
}

/** The same of the cap of one request. */
export function recordedCap(costPico: bigint, capUsd: string): RecordedBudget {
  return { kind: 'request', limit_usd: capUsd, cost_usd: usdFromPico(costPico) };
}

/** Why the cap of one request refuses a call, for people. */
export function aboveCap(estimatePico: bigint, capUsd: string): RefusalDetail {
  const message = `This call may cost ${usdFromPico(estimatePico)} USD, which is above the cap of one request, ${capUsd} USD.`;
  return { path: 'budget.usd_max', message };
}

/** Why a cap of budgets refuses a call, for people. */
export function overBudget(estimatePico: bigint, exceeded: CapExceeded): RefusalDetail {
  const { spentUsd, reservedUsd, resetsAt } = exceeded;
  const sums = `${spentUsd} USD are spent and ${reservedUsd} USD set aside for calls under way`;
  const renewal = resetsAt === undefined ? 'It never resets.' : `It resets at ${timestamp(resetsAt)}.`;
  const message = `This call may cost ${usdFromPico(estimatePico)} USD, with which it would pass ${nameOf(exceeded)}: ${sums}. ${renewal}`;
  return { path: wordsOf(exceeded).path, message };
}

/** What is said of a cap of budgets, by its kind. */
interface CapWords {
  readonly code: ReasonCode;
  readonly path: string;
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
}

function wordsOf(exceeded: CapExceeded): CapWords {
  const { capUsd: cap } = exceeded;
  switch (exceeded.kind) {
    case 'limit': {
      const { limit_id, period, scope } = exceeded.limit;
      const name = `the ${period} budget limit of its ${scope}`;
      return { code: 'budget_limit_exceeded', path: `limits.${limit_id}`, name, attributes: { limit_id, limit_usd: cap } };
    }
    case 'delegation': {
      const { delegationId: delegation_id } = exceeded;
      const name = `the budget of its delegation ${delegation_id}`;
      const attributes = { delegation_id, delegation_usd_max: cap };
      return { code: 'delegation_budget_exceeded', path: 'delegation.budget.usd_max', name, attributes };
    }
    case 'month': {
      const name = 'the cap of its project for this month';
      return { code: 'budget_monthly_usd_max_exceeded', path: 'budget.monthly_usd_max', name, attributes: { budget_monthly_usd_max: cap } };
    }
  }
}

function nameOf(exceeded: CapExceeded): string {
  return `${wordsOf(exceeded).name}, ${exceeded.capUsd} USD`;
}

/** The code of a cap of budgets. */
export function capCode(exceeded: CapExceeded): ReasonCode {
  return wordsOf(exceeded).code;
}

/** The cap of one request. */
export function ofRequest(costPico: bigint, capPico: bigint): CapReached {
  const usd = usdFromPico(capPico);
  const attributes = { cost_usd: usdFromPico(costPico), budget_usd_max: usd };
  return {
    reasonCode: 'budget_usd_max_exceeded',
    cap: `the cap of one request, ${usd} USD`,
    costPico,
    attributes,
    budget: recordedCap(costPico, usd),
  };
}

/** The cap of a limit, or of a project's month. */
export function ofBudget(costPico: bigint, exceeded: CapExceeded): CapReached {
  const attributes = { cost_usd: usdFromPico(costPico), ...capAttributes(exceeded) };
  return { reasonCode: capCode(exceeded), cap: nameOf(exceeded), costPico, attributes, budget: recordedBudget(exceeded, costPico) };
}
