import { dayOf, dayText, earliestStart, type Period, windowStart } from '../decide/limits/windows.ts';
import { parseRollUpKey, SPEND_DAY, USAGE_DAY } from '../storage/contract/counter-spaces.ts';
import type { Store } from '../storage/contract/store.ts';

/** What a budget can be set for (specification, "Budget limit creation rules"). */
export const BUDGET_SCOPES = ['org', 'project', 'workload', 'provider'] as const;
export type BudgetScope = (typeof BUDGET_SCOPES)[number];

/** Whom a call's cost is counted for. A call without a project counts for the one that all such calls share (decision 6.2). */
export interface Spender {
  readonly orgId: string;
  readonly workloadId: string;
  readonly projectId: string;
  /** Connector id; a provider's budget holds for its own connector. */
  readonly connectorId: string;
}

/** Sums of one scope: what is settled by day, and what calls that are under way have set aside. Pico-dollars. */
export class ScopeSpend {
  reserved = 0n;
  readonly #days = new Map<number, bigint>();

  /** Settled in the window of `period` that `day` lies in. */
  settled(period: Period, day: number): bigint {
    const from = windowStart(period, day);
    let sum = 0n;
    for (const [at, pico] of this.#days) if (at >= from && at <= day) sum += pico;
    return sum;
  }

  add(day: number, pico: bigint): void {
    const before = this.#days.get(day);
    this.#days.set(day, (before ?? 0n) + pico);
    if (before !== undefined) return;
    const keep = earliestStart(day);
    for (const old of this.#days.keys()) if (old < keep) this.#days.delete(old);
  }
}

/**
 * Spend of every scope in the windows that are open, in memory: read once from the counters that are committed with the records, so it equals their sum to the last
 * digit, and added to as calls settle.
 */
export class SpendBook {
  readonly #scopes = new Map<string, ScopeSpend>();

  static async open(store: Store, now: number): Promise<SpendBook> {
    const book = new SpendBook();
    const today = dayOf(now);
    for (let day = earliestStart(today); day <= today; day += 1) {
      const prefix = `${dayText(day)}|`;
      for (const { key, amounts } of await store.counters(USAGE_DAY, prefix)) {
        const [, org = '', workload = '', connector = ''] = parseRollUpKey(key);
        const pico = amounts['cost_pico'] ?? 0n;
        if (pico === 0n) continue;
        book.scope(org, 'org', '').add(day, pico);
        book.scope(org, 'workload', workload).add(day, pico);
        book.scope(org, 'provider', connector).add(day, pico);
      }
      for (const { key, amounts } of await store.counters(SPEND_DAY, prefix)) {
        const [, org = '', project = ''] = parseRollUpKey(key);
        book.scope(org, 'project', project).add(day, amounts['cost_pico'] ?? 0n);
      }
    }
    return book;
  }

  /** The sums of one scope; made when nobody asked for it before. */
  scope(orgId: string, scope: BudgetScope, id: string): ScopeSpend {
    const key = scopeKey(orgId, scope, id);
    let found = this.#scopes.get(key);
    if (found === undefined) {
      found = new ScopeSpend();
      this.#scopes.set(key, found);
    }
    return found;
  }

  /** The same without making one. */
  find(orgId: string, scope: BudgetScope, id: string): ScopeSpend | undefined {
    return this.#scopes.get(scopeKey(orgId, scope, id));
  }
}

/** The four scopes that a call's cost counts for, in the order of {@link BUDGET_SCOPES}. */
export function scopeIds(spender: Spender): readonly string[] {
  return ['', spender.projectId, spender.workloadId, spender.connectorId];
}

export function scopeKey(orgId: string, scope: BudgetScope, id: string): string {
  return `${scope}\n${orgId}\n${id}`;
}
