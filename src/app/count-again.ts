import type { Logger } from '../base/lib/log.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { RecordCounters } from '../services/reports/record-counters.ts';
import {
  ATTRIBUTED,
  ATTRIBUTED_DAY,
  ATTRIBUTED_QUARTER,
  SELDOM_AMOUNTS,
  USAGE_HOUR,
  USAGE_MONTH,
  USAGE_QUARTER,
} from '../storage/contract/counter-spaces.ts';
import type { Effect, Store } from '../storage/contract/store.ts';

const SPACE = 'roll_up';
/** Set where totals by hour and by month are complete. */
const HOURS = 'hours_and_months';
/** How far totals by quarter of an hour and of who is charged have come. */
const QUARTERS = 'quarters';
/** The same of tokens from a cache, of what of the cost is in doubt, and of the tokens of labels. */
const DOUBTS = 'doubts';
const PAGE = 1_000;
const MINUTE = /^requests_m\d\d$/;

type Add = Extract<Effect, { op: 'add' }>;

interface Progress {
  /** The position of the last record that is counted. */
  readonly after?: string;
  readonly records: number;
  /** Totals by hour and month are made on the way. */
  readonly withHours?: boolean;
  readonly isDone: boolean;
}

/** What one reading of all records adds. */
interface Reading {
  /** Where its progress is kept. */
  readonly key: string;
  /** What is added of the counters of some records. */
  readonly pick: (effects: readonly Effect[]) => readonly Effect[];
  readonly withHours?: boolean;
  /** To be committed with the last of them. */
  readonly last?: (records: number) => readonly Effect[];
}

/**
 * Counts the records of a folder that was written before there were totals by hour and month, by quarter of an hour and
 * of who is charged, or of what of a cost is in doubt. Done once, a thousand records and the place that was reached in
 * one commit, so that a start which is cut off goes on where it was; nothing else may be counted before the end.
 * Records that retention has removed are in no such total.
 * @throws Error when the store cannot be read or written
 */
export async function countAgain(store: Store, counters: Pick<RecordCounters, 'effects'>, log: Logger): Promise<void> {
  await countQuarters(store, counters, log);
  await countDoubts(store, counters, log);
}

async function countQuarters(store: Store, counters: Pick<RecordCounters, 'effects'>, log: Logger): Promise<void> {
  const begun = (await store.get(SPACE, QUARTERS)) as Progress | undefined;
  if (begun?.isDone === true) return;
  const withHours = begun?.withHours ?? (await store.get(SPACE, HOURS)) === undefined;
  const records = await readAll(store, counters, begun, {
    key: QUARTERS,
    withHours,
    pick: (effects) => totalsOf(effects, withHours),
    last: (count) => [{ op: 'put', space: SPACE, key: HOURS, value: { records: count } }],
  });
  if (records > 0)
    log.info({ records }, 'counted the stored records by quarter of an hour and by who is charged, which an older version did not do');
}

async function countDoubts(store: Store, counters: Pick<RecordCounters, 'effects'>, log: Logger): Promise<void> {
  const begun = (await store.get(SPACE, DOUBTS)) as Progress | undefined;
  if (begun?.isDone === true) return;
  const records = await readAll(store, counters, begun, { key: DOUBTS, pick: doubtsOf });
  if (records > 0)
    log.info({ records }, 'counted in the stored records what is without usage or priced by default, which an older version did not do');
}

/** @returns how many records there were */
async function readAll(
  store: Store,
  counters: Pick<RecordCounters, 'effects'>,
  begun: Progress | undefined,
  { key, withHours, pick, last }: Reading,
): Promise<number> {
  let { after, records } = begun ?? { after: undefined, records: 0 };
  for (;;) {
    const page = await store.records({ limit: PAGE, ...(after === undefined ? {} : { after }) });
    records += page.length;
    after = page.at(-1)?.position ?? after;
    // What is stored was written by this program and has not changed since.
    const effects = pick(page.flatMap(({ text }) => counters.effects(JSON.parse(text) as ExecutionRecord)));
    const isDone = page.length < PAGE;
    const progress: Progress = {
      ...(after === undefined ? {} : { after }),
      records,
      ...(withHours === undefined ? {} : { withHours }),
      isDone,
    };
    await store.commit(undefined, [
      ...effects,
      { op: 'put', space: SPACE, key, value: progress },
      ...(isDone ? (last?.(records) ?? []) : []),
    ]);
    if (isDone) return records;
  }
}

const ANEW: ReadonlySet<string> = new Set([USAGE_QUARTER, ATTRIBUTED_DAY, ATTRIBUTED_QUARTER]);

/** What the records add to the totals that are not there yet; what {@link doubtsOf} adds is left to that. */
function totalsOf(effects: readonly Effect[], withHours: boolean): readonly Effect[] {
  const totals = new Totals();
  const names: Effect[] = [];
  for (const effect of effects) {
    if (effect.op !== 'add') names.push(effect);
    else if (ANEW.has(effect.space) || (withHours && (effect.space === USAGE_HOUR || effect.space === USAGE_MONTH)))
      totals.add(effect, (name) => !isDoubt(effect, name));
    else if (effect.space === USAGE_HOUR) totals.add(effect, (name) => MINUTE.test(name));
  }
  return [...names, ...totals.effects()];
}

/**
 * What the records add to rows that are there, of amounts that an older version did not count. Names that are counted
 * one by one are those that it has counted.
 */
function doubtsOf(effects: readonly Effect[]): readonly Effect[] {
  const totals = new Totals();
  for (const effect of effects) if (effect.op === 'add') totals.add(effect, (name) => isDoubt(effect, name));
  return totals.effects();
}

const SELDOM = new RegExp(`^(?:${SELDOM_AMOUNTS.join('|')})(?:_\\d)?$`);
const TOKENS = /^tokens_(?:in|out)(?:_\d)?$/;
const OF_LABEL = new RegExp(`^[^|]*\\|[^|]*\\|${ATTRIBUTED.label}\\|`);

/** Labels had no tokens. */
function isDoubt({ space, key }: Add, name: string): boolean {
  if (SELDOM.test(name)) return true;
  return (space === ATTRIBUTED_DAY || space === ATTRIBUTED_QUARTER) && TOKENS.test(name) && OF_LABEL.test(key);
}

/** Amounts that are added up before they are committed. */
class Totals {
  readonly #rows = new Map<string, { readonly effect: Add; readonly amounts: Record<string, bigint> }>();

  add(effect: Add, isWanted: (name: string) => boolean): void {
    const wanted = Object.entries(effect.amounts).filter(([name]) => isWanted(name));
    if (wanted.length === 0) return;
    const of = `${effect.space} ${effect.key}`;
    const total = this.#rows.get(of) ?? { effect, amounts: {} };
    this.#rows.set(of, total);
    for (const [name, amount] of wanted) total.amounts[name] = (total.amounts[name] ?? 0n) + amount;
  }

  effects(): readonly Effect[] {
    return [...this.#rows.values()].map(({ effect, amounts }) => ({ ...effect, amounts }));
  }
}
