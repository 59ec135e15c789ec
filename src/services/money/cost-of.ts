import { picoFromUsd } from '../../base/lib/money.ts';
import type { ExecutionRecord, RecordedDelegation } from '../../base/model/execution-record.ts';
import type { BudgetService, Counted } from './budgets.ts';
import type { DelegationCap } from './delegation-spend.ts';
import type { Spender } from './spend-book.ts';

/** Counts what a record says that its call cost, if the roll-ups count it, too (decision 7.3). The record is to be stored next. */
export function countCost(record: ExecutionRecord, budgets: Pick<BudgetService, 'count'>, epochMs: number): Counted | undefined {
  const { record_tier: tier, metering } = record;
  if (tier === 'connection' || metering === undefined) return undefined;
  return budgets.count(spenderOfRecord(record), picoFromUsd(metering.cost_usd), epochMs);
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
  return chain.flatMap(({ delegation_id: delegationId, usd_max: max }) => {
    return max === undefined ? [] : [{ delegationId, capPico: picoFromUsd(max) }];
  });
}
