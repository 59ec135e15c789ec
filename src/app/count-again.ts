import type { Logger } from '../base/lib/log.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import { rollUp } from '../record/roll-up.ts';
import { USAGE_HOUR, USAGE_MONTH } from '../storage/contract/counter-spaces.ts';
import type { Effect, Store } from '../storage/contract/store.ts';

const SPACE = 'roll_up';
const KEY = 'hours_and_months';
const PAGE = 1_000;

type Add = Extract<Effect, { op: 'add' }>;

/**
 * Counts the records of a folder that was written before there were totals by hour and by month. Done once and in one commit, with the mark that it was done;
 * nothing may be counted before. Records that retention has removed are in no total.
 * @throws Error when the store cannot be read or written
 */
export async function countAgain(store: Store, log: Logger): Promise<void> {
  if ((await store.get(SPACE, KEY)) !== undefined) return;
  const totals = new Map<string, { readonly effect: Add; readonly amounts: Record<string, bigint> }>();
  let records = 0;
  let after: string | undefined;
  do {
    const page = await store.records({ limit: PAGE, ...(after === undefined ? {} : { after }) });
    after = page.at(-1)?.position;
    records += page.length;
    // What is stored was written by this program and has not changed since.
    for (const { text } of page) for (const effect of rollUp(JSON.parse(text) as ExecutionRecord)) count(effect);
  } while (after !== undefined);
  const effects = [...totals.values()].map(({ effect, amounts }) => ({ ...effect, amounts }));
  await store.commit(undefined, [...effects, { op: 'put', space: SPACE, key: KEY, value: { records } }]);
  if (records > 0) log.info({ records }, 'counted the stored records by hour and by month, which an older version did not do');

  function count(effect: Effect): void {
    if (effect.op !== 'add' || (effect.space !== USAGE_HOUR && effect.space !== USAGE_MONTH)) return;
    const name = `${effect.space} ${effect.key}`;
    const total = totals.get(name) ?? { effect, amounts: {} };
    totals.set(name, total);
    for (const [of, amount] of Object.entries(effect.amounts)) total.amounts[of] = (total.amounts[of] ?? 0n) + amount;
  }
}
