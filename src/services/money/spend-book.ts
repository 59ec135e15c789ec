import { dayOf, dayText, earliestStart, PERIODS, type Period, windowStart } from '../../decide/limits/windows.ts';
import { parseRollUpKey, SPEND_DAY, SPEND_PROVIDER_DAY, USAGE_DAY } from '../../storage/contract/counter-spaces.ts';
import type { Store } from '../../storage/contract/store.ts';
import { counterRows } from '../../storage/contract/store-pages.ts';
import type { Spender } from './allowance.ts';
import { ScopeLimits } from './scope-limits.ts';

/** What a budget can be set for (specification, "Budget limit creation rules"). */
export const BUDGET_SCOPES = ['org', 'project', 'workload', 'provider'] as const;
export type BudgetScope = (typeof BUDGET_SCOPES)[number];

/** Orgs, and scopes of one kind in one org, that are kept without a look at whether they still matter. */
const SWEEP_AT = 10_000;

/**
 * Days with spend that a scope remembers. A window reaches back at most 37, and two moments may be asked for; by number
 * and not by date, so that a clock which was set ahead and back takes no day of the open windows along.
 */
const KEPT_DAYS = 128;

/**
 * Sums of one scope: what is settled by day, what calls that are under way have set aside, and the limits that look at
 * both. Pico-dollars.
 */
export class ScopeSpend {
  reserved = 0n;
  /** Reservations that are neither settled nor given back. */
  open = 0;
  /** Of what is settled, the part whose records are not stored yet. */
  unstored = 0n;
  readonly limits = new ScopeLimits();
  readonly #days = new Map<number, bigint>();
  /** The day that the sums are of. */
  #summedFor: number | undefined;
  readonly #sums: Record<Period, bigint> = { daily: 0n, weekly: 0n, monthly: 0n };
  readonly #starts: Record<Period, number> = { daily: 0, weekly: 0, monthly: 0 };
  /** The last day of which anything was settled. */
  latest: number | undefined;

  /** Settled in the window of `period` that `day` lies in, up to that day. */
  settled(period: Period, day: number): bigint {
    if (day !== this.#summedFor) this.#sumUp(day);
    return this.#sums[period];
  }

  /** First day of the window of `period` that `day` lies in. */
  start(period: Period, day: number): number {
    if (day !== this.#summedFor) this.#sumUp(day);
    return this.#starts[period];
  }

  /**
   * Nobody would miss it: made anew it would be the same, as far as windows that reach to `first` or later are
   * concerned.
   */
  isIdle(first: number): boolean {
    return this.open === 0 && this.unstored === 0n && (this.latest === undefined || this.latest < first) && this.limits.isEmpty;
  }

  add(day: number, pico: bigint): void {
    if (this.latest === undefined || day > this.latest) this.latest = day;
    const before = this.#days.get(day);
    this.#days.set(day, (before ?? 0n) + pico);
    if (day === this.#summedFor) for (const period of PERIODS) this.#sums[period] += pico;
    else this.#summedFor = undefined;
    if (before === undefined && this.#days.size > KEPT_DAYS) this.#days.delete(Math.min(...this.#days.keys()));
  }

  #sumUp(day: number): void {
    for (const period of PERIODS) {
      const from = windowStart(period, day);
      let sum = 0n;
      for (const [at, pico] of this.#days) if (at >= from && at <= day) sum += pico;
      this.#sums[period] = sum;
      this.#starts[period] = from;
    }
    this.#summedFor = day;
  }
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
    for (const scopes of Object.values(this.#others)) for (const scope of scopes.values()) if (!scope.limits.isEmpty) return false;
    return true;
  }

  /**
   * Callers name projects as they like, so those without spend are dropped; the threshold grows when most have some.
   * All spend is the org's, too.
   */
  #sweep(scopes: Map<string, ScopeSpend>): void {
    const first = this.org.latest === undefined ? 0 : earliestStart(this.org.latest);
    for (const [id, scope] of scopes) if (scope.isIdle(first)) scopes.delete(id);
    this.#sweepAt = Math.max(SWEEP_AT, scopes.size * 2);
  }
}

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
    const days = new Set<number>();
    for (const today of moments.map(dayOf)) for (let day = earliestStart(today); day <= today; day += 1) days.add(day);
    for (const day of days) await book.#read(store, day);
    return book;
  }

  async #read(store: Store, day: number): Promise<void> {
    const prefix = `${dayText(day)}|`;
    const rowsOf = (space: string) => counterRows(store, space, prefix);
    for await (const { key, amounts } of rowsOf(USAGE_DAY)) {
      const [, org = '', workload = '', connector = ''] = parseRollUpKey(key);
      const pico = amounts['cost_pico'] ?? 0n;
      if (pico === 0n) continue;
      const spender = { orgId: org, workloadId: workload, connectorId: connector, providerId: undefined, projectId: '' };
      for (const scope of this.of(spender)) scope.add(day, pico);
    }
    // Only named projects have counters: what is left of the org's spend is that of calls without one.
    for await (const { key, amounts } of rowsOf(SPEND_DAY)) {
      const [, org = '', project = ''] = parseRollUpKey(key);
      const pico = amounts['cost_pico'] ?? 0n;
      this.scope(org, 'project', project).add(day, pico);
      this.scope(org, 'project', '').add(day, -pico);
    }
    for await (const { key, amounts } of rowsOf(SPEND_PROVIDER_DAY)) {
      const [, org = '', provider = ''] = parseRollUpKey(key);
      this.scope(org, 'provider', provider).add(day, amounts['cost_pico'] ?? 0n);
    }
  }

  /**
   * The scopes that a call's cost counts for: org, project, workload, connector, and the provider where that is another
   * one.
   */
  of({ orgId, projectId, workloadId, connectorId, providerId }: Spender): readonly ScopeSpend[] {
    const org = this.#org(orgId);
    const scopes = [org.org, org.scope('project', projectId), org.scope('workload', workloadId), org.scope('provider', connectorId)];
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
