import { SPEND_HOUR } from '../contract/counter-spaces.ts';
import type { Effect, RecordCommit } from '../contract/store.ts';
import type { RowLimits, RowPlace } from '../embedded/all-spaces.ts';
import type { EmbeddedStore } from '../embedded/embedded-store.ts';
import type { CountedRows, CountedTotals } from '../postgres/row-counts.ts';
import type { MovePlace, MoveStage, StoreMover } from '../postgres/store-mover.ts';

/** Where is read: a store that nobody writes to. */
export type CopiedStore = Pick<EmbeddedStore, 'journal' | 'extent' | 'allEntities' | 'allCounters'>;

/** Whether the entities of a space stay where they are. */
export type StaysHere = (space: string) => boolean;

/** What a store holds, counted. */
export interface CopiedContent extends CountedRows {
  /** Entities that stay, by space. */
  readonly kept: ReadonlyMap<string, number>;
}

export interface CopyProgress {
  readonly stage: MoveStage;
  readonly done: number;
  readonly total: number;
  /** The next stage follows. */
  readonly isOver: boolean;
}

/** Of one transaction. */
const PAGE: RowLimits = { rows: 500, units: 4 * 1024 * 1024 };
/** Where nothing is written, more is read at a time. */
const LOOK: RowLimits = { rows: 5_000, units: PAGE.units };

/** Counts what a store holds: records as the journal knows them, everything else row by row. */
export async function contentOf(source: CopiedStore, staysHere: StaysHere): Promise<CopiedContent> {
  const [entities, kept] = [new Map<string, number>(), new Map<string, number>()];
  for await (const rows of pagesOf((after) => source.allEntities(after, LOOK))) {
    for (const { space } of rows) {
      const counts = staysHere(space) ? kept : entities;
      counts.set(space, (counts.get(space) ?? 0) + 1);
    }
  }
  const counters = new Map<string, CountedTotals>();
  for await (const rows of pagesOf((after) => source.allCounters(after, LOOK))) {
    for (const { space, amounts } of rows) {
      const all = Object.values(amounts);
      const before = counters.get(space) ?? { totals: 0, sum: 0n };
      const counted = { totals: before.totals + all.length, sum: all.reduce((sum, amount) => sum + amount, before.sum) };
      if (counted.totals > 0) counters.set(space, counted);
    }
  }
  return { records: source.extent.records, entities, kept, counters };
}

async function* pagesOf<Row extends RowPlace>(
  read: (after: RowPlace | undefined) => Promise<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
  for (let after: RowPlace | undefined; ; ) {
    const rows = await read(after);
    if (rows.length === 0) return;
    yield rows;
    after = rows.at(-1);
  }
}

/** How much there is of what a stage copies. */
export function totalOf(content: CountedRows, stage: MoveStage): number {
  if (stage === 'records') return content.records;
  let total = 0;
  if (stage === 'entities') for (const count of content.entities.values()) total += count;
  else for (const [space, { totals }] of content.counters) if (space !== SPEND_HOUR) total += totals;
  return total;
}

/** A page of a stage. */
interface CopiedPage {
  readonly commits: readonly { readonly record: RecordCommit | undefined; readonly effects: readonly Effect[] }[];
  /** How much of what the stage counts. */
  readonly count: number;
  /** Behind what the next page begins. */
  readonly after: string;
  readonly isLast: boolean;
}

type CopyFrom = Pick<CopyOptions, 'staysHere'> & { readonly source: CopiedStore; readonly page: RowLimits };

const READ: Readonly<Record<MoveStage, (from: CopyFrom, after: string) => Promise<CopiedPage>>> = {
  async records({ source, page }, after) {
    const { commits, next, isLast } = await source.journal(after === '' ? undefined : after, { commits: page.rows, bytes: page.units });
    const records = commits.flatMap(({ record }) => (record ? [{ record, effects: [] }] : []));
    return { commits: records, count: records.length, after: next, isLast };
  },
  async entities({ source, page, staysHere }, after) {
    const rows = await source.allEntities(placeIn(after), page);
    const commits = rows
      .filter(({ space }) => !staysHere(space))
      .map(({ space, key, text }) => effectAlone({ op: 'put', space, key, value: JSON.parse(text) as unknown }));
    return { commits, count: commits.length, ...behind(rows, after) };
  },
  async counters({ source, page }, after) {
    const rows = await source.allCounters(placeIn(after), page);
    const commits = rows.map(({ space, key, amounts }) => effectAlone({ op: 'add', space, key, amounts }));
    const count = rows.reduce((sum, { amounts }) => sum + Object.keys(amounts).length, 0);
    return { commits, count, ...behind(rows, after) };
  },
};

function effectAlone(effect: Effect): CopiedPage['commits'][number] {
  return { record: undefined, effects: [effect] };
}

function behind(rows: readonly RowPlace[], after: string): Pick<CopiedPage, 'after' | 'isLast'> {
  const last = rows.at(-1);
  return last === undefined ? { after, isLast: true } : { after: JSON.stringify([last.space, last.key]), isLast: false };
}

function placeIn(after: string): RowPlace | undefined {
  if (after === '') return undefined;
  const [space = '', key = ''] = JSON.parse(after) as readonly string[];
  return { space, key };
}

/**
 * Copies what is not copied yet.
 * @param source nobody writes to it meanwhile
 * @throws what reading and writing reject with; the next call goes on behind the last page that is stored
 */
export async function copyStore(
  source: CopiedStore,
  { mover, from, content, staysHere, onProgress, limits = PAGE }: CopyOptions,
): Promise<void> {
  const before = from.after === '' && from.stage === 'records' ? undefined : await mover.count();
  let place = from;
  while (place.stage !== 'counting') {
    const { stage } = place;
    const total = totalOf(content, stage);
    let done = before === undefined ? 0 : totalOf(before, stage);
    for (let isLast = false; !isLast; ) {
      const page = await READ[stage]({ source, staysHere, page: limits }, place.after);
      if (page.after !== place.after) place = await mover.page(place, page.after, page.commits);
      done += page.count;
      isLast = page.isLast;
      onProgress({ stage, done, total, isOver: isLast });
    }
    place = await mover.stageOver(place);
  }
}

export interface CopyOptions {
  readonly mover: Pick<StoreMover, 'page' | 'stageOver' | 'count'>;
  readonly from: MovePlace;
  /** Of the source. */
  readonly content: CopiedContent;
  readonly staysHere: StaysHere;
  /** Told behind each page. */
  readonly onProgress: (progress: CopyProgress) => void;
  /** Of a page, which is one transaction. */
  readonly limits?: RowLimits;
}

/**
 * What a folder and a database do not have both, one phrase each. Spend by hour is not compared: a database makes it
 * of the other counters.
 */
export function differencesOf(here: CountedRows, there: CountedRows): readonly string[] {
  const found: string[] = [];
  const compare = (what: string, one: number | bigint, other: number | bigint): void => {
    if (one !== other) found.push(`${what}: ${one} in the folder, ${other} in the database`);
  };
  compare('records', here.records, there.records);
  for (const space of new Set([...here.entities.keys(), ...there.entities.keys()]))
    compare(`entities of ${space}`, here.entities.get(space) ?? 0, there.entities.get(space) ?? 0);
  for (const space of new Set([...here.counters.keys(), ...there.counters.keys()])) {
    if (space === SPEND_HOUR) continue;
    const [one, other] = [here.counters.get(space), there.counters.get(space)];
    compare(`totals of ${space}`, one?.totals ?? 0, other?.totals ?? 0);
    compare(`sum of ${space}`, one?.sum ?? 0n, other?.sum ?? 0n);
  }
  return found;
}
