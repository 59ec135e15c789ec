import { picoFromUsd } from '../base/lib/money.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { Spender } from '../services/spend-book.ts';
import type { Effect } from '../storage/contract/store.ts';
import type { Exchange } from './exchange.ts';
import { dropIntent, removeIntent } from './intent.ts';
import type { Pipeline } from './stage.ts';

/**
 * What is committed with a record: the effects of its settlements, and those of its cost. Spend is counted from the record itself, like the roll-ups, whether or not
 * anything was set aside, so that the two can never disagree (decision 6.2).
 */
export function settle(exchange: Exchange, record: ExecutionRecord, { budgets }: Pipeline): readonly Effect[] {
  const effects: Effect[] = [];
  for (let at = exchange.settlements.length - 1; at >= 0; at -= 1) effects.push(...(exchange.settlements[at]?.(record) ?? []));
  exchange.counted = isCounted(record) ? budgets.count(spenderOf(record), costOf(record), exchange.completedAt) : undefined;
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
 * its intent open, until the next start makes a record of it (decision 6.8).
 */
export function giveBack(exchange: Exchange, pipeline: Pipeline): void {
  const { reservation, delivery, recordId } = exchange;
  if (reservation === undefined) return;
  if (reservation.capped && delivery?.status !== undefined) {
    pipeline.log.warn(
      { record_id: recordId },
      'an answered call has no record; what was set aside for it stays so until the next start charges it',
    );
    return;
  }
  pipeline.budgets.release(reservation);
  if (reservation.capped) removeIntent(recordId, pipeline);
}

/** What the roll-ups count, too (decision 7.3). */
function isCounted({ record_tier: tier, metering }: ExecutionRecord): boolean {
  return tier === 'action' && metering !== undefined;
}

function costOf({ metering }: ExecutionRecord): bigint {
  return picoFromUsd(metering?.cost_usd ?? '0');
}

function spenderOf({ org_id: orgId, workload_id: workloadId, project_id: projectId, connector_id: connectorId }: ExecutionRecord): Spender {
  return { orgId, workloadId, projectId: projectId ?? '', connectorId: connectorId ?? '' };
}
