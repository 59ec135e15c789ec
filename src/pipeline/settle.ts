import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { Effect } from '../storage/contract/store.ts';
import { countCost } from './cost-of.ts';
import { dropIntent } from './drop-intent.ts';
import type { Exchange } from './exchange.ts';
import { removeIntent } from './intent.ts';
import { estimatedMetering } from './metering-of.ts';
import type { Pipeline } from './stage.ts';

/**
 * What is committed with a record: the effects of its settlements, and those of its cost. Spend is counted from the record itself, like the roll-ups, whether or not
 * anything was set aside, so that the two can never disagree (decision 6.2).
 */
export function settle(exchange: Exchange, record: ExecutionRecord, { budgets, deferred }: Pipeline): readonly Effect[] {
  const effects: Effect[] = [];
  for (let at = exchange.settlements.length - 1; at >= 0; at -= 1) effects.push(...(exchange.settlements[at]?.(record) ?? []));
  exchange.counted = countCost(record, budgets, exchange.completedAt);
  const { reservation } = exchange;
  if (exchange.deferred) effects.push(deferred.effect(exchange, record, exchange.deferred));
  // In one turn with the count: what the call cost stands in the place of what was set aside for it.
  else if (reservation) budgets.release(reservation);
  if (exchange.hasIntent) effects.push(dropIntent(record.record_id));
  return effects;
}

/** The record is stored, and what {@link settle} counted is spent. */
export function settled(exchange: Exchange, { budgets, deferred }: Pipeline): void {
  if (exchange.deferred && exchange.reservation) deferred.hold(exchange.deferred, exchange.reservation, exchange.completedAt);
  exchange.reservation = undefined;
  if (exchange.counted) budgets.stored(exchange.counted);
}

/** The record could not be stored: all is as it was before {@link settle}. */
export function unsettle(exchange: Exchange, { budgets, idempotency }: Pipeline): void {
  if (exchange.keptKey !== undefined) idempotency.forget(exchange.orgId, exchange.keptKey);
  if (exchange.counted) budgets.uncount(exchange.counted);
  if (exchange.reservation && !exchange.deferred) budgets.restore(exchange.reservation);
}

/**
 * Gives back what was set aside for a call that leaves no record; once. A record that could not be stored is tried again when the call may have cost something, or
 * has an intent. With an intent what was set aside stays so until then, and the intent open, so that the next start makes a record if nothing else does (decision 6.8).
 */
export function giveBack(exchange: Exchange, pipeline: Pipeline): void {
  const { reservation, delivery, recordId, hasIntent } = exchange;
  if (reservation === undefined && !hasIntent) return;
  const unstored = withoutDeferral(exchange);
  exchange.reservation = undefined;
  exchange.hasIntent = false;
  const answered = delivery?.status !== undefined;
  const staysOpen = hasIntent && (answered || unstored !== undefined);
  if (reservation && !staysOpen) pipeline.budgets.release(reservation);
  if (unstored && (hasIntent || answered)) {
    const kept = { reservation: staysOpen ? reservation : undefined, hasIntent };
    pipeline.lateRecords.keep(unstored, kept, delivery?.started === true);
  } else if (staysOpen)
    pipeline.log.warn(
      { record_id: recordId },
      'an answered call has no record; what was set aside stays so until the next start charges it',
    );
  else if (hasIntent) removeIntent(recordId, pipeline);
}

/** The client was never told of the response that its call has begun, or not to its end: it is charged now, at its estimate. */
function withoutDeferral(exchange: Exchange): ExecutionRecord | undefined {
  const { unstored, deferred } = exchange;
  if (unstored === undefined || deferred === undefined) return unstored;
  const { usage_record_id: _, ...record } = unstored;
  return { ...record, metering: estimatedMetering(exchange) } as ExecutionRecord;
}
