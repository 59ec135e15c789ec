import { usdFromPico } from '../../base/lib/money.ts';
import { type MonthlyUsage, NO_USAGE, sumUsage, type Usage } from '../../services/usage-reports.ts';
import { QueryMembers } from '../http/query-members.ts';
import type { Route } from '../http/route.ts';
import type { ReportRouteOptions } from './dashboard.ts';
import { reportPeriod } from './report-query.ts';

interface Asked {
  readonly org_id: string;
  readonly period: string;
  readonly rows: readonly MonthlyUsage[];
}

/** Monthly reports of one org, which the admin token must name (specification, "Gateway admin API"; decisions 3.6, 8.12). */
export function reportRoutes({ reports, clock }: ReportRouteOptions): readonly Route[] {
  const ask = async (parameters: URLSearchParams): Promise<Asked> => {
    const query = new QueryMembers(parameters, ['org_id', 'period']);
    const org = query.id('org_id');
    if (query.value('org_id') === undefined) query.problem('org_id', 'must name the org');
    const period = reportPeriod(query, clock.now());
    query.check();
    return { org_id: org ?? '', period, rows: await reports.month(period, org) };
  };
  return [
    {
      method: 'GET',
      path: '/v1/reports/usage',
      auth: 'admin',
      summary: 'Requests and tokens of an org (`org_id`) in a month (`period=YYYY-MM`, default the current one), by workload.',
      handle: async ({ query }) => {
        const { rows, ...asked } = await ask(query);
        return { status: 200, json: { ...asked, workloads: [...sumBy(rows, 'workloadId')].map(workload) } };
      },
    },
    {
      method: 'GET',
      path: '/v1/reports/spend',
      auth: 'admin',
      summary: 'Requests and cost of an org (`org_id`) in a month (`period=YYYY-MM`, default the current one), by provider.',
      handle: async ({ query }) => {
        const { rows, ...asked } = await ask(query);
        // A provider is known by its connector (decision 8.7); what was refused before one was chosen went to none, and cost nothing.
        const routed = rows.filter(({ connectorId }) => connectorId !== '');
        const total = usdFromPico(sumUsage(routed).costPico);
        return { status: 200, json: { ...asked, providers: [...sumBy(routed, 'connectorId')].map(provider), total_cost_usd: total } };
      },
    },
  ];
}

/** Sums of the rows that have the same id, in the order of the ids. */
function sumBy(rows: readonly MonthlyUsage[], member: 'workloadId' | 'connectorId'): ReadonlyMap<string, Usage> {
  const sums = new Map<string, Usage>();
  for (const row of rows) sums.set(row[member], sumUsage([sums.get(row[member]) ?? NO_USAGE, row]));
  return new Map([...sums].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function workload([id, { requests, tokensIn, tokensOut }]: readonly [string, Usage]): unknown {
  return { workload_id: id, requests: Number(requests), tokens_in: Number(tokensIn), tokens_out: Number(tokensOut) };
}

function provider([id, { requests, costPico }]: readonly [string, Usage]): unknown {
  return { provider: id, requests: Number(requests), cost_usd: usdFromPico(costPico) };
}
