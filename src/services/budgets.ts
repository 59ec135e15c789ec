import type { Clock } from '../base/lib/clock.ts';
import { parseUsd, usdFromPico } from '../base/lib/money.ts';
import type { BudgetAlert, BudgetLevel, BudgetLimit } from '../base/model/budget-limit.ts';
import { dayOf, dayText, type Period, windowStart } from '../decide/limits/windows.ts';
import type { Effect, Store } from '../storage/contract/store.ts';
import { type Budget, type ScopeSpend, SpendBook, type Spender } from './spend-book.ts';

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
  readonly scopes: readonly ScopeSpend[];
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

/**
 * Budgets (decision 6.2): the estimate is reserved before a call and settled with its real cost after it, so that calls at the same time cannot pass a cap
 * together. One service for every door; checking and reserving happen without a pause, so no other call comes between. Nothing but money is counted here.
 */
export class BudgetService {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #book: SpendBook;
  readonly #limits = new Map<string, Budget>();
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
      const budget = service.#limits.get(key);
      if (budget) budget.alerted = value as Budget['alerted'];
    }
    return service;
  }

  /** Limits of an org, or all, oldest first. */
  list(orgId?: string): readonly LimitStatus[] {
    const today = dayOf(this.#clock.now());
    const budgets = [...this.#limits.values()].filter(({ limit }) => orgId === undefined || limit.org_id === orgId);
    return budgets.map(({ limit }) => {
      const spend = this.#scopeOf(limit);
      return {
        limit,
        periodStart: dayText(windowStart(limit.period, today)),
        spentUsd: usdFromPico(spend.settled(limit.period, today)),
        reservedUsd: usdFromPico(spend.reserved),
      };
    });
  }

  async create(limit: BudgetLimit): Promise<void> {
    await this.#store.commit(undefined, [{ op: 'put', space: LIMITS, key: limit.limit_id, value: limit }]);
    this.#hold(limit);
  }

  /** False when there is none. */
  async remove(limitId: string): Promise<boolean> {
    const budget = this.#limits.get(limitId);
    if (budget === undefined) return false;
    await this.#store.commit(undefined, [
      { op: 'delete', space: LIMITS, key: limitId },
      { op: 'delete', space: ALERTED, key: limitId },
    ]);
    this.#limits.delete(limitId);
    const scope = this.#scopeOf(budget.limit);
    scope.budgets = scope.budgets.filter((one) => one !== budget);
    return true;
  }

  /**
   * Sets `pico` aside for a call, unless a cap would be passed: settled + reserved + estimate > cap refuses.
   * @param monthlyCapPico the cap that policy sets for the project's month
   */
  reserve(spender: Spender, pico: bigint, monthlyCapPico: bigint | undefined): Reservation | CapExceeded {
    const today = dayOf(this.#clock.now());
    const scopes = this.#book.of(spender);
    let capped = monthlyCapPico !== undefined;
    if (monthlyCapPico !== undefined) {
      const project = this.#book.scope(spender.orgId, 'project', spender.projectId);
      const exceeded = passes(project, 'monthly', today, pico, monthlyCapPico);
      if (exceeded) return { limit: undefined, ...exceeded };
    }
    for (const scope of scopes) {
      for (const { limit, capPico } of scope.budgets) {
        if (!limit.actions.includes('cap')) continue;
        capped = true;
        const exceeded = passes(scope, limit.period, today, pico, capPico);
        if (exceeded) return { limit, ...exceeded };
      }
    }
    for (const scope of scopes) scope.reserved += pico;
    return { pico, scopes, capped };
  }

  /** Gives a reservation back; once. */
  release({ scopes, pico }: Reservation): void {
    for (const scope of scopes) scope.reserved -= pico;
  }

  /** Sets aside again what was given back, whatever caps say by now. */
  restore({ scopes, pico }: Reservation): void {
    for (const scope of scopes) scope.reserved += pico;
  }

  /**
   * Counts what a call really cost, at `epochMs`; also that of one which was refused and cost something all the same.
   * @returns what is committed with the call's record
   */
  count(spender: Spender, costPico: bigint, epochMs: number): readonly Effect[] {
    if (costPico === 0n) return NONE;
    const day = dayOf(epochMs);
    let alerts: readonly Effect[] = NONE;
    for (const scope of this.#book.of(spender)) {
      scope.add(day, costPico);
      if (scope.budgets.length > 0) alerts = [...alerts, ...this.#alerts(scope, day)];
    }
    return alerts;
  }

  /** The record of a counted call could not be stored: the spend is the sum of the records that are. */
  uncount(spender: Spender, costPico: bigint, epochMs: number): void {
    if (costPico === 0n) return;
    for (const scope of this.#book.of(spender)) scope.add(dayOf(epochMs), -costPico);
  }

  /** Once per period and level: the level is kept, and committed with the record that reached it. */
  #alerts(scope: ScopeSpend, day: number): readonly Effect[] {
    const effects: Effect[] = [];
    for (const budget of scope.budgets) {
      const { limit, capPico } = budget;
      if (!limit.actions.includes('alert')) continue;
      const spent = scope.settled(limit.period, day);
      const level = levelOf(spent, capPico, limit);
      const periodStart = dayText(windowStart(limit.period, day));
      if (level === undefined || !isNews(budget.alerted, periodStart, level)) continue;
      budget.alerted = { periodStart, level };
      effects.push({ op: 'put', space: ALERTED, key: limit.limit_id, value: budget.alerted });
      this.#alert({ limit, level, periodStart, spentUsd: usdFromPico(spent) });
    }
    return effects;
  }

  #hold(limit: BudgetLimit): void {
    const budget: Budget = { limit, capPico: parseUsd(limit.limit_usd) ?? 0n, alerted: undefined };
    this.#limits.set(limit.limit_id, budget);
    const scope = this.#scopeOf(limit);
    scope.budgets = [...scope.budgets, budget];
  }

  #scopeOf(limit: BudgetLimit): ScopeSpend {
    return this.#book.scope(limit.org_id, limit.scope, limit.scope_id ?? '');
  }
}

const NONE: readonly Effect[] = [];

function passes(spend: ScopeSpend, period: Period, day: number, pico: bigint, capPico: bigint): Omit<CapExceeded, 'limit'> | undefined {
  const settledPico = spend.settled(period, day);
  const reservedPico = spend.reserved;
  return settledPico + reservedPico + pico > capPico ? { capPico, settledPico, reservedPico } : undefined;
}

/** Percentages are whole, so comparing products keeps it exact. */
function levelOf(spent: bigint, cap: bigint, limit: BudgetLimit): BudgetLevel | undefined {
  if (spent >= cap) return 'exceeded';
  if (spent * 100n >= cap * BigInt(limit.critical_threshold_pct)) return 'critical';
  return spent * 100n >= cap * BigInt(limit.warning_threshold_pct) ? 'warning' : undefined;
}

function isNews(alerted: Budget['alerted'], periodStart: string, level: BudgetLevel): boolean {
  return alerted?.periodStart !== periodStart || LEVELS.indexOf(level) > LEVELS.indexOf(alerted.level);
}

/** True for the answer of {@link BudgetService.reserve} that refuses. */
export function isExceeded(answer: Reservation | CapExceeded): answer is CapExceeded {
  return 'capPico' in answer;
}
