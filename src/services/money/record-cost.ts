import type { Clock } from '../../base/lib/clock.ts';
import { timestamp } from '../../base/lib/clock.ts';
import { type Maybe, when } from '../../base/lib/maybe.ts';
import { picoFromUsd } from '../../base/lib/money.ts';
import type { ExecutionRecord, RecordedDelegation } from '../../base/model/execution-record.ts';
import { canonicalRecord, type UnhashedRecord } from '../../record/canonical-record.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import type { RecordCounters } from '../reports/record-counters.ts';
import { type Allowance, type DelegationCap, isRefused, type SettledCall, type Spender } from './allowance.ts';

/** What a record says that its call cost, as far as the roll-ups count it, too (decision 7.3). Undefined: nothing. */
export function costOf({ record_tier: tier, metering }: Pick<ExecutionRecord, 'record_tier' | 'metering'>): bigint | undefined {
  if (tier === 'connection' || metering === undefined) return undefined;
  const pico = picoFromUsd(metering.cost_usd);
  return pico === 0n ? undefined : pico;
}

type Counts = 'project_id' | 'connector_id' | 'provider' | 'delegation_chain';

/** Whom a record's cost is counted for. */
export function spenderOfRecord(
  record: Pick<ExecutionRecord, 'org_id' | 'workload_id'> & { readonly [K in Counts]?: ExecutionRecord[K] | undefined },
): Spender {
  return {
    orgId: record.org_id,
    workloadId: record.workload_id,
    projectId: record.project_id ?? '',
    connectorId: record.connector_id ?? '',
    providerId: record.provider,
    delegations: record.delegation_chain && delegationCaps(record.delegation_chain),
  };
}

/** The links of a delegation that have a budget. */
export function delegationCaps(chain: readonly RecordedDelegation[]): readonly DelegationCap[] {
  return chain.flatMap(({ delegation_id: delegationId, usd_max: capUsd }) => (capUsd === undefined ? [] : [{ delegationId, capUsd }]));
}

/**
 * What a record says that its call cost takes the place of its grant. It is counted from the record itself, like the
 * roll-ups, whether or not anything was set aside, so that the two can never disagree (decision 6.2).
 * @param granted the id names a grant
 * @returns what is to be committed with the record
 */
export function settleCost(
  allowance: Allowance,
  id: string,
  record: ExecutionRecord,
  { granted, at, isMade }: Pick<SettledCall, 'at' | 'isMade'> & { readonly granted: boolean },
): Maybe<readonly Effect[]> {
  const pico = costOf(record);
  if (granted && pico === undefined && isMade) return allowance.settle(id);
  const settled: SettledCall = { spender: spenderOfRecord(record), pico: pico ?? 0n, at, isMade };
  if (granted) return allowance.settle(id, settled);
  return when(takeRegardless(allowance, id, settled.spender, 0n), () => allowance.settle(id, settled));
}

/** Sets aside what was so before, or is spent already, whatever caps say by now. */
export function takeRegardless(allowance: Allowance, id: string, spender: Spender, pico: bigint): Maybe<void> {
  const { orgId, workloadId } = spender;
  const ask = { id, orgId, workloadId, spend: { spender, pico: String(pico), regardless: true as const } };
  return when(allowance.take(ask), (answer) => {
    if (answer !== undefined && isRefused(answer)) throw new Error(`what is taken regardless was refused: ${answer.kind}`);
  });
}

export interface CostGround {
  readonly store: Store;
  readonly clock: Clock;
  readonly allowance: Allowance;
  readonly counters: Pick<RecordCounters, 'effects'>;
}

/**
 * Stores a record that is made after its call, completed now: its cost takes the place of what was set aside, in one
 * turn and one commit. When the store fails all is as it was before.
 * @param id of the grant
 * @param granted false: nothing is set aside under it
 * @param effects committed with it
 * @throws GatewayError `record_store_unavailable`, `conflict`
 */
export async function storeCost(
  { store, clock, allowance, counters }: CostGround,
  unhashed: UnhashedRecord,
  { id, granted }: { readonly id: string; readonly granted: boolean },
  effects: readonly Effect[],
): Promise<ExecutionRecord> {
  const now = clock.now();
  const completed = { ...unhashed, completed_at: timestamp(now) };
  const { text, hash } = canonicalRecord(completed);
  const record = { ...completed, record_hash: hash } as ExecutionRecord;
  const commit = { record_id: record.record_id, record_hash: hash, text, committed_at: now, members: record };
  try {
    // In one turn where the allowance answers at once: what a record says of alerts is visible with all that came
    // before it.
    await when(settleCost(allowance, id, record, { granted, at: now, isMade: true }), (counted) =>
      store.commit(commit, [...counters.effects(record), ...effects, ...counted]),
    );
  } catch (error) {
    await allowance.failed(id);
    if (!granted) await allowance.giveBack(id, true);
    throw error;
  }
  await allowance.stored(id);
  return record;
}
