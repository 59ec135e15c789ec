import { picoFromUsd } from '../base/lib/money.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { BudgetService, Counted } from '../services/budgets.ts';

/** Counts what a record says that its call cost, if the roll-ups count it, too (decision 7.3). The record is to be stored next. */
export function countCost(record: ExecutionRecord, budgets: BudgetService, epochMs: number): Counted | undefined {
  const { record_tier: tier, metering, project_id: projectId, connector_id: connectorId } = record;
  if (tier !== 'action' || metering === undefined) return undefined;
  const spender = {
    orgId: record.org_id,
    workloadId: record.workload_id,
    projectId: projectId ?? '',
    connectorId: connectorId ?? '',
    providerId: record.provider,
  };
  return budgets.count(spender, picoFromUsd(metering.cost_usd), epochMs);
}
