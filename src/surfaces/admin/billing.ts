import { usdFromPico } from '../../base/lib/money.ts';
import type { MonthlyUsage } from '../../services/usage-reports.ts';
import { NO_USAGE, sumUsage, type Usage } from '../../services/usage-sums.ts';
import { inParts, jsonParts } from '../http/json-parts.ts';
import { QueryMembers } from '../http/query-members.ts';
import type { Route } from '../http/route.ts';
import { csvLine } from './csv-line.ts';
import type { ReportRouteOptions } from './dashboard.ts';
import { reportPeriod } from './report-query.ts';

const COLUMNS = ['period', 'org_id', 'workload_id', 'connector_id', 'request_count', 'tokens_in', 'tokens_out', 'cost_usd'];

/** Usage by connector, by workload. */
type Breakdown = ReadonlyMap<string, ReadonlyMap<string, Usage>>;

/** Monthly billing over all orgs (specification, "Gateway admin API"; decision 8.13). */
export function billingRoutes({ reports, clock }: ReportRouteOptions): readonly Route[] {
  const asked = (parameters: URLSearchParams): string => {
    const query = new QueryMembers(parameters, ['period']);
    const period = reportPeriod(query, clock.now());
    query.check();
    return period;
  };
  return [
    {
      method: 'GET',
      path: '/v1/admin/billing/summary',
      auth: 'admin',
      summary: 'Requests and cost of a month (`period=YYYY-MM`, default the current one), by workload and connector.',
      handle: async ({ query }) => {
        const period = asked(query);
        const { total, breakdown } = await summed(reports.month(period));
        const head = { period, total_requests: Number(total.requests), total_cost_usd: usdFromPico(total.costPico) };
        return { status: 200, parts: jsonParts(head, 'breakdown', '{}', membersOf(breakdown)), contentType: 'application/json' };
      },
    },
    {
      method: 'GET',
      path: '/v1/admin/billing/export.csv',
      auth: 'admin',
      summary: 'The same month as CSV: one line for each org, workload and connector.',
      handle: ({ query }) => {
        const period = asked(query);
        return {
          status: 200,
          parts: csvParts(period, reports.month(period)),
          contentType: 'text/csv; charset=utf-8; header=present',
          headers: ['Content-Disposition', `attachment; filename="billing-${period}.csv"`],
        };
      },
    },
  ];
}

/** Workloads that have the same id in several orgs are added up. */
async function summed(rows: AsyncIterable<readonly MonthlyUsage[]>): Promise<{ readonly total: Usage; readonly breakdown: Breakdown }> {
  let total = NO_USAGE;
  const breakdown = new Map<string, Map<string, Usage>>();
  for await (const some of rows) {
    total = sumUsage([total, ...some]);
    for (const row of some) {
      const connectors = breakdown.get(row.workloadId) ?? new Map<string, Usage>();
      breakdown.set(row.workloadId, connectors);
      connectors.set(row.connectorId, sumUsage([connectors.get(row.connectorId) ?? NO_USAGE, row]));
    }
  }
  return { total, breakdown };
}

/** A workload has no more connectors than the catalogue. */
function* membersOf(breakdown: Breakdown): Generator<readonly string[], void> {
  for (const part of inParts(breakdown)) {
    yield part.map(([id, connectors]) => {
      const usage = Object.fromEntries([...connectors].map(([name, used]) => [name, shown(used)]));
      return `${JSON.stringify(id)}:${JSON.stringify(usage)}`;
    });
  }
}

async function* csvParts(period: string, rows: AsyncIterable<readonly MonthlyUsage[]>): AsyncGenerator<string, void> {
  let before = csvLine(COLUMNS);
  for await (const some of rows) {
    yield before + some.map((row) => csvLine(cellsOf(period, row))).join('');
    before = '';
  }
  if (before !== '') yield before;
}

function shown({ requests, tokensIn, tokensOut, costPico }: Usage): unknown {
  return { requests: Number(requests), tokens_in: Number(tokensIn), tokens_out: Number(tokensOut), cost_usd: usdFromPico(costPico) };
}

function cellsOf(period: string, row: MonthlyUsage): readonly string[] {
  const { orgId, workloadId, connectorId, requests, tokensIn, tokensOut, costPico } = row;
  return [period, orgId, workloadId, connectorId, `${requests}`, `${tokensIn}`, `${tokensOut}`, usdFromPico(costPico)];
}
