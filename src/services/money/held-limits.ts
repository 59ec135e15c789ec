import { readAmount } from '../../base/lib/amounts.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { BudgetLimit, BudgetOverride } from '../../base/model/budget-limit.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import type { Commit } from '../registers/commit.ts';
import { type Along, Register } from '../registers/register.ts';
import type { Budget, ScopeLimits } from './scope-limits.ts';

export const LIMITS = 'budget_limit';
/** By the id of their limit. */
export const OVERRIDES = 'budget_override';

/** What a person says of an override. */
export interface GivenOverride {
  /** Decimal text, as amounts are told. */
  readonly limitUsd: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
  readonly reason?: string | undefined;
}

interface Spaces {
  readonly limits: Register<BudgetLimit>;
  readonly overrides: Register<BudgetOverride>;
}

/**
 * What is in memory of them. An override ends at its time because whoever asks for a limit says what time it is: no
 * timer has to be in time for that.
 */
class LimitBook {
  readonly budgets = new Map<string, Budget>();
  readonly #overrides = new Map<string, BudgetOverride>();
  readonly #clock: Clock;
  readonly #limitsOf: (limit: BudgetLimit) => ScopeLimits;
  /** When the next override ends. */
  #nextEnd = Number.POSITIVE_INFINITY;

  constructor(clock: Clock, limitsOf: (limit: BudgetLimit) => ScopeLimits) {
    this.#clock = clock;
    this.#limitsOf = limitsOf;
  }

  /** A limit is made and removed, and never changed. */
  learnLimit(limitId: string, limit: BudgetLimit | undefined): void {
    const known = this.budgets.get(limitId);
    if (limit === undefined) {
      this.budgets.delete(limitId);
      if (known) this.#limitsOf(known.limit).drop(known);
    } else if (known === undefined) {
      const budget: Budget = { limit, capPico: amountOf(limit), alerted: undefined, posted: undefined };
      this.budgets.set(limitId, budget);
      this.#limitsOf(limit).hold(budget);
      this.#apply(budget);
    }
  }

  learnOverride(limitId: string, override: BudgetOverride | undefined): void {
    if (override === undefined) this.#overrides.delete(limitId);
    else this.#overrides.set(limitId, override);
    const budget = this.budgets.get(limitId);
    if (budget) this.#apply(budget);
  }

  /** Ends the overrides that have ended by now: one comparison while there is none. */
  at(now: number): void {
    if (now < this.#nextEnd) return;
    this.#nextEnd = Number.POSITIVE_INFINITY;
    for (const budget of this.budgets.values()) this.#apply(budget);
  }

  /** Puts what holds now in the place of what held. */
  #apply(budget: Budget): void {
    const override = this.#overrides.get(budget.limit.limit_id);
    const end = override === undefined ? Number.NEGATIVE_INFINITY : Date.parse(override.until);
    const inForce = end > this.#clock.now() ? override : undefined;
    if (inForce !== undefined) this.#nextEnd = Math.min(this.#nextEnd, end);
    if (inForce === budget.override) return;
    budget.override = inForce;
    budget.capPico = amountOf(inForce ?? budget.limit);
    this.#limitsOf(budget.limit).refresh();
  }
}

/** The budget limits and their overrides in memory, also as other writers of the store change them (decision 6.14). */
export class HeldLimits {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #book: LimitBook;
  readonly #limits: Register<BudgetLimit>;
  readonly #overrides: Register<BudgetOverride>;

  private constructor(store: Store, clock: Clock, book: LimitBook, spaces: Spaces) {
    this.#store = store;
    this.#clock = clock;
    this.#book = book;
    this.#limits = spaces.limits;
    this.#overrides = spaces.overrides;
  }

  /** @param limitsOf those of the scope of a limit */
  static async open(store: Store, clock: Clock, limitsOf: (limit: BudgetLimit) => ScopeLimits): Promise<HeldLimits> {
    const book = new LimitBook(clock, limitsOf);
    return new HeldLimits(store, clock, book, {
      limits: await Register.open(store, LIMITS, {
        read: (value) => value as BudgetLimit,
        orgOf: (limit) => limit.org_id,
        changed: (limitId, limit) => book.learnLimit(limitId, limit),
      }),
      overrides: await Register.open(store, OVERRIDES, {
        read: (value) => value as BudgetOverride,
        changed: (limitId, override) => book.learnOverride(limitId, override),
      }),
    });
  }

  get(limitId: string): Budget | undefined {
    return this.#book.budgets.get(limitId);
  }

  /** Oldest first. @param orgId only those of this org */
  all(orgId?: string): readonly Budget[] {
    const budgets =
      orgId === undefined
        ? [...this.#book.budgets.values()]
        : this.#limits.ofOrg(orgId).flatMap(({ limit_id: id }) => this.#book.budgets.get(id) ?? []);
    return budgets.sort((a, b) => (a.limit.limit_id < b.limit.limit_id ? -1 : 1));
  }

  /** What time it is for whoever asks next. */
  at(now: number): void {
    this.#book.at(now);
  }

  async create(limit: BudgetLimit, commit: Commit): Promise<void> {
    await this.#limits.change(limit.limit_id, () => limit, { commit });
  }

  /** Brings in what was stored of these. */
  async refresh(limitIds: readonly string[]): Promise<void> {
    await Promise.all(limitIds.flatMap((limitId) => [this.#limits.refresh(limitId), this.#overrides.refresh(limitId)]));
  }

  /** @throws GatewayError `conflict` when the limit is removed meanwhile */
  async override(limitId: string, { limitUsd, until, reason }: GivenOverride, commit: Commit): Promise<void> {
    const next = async (_current: unknown, { expect }: Along): Promise<BudgetOverride> => {
      const limit = await this.#store.entity(LIMITS, limitId);
      if (limit === undefined) throw new GatewayError('conflict', `The budget limit ${limitId} was removed meanwhile.`);
      expect.push({ space: LIMITS, key: limitId, version: limit.version });
      return {
        org_id: (limit.value as BudgetLimit).org_id,
        limit_usd: limitUsd,
        until: timestamp(until),
        ...(reason === undefined ? {} : { reason }),
        created_at: timestamp(this.#clock.now()),
      };
    };
    await this.#overrides.change(limitId, next, { commit });
  }

  /** False when there is none, also when another was first. */
  endOverride(limitId: string, commit: Commit): Promise<boolean> {
    return this.#overrides.remove(limitId, { commit });
  }
}

/** What takes a limit away, and its override. */
export function limitRemoval(limitId: string): readonly Effect[] {
  return [
    { op: 'delete', space: LIMITS, key: limitId },
    { op: 'delete', space: OVERRIDES, key: limitId },
  ];
}

function amountOf({ limit_usd: usd }: Pick<BudgetLimit, 'limit_usd'>): bigint {
  return readAmount(usd) ?? 0n;
}
