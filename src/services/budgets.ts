import type { Events } from '../base/events/bus.ts';
import { readAmount } from '../base/lib/amounts.ts';
import type { Clock } from '../base/lib/clock.ts';
import { usdFromPico } from '../base/lib/money.ts';
import type { BudgetLimit } from '../base/model/budget-limit.ts';
import { dayOf, dayStart, dayText, nextWindowStart, type Period, windowStart } from '../decide/limits/windows.ts';
import type { Store } from '../storage/contract/store.ts';
import { type AlertLine, type Budget, newsOf, nextNews } from './scope-limits.ts';
import { type ScopeSpend, SpendBook, type Spender } from './spend-book.ts';

const LIMITS = 'budget_limit';
const ALERTED = 'budget_alerted';

/** A cap that a call would pass. Amounts are pico-dollars. */
export interface CapExceeded {
  /** Undefined: the monthly cap that a rule of policy sets for the project. */
  readonly limit: BudgetLimit | undefined;
  readonly capPico: bigint;
  readonly settledPico: bigint;
  /** Without the call's own part. */
  readonly reservedPico: bigint;
  /** Epoch milliseconds at which the cap begins anew. */
  readonly resetsAt: number;
}

/** What is set aside for one call until it is settled. */
export interface Reservation {
  readonly scopes: readonly ScopeSpend[];
  /** Grows with a stream that costs more than was estimated. */
  pico: bigint;
  /** A cap holds this call: it must not be forgotten if the process dies (decision 6.8). */
  readonly capped: boolean;
  /** A cap holds this call, or a limit that only alerts counts it. */
  readonly watched: boolean;
  readonly project: ScopeSpend;
  /** The cap that policy sets for the project's month. */
  readonly monthlyCapPico: bigint | undefined;
}

/** A cost that was counted and whose record is not stored yet. */
export interface Counted {
  readonly scopes: readonly ScopeSpend[];
  readonly pico: bigint;
  readonly day: number;
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
  readonly #events: Events;

  private constructor(store: Store, clock: Clock, book: SpendBook, events: Events) {
    this.#store = store;
    this.#clock = clock;
    this.#book = book;
    this.#events = events;
  }

  /** Reads limits and the spend of the open windows. */
  static async open(options: {
    store: Store;
    clock: Clock;
    events: Events;
    /** Whose windows may be asked for, in milliseconds since the epoch; default: now. */
    moments?: readonly number[];
  }): Promise<BudgetService> {
    const { store, clock, events, moments = [clock.now()] } = options;
    const service = new BudgetService(store, clock, await SpendBook.open(store, ...moments), events);
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
    this.#scopeOf(budget.limit).limits.drop(budget);
    return true;
  }

  /**
   * Sets `pico` aside for a call, unless a cap would be passed: settled + reserved + estimate > cap refuses.
   * @param monthlyCapPico the cap that policy sets for the project's month
   */
  reserve(spender: Spender, pico: bigint, monthlyCapPico: bigint | undefined): Reservation | CapExceeded {
    const scopes = this.#book.of(spender);
    const project = this.#book.scope(spender.orgId, 'project', spender.projectId);
    const capped = monthlyCapPico !== undefined || scopes.some(({ limits }) => limits.caps.length > 0);
    const watched = capped || scopes.some(({ limits }) => limits.alerts.length > 0);
    const reservation: Reservation = { scopes, pico: 0n, capped, watched, project, monthlyCapPico };
    const exceeded = capped ? this.#passed(reservation, pico) : undefined;
    if (exceeded) return exceeded;
    for (const scope of scopes) scope.open += 1;
    this.#setAside(reservation, pico);
    return reservation;
  }

  /** Sets aside what was so before the process began, whatever caps say by now. */
  hold(spender: Spender, pico: bigint): Reservation {
    const project = this.#book.scope(spender.orgId, 'project', spender.projectId);
    const scopes = this.#book.of(spender);
    const reservation: Reservation = { scopes, pico, capped: false, watched: false, project, monthlyCapPico: undefined };
    this.restore(reservation);
    return reservation;
  }

  /**
   * A running call has cost `pico` so far: sets aside what that is more than its reservation, so that streams at the same time cannot pass a cap together.
   * @returns the cap that it has passed; then nothing is changed
   */
  grow(reservation: Reservation, pico: bigint): CapExceeded | undefined {
    const exceeded = this.#passed(reservation, pico);
    if (exceeded === undefined && pico > reservation.pico) this.#setAside(reservation, pico);
    return exceeded;
  }

  /** Gives a reservation back; once. */
  release({ scopes, pico }: Reservation): void {
    for (const scope of scopes) {
      scope.open -= 1;
      scope.reserved -= pico;
    }
  }

  /** Sets aside again what was given back, whatever caps say by now. */
  restore({ scopes, pico }: Reservation): void {
    for (const scope of scopes) {
      scope.open += 1;
      scope.reserved += pico;
    }
  }

  /** Counts what a call really cost, at `epochMs`; also that of one which was refused and cost something all the same. Its record is to be stored next. */
  count(spender: Spender, costPico: bigint, epochMs: number): Counted | undefined {
    if (costPico === 0n) return undefined;
    const counted: Counted = { scopes: this.#book.of(spender), pico: costPico, day: dayOf(epochMs) };
    for (const scope of counted.scopes) {
      scope.add(counted.day, costPico);
      scope.unstored += costPico;
    }
    return counted;
  }

  /** The record of a counted call could not be stored: the spend is the sum of the records that are. */
  uncount({ scopes, pico, day }: Counted): void {
    for (const scope of scopes) {
      scope.add(day, -pico);
      scope.unstored -= pico;
    }
  }

  /** The record of a counted call is stored: raises the alerts of what is now spent for certain. */
  stored({ scopes, pico, day }: Counted): void {
    for (const scope of scopes) {
      scope.unstored -= pico;
      this.#raise(scope, day);
    }
  }

  /** Raises what was reached when a process ended before it could say so. */
  raiseMissed(): void {
    const today = dayOf(this.#clock.now());
    for (const { limit } of this.#limits.values()) this.#raise(this.#scopeOf(limit), today);
  }

  /** Once per period and level. It is said first and kept afterwards: a crash between the two repeats an alert and never loses one. */
  #raise(scope: ScopeSpend, day: number): void {
    for (const line of scope.limits.alerts) {
      const spent = scope.settled(line.period, day) - scope.unstored;
      const start = scope.start(line.period, day);
      if (line.start !== start) look(line, start);
      if (line.next !== undefined && spent >= line.next) this.#say(line, start, spent);
    }
  }

  #say(line: AlertLine, start: number, spent: bigint): void {
    const periodStart = dayText(start);
    for (const budget of line.budgets) {
      const level = newsOf(budget, periodStart, spent);
      if (level === undefined) continue;
      const { limit } = budget;
      budget.alerted = { periodStart, level };
      this.#events.emit('budgetAlert', { limit, level, periodStart, spentUsd: usdFromPico(spent) });
      this.#store.commit(undefined, [{ op: 'put', space: ALERTED, key: limit.limit_id, value: budget.alerted }]).catch(() => undefined);
    }
    look(line, start);
  }

  /** The first cap that would be passed if this call cost `pico`. */
  #passed(reservation: Reservation, pico: bigint): CapExceeded | undefined {
    const today = dayOf(this.#clock.now());
    const { scopes, project, monthlyCapPico } = reservation;
    if (monthlyCapPico !== undefined) {
      const exceeded = passes(project, 'monthly', today, reservation, pico, monthlyCapPico);
      if (exceeded) return { limit: undefined, ...exceeded };
    }
    for (const scope of scopes) {
      for (const { limit, capPico } of scope.limits.caps) {
        const exceeded = passes(scope, limit.period, today, reservation, pico, capPico);
        if (exceeded) return { limit, ...exceeded };
      }
    }
    return undefined;
  }

  #setAside(reservation: Reservation, pico: bigint): void {
    const more = pico - reservation.pico;
    for (const scope of reservation.scopes) scope.reserved += more;
    reservation.pico = pico;
  }

  #hold(limit: BudgetLimit): void {
    const budget: Budget = { limit, capPico: readAmount(limit.limit_usd) ?? 0n, alerted: undefined };
    this.#limits.set(limit.limit_id, budget);
    this.#scopeOf(limit).limits.hold(budget);
  }

  #scopeOf(limit: BudgetLimit): ScopeSpend {
    return this.#book.scope(limit.org_id, limit.scope, limit.scope_id ?? '');
  }
}

function passes(
  spend: ScopeSpend,
  period: Period,
  day: number,
  own: Reservation,
  pico: bigint,
  capPico: bigint,
): Omit<CapExceeded, 'limit'> | undefined {
  const settledPico = spend.settled(period, day);
  const reservedPico = spend.reserved - own.pico;
  if (settledPico + reservedPico + pico <= capPico) return undefined;
  return { capPico, settledPico, reservedPico, resetsAt: dayStart(nextWindowStart(period, day)) };
}

function look(line: AlertLine, start: number): void {
  line.start = start;
  line.next = nextNews(line.budgets, dayText(start));
}

/** True for the answer of {@link BudgetService.reserve} that refuses. */
export function isExceeded(answer: Reservation | CapExceeded): answer is CapExceeded {
  return 'settledPico' in answer;
}
