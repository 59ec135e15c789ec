import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { Effect } from '../storage/contract/store.ts';
import { countCost } from './cost-of.ts';
import { dropIntent } from './drop-intent.ts';
import type { Exchange } from './exchange.ts';
import { removeIntent } from './intent.ts';
import type { Pipeline } from './stage.ts';

/**
 * What is committed with a record: the effects of its settlements, and those of its cost. Spend is counted from the record itself, like the roll-ups, whether or not
 * anything was set aside, so that the two can never disagree (decision 6.2).
 */
export function settle(exchange: Exchange, record: ExecutionRecord, { budgets }: Pipeline): readonly Effect[] {
  const effects: Effect[] = [];
  for (let at = exchange.settlements.length - 1; at >= 0; at -= 1) effects.push(...(exchange.settlements[at]?.(record) ?? []));
  exchange.counted = countCost(record, budgets, exchange.completedAt);
  const { reservation } = exchange;
  // In one turn with the count: what the call cost stands in the place of what was set aside for it.
  if (reservation) budgets.release(reservation);
  if (reservation?.capped) effects.push(dropIntent(record.record_id));
  return effects;
}

/** The record is stored, and what {@link settle} counted is spent. */
export function settled(exchange: Exchange, { budgets }: Pipeline): void {
  exchange.reservation = undefined;
  if (exchange.counted) budgets.stored(exchange.counted);
}

/** The record could not be stored: all is as it was before {@link settle}. */
export function unsettle(exchange: Exchange, { budgets, idempotency }: Pipeline): void {
  if (exchange.keptKey !== undefined) idempotency.forget(exchange.orgId, exchange.keptKey);
  if (exchange.counted) budgets.uncount(exchange.counted);
  if (exchange.reservation) budgets.restore(exchange.reservation);
}

/**
 * Gives back what was set aside for a call that leaves no record. One that the provider has answered may have cost something: under a cap that stays set aside, and
 * its intent open, until its record can be stored, or the next start makes one (decision 6.8).
 */
export function giveBack(exchange: Exchange, pipeline: Pipeline): void {
  const { reservation, delivery, recordId, unstored } = exchange;
  if (reservation === undefined) return;
  if (reservation.capped && delivery?.status !== undefined) {
    if (unstored) pipeline.lateRecords.keep(unstored, reservation, delivery.started);
    else
      pipeline.log.warn(
        { record_id: recordId },
        'an answered call has no record; what was set aside stays so until the next start charges it',
      );
    return;
  }
  pipeline.budgets.release(reservation);
  if (reservation.capped) removeIntent(recordId, pipeline);
}
