import type { RecordedDecision } from '../../base/model/reason-codes.ts';
import { hoursPrefix, monthPrefix, parseRollUpKey, USAGE_HOUR, USAGE_MONTH } from '../../storage/contract/counter-spaces.ts';
import type { CounterRow, Store } from '../../storage/contract/store.ts';
import { counterPages } from '../../storage/contract/store-pages.ts';
import { readUntil } from '../registers/read-until.ts';
import { usageInPart } from './edge-hours.ts';
import { usageOf } from './quarter-ranges.ts';
import { HOUR_MS, NO_USAGE, plus, sumUsage, type UsageSum } from './usage-sums.ts';

/**
 * What one workload of an org used of one connector in a month; the connector is empty for calls that were refused
 * before one was chosen.
 */
export interface MonthlyUsage extends UsageSum {
  readonly orgId: string;
  readonly workloadId: string;
  readonly connectorId: string;
}

/** What an org used between two times. */
export interface UsageBetween {
  /**
   * What was counted; where the records of an edge hour are not there any more it begins, or ends, with that whole
   * hour.
   */
  readonly from: number;
  readonly to: number;
  readonly decisions: ReadonlyMap<RecordedDecision, UsageSum>;
}

/**
 * Numbers for people, from the counters that are committed with the records, so that an answer costs the same whatever
 * the store holds, and equals a recount to the last digit. Records are read of the hours alone in the middle of which a
 * range begins or ends.
 */
export class UsageReports {
  readonly #store: Pick<Store, 'counters' | 'records'>;

  constructor(store: Pick<Store, 'counters' | 'records'>) {
    this.#store = store;
  }

  /** The same, which end when nobody waits for them any more. */
  until(signal: AbortSignal): UsageReports {
    return new UsageReports(readUntil(signal, this.#store));
  }

  /**
   * Usage of an org by decision; decisions that nobody met are left out.
   * @param from milliseconds since the epoch
   * @param to the same, exclusive; behind `now` nothing is
   */
  async byDecision(orgId: string, from: number, to: number, now: number): Promise<UsageBetween> {
    const [first, last] = [startOfHour(from), startOfHour(to)];
    if (first === last) return this.#inOneHour(orgId, { hour: first, from, to, now });
    const head = from === first ? undefined : await this.#part(orgId, { hour: first, from, to: first + HOUR_MS, now });
    const hasTail = to !== last && to < now;
    const tail = hasTail ? await this.#part(orgId, { hour: last, from: last, to, now }) : undefined;
    // A part that cannot be told is counted with the whole of its hour.
    const start = head ? first + HOUR_MS : first;
    const end = to === last || tail ? last : last + HOUR_MS;
    const middle = await this.#wholeHours(orgId, start, end);
    return {
      from: head ? from : first,
      to: hasTail && !tail ? end : to,
      decisions: added([head, middle, tail]),
    };
  }

  async #inOneHour(orgId: string, part: Part): Promise<UsageBetween> {
    const { hour, from, to } = part;
    const decisions = await this.#part(orgId, part);
    if (decisions) return { from, to, decisions };
    return { from: hour, to: hour + HOUR_MS, decisions: await this.#wholeHours(orgId, hour, hour + HOUR_MS) };
  }

  async #part(orgId: string, part: Part): Promise<ReadonlyMap<RecordedDecision, UsageSum> | undefined> {
    const whole = await this.#wholeHours(orgId, part.hour, part.hour + HOUR_MS);
    return whole.size === 0 ? whole : usageInPart(this.#store, orgId, part, sumUsage(whole.values()));
  }

  async #wholeHours(orgId: string, from: number, to: number): Promise<ReadonlyMap<RecordedDecision, UsageSum>> {
    const sums = new Map<RecordedDecision, UsageSum>();
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
   * What `counterPages` promises of a month's counters holds for the records behind them: each is counted once or, when
   * it came meanwhile, perhaps not yet.
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

/** A part of one hour. */
interface Part {
  readonly hour: number;
  readonly from: number;
  readonly to: number;
  readonly now: number;
}

function added(parts: readonly (ReadonlyMap<RecordedDecision, UsageSum> | undefined)[]): ReadonlyMap<RecordedDecision, UsageSum> {
  const sums = new Map<RecordedDecision, UsageSum>();
  for (const part of parts) for (const [decision, usage] of part ?? []) sums.set(decision, plus(sums.get(decision) ?? NO_USAGE, usage));
  return sums;
}

function startOfHour(time: number): number {
  return Math.floor(time / HOUR_MS) * HOUR_MS;
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
