import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import {
  ATTRIBUTED,
  ATTRIBUTED_DAY,
  ATTRIBUTED_QUARTER,
  hoursPrefix,
  keyPart,
  parseRollUpKey,
} from '../../storage/contract/counter-spaces.ts';
import type { Store } from '../../storage/contract/store.ts';
import { counterRows } from '../../storage/contract/store-pages.ts';
import { NamedSums } from './named-sums.ts';
import { QUARTER_MS, quarterStart, stretchesOf, usageOf, usageOfQuarters } from './quarter-ranges.ts';
import { usageInQuarters } from './usage-breakdown.ts';
import { minus, sumUsage, type UsageSum } from './usage-sums.ts';

/** What those names are called together that came when no more could have a row of their own. */
export const OTHER = 'other';

/** Of keys and values of labels, in one answer. */
const MAX_PAIRS = REPORT_BOUNDS.reportNames.all;

const KINDS = ['project', 'customer', 'account', 'caller'] as const;
type Kind = (typeof KINDS)[number];
type Sums = ReadonlyMap<string, UsageSum>;

/** Who was charged from a time on. */
export interface AttributionSummary {
  /** What was counted: the beginning of a quarter of an hour. */
  readonly from: number;
  readonly by: Readonly<Record<Kind, Sums>>;
  /** What nobody of that kind was charged for. */
  readonly unattributed: Readonly<Record<Kind, UsageSum>>;
}

/** One label and how much it was used. */
export interface LabelUse {
  readonly key: string;
  readonly values: number;
  readonly requests: bigint;
}

/** Who was charged, from the totals that are committed with the records (decision 6.15). No record is read. */
export class AttributionReports {
  readonly #store: Pick<Store, 'counters'>;

  constructor(store: Pick<Store, 'counters'>) {
    this.#store = store;
  }

  /** @param from milliseconds since the epoch; the quarter of an hour that it lies in is counted whole */
  async summary(orgId: string, from: number, now: number): Promise<AttributionSummary> {
    const start = quarterStart(from);
    const end = quarterStart(now) + QUARTER_MS;
    const by: [Kind, Sums][] = [];
    for (const kind of KINDS) by.push([kind, await this.#sums(orgId, ATTRIBUTED[kind], start, end)]);
    // Behind the others: what ends meanwhile is in the total alone, and makes nothing less than nothing.
    const total = await usageInQuarters(this.#store, orgId, start, end);
    const rest = by.map(([kind, sums]) => [kind, minus(total, sumUsage(sums.values()))] as const);
    return { from: start, by: ofEach(by), unattributed: ofEach(rest) };
  }

  /** The labels that calls had, by their keys. */
  async labels(orgId: string, from: number, now: number): Promise<readonly LabelUse[]> {
    const requests = new NamedSums(OTHER);
    const values = new Map<string, Set<string>>();
    let pairs = 0;
    for await (const { names, usage } of attributedRows(
      this.#store,
      orgId,
      ATTRIBUTED.label,
      quarterStart(from),
      quarterStart(now) + QUARTER_MS,
    )) {
      const [key = '', value = ''] = names;
      requests.add(key || OTHER, usage);
      const known = values.get(key || OTHER) ?? new Set();
      // Beyond so many pairs they count as one value more of their key.
      const counted = pairs < MAX_PAIRS ? value : '';
      if (!known.has(counted)) pairs += 1;
      values.set(key || OTHER, known.add(counted));
    }
    return [...requests.shown()].map(([key, usage]) => ({ key, values: values.get(key)?.size ?? 1, requests: usage.requests }));
  }

  /** The values of one label. */
  label(orgId: string, key: string, from: number, now: number): Promise<Sums> {
    return this.#sums(orgId, `${ATTRIBUTED.label}|${keyPart(key)}`, quarterStart(from), quarterStart(now) + QUARTER_MS);
  }

  async #sums(orgId: string, kind: string, from: number, to: number): Promise<Sums> {
    const sums = new NamedSums(OTHER);
    for await (const { names, usage } of attributedRows(this.#store, orgId, kind, from, to)) sums.add(names.at(-1) || OTHER, usage);
    return sums.shown();
  }
}

/** The rows of a kind, or of one label of it, between two quarters of an hour. @param to exclusive */
export async function* attributedRows(
  store: Pick<Store, 'counters'>,
  orgId: string,
  kind: string,
  from: number,
  to: number,
): AsyncGenerator<{ readonly names: readonly string[]; readonly usage: UsageSum }> {
  const [first] = await store.counters(ATTRIBUTED_DAY, { prefix: `${keyPart(orgId)}|`, limit: 1 });
  if (first === undefined) return;
  // Nobody waits for years without calls.
  const begun = Date.parse(`${parseRollUpKey(first.key)[1] ?? ''}T00:00:00Z`);
  for (const stretch of stretchesOf(Math.max(from, begun), to)) {
    const [space, time] = 'day' in stretch ? [ATTRIBUTED_DAY, stretch.day] : [ATTRIBUTED_QUARTER, stretch.hour];
    for await (const { key, amounts } of counterRows(store, space, `${hoursPrefix(orgId, time)}|${kind}|`)) {
      const usage = 'day' in stretch ? usageOf(amounts) : usageOfQuarters(amounts, stretch.quarters);
      // A row of an hour has what came in its other quarters, too.
      if (usage.requests > 0n || usage.costPico > 0n) yield { names: parseRollUpKey(key).slice(3), usage };
    }
  }
}

function ofEach<T>(rows: readonly (readonly [Kind, T])[]): Readonly<Record<Kind, T>> {
  return Object.fromEntries(rows) as Record<Kind, T>;
}
