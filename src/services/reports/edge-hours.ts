import { nextTurn } from '../../base/lib/loop-turns.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { RecordedDecision } from '../../base/model/reason-codes.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import { amountsOf } from '../../record/roll-up.ts';
import type { Store } from '../../storage/contract/store.ts';
import { usageOf } from './quarter-ranges.ts';
import { HOUR_MS, NO_USAGE, plus, type UsageSum } from './usage-sums.ts';

/** Records read in one go; between two pages other work goes on. */
const PAGE = 500;
/**
 * Where a record's text says when it was completed. A quote inside of a text is escaped, so that this is the member
 * itself.
 */
const COMPLETED_AT = /"completed_at":"([^"]+)"/;

type ByDecision = Map<RecordedDecision, UsageSum>;

/**
 * What an org used in a part of one hour, from the records of that hour, a few hundred at a time. Totals are kept by
 * the hour, so that only the two hours at the edges of a range are ever asked for, and only those that have something
 * to be divided.
 * @param hour milliseconds since the epoch, its beginning
 * @param counted what the counters say of the whole hour; it may still be growing
 * @param most records that are read
 * @returns undefined when the records that are there are not those which were counted: retention has removed some, the
 * clock was set in that hour, or there are more than are read
 */
export async function usageInPart(
  store: Pick<Store, 'records'>,
  orgId: string,
  { hour, from, to, now }: { readonly hour: number; readonly from: number; readonly to: number; readonly now: number },
  counted: UsageSum,
  most: number = REPORT_BOUNDS.partRecords.one,
): Promise<ReadonlyMap<RecordedDecision, UsageSum> | undefined> {
  const inside: ByDecision = new Map();
  let whole = NO_USAGE;
  let read = 0;
  for await (const { completedAt, text } of recordsOfHour(store, orgId, hour)) {
    read += 1;
    if (read > most) return undefined;
    const record = recordOf(text);
    if (record === undefined) continue;
    // As the counters have it.
    const usage = usageOf(amountsOf(record));
    whole = plus(whole, usage);
    if (completedAt >= from && completedAt < to) inside.set(record.decision, plus(inside.get(record.decision) ?? NO_USAGE, usage));
  }
  const grows = now < hour + HOUR_MS;
  return isSame(whole, counted) || (grows && whole.requests >= counted.requests) ? inside : undefined;
}

/** Of one org: what others do in that hour costs nothing. */
async function* recordsOfHour(
  store: Pick<Store, 'records'>,
  orgId: string,
  hour: number,
): AsyncGenerator<{ readonly completedAt: number; readonly text: string }, void> {
  let after: string | undefined;
  for (;;) {
    const page = await store.records({ org_id: orgId, since: hour, limit: PAGE, ...(after === undefined ? {} : { after }) });
    for (const { text } of page) {
      const completedAt = Date.parse(COMPLETED_AT.exec(text)?.[1] ?? '');
      // Records stand in the order in which they were completed.
      if (completedAt >= hour + HOUR_MS) return;
      yield { completedAt, text };
    }
    if (page.length < PAGE) return;
    after = page.at(-1)?.position;
    await nextTurn();
  }
}

/** Undefined for one that counts in no total (decision 7.3). */
function recordOf(text: string): ExecutionRecord | undefined {
  const record = JSON.parse(text) as ExecutionRecord;
  return record.record_tier === 'connection' ? undefined : record;
}

function isSame(a: UsageSum, b: UsageSum): boolean {
  return a.requests === b.requests && a.tokensIn === b.tokensIn && a.tokensOut === b.tokensOut && a.costPico === b.costPico;
}
