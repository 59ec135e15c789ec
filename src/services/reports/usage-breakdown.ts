import { dayAfter, type TimeZone } from '../../base/lib/time-zone.ts';
import { dayPrefix, hoursPrefix, parseRollUpKey, USAGE_DAY, USAGE_HOUR, USAGE_QUARTER } from '../../storage/contract/counter-spaces.ts';
import type { Store } from '../../storage/contract/store.ts';
import { counterRows } from '../../storage/contract/store-pages.ts';
import { NamedSums, OTHER_CONNECTORS, OTHER_WORKLOADS } from './named-sums.ts';
import { QUARTER_MS, type Stretch, stretchesOf, usageOf, usageOfQuarters } from './quarter-ranges.ts';
import { OTHER_MODELS } from './record-counters.ts';
import { HOUR_MS, NO_USAGE, plus, type UsageSum } from './usage-sums.ts';

type Sums = ReadonlyMap<string, UsageSum>;

/**
 * What an org used on some days of a zone. The name of a connector, or a model, is empty for calls that ended before
 * there was one. Of very many names the dearest have rows.
 */
export interface UsageBreakdown {
  readonly total: UsageSum;
  readonly byWorkload: Sums;
  readonly byConnector: Sums;
  readonly byModel: Sums;
  /** Pico-dollars of each day, also of those on which nothing was spent. */
  readonly byDay: ReadonlyMap<string, bigint>;
}

/** Days of a zone, such as `2026-11-01` to `2026-11-30`; both are part of the range. */
export interface DayRange {
  readonly first: string;
  readonly last: string;
  readonly zone: TimeZone;
}

/**
 * Usage of an org on days of any zone, exactly (decision 8.14): whole UTC days from their totals, the hours before and
 * behind them from totals by quarter of an hour. No record is read.
 */
export async function usageOnDays(store: Pick<Store, 'counters'>, orgId: string, days: DayRange): Promise<UsageBreakdown> {
  const { first, last, zone } = days;
  const [byWorkload, byConnector] = [new NamedSums(OTHER_WORKLOADS), new NamedSums(OTHER_CONNECTORS)];
  const byModel = new NamedSums(OTHER_MODELS);
  let total = NO_USAGE;
  const begun = await firstCounted(store);
  for (const stretch of stretchesOf(Math.max(begun, zone.startOf(first)), zone.startOf(dayAfter(last)))) {
    for await (const { names, usage } of rowsOf(store, orgId, stretch)) {
      const [workload = '', connector = '', model = ''] = names;
      total = plus(total, usage);
      byWorkload.add(workload, usage);
      byConnector.add(connector, usage);
      byModel.add(model, usage);
    }
  }
  const byDay = await costOfDays(store, orgId, days, begun);
  return { total, byWorkload: byWorkload.shown(), byConnector: byConnector.shown(), byModel: byModel.shown(), byDay };
}

/** Before this day, a UTC one, nothing was counted, epoch milliseconds: nobody waits for years without calls. */
async function firstCounted(store: Pick<Store, 'counters'>): Promise<number> {
  const [first] = await store.counters(USAGE_DAY, { limit: 1 });
  return first === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(`${first.key.slice(0, 10)}T00:00:00Z`);
}

export interface NamedUsage {
  /** Workload, connector, model. */
  readonly names: readonly string[];
  readonly usage: UsageSum;
}

async function* rowsOf(store: Pick<Store, 'counters'>, orgId: string, stretch: Stretch): AsyncGenerator<NamedUsage> {
  if ('day' in stretch) {
    for await (const { key, amounts } of counterRows(store, USAGE_DAY, dayPrefix(stretch.day, orgId))) {
      yield { names: parseRollUpKey(key).slice(2), usage: usageOf(amounts) };
    }
    return;
  }
  for await (const { key, amounts } of counterRows(store, USAGE_QUARTER, `${hoursPrefix(orgId, stretch.hour)}|`)) {
    const usage = usageOfQuarters(amounts, stretch.quarters);
    // What came in another quarter of that hour.
    if (usage.requests > 0n || usage.costPico > 0n || usage.tokensIn > 0n || usage.tokensOut > 0n)
      yield { names: parseRollUpKey(key).slice(2), usage };
  }
}

/** An hour is of one day, or a day begins in the middle of it: then its quarters are asked for. */
async function costOfDays(
  store: Pick<Store, 'counters'>,
  orgId: string,
  { first, last, zone }: DayRange,
  begun: number,
): Promise<ReadonlyMap<string, bigint>> {
  const costs = new Map<string, bigint>();
  for (let day = first; day <= last; day = dayAfter(day)) {
    let cost = 0n;
    const [from, to] = [zone.startOf(day), zone.startOf(dayAfter(day))];
    costs.set(day, 0n);
    if (to <= begun) continue;
    const [head, tail] = [Math.min(to, upToHour(from)), Math.max(from, downToHour(to))];
    for (const stretch of [...stretchesOf(from, head), ...stretchesOf(Math.max(head, tail), to)]) {
      for await (const { usage } of rowsOf(store, orgId, stretch)) cost += usage.costPico;
    }
    for await (const { amounts } of hourRows(store, orgId, head, tail)) cost += amounts['cost_pico'] ?? 0n;
    costs.set(day, cost);
  }
  return costs;
}

/** Rows of the whole hours of a range of at most two UTC days. */
async function* hourRows(store: Pick<Store, 'counters'>, orgId: string, from: number, to: number) {
  const [first, last] = [hoursPrefix(orgId, isoHour(from)), hoursPrefix(orgId, isoHour(to - HOUR_MS))];
  if (from >= to) return;
  const days = new Set([isoHour(from).slice(0, 10), isoHour(to - HOUR_MS).slice(0, 10)]);
  for (const day of days) {
    for await (const row of counterRows(store, USAGE_HOUR, `${hoursPrefix(orgId, day)}T`)) {
      // Hours are compared as text: all have the same length.
      const hour = row.key.slice(0, first.length);
      if (hour >= first && hour <= last) yield row;
    }
  }
}

function upToHour(at: number): number {
  return Math.ceil(at / HOUR_MS) * HOUR_MS;
}

function downToHour(at: number): number {
  return Math.floor(at / HOUR_MS) * HOUR_MS;
}

function isoHour(at: number): string {
  return new Date(at).toISOString().slice(0, 13);
}

/**
 * All rows of an org from a quarter of an hour on up to another one, with workload, connector and model.
 * @param to exclusive
 */
export async function* usageRows(store: Pick<Store, 'counters'>, orgId: string, from: number, to: number): AsyncGenerator<NamedUsage> {
  for (const stretch of stretchesOf(Math.max(from, await firstCounted(store)), to)) yield* rowsOf(store, orgId, stretch);
}

/** All totals of an org from a quarter of an hour on up to another one. @param to exclusive */
export async function usageInQuarters(store: Pick<Store, 'counters'>, orgId: string, from: number, to: number): Promise<UsageSum> {
  if (from % QUARTER_MS !== 0 || to % QUARTER_MS !== 0) throw new RangeError('both ends are beginnings of quarters of an hour');
  let sum = NO_USAGE;
  for await (const { usage } of usageRows(store, orgId, from, to)) sum = plus(sum, usage);
  return sum;
}
