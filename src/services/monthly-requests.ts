import { type Clock, timestamp } from '../base/lib/clock.ts';
import type { Effect, Store } from '../storage/contract/store.ts';

const SPACE = 'org_month';

/** The plan of an org when no control plane sets it. */
export interface MonthlyPlan {
  /** Requests per org and UTC calendar month; undefined: no limit, and nothing is counted. */
  readonly limit: number | undefined;
  /** Lets requests pass the limit. */
  readonly overage: boolean;
}

/**
 * The monthly request limit (specification, "Limits"; decision 6.2): counts, per org, each request that passes its check. The count is committed with the
 * request's record and read again at start; it begins anew with each UTC calendar month.
 */
export class MonthlyRequests {
  readonly #plan: MonthlyPlan;
  readonly #clock: Clock;
  readonly #counts = new Map<string, number>();
  #month: string;

  private constructor(plan: MonthlyPlan, clock: Clock) {
    this.#plan = plan;
    this.#clock = clock;
    this.#month = monthOf(clock);
  }

  static async open(options: { store: Store; clock: Clock; plan: MonthlyPlan }): Promise<MonthlyRequests> {
    const service = new MonthlyRequests(options.plan, options.clock);
    const prefix = `${service.#month}|`;
    for (const { key, amounts } of await options.store.counters(SPACE, prefix)) {
      service.#counts.set(key.slice(prefix.length), Number(amounts['requests'] ?? 0n));
    }
    return service;
  }

  /** Counts one request of an org: what is to be committed with its record, or `over` when the limit is reached and overage is off. */
  count(orgId: string): readonly Effect[] | 'over' {
    const { limit, overage } = this.#plan;
    if (limit === undefined) return [];
    this.#turnMonth();
    const key = encodeURIComponent(orgId);
    const before = this.#counts.get(key) ?? 0;
    if (before >= limit && !overage) return 'over';
    this.#counts.set(key, before + 1);
    return [{ op: 'add', space: SPACE, key: `${this.#month}|${key}`, amounts: { requests: 1n } }];
  }

  #turnMonth(): void {
    const month = monthOf(this.#clock);
    if (month === this.#month) return;
    this.#month = month;
    this.#counts.clear();
  }
}

function monthOf(clock: Clock): string {
  return timestamp(clock.now()).slice(0, 7);
}
