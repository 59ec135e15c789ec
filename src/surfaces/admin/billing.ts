import { usdFromPico } from '../../base/lib/money.ts';
import { type MonthlyUsage, NO_USAGE, sumUsage, type Usage } from '../../services/usage-reports.ts';
import { QueryMembers } from '../http/query-members.ts';
import type { Route } from '../http/route.ts';
import { csvLine } from './csv-line.ts';
import type { ReportRouteOptions } from './dashboard.ts';
import { reportPeriod } from './report-query.ts';

const COLUMNS = ['period', 'org_id', 'workload_id', 'connector_id', 'request_count', 'tokens_in', 'tokens_out', 'cost_usd'];

/** Monthly billing over all orgs (specification, "Gateway admin API"; decision 8.13). */
export function billingRoutes({ reports, clock }: ReportRouteOptions): readonly Route[] {
  const ask = async (parameters: URLSearchParams): Promise<{ period: string; rows: readonly MonthlyUsage[] }> => {
    const query = new QueryMembers(parameters, ['period']);
    const period = reportPeriod(query, clock.now());
    query.check();
    return { period, rows: await reports.month(period) };
  };
  return [
    {
      method: 'GET',
      path: '/v1/admin/billing/summary',
      auth: 'admin',
      summary: 'Requests and cost of a month (`period=YYYY-MM`, default the current one), by workload and connector.',
      handle: async ({ query }) => {
        const { period, rows } = await ask(query);
        const total = sumUsage(rows);
        const json = {
          period,
          total_requests: Number(total.requests),
          total_cost_usd: usdFromPico(total.costPico),
          breakdown: breakdownOf(rows),
        };
        return { status: 200, json };
      },
    },
    {
      method: 'GET',
      path: '/v1/admin/billing/export.csv',
      auth: 'admin',
      summary: 'The same month as CSV: one line for each org, workload and connector.',
      handle: async ({ query }) => {
        const { period, rows } = await ask(query);
        return {
          status: 200,
          text: csvLine(COLUMNS) + rows.map((row) => csvLine(cellsOf(period, row))).join(''),
          contentType: 'text/csv; charset=utf-8; header=present',
          headers: ['Content-Disposition', `attachment; filename="billing-${period}.csv"`],
        };
      },
    },
  ];
}

/** Workloads that have the same id in several orgs are added up. */
function breakdownOf(rows: readonly MonthlyUsage[]): unknown {
  const workloads = new Map<string, Map<string, Usage>>();
  for (const row of rows) {
    const connectors = workloads.get(row.workloadId) ?? new Map<string, Usage>();
    workloads.set(row.workloadId, connectors);
    connectors.set(row.connectorId, sumUsage([connectors.get(row.connectorId) ?? NO_USAGE, row]));
  }
  return Object.fromEntries(
    [...workloads].map(([id, connectors]) => [id, Object.fromEntries([...connectors].map(([name, usage]) => [name, shown(usage)]))]),
  );
}

function shown({ requests, tokensIn, tokensOut, costPico }: Usage): unknown {
  return { requests: Number(requests), tokens_in: Number(tokensIn), tokens_out: Number(tokensOut), cost_usd: usdFromPico(costPico) };
}

function cellsOf(period: string, row: MonthlyUsage): readonly string[] {
  const { orgId, workloadId, connectorId, requests, tokensIn, tokensOut, costPico } = row;
  return [period, orgId, workloadId, connectorId, `${requests}`, `${tokensIn}`, `${tokensOut}`, usdFromPico(costPico)];
}
