import type { Logger } from '../base/lib/log.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { RecordCounters } from '../services/record-counters.ts';
import { ATTRIBUTED_DAY, ATTRIBUTED_QUARTER, USAGE_HOUR, USAGE_MONTH, USAGE_QUARTER } from '../storage/contract/counter-spaces.ts';
import type { Effect, Store } from '../storage/contract/store.ts';

const SPACE = 'roll_up';
/** Set where totals by hour and by month are complete. */
const HOURS = 'hours_and_months';
/** How far totals by quarter of an hour and of who is charged have come. */
const QUARTERS = 'quarters';
const PAGE = 1_000;
const MINUTE = /^requests_m\d\d$/;

type Add = Extract<Effect, { op: 'add' }>;

interface Progress {
  /** The position of the last record that is counted. */
  readonly after?: string;
  readonly records: number;
  /** Totals by hour and month are made on the way. */
  readonly withHours: boolean;
  readonly isDone: boolean;
}

/**
 * Counts the records of a folder that was written before there were totals by hour and month, or by quarter of an hour and of who is charged. Done once, a thousand records and the place that
 * was reached in one commit, so that a start which is cut off goes on where it was; nothing else may be counted before the end. Records that retention has removed are in no such total.
 * @throws Error when the store cannot be read or written
 */
export async function countAgain(store: Store, counters: Pick<RecordCounters, 'effects'>, log: Logger): Promise<void> {
  const begun = (await store.get(SPACE, QUARTERS)) as Progress | undefined;
  if (begun?.isDone === true) return;
  const withHours = begun?.withHours ?? (await store.get(SPACE, HOURS)) === undefined;
  let { after, records } = begun ?? { after: undefined, records: 0 };
  for (;;) {
    const page = await store.records({ limit: PAGE, ...(after === undefined ? {} : { after }) });
    records += page.length;
    after = page.at(-1)?.position ?? after;
    // What is stored was written by this program and has not changed since.
    const effects = totalsOf(
      page.flatMap(({ text }) => counters.effects(JSON.parse(text) as ExecutionRecord)),
      withHours,
    );
    const isDone = page.length < PAGE;
    const progress: Progress = { ...(after === undefined ? {} : { after }), records, withHours, isDone };
    await store.commit(undefined, [
      ...effects,
      { op: 'put', space: SPACE, key: QUARTERS, value: progress },
      ...(isDone ? [{ op: 'put', space: SPACE, key: HOURS, value: { records } } as const] : []),
    ]);
    if (isDone) break;
  }
  if (records > 0)
    log.info({ records }, 'counted the stored records by quarter of an hour and by who is charged, which an older version did not do');
}

const ANEW: ReadonlySet<string> = new Set([USAGE_QUARTER, ATTRIBUTED_DAY, ATTRIBUTED_QUARTER]);

/** What the records add to the totals that are not there yet. */
function totalsOf(effects: readonly Effect[], withHours: boolean): readonly Effect[] {
  const totals = new Map<string, { readonly effect: Add; readonly amounts: Record<string, bigint> }>();
  const names: Effect[] = [];
  for (const effect of effects) {
    if (effect.op !== 'add') names.push(effect);
    else if (ANEW.has(effect.space) || (withHours && (effect.space === USAGE_HOUR || effect.space === USAGE_MONTH)))
      add(effect, effect.amounts);
    else if (effect.space === USAGE_HOUR) add(effect, minutesOf(effect.amounts));
  }
  return [...names, ...[...totals.values()].map(({ effect, amounts }) => ({ ...effect, amounts }))];

  function add(effect: Add, amounts: Add['amounts']): void {
    const name = `${effect.space} ${effect.key}`;
    const total = totals.get(name) ?? { effect, amounts: {} };
    totals.set(name, total);
    for (const [of, amount] of Object.entries(amounts)) total.amounts[of] = (total.amounts[of] ?? 0n) + amount;
  }
}

function minutesOf(amounts: Add['amounts']): Add['amounts'] {
  return Object.fromEntries(Object.entries(amounts).filter(([name]) => MINUTE.test(name)));
}
