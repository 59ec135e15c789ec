import { BUDGET_PERIODS, type BudgetPeriod } from '../../base/model/budget-limit.ts';
import { dayOf, dayText, earliestDay, hourOf, startText, windowStart } from '../../decide/limits/windows.ts';
import {
  hourName,
  hoursPrefix,
  parseRollUpKey,
  quarterNames,
  SPEND_DAY,
  SPEND_PROVIDER_DAY,
  USAGE_DAY,
  USAGE_QUARTER,
} from '../../storage/contract/counter-spaces.ts';
import type { CounterRow, Store } from '../../storage/contract/store.ts';
import { counterRows } from '../../storage/contract/store-pages.ts';
import type { Spender } from './allowance.ts';
import type { CapHolding } from './cap-holding.ts';
import { ScopeLimits } from './scope-limits.ts';

/** What a budget can be set for (specification, "Budget limit creation rules"). */
export const BUDGET_SCOPES = ['org', 'project', 'workload', 'provider'] as const;
export type BudgetScope = (typeof BUDGET_SCOPES)[number];

/** Orgs, and scopes of one kind in one org, that are kept without a look at whether they still matter. */
const SWEEP_AT = 10_000;

/**
 * Days, and hours, with spend that a scope remembers. A window reaches back at most 37 days, and two moments may be
 * asked for; by number and not by date, so that a clock which was set ahead and back takes nothing of the open windows
 * along.
 */
const KEPT = 128;
const QUARTERS = [0, 1, 2, 3].map((quarter) => quarterNames(quarter).cost_pico);

/**
 * Sums of one scope: what is settled by day and by hour, what calls that are under way have set aside, and the limits
 * that look at both. Pico-dollars.
 */
export class ScopeSpend {
  reserved = 0n;
  /** Reservations that are neither settled nor given back. */
  open = 0;
  /** Of what is settled, the part whose records are not stored yet. */
  unstored = 0n;
  readonly limits = new ScopeLimits();
  /** What this node holds of it, where nodes share caps and one looks at it. */
  shared: CapHolding | undefined;
  readonly #days = new Map<number, bigint>();
  readonly #hours = new Map<number, bigint>();
  /** The hour that the sums are of. */
  #summedFor: number | undefined;
  readonly #sums: Record<BudgetPeriod, bigint> = { hourly: 0n, daily: 0n, weekly: 0n, monthly: 0n };
  readonly #starts: Record<BudgetPeriod, number> = { hourly: 0, daily: 0, weekly: 0, monthly: 0 };
  /** The last day on which anything was settled. */
  latest: number | undefined;

  /** Settled in the window of `period` that `hour` lies in, up to the end of its day; by all nodes. */
  settled(period: BudgetPeriod, hour: number): bigint {
    const counted = this.counted(period, hour);
    return this.shared === undefined ? counted : counted + this.shared.elsewhere(period, this.#starts[period]);
  }

  /** The same, as this node has read and counted it. */
  counted(period: BudgetPeriod, hour: number): bigint {
    if (hour !== this.#summedFor) this.#sumUp(hour);
    return this.#sums[period];
  }

  /** First hour of the window of `period` that `hour` lies in. */
  start(period: BudgetPeriod, hour: number): number {
    if (hour !== this.#summedFor) this.#sumUp(hour);
    return this.#starts[period];
  }

  /**
   * Nobody would miss it: made again it would be the same, as far as windows that reach to the day `first` or later are
   * concerned.
   */
  isIdle(first: number): boolean {
    return (
      this.open === 0 &&
      this.unstored === 0n &&
      this.shared === undefined &&
      (this.latest === undefined || this.latest < first) &&
      this.limits.isEmpty
    );
  }

  add(hour: number, pico: bigint): void {
    if (this.shared !== undefined) this.shared.count(pico);
    const day = dayOf(hour);
    const [ofDay, ofHour] = [this.#days.get(day), this.#hours.get(hour)];
    const isSummed = hour === this.#summedFor;
    if (ofDay === undefined || ofHour === undefined) {
      this.readDay(day, pico);
      this.readHour(hour, pico);
    } else {
      this.#days.set(day, ofDay + pico);
      this.#hours.set(hour, ofHour + pico);
    }
    this.#summedFor = isSummed ? hour : undefined;
    if (isSummed) for (const period of BUDGET_PERIODS) this.#sums[period] += pico;
  }

  /** What a counter says of a day. */
  readDay(day: number, pico: bigint): void {
    if (this.latest === undefined || day > this.latest) this.latest = day;
    this.#summedFor = undefined;
    addTo(this.#days, day, pico);
  }

  /** What a counter says of an hour, which its day has as well. */
  readHour(hour: number, pico: bigint): void {
    this.#summedFor = undefined;
    addTo(this.#hours, hour, pico);
  }

  #sumUp(hour: number): void {
    const today = dayOf(hour);
    for (const period of BUDGET_PERIODS) {
      const start = windowStart(period, hour);
      this.#starts[period] = start;
      this.#sums[period] = period === 'hourly' ? (this.#hours.get(hour) ?? 0n) : this.#sumOfDays(dayOf(start), today);
    }
    this.#summedFor = hour;
  }

  #sumOfDays(from: number, to: number): bigint {
    let sum = 0n;
    for (const [day, pico] of this.#days) if (day >= from && day <= to) sum += pico;
    return sum;
  }
}

function addTo(amounts: Map<number, bigint>, at: number, pico: bigint): void {
  const before = amounts.get(at);
  amounts.set(at, (before ?? 0n) + pico);
  if (before === undefined && amounts.size > KEPT) amounts.delete(Math.min(...amounts.keys()));
}

/** The scopes of one org. Looked up by id alone: joined keys would be made anew for every call. */
class OrgSpend {
  readonly org = new ScopeSpend();
  readonly #others = {
    project: new Map<string, ScopeSpend>(),
    workload: new Map<string, ScopeSpend>(),
    provider: new Map<string, ScopeSpend>(),
  };
  #sweepAt = SWEEP_AT;

  scope(scope: Exclude<BudgetScope, 'org'>, id: string): ScopeSpend {
    const scopes = this.#others[scope];
    let found = scopes.get(id);
    if (found === undefined) {
      if (scopes.size >= this.#sweepAt) this.#sweep(scopes);
      found = new ScopeSpend();
      scopes.set(id, found);
    }
    return found;
  }

  /** Nothing was ever spent, nothing is set aside, and no limit is held. */
  isUnused(): boolean {
    if (!this.org.isIdle(Number.NEGATIVE_INFINITY)) return false;
    for (const scopes of Object.values(this.#others))
      for (const scope of scopes.values()) if (!scope.limits.isEmpty || scope.shared !== undefined) return false;
    return true;
  }

  /**
   * Callers name projects as they like, so those without spend are dropped; the threshold grows when most have some.
   * All spend is the org's, too.
   */
  #sweep(scopes: Map<string, ScopeSpend>): void {
    const first = this.org.latest === undefined ? 0 : earliestDay(this.org.latest * 24);
    for (const [id, scope] of scopes) if (scope.isIdle(first)) scopes.delete(id);
    this.#sweepAt = Math.max(SWEEP_AT, scopes.size * 2);
  }
}

/** The scopes of one call, in the order of {@link BUDGET_SCOPES}, and perhaps its provider behind them. */
export type CallScopes = [org: ScopeSpend, project: ScopeSpend, workload: ScopeSpend, connector: ScopeSpend, ...provider: ScopeSpend[]];
/** Where that of the project is. */
export const PROJECT = 1;

/**
 * Spend of every scope in the windows that are open, in memory: read once from the counters that are committed with the
 * records, so it equals their sum to the last digit, and added to as calls settle.
 */
export class SpendBook {
  readonly #orgs = new Map<string, OrgSpend>();
  #sweepAt = SWEEP_AT;

  /** @param moments in whose windows spend is asked for, in milliseconds since the epoch */
  static async open(store: Store, ...moments: readonly number[]): Promise<SpendBook> {
    const book = new SpendBook();
    const hours = moments.map(hourOf);
    const days = new Set<number>();
    for (const hour of hours) for (let day = earliestDay(hour); day <= dayOf(hour); day += 1) days.add(day);
    for (const day of days) await book.#read(store, day, new Set(hours.filter((hour) => dayOf(hour) === day)));
    return book;
  }

  /** @param hours of the day that are asked for one by one */
  async #read(store: Store, day: number, hours: ReadonlySet<number>): Promise<void> {
    const prefix = `${dayText(day)}|`;
    const rowsOf = (space: string) => counterRows(store, space, prefix);
    const orgs = new Set<string>();
    for await (const { key, amounts } of rowsOf(USAGE_DAY)) {
      const [, org = '', workload = '', connector = ''] = parseRollUpKey(key);
      const pico = amounts['cost_pico'] ?? 0n;
      if (pico === 0n) continue;
      orgs.add(org);
      for (const scope of this.of(counted(org, workload, connector))) scope.readDay(day, pico);
    }
    for (const hour of hours) for (const org of orgs) await this.#readHour(store, org, hour);
    // Only named projects have counters: what is left of the org's spend is that of calls without one.
    for await (const { key, amounts } of rowsOf(SPEND_DAY)) {
      const [, org = '', project = ''] = parseRollUpKey(key);
      readInto(this.scope(org, 'project', project), day, hours, amounts, 1n);
      readInto(this.scope(org, 'project', ''), day, hours, amounts, -1n);
    }
    for await (const { key, amounts } of rowsOf(SPEND_PROVIDER_DAY)) {
      const [, org = '', provider = ''] = parseRollUpKey(key);
      readInto(this.scope(org, 'provider', provider), day, hours, amounts, 1n);
    }
  }

  async #readHour(store: Store, org: string, hour: number): Promise<void> {
    for await (const { key, amounts } of counterRows(
      store,
      USAGE_QUARTER,
      `${hoursPrefix(org, startText('hourly', hour).slice(0, 13))}|`,
    )) {
      const [, , workload = '', connector = ''] = parseRollUpKey(key);
      let pico = 0n;
      for (const name of QUARTERS) pico += amounts[name] ?? 0n;
      if (pico !== 0n) for (const scope of this.of(counted(org, workload, connector))) scope.readHour(hour, pico);
    }
  }

  /**
   * The scopes that a call's cost counts for: org, project, workload, connector, and the provider where that is another
   * one.
   */
  of({ orgId, projectId, workloadId, connectorId, providerId }: Spender): CallScopes {
    const org = this.#org(orgId);
    const scopes: CallScopes = [
      org.org,
      org.scope('project', projectId),
      org.scope('workload', workloadId),
      org.scope('provider', connectorId),
    ];
    if (providerId !== undefined && providerId !== connectorId) scopes.push(org.scope('provider', providerId));
    return scopes;
  }

  /** The sums of one scope; made when nobody asked for it before. */
  scope(orgId: string, scope: BudgetScope, id: string): ScopeSpend {
    const org = this.#org(orgId);
    return scope === 'org' ? org.org : org.scope(scope, id);
  }

  #org(orgId: string): OrgSpend {
    let found = this.#orgs.get(orgId);
    if (found === undefined) {
      if (this.#orgs.size >= this.#sweepAt) this.#sweep();
      found = new OrgSpend();
      this.#orgs.set(orgId, found);
    }
    return found;
  }

  /** Where any org may call, callers name orgs as they like, too. */
  #sweep(): void {
    for (const [id, org] of this.#orgs) if (org.isUnused()) this.#orgs.delete(id);
    this.#sweepAt = Math.max(SWEEP_AT, this.#orgs.size * 2);
  }
}

/**
 * Whom a row of usage counts for: what its calls cost is that of calls without a project, until rows of projects say
 * otherwise.
 */
function counted(orgId: string, workloadId: string, connectorId: string): Spender {
  return { orgId, workloadId, connectorId, providerId: undefined, projectId: '' };
}

function readInto(scope: ScopeSpend, day: number, hours: ReadonlySet<number>, amounts: CounterRow['amounts'], sign: bigint): void {
  scope.readDay(day, sign * (amounts['cost_pico'] ?? 0n));
  for (const hour of hours) scope.readHour(hour, sign * (amounts[hourName(hour % 24)] ?? 0n));
}
