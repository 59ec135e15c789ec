import type { RecordedDecision } from '../base/model/decision.ts';
import { counterPages } from '../storage/contract/counter-pages.ts';
import { hoursPrefix, monthPrefix, parseRollUpKey, USAGE_HOUR, USAGE_MONTH } from '../storage/contract/counter-spaces.ts';
import type { CounterRow, Store } from '../storage/contract/store.ts';

export const HOUR_MS = 3_600_000;

/** Sums over action records. Money in pico-dollars. */
export interface Usage {
  readonly requests: bigint;
  readonly tokensIn: bigint;
  readonly tokensOut: bigint;
  readonly costPico: bigint;
}

/** What one workload of an org used of one connector in a month; the connector is empty for calls that were refused before one was chosen. */
export interface MonthlyUsage extends Usage {
  readonly orgId: string;
  readonly workloadId: string;
  readonly connectorId: string;
}

export const NO_USAGE: Usage = { requests: 0n, tokensIn: 0n, tokensOut: 0n, costPico: 0n };

/** Adds up some rows of usage. */
export function sumUsage(rows: Iterable<Usage>): Usage {
  let sum = NO_USAGE;
  for (const row of rows) sum = plus(sum, row);
  return sum;
}

/**
 * Numbers for people, from the counters that are committed with the records: no record is read, so an answer costs the same whatever the store holds, and it
 * equals a recount to the last digit.
 */
export class UsageReports {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * Usage of an org by decision; decisions that nobody met are left out.
   * @param from milliseconds since the epoch, the beginning of an hour
   * @param to the same, exclusive
   */
  async byDecision(orgId: string, from: number, to: number): Promise<ReadonlyMap<RecordedDecision, Usage>> {
    const sums = new Map<RecordedDecision, Usage>();
    let end = from;
    for (let at = from; at < to; at = end) {
      end = Math.min(to, startOfMonth(at, 1));
      const whole = at === startOfMonth(at, 0) && end === startOfMonth(at, 1);
      const pages = whole ? counterPages(this.#store, USAGE_MONTH, monthPrefix(isoText(at, 'month'), orgId)) : this.#hours(orgId, at, end);
      for await (const page of pages) {
        for (const { key, amounts } of page) {
          // Keys are written from records only; the decision is the last part in both spaces.
          const decision = key.slice(key.lastIndexOf('|') + 1) as RecordedDecision;
          sums.set(decision, plus(sums.get(decision) ?? NO_USAGE, usageOf(amounts)));
        }
      }
    }
    return sums;
  }

  /** Hourly rows of an org between two times in one month. */
  async *#hours(orgId: string, from: number, to: number): AsyncGenerator<readonly CounterRow[], void> {
    const first = hoursPrefix(orgId, isoText(from, 'hour'));
    const last = hoursPrefix(orgId, isoText(to - HOUR_MS, 'hour'));
    const day = isoText(from, 'day');
    const prefix = hoursPrefix(orgId, isoText(to - HOUR_MS, 'day') === day ? day : day.slice(0, -3));
    for await (const page of counterPages(this.#store, USAGE_HOUR, prefix)) {
      // Hours are compared as text: all have the same length.
      yield page.filter(({ key }) => key.slice(0, first.length) >= first && key.slice(0, last.length) <= last);
    }
  }

  /**
   * Usage in one UTC month (`2026-11`) of one org or of all, a few hundred rows at a time, in the order of the keys.
   * What `counterPages` promises of a month's counters holds for the records behind them: each is counted once or, when it came meanwhile, perhaps not yet.
   */
  async *month(period: string, orgId?: string): AsyncGenerator<readonly MonthlyUsage[], void> {
    let pair: string | undefined;
    let row: MonthlyUsage | undefined;
    for await (const page of counterPages(this.#store, USAGE_MONTH, monthPrefix(period, orgId))) {
      const complete: MonthlyUsage[] = [];
      for (const { key, amounts } of page) {
        // What differs in its decision only comes one behind the other.
        const own = key.slice(0, key.lastIndexOf('|'));
        if (row !== undefined && own === pair) {
          row = { ...row, ...plus(row, usageOf(amounts)) };
          continue;
        }
        if (row !== undefined) complete.push(row);
        const [, org = '', workloadId = '', connectorId = ''] = parseRollUpKey(key);
        pair = own;
        row = { orgId: org, workloadId, connectorId, ...usageOf(amounts) };
      }
      yield complete;
    }
    if (row !== undefined) yield [row];
  }
}

function usageOf(amounts: CounterRow['amounts']): Usage {
  return {
    requests: amounts['requests'] ?? 0n,
    tokensIn: amounts['tokens_in'] ?? 0n,
    tokensOut: amounts['tokens_out'] ?? 0n,
    costPico: amounts['cost_pico'] ?? 0n,
  };
}

function plus(a: Usage, b: Usage): Usage {
  return {
    requests: a.requests + b.requests,
    tokensIn: a.tokensIn + b.tokensIn,
    tokensOut: a.tokensOut + b.tokensOut,
    costPico: a.costPico + b.costPico,
  };
}

/** Where the UTC month of a time begins, or the one `later` months after it. */
function startOfMonth(time: number, later: number): number {
  const date = new Date(time);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1);
}

const LENGTHS = { month: 7, day: 10, hour: 13 } as const;

/** `2026-11`, `2026-11-22` or `2026-11-22T05`. */
function isoText(time: number, unit: keyof typeof LENGTHS): string {
  return new Date(time).toISOString().slice(0, LENGTHS[unit]);
}
