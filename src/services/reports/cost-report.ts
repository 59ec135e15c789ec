import { nextTurn } from '../../base/lib/loop-turns.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import { amountsOf } from '../../record/roll-up.ts';
import { ATTRIBUTED, keyPart } from '../../storage/contract/counter-spaces.ts';
import type { Store } from '../../storage/contract/store.ts';
import { attributedRows, OTHER } from './attribution-reports.ts';
import { NamedSums } from './named-sums.ts';
import { usageOf } from './quarter-ranges.ts';
import { OTHER_MODELS, UNREGISTERED } from './record-counters.ts';
import { type NamedUsage, usageInQuarters, usageRows } from './usage-breakdown.ts';
import { isNothing, minus, NO_USAGE, plus, sumUsage, type UsageSum } from './usage-sums.ts';

/** What costs can be told apart by, beside labels. */
export const COST_KEYS = ['project', 'customer', 'account', 'caller', 'workload', 'provider', 'model'] as const;
export type CostKey = (typeof COST_KEYS)[number] | `label:${string}`;

/** Records read in one go; between two pages other work goes on. */
const PAGE = 500;
/** What those records are called of which retention has left no more than the totals. */
export const REMOVED_RECORDS = 'removed records';

/** Quarters of an hour, epoch milliseconds; `to` is exclusive. */
export interface CostPeriod {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/** What one combination of names used in one period. A name is empty where a call had none. */
export interface CostRow {
  readonly names: readonly string[];
  readonly usage: UsageSum;
}

/** Only calls that had this name; an empty one: that had none. */
export interface CostFilter {
  readonly key: CostKey;
  readonly name: string;
}

type Reading = Pick<Store, 'counters' | 'records'>;

/**
 * Where the names of a usage row stand: workload, connector, model. A provider is known by its connector (decision
 * 8.7).
 */
const OF_USAGE: Readonly<Partial<Record<CostKey, number>>> = { workload: 0, provider: 1, model: 2 };
const OF_ATTRIBUTION: Readonly<Partial<Record<CostKey, string>>> = {
  project: ATTRIBUTED.project,
  customer: ATTRIBUTED.customer,
  account: ATTRIBUTED.account,
  caller: ATTRIBUTED.caller,
};

/** Whether the answer is in totals, which last, or in the records alone, of which each is read. */
export function readsRecords(keys: readonly CostKey[]): boolean {
  return !keys.every((key) => key in OF_USAGE) && keys.length > 1;
}

/**
 * What an org used in one period by any combination of keys (decision 6.18). Workloads, providers and models, and each
 * other key alone, come from the totals that are committed with the records; other combinations from the records
 * themselves, a few hundred at a time. The rows always add up to the total of the period: what retention has removed is
 * a row of its own.
 * @param most combinations that have rows of their own: those that cost most
 * @param filters all of which hold of the calls that are counted
 */
export async function costsOf(
  store: Reading,
  orgId: string,
  { from, to }: CostPeriod,
  keys: readonly CostKey[],
  most: number,
  filters: readonly CostFilter[] = [],
): Promise<readonly CostRow[]> {
  const rest = JSON.stringify(keys.map(() => OTHER));
  const sums = new NamedSums(rest, Math.max(most, REPORT_BOUNDS.reportNames.all));
  for await (const { names, usage } of filteredRows(store, orgId, { from, to }, keys, filters))
    if (names !== undefined) sums.add(JSON.stringify(names), usage);
  return [...sums.shown(most)].map(([name, usage]) => ({ names: JSON.parse(name) as readonly string[], usage }));
}

/** What the calls of a range used of which all filters hold. */
export interface FilteredUsage {
  readonly usage: UsageSum;
  /**
   * What is counted without a name that is asked for: removed records, and names beyond those that are counted one by
   * one. Nobody knows whether filters hold of it.
   */
  readonly unsorted: UsageSum;
}

/** The total of the rows of {@link costsOf}. @param range quarters of an hour */
export async function filteredUsage(
  store: Reading,
  orgId: string,
  range: Omit<CostPeriod, 'name'>,
  filters: readonly CostFilter[],
): Promise<FilteredUsage> {
  let [usage, unsorted] = [NO_USAGE, NO_USAGE];
  for await (const row of filteredRows(store, orgId, range, [], filters)) {
    if (row.names !== undefined) usage = plus(usage, row.usage);
    else unsorted = plus(unsorted, row.usage);
  }
  return { usage, unsorted };
}

/** Names that stand for several, by what they are read from. */
const OF_SEVERAL = { records: [REMOVED_RECORDS], totals: [OTHER, OTHER_MODELS] } as const;

/** Rows by keys of what filters hold of; without names those of which nobody knows whether they do. */
async function* filteredRows(
  store: Reading,
  orgId: string,
  range: Omit<CostPeriod, 'name'>,
  keys: readonly CostKey[],
  filters: readonly CostFilter[],
): AsyncGenerator<{ readonly names: readonly string[] | undefined; readonly usage: UsageSum }> {
  const all = [...new Set([...keys, ...filters.map(({ key }) => key)])];
  const several: readonly string[] = OF_SEVERAL[readsRecords(all) ? 'records' : 'totals'];
  const places = filters.map(({ key, name }) => [all.indexOf(key), name] as const);
  for await (const { names, usage } of rowsOf(store, orgId, range, all)) {
    const others = places.filter(([at, name]) => names[at] !== name);
    if (others.length === 0) yield { names: names.slice(0, keys.length), usage };
    else if (others.every(([at]) => several.includes(names[at] ?? ''))) yield { names: undefined, usage };
  }
}

function rowsOf(store: Reading, orgId: string, range: Omit<CostPeriod, 'name'>, keys: readonly CostKey[]): AsyncIterable<NamedUsage> {
  if (readsRecords(keys)) return fromRecords(store, orgId, range, keys);
  const [only] = keys;
  return only === undefined || only in OF_USAGE ? fromUsage(store, orgId, range, keys) : fromAttribution(store, orgId, range, only);
}

async function* fromUsage(
  store: Reading,
  orgId: string,
  { from, to }: Omit<CostPeriod, 'name'>,
  keys: readonly CostKey[],
): AsyncGenerator<NamedUsage> {
  for await (const { names, usage } of usageRows(store, orgId, from, to))
    yield { names: keys.map((key) => names[OF_USAGE[key] ?? 0] ?? ''), usage };
}

/** What no name was charged for is what the names leave of the total. */
async function* fromAttribution(
  store: Reading,
  orgId: string,
  { from, to }: Omit<CostPeriod, 'name'>,
  key: CostKey,
): AsyncGenerator<NamedUsage> {
  const kind = OF_ATTRIBUTION[key] ?? `${ATTRIBUTED.label}|${keyPart(labelOf(key))}`;
  const named: UsageSum[] = [];
  for await (const { names, usage } of attributedRows(store, orgId, kind, from, to)) {
    yield { names: [names.at(-1) || OTHER], usage };
    named.push(usage);
    if (named.length === PAGE) named.splice(0, named.length, sumUsage(named));
  }
  // Behind the others: what ends meanwhile is in the total alone, and makes nothing less than nothing.
  const rest = minus(await usageInQuarters(store, orgId, from, to), sumUsage(named));
  if (!isNothing(rest)) yield { names: [''], usage: rest };
}

async function* fromRecords(
  store: Reading,
  orgId: string,
  range: Omit<CostPeriod, 'name'>,
  keys: readonly CostKey[],
): AsyncGenerator<NamedUsage> {
  // Ahead of the records: each that is in it is read.
  const total = await usageInQuarters(store, orgId, range.from, range.to);
  let read = NO_USAGE;
  let after: string | undefined;
  for (;;) {
    const page = await store.records({ org_id: orgId, since: range.from, limit: PAGE, ...(after === undefined ? {} : { after }) });
    const { rows, isBehind } = rowsOfPage(page, range, keys);
    for (const row of rows) {
      read = plus(read, row.usage);
      yield row;
    }
    // A record that could not be stored at first stands behind its time: the totals say whether one is still to come.
    if (page.length < PAGE || (isBehind && hasAll(read, total))) break;
    after = page.at(-1)?.position;
    await nextTurn();
  }
  if (!hasAll(read, total)) yield { names: keys.map(() => REMOVED_RECORDS), usage: minus(total, read) };
}

/** @returns what the records of a page used in the range, and whether all of them are of later */
function rowsOfPage(
  page: readonly { readonly text: string }[],
  { from, to }: Omit<CostPeriod, 'name'>,
  keys: readonly CostKey[],
): { readonly rows: readonly NamedUsage[]; readonly isBehind: boolean } {
  const rows: NamedUsage[] = [];
  let isBehind = true;
  for (const { text } of page) {
    const record = JSON.parse(text) as ExecutionRecord;
    const at = Date.parse(record.completed_at);
    if (at < to) isBehind = false;
    if (at < from || at >= to || record.record_tier === 'connection') continue;
    rows.push({ names: keys.map((key) => nameOf(record, key)), usage: usageOf(amountsOf(record)) });
  }
  return { rows, isBehind };
}

/** More is what came meanwhile. */
function hasAll(read: UsageSum, total: UsageSum): boolean {
  return read.requests >= total.requests && read.costPico >= total.costPico && read.tokensIn >= total.tokensIn;
}

const NAMES: Readonly<Record<(typeof COST_KEYS)[number], (record: ExecutionRecord) => string | undefined>> = {
  project: ({ project_id: id }) => id,
  customer: ({ customer_id: id }) => id,
  account: ({ account_id: id }) => id,
  caller: ({ caller_id: id }) => id,
  workload: ({ workload_id: id }) => id,
  provider: ({ connector_id: id }) => id,
  // The one that an upstream has accepted; of other calls the one that was asked for.
  model: ({ model, metering, upstream_status: status = 500 }) => (status < 400 ? metering?.model : model),
};

/**
 * As totals count it: what somebody names who was refused before it was known who he is makes no row (decision 6.15).
 */
function nameOf(record: ExecutionRecord, key: CostKey): string {
  if (record.reason_codes.includes('workload_not_registered')) return key === 'workload' ? UNREGISTERED : '';
  if (isLabel(key)) {
    const { labels = {} } = record;
    return Object.hasOwn(labels, labelOf(key)) ? (labels[labelOf(key)] ?? '') : '';
  }
  return NAMES[key](record) ?? '';
}

function isLabel(key: CostKey): key is `label:${string}` {
  return key.startsWith('label:');
}

function labelOf(key: CostKey): string {
  return key.slice('label:'.length);
}
