import { BUDGET_PERIODS, type BudgetLimit } from '../../base/model/budget-limit.ts';
import { hourOf, startText, windowEnd } from '../../decide/limits/windows.ts';
import {
  accountOf,
  type CountedRange,
  delegationRange,
  type SpendScope,
  spendAccount,
  spendRange,
} from '../../storage/contract/cap-accounts.ts';
import type { CapHolding } from './cap-holding.ts';
import { type DelegationSpend, LIFE } from './delegation-spend.ts';
import type { CapNeed, NodeCaps } from './node-caps.ts';
import type { Reservation } from './reservation.ts';
import type { CapSource, CapVerdict, CapWindow } from './shared-ledger.ts';
import { BUDGET_SCOPES, PROJECT, type ScopeSpend } from './spend-book.ts';

/** Money under caps that nodes share: which holdings a call is under, and what it needs of them. */
export class SharedSpending {
  readonly #caps: NodeCaps;

  constructor(caps: NodeCaps) {
    this.#caps = caps;
  }

  /** A limit looks at a scope, so that what others spend there is of interest. */
  watch({ org_id: org, scope: kind, scope_id: id = '' }: BudgetLimit, spend: ScopeSpend): void {
    this.#ofScope(spend, { org, kind, id });
  }

  /** Calls of before hold something again: under which caps of rules they were made nobody knows any more. */
  hold(reservation: Reservation): void {
    for (const [at, spend] of reservation.scopes.entries()) this.#ofCall(reservation, spend, at);
    for (const { spend, delegationId } of reservation.delegated) this.#ofDelegation(spend, reservation.spender.orgId, delegationId);
  }

  /** Asks for what a call needs more; undefined: this node holds it. */
  askFor(reservation: Reservation, more: bigint, hour: number): Promise<CapVerdict> | undefined {
    const needs = this.#needs(reservation, hour);
    if (!isCovered(needs, more)) return this.#caps.ask(needs, more);
    if (more > 0n) this.#caps.use(needs, more);
    return undefined;
  }

  /** This node does not hold what a call needs more. */
  isShort(reservation: Reservation, more: bigint, hour: number): boolean {
    return !isCovered(this.#needs(reservation, hour), more);
  }

  /** Every cap that a call is under; what is held of it is watched from now on. */
  #needs(reservation: Reservation, hour: number): readonly CapNeed[] {
    const { spender, scopes, delegated, monthlyCapPico } = reservation;
    const needs: CapNeed[] = [];
    for (const [at, spend] of scopes.entries()) {
      const monthly = at === PROJECT ? monthlyCapPico : undefined;
      if (spend.limits.caps.length === 0 && monthly === undefined) continue;
      const holding = this.#ofCall(reservation, spend, at);
      if (monthly !== undefined) needs.push({ holding, name: 'monthly', start: spend.start('monthly', hour), cap: monthly });
      for (const { limit, capPico } of spend.limits.caps)
        needs.push({ holding, name: limit.period, start: spend.start(limit.period, hour), cap: capPico });
    }
    for (const { spend, delegationId, capPico } of delegated)
      needs.push({ holding: this.#ofDelegation(spend, spender.orgId, delegationId), name: LIFE, start: 0, cap: capPico });
    return needs;
  }

  /** Of a call's scope. */
  #ofCall(reservation: Reservation, spend: ScopeSpend, at: number): CapHolding {
    return this.#ofScope(spend, { org: reservation.spender.orgId, kind: BUDGET_SCOPES[at] ?? 'provider', id: idOf(reservation, at) });
  }

  #ofScope(spend: ScopeSpend, scope: SpendScope): CapHolding {
    spend.shared ??= this.#caps.of(spendAccount(scope), () => new SharedScope(spend, scope));
    return spend.shared;
  }

  #ofDelegation(spend: DelegationSpend, org: string, delegationId: string): CapHolding {
    if (spend.shared !== undefined) return spend.shared;
    const range = delegationRange(org, delegationId);
    spend.shared = this.#caps.of(accountOf(range), () => new SharedDelegation(spend, range));
    return spend.shared;
  }
}

/** The id of a call's scope: those stand in the order of their kinds, and perhaps the provider behind its connector. */
function idOf({ spender }: Reservation, at: number): string {
  return ['', spender.projectId, spender.workloadId, spender.connectorId][at] ?? spender.providerId ?? '';
}

function isCovered(needs: readonly CapNeed[], more: bigint): boolean {
  return needs.every(({ holding, name, start, cap }) => holding.covers(name, start, cap, more));
}

class SharedScope implements CapSource {
  readonly #spend: ScopeSpend;
  readonly #scope: SpendScope;

  constructor(spend: ScopeSpend, scope: SpendScope) {
    this.#spend = spend;
    this.#scope = scope;
  }

  get reserved(): bigint {
    return this.#spend.reserved;
  }

  get unstored(): bigint {
    return this.#spend.unstored;
  }

  windows(hour: number, named: ReadonlySet<string>): readonly CapWindow[] {
    const { limits } = this.#spend;
    return BUDGET_PERIODS.flatMap((name): readonly CapWindow[] => {
      const caps = limits.caps.flatMap(({ limit, capPico }) => (limit.period === name ? [capPico] : []));
      const isWatched = caps.length > 0 || limits.alerts.some(({ period }) => period === name);
      if (!isWatched && !named.has(name)) return [];
      const start = this.#spend.start(name, hour);
      const range = spendRange(this.#scope, { first: hourText(start), behind: hourText(hourOf(windowEnd(name, hour))) });
      return [{ name, start, range, settled: this.#spend.counted(name, hour), isWatched, caps }];
    });
  }

  forget(): void {
    this.#spend.shared = undefined;
  }
}

class SharedDelegation implements CapSource {
  readonly #spend: DelegationSpend;
  readonly #range: CountedRange;

  constructor(spend: DelegationSpend, range: CountedRange) {
    this.#spend = spend;
    this.#range = range;
  }

  get reserved(): bigint {
    return this.#spend.reserved;
  }

  get unstored(): bigint {
    return this.#spend.unstored;
  }

  windows(): readonly CapWindow[] {
    return [{ name: LIFE, start: 0, range: this.#range, settled: this.#spend.settled, isWatched: false, caps: [] }];
  }

  forget(): void {
    this.#spend.shared = undefined;
  }
}

/** `2026-11-22T05` */
function hourText(hour: number): string {
  return startText('hourly', hour).slice(0, 13);
}
