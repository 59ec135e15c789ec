import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { hourOf, windowEnd } from '../../decide/limits/windows.ts';
import { ORG_MONTH } from '../../storage/contract/counter-spaces.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { counterPages } from '../../storage/contract/store-pages.ts';
import { CountedOrgs } from '../registers/sharers.ts';
import type { RequestsRefusal } from './allowance.ts';
import type { NodeCaps } from './node-caps.ts';
import type { CapVerdict } from './shared-ledger.ts';
import { SharedRequests } from './shared-requests.ts';

const KEPT_MONTHS = 3;
/** `2026-11` */
const MONTH_LENGTH = 7;

/** A request that counts, for which nothing is stored yet. */
export interface CountedRequest {
  readonly month: string;
  /** The org, as its counter names it. */
  readonly key: string;
}

/** What an org may do in a month. */
export interface MonthlyPlan {
  /** Requests per org and UTC calendar month; undefined: no limit, and nothing is counted. */
  readonly limit: number | undefined;
  /** Lets requests pass the limit. */
  readonly overage: boolean;
}

/** Knows the plan of each org. */
export interface MonthlyPlans {
  /** That of every org; undefined: one of them has another. */
  readonly alike: MonthlyPlan | undefined;
  of(orgId: string): MonthlyPlan;
}

export interface MonthlyRequestOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly plans: MonthlyPlans;
  /** In whose months requests may be counted, in milliseconds since the epoch; default: now. */
  readonly moments?: readonly number[];
  /** Whether somebody has laid down this org. Default: all are known. */
  readonly knownOrg?: (orgId: string) => boolean;
  /** Where other nodes count requests under the same limits. */
  readonly caps?: NodeCaps | undefined;
}

/**
 * The monthly request limit (specification, "Limits"; decision 6.2): counts, per org, each request that passes its
 * check. The count is committed with the request's record and read again at start; it begins anew with each UTC
 * calendar month.
 */
export class MonthlyRequestService {
  readonly #plans: MonthlyPlans;
  readonly #clock: Clock;
  /** By month, then by org. A clock that was set ahead and back finds the month as it was. */
  readonly #months = new Map<string, Map<string, number>>();

  readonly #orgs: CountedOrgs;
  readonly #shared: SharedRequests | undefined;

  private constructor({ plans, clock, knownOrg = () => true, caps }: MonthlyRequestOptions) {
    this.#plans = plans;
    this.#clock = clock;
    this.#orgs = new CountedOrgs(knownOrg);
    this.#shared = caps && new SharedRequests(caps, (key) => this.#counted(key));
  }

  static async open(options: MonthlyRequestOptions): Promise<MonthlyRequestService> {
    const service = new MonthlyRequestService(options);
    for (const month of new Set((options.moments ?? [options.clock.now()]).map(monthOf))) {
      const prefix = `${month}|`;
      const counts = service.#countsOf(month);
      for await (const page of counterPages(options.store, ORG_MONTH, prefix)) {
        for (const { key, amounts } of page) counts.set(key.slice(prefix.length), Number(amounts['requests'] ?? 0n));
      }
    }
    return service;
  }

  /** Asks other nodes for a request that this one does not hold; undefined: nobody is to be asked. */
  ask(orgId: string): Promise<CapVerdict> | undefined {
    if (this.#shared === undefined) return undefined;
    const { limit, overage } = this.#plans.alike ?? this.#plans.of(orgId);
    return limit === undefined || overage ? undefined : this.#shared.askFor(keyOf(this.#request(orgId)), limit);
  }

  /** Counts one request of an org, unless the limit is reached and overage is off; undefined when there is none. */
  count(orgId: string): CountedRequest | RequestsRefusal | undefined {
    const asked = this.#ask(orgId);
    if (asked === undefined || 'kind' in asked) return asked;
    const counts = this.#countsOf(asked.month);
    counts.set(asked.key, (counts.get(asked.key) ?? 0) + 1);
    if (this.#shared !== undefined) this.#shared.taken(keyOf(asked));
    return asked;
  }

  /** What {@link count} would refuse a request with. */
  look(orgId: string): RequestsRefusal | undefined {
    const asked = this.#ask(orgId);
    return asked !== undefined && 'kind' in asked ? asked : undefined;
  }

  #ask(orgId: string): CountedRequest | RequestsRefusal | undefined {
    const { limit, overage } = this.#plans.alike ?? this.#plans.of(orgId);
    if (limit === undefined) return undefined;
    const request = this.#request(orgId);
    let count = this.#countsOf(request.month).get(request.key) ?? 0;
    if (this.#shared !== undefined) count += this.#shared.elsewhere(keyOf(request));
    if (overage || count < limit) return request;
    return { kind: 'requests', resetsAt: windowEnd('monthly', hourOf(this.#clock.now())) };
  }

  #request(orgId: string): CountedRequest {
    return { month: monthOf(this.#clock.now()), key: encodeURIComponent(this.#orgs.of(orgId)) };
  }

  /** @param key of the counter */
  #counted(key: string): number {
    const month = key.slice(0, MONTH_LENGTH);
    return this.#months.get(month)?.get(key.slice(MONTH_LENGTH + 1)) ?? 0;
  }

  /** What is to be committed with the record of a counted request. */
  effect(request: CountedRequest): Effect {
    return { op: 'add', space: ORG_MONTH, key: keyOf(request), amounts: { requests: 1n } };
  }

  /** The record of a counted request is stored. */
  stored(request: CountedRequest): void {
    if (this.#shared !== undefined) this.#shared.stored(keyOf(request));
  }

  /** A counted request has left no record. */
  uncount({ month, key }: CountedRequest): void {
    if (this.#shared !== undefined) this.#shared.givenBack(keyOf({ month, key }));
    const counts = this.#months.get(month);
    const count = counts?.get(key);
    if (counts && count !== undefined) counts.set(key, count - 1);
  }

  #countsOf(month: string): Map<string, number> {
    let counts = this.#months.get(month);
    if (counts === undefined) {
      counts = new Map();
      this.#months.set(month, counts);
      // Maps keep the order of insertion: the first is the one that was begun first.
      const [oldest] = this.#months.keys();
      if (this.#months.size > KEPT_MONTHS && oldest !== undefined) this.#months.delete(oldest);
    }
    return counts;
  }
}

/** Of its counter. */
function keyOf({ month, key }: CountedRequest): string {
  return `${month}|${key}`;
}

function monthOf(now: number): string {
  return timestamp(now).slice(0, MONTH_LENGTH);
}
