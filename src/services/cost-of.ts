import { picoFromUsd } from '../base/lib/money.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { BudgetService, Counted } from './budgets.ts';
import type { Spender } from './spend-book.ts';

/** Counts what a record says that its call cost, if the roll-ups count it, too (decision 7.3). The record is to be stored next. */
export function countCost(record: ExecutionRecord, budgets: Pick<BudgetService, 'count'>, epochMs: number): Counted | undefined {
  const { record_tier: tier, metering } = record;
  if (tier === 'connection' || metering === undefined) return undefined;
  return budgets.count(spenderOfRecord(record), picoFromUsd(metering.cost_usd), epochMs);
}

type Counts = 'project_id' | 'connector_id' | 'provider';

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
  };
}
