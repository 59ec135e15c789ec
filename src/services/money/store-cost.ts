import type { Clock } from '../../base/lib/clock.ts';
import { timestamp } from '../../base/lib/clock.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { canonicalRecord, type UnhashedRecord } from '../../record/canonical-record.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import type { RecordCounters } from '../reports/record-counters.ts';
import type { BudgetService } from './budgets.ts';
import { countCost } from './cost-of.ts';
import type { Reservation } from './reservation.ts';

export interface CostGround {
  readonly store: Store;
  readonly clock: Clock;
  readonly budgets: BudgetService;
  readonly counters: Pick<RecordCounters, 'effects'>;
}

/**
 * Stores a record that is made after its call, completed now: its cost takes the place of what was set aside, in one turn and one commit. When the store fails all is
 * as it was before.
 * @param effects committed with it
 * @throws GatewayError `record_store_unavailable`, `conflict`
 */
export async function storeCost(
  { store, clock, budgets, counters }: CostGround,
  unhashed: UnhashedRecord,
  reservation: Reservation | undefined,
  effects: readonly Effect[],
): Promise<ExecutionRecord> {
  const now = clock.now();
  const completed = { ...unhashed, completed_at: timestamp(now) };
  const { text, hash } = canonicalRecord(completed);
  const record = { ...completed, record_hash: hash } as ExecutionRecord;
  const counted = countCost(record, budgets, now);
  if (reservation) budgets.release(reservation);
  try {
    await store.commit({ record_id: record.record_id, record_hash: hash, text, committed_at: now, members: record }, [
      ...counters.effects(record),
      ...effects,
      ...(counted?.effects ?? []),
    ]);
  } catch (error) {
    if (counted) budgets.uncount(counted);
    if (reservation) budgets.restore(reservation);
    throw error;
  }
  if (counted) budgets.stored(counted);
  return record;
}
