import type { Clock } from '../base/lib/clock.ts';
import { parseUsd, usdFromPico } from '../base/lib/money.ts';
import type { BudgetAlert, BudgetLevel, BudgetLimit } from '../base/model/budget-limit.ts';
import { dayOf, dayText, type Period, windowStart } from '../decide/limits/windows.ts';
import type { Effect, Store } from '../storage/contract/store.ts';
import { BUDGET_SCOPES, type ScopeSpend, SpendBook, type Spender, scopeIds, scopeKey } from './spend-book.ts';

const LIMITS = 'budget_limit';
const ALERTED = 'budget_alerted';
const LEVELS: readonly BudgetLevel[] = ['warning', 'critical', 'exceeded'];

/** A cap that a call would pass. Amounts are pico-dollars. */
export interface CapExceeded {
  /** Undefined: the monthly cap that a rule of policy sets for the project. */
  readonly limit: BudgetLimit | undefined;
  readonly capPico: bigint;
  readonly settledPico: bigint;
  readonly reservedPico: bigint;
}

/** What is set aside for one call until it is settled. */
export interface Reservation {
  readonly pico: bigint;
  /** A cap holds this call: it must not be forgotten if the process dies (decision 6.8). */
  readonly capped: boolean;
}

/** A limit with the spend of its current period. */
export interface LimitStatus {
  readonly limit: BudgetLimit;
  readonly periodStart: string;
  readonly spentUsd: string;
  readonly reservedUsd: string;
}

interface Held {
  readonly limit: BudgetLimit;
  readonly capPico: bigint;
  /** The window and level of the last alert. */
  alerted: { periodStart: string; level: BudgetLevel } | undefined;
}

/**
 * Budgets (decision 6.2): the estimate is reserved before a call and settled with its real cost after it, so that calls at the same time cannot pass a cap
 * together. One service for every door; checking and reserving happen without a pause, so no other call comes between. Nothing but money is counted here.
 */
export class BudgetService {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #book: SpendBook;
  readonly #limits = new Map<string, Held>();
  readonly #byScope = new Map<string, Held[]>();
  readonly #alert: (alert: BudgetAlert) => void;

  private constructor(store: Store, clock: Clock, book: SpendBook, alert: (alert: BudgetAlert) => void) {
    this.#store = store;
    this.#clock = clock;
    this.#book = book;
    this.#alert = alert;
  }

  /** Reads limits and the spend of the open windows. `alert` is called after the settlement that reached a threshold. */
  static async open(options: { store: Store; clock: Clock; alert: (alert: BudgetAlert) => void }): Promise<BudgetService> {
    const { store, clock, alert } = options;
    const service = new BudgetService(store, clock, await SpendBook.open(store, clock.now()), alert);
    for (const { value } of await store.list(LIMITS)) service.#hold(value as BudgetLimit);
    for (const { key, value } of await store.list(ALERTED)) {
      const held = service.#limits.get(key);
      if (held) held.alerted = value as Held['alerted'];
    }
    return service;
  }

  /** Limits of an org, or all, oldest first. */
  list(orgId?: string): readonly LimitStatus[] {
    const today = dayOf(this.#clock.now());
    const held = [...this.#limits.values()].filter(({ limit }) => orgId === undefined || limit.org_id === orgId);
    return held.map(({ limit }) => {
      const spend = this.#book.find(limit.org_id, limit.scope, limit.scope_id ?? '');
      return {
        limit,
        periodStart: dayText(windowStart(limit.period, today)),
        spentUsd: usdFromPico(spend?.settled(limit.period, today) ?? 0n),
        reservedUsd: usdFromPico(spend?.reserved ?? 0n),
      };
    });
  }

  async create(limit: BudgetLimit): Promise<void> {
    await this.#store.commit(undefined, [{ op: 'put', space: LIMITS, key: limit.limit_id, value: limit }]);
    this.#hold(limit);
  }

  /** False when there is none. */
  async remove(limitId: string): Promise<boolean> {
    const held = this.#limits.get(limitId);
    if (held === undefined) return false;
    await this.#store.commit(undefined, [
      { op: 'delete', space: LIMITS, key: limitId },
      { op: 'delete', space: ALERTED, key: limitId },
    ]);
    this.#limits.delete(limitId);
    const key = scopeKey(held.limit.org_id, held.limit.scope, held.limit.scope_id ?? '');
    const left = (this.#byScope.get(key) ?? []).filter((one) => one !== held);
    if (left.length === 0) this.#byScope.delete(key);
    else this.#byScope.set(key, left);
    return true;
  }

  /**
   * Sets `pico` aside for a call, unless a cap would be passed: settled + reserved + estimate > cap refuses.
   * @param monthlyCapPico the cap that policy sets for the project's month
   */
  reserve(spender: Spender, pico: bigint, monthlyCapPico: bigint | undefined): Reservation | CapExceeded {
    const today = dayOf(this.#clock.now());
    const ids = scopeIds(spender);
    let capped = monthlyCapPico !== undefined;
    if (monthlyCapPico !== undefined) {
      const exceeded = passes(this.#book.find(spender.orgId, 'project', spender.projectId), 'monthly', today, pico, monthlyCapPico);
      if (exceeded) return { limit: undefined, ...exceeded };
    }
    if (this.#byScope.size > 0) {
      for (const { limit, capPico } of this.#capsOf(spender.orgId, ids)) {
        capped = true;
        const spend = this.#book.find(spender.orgId, limit.scope, limit.scope_id ?? '');
        const exceeded = passes(spend, limit.period, today, pico, capPico);
        if (exceeded) return { limit, ...exceeded };
      }
    }
    this.#eachScope(spender.orgId, ids, (scope) => {
      scope.reserved += pico;
    });
    return { pico, capped };
  }

  /** Gives a reservation back and counts what the call really cost, at `epochMs`. @returns what is committed with the call's record */
  settle(spender: Spender, reservation: Reservation, costPico: bigint, epochMs: number): readonly Effect[] {
    const day = dayOf(epochMs);
    const ids = scopeIds(spender);
    this.#eachScope(spender.orgId, ids, (scope) => {
      scope.reserved -= reservation.pico;
      if (costPico > 0n) scope.add(day, costPico);
    });
    return costPico > 0n && this.#byScope.size > 0 ? this.#alerts(spender.orgId, ids, day) : [];
  }

  *#capsOf(orgId: string, ids: readonly string[]): Iterable<Held> {
    for (const held of this.#heldOf(orgId, ids)) if (held.limit.actions.includes('cap')) yield held;
  }

  *#heldOf(orgId: string, ids: readonly string[]): Iterable<Held> {
    for (const [at, scope] of BUDGET_SCOPES.entries()) yield* this.#byScope.get(scopeKey(orgId, scope, ids[at] ?? '')) ?? [];
  }

  #eachScope(orgId: string, ids: readonly string[], visit: (scope: ScopeSpend) => void): void {
    for (const [at, scope] of BUDGET_SCOPES.entries()) visit(this.#book.scope(orgId, scope, ids[at] ?? ''));
  }

  /** Once per period and level: the level is kept, and committed with the record that reached it. */
  #alerts(orgId: string, ids: readonly string[], day: number): readonly Effect[] {
    const effects: Effect[] = [];
    for (const held of this.#heldOf(orgId, ids)) {
      const { limit } = held;
      if (!limit.actions.includes('alert')) continue;
      const spent = this.#book.scope(orgId, limit.scope, limit.scope_id ?? '').settled(limit.period, day);
      const level = levelOf(spent, held.capPico, limit);
      const periodStart = dayText(windowStart(limit.period, day));
      if (level === undefined || !isNews(held.alerted, periodStart, level)) continue;
      held.alerted = { periodStart, level };
      effects.push({ op: 'put', space: ALERTED, key: limit.limit_id, value: held.alerted });
      this.#alert({ limit, level, periodStart, spentUsd: usdFromPico(spent) });
    }
    return effects;
  }

  #hold(limit: BudgetLimit): void {
    const held: Held = { limit, capPico: parseUsd(limit.limit_usd) ?? 0n, alerted: undefined };
    this.#limits.set(limit.limit_id, held);
    const key = scopeKey(limit.org_id, limit.scope, limit.scope_id ?? '');
    this.#byScope.set(key, [...(this.#byScope.get(key) ?? []), held]);
  }
}

function passes(
  spend: ScopeSpend | undefined,
  period: Period,
  day: number,
  pico: bigint,
  capPico: bigint,
): Omit<CapExceeded, 'limit'> | undefined {
  const settledPico = spend?.settled(period, day) ?? 0n;
  const reservedPico = spend?.reserved ?? 0n;
  return settledPico + reservedPico + pico > capPico ? { capPico, settledPico, reservedPico } : undefined;
}

/** Percentages are whole, so comparing products keeps it exact. */
function levelOf(spent: bigint, cap: bigint, limit: BudgetLimit): BudgetLevel | undefined {
  if (spent >= cap) return 'exceeded';
  if (spent * 100n >= cap * BigInt(limit.critical_threshold_pct)) return 'critical';
  return spent * 100n >= cap * BigInt(limit.warning_threshold_pct) ? 'warning' : undefined;
}

function isNews(alerted: Held['alerted'], periodStart: string, level: BudgetLevel): boolean {
  return alerted?.periodStart !== periodStart || LEVELS.indexOf(level) > LEVELS.indexOf(alerted.level);
}

/** True for the answer of {@link BudgetService.reserve} that refuses. */
export function isExceeded(answer: Reservation | CapExceeded): answer is CapExceeded {
  return 'capPico' in answer;
}
