import { usdFromPico } from '../../base/lib/money.ts';
import type { MonthlyUsage } from '../../services/usage-reports.ts';
import { NO_USAGE, sumUsage, type Usage } from '../../services/usage-sums.ts';
import { jsonParts } from '../http/json-parts.ts';
import { QueryMembers } from '../http/query-members.ts';
import type { Route } from '../http/route.ts';
import type { ReportRouteOptions } from './dashboard.ts';
import { reportPeriod } from './report-query.ts';

interface Asked {
  readonly org_id: string;
  readonly period: string;
}

/** Monthly reports of one org, which the admin token must name (specification, "Gateway admin API"; decisions 3.6, 8.12). */
export function reportRoutes({ reports, clock }: ReportRouteOptions): readonly Route[] {
  const asked = (parameters: URLSearchParams): Asked => {
    const query = new QueryMembers(parameters, ['org_id', 'period']);
    const org = query.id('org_id');
    if (query.value('org_id') === undefined) query.problem('org_id', 'must name the org');
    const period = reportPeriod(query, clock.now());
    query.check();
    return { org_id: org ?? '', period };
  };
  return [
    {
      method: 'GET',
      path: '/v1/reports/usage',
      auth: 'admin',
      summary: 'Requests and tokens of an org (`org_id`) in a month (`period=YYYY-MM`, default the current one), by workload.',
      handle: ({ query }) => {
        const head = asked(query);
        const workloads = byWorkload(reports.month(head.period, head.org_id));
        return { status: 200, parts: jsonParts(head, 'workloads', '[]', workloads), contentType: 'application/json' };
      },
    },
    {
      method: 'GET',
      path: '/v1/reports/spend',
      auth: 'admin',
      summary: 'Requests and cost of an org (`org_id`) in a month (`period=YYYY-MM`, default the current one), by provider.',
      handle: async ({ query }) => {
        const head = asked(query);
        const spend = await byConnector(reports.month(head.period, head.org_id));
        const total = usdFromPico(sumUsage(spend.values()).costPico);
        return { status: 200, json: { ...head, providers: [...spend].map(provider), total_cost_usd: total } };
      },
    },
  ];
}

/** Texts of the sums of an org's workloads, in their order: the rows of one come one behind the other. */
async function* byWorkload(rows: AsyncIterable<readonly MonthlyUsage[]>): AsyncGenerator<readonly string[], void> {
  let id: string | undefined;
  let sum = NO_USAGE;
  for await (const some of rows) {
    const complete: string[] = [];
    for (const row of some) {
      if (id !== undefined && id !== row.workloadId) {
        complete.push(JSON.stringify(workload([id, sum])));
        sum = NO_USAGE;
      }
      id = row.workloadId;
      sum = sumUsage([sum, row]);
    }
    yield complete;
  }
  if (id !== undefined) yield [JSON.stringify(workload([id, sum]))];
}

/**
 * Sums by connector, in the order of their ids. A provider is known by its connector (decision 8.7); what was refused before one was chosen went to none, and
 * cost nothing.
 */
async function byConnector(rows: AsyncIterable<readonly MonthlyUsage[]>): Promise<ReadonlyMap<string, Usage>> {
  const sums = new Map<string, Usage>();
  for await (const some of rows) {
    for (const row of some) {
      if (row.connectorId !== '') sums.set(row.connectorId, sumUsage([sums.get(row.connectorId) ?? NO_USAGE, row]));
    }
  }
  return new Map([...sums].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function workload([id, { requests, tokensIn, tokensOut }]: readonly [string, Usage]): unknown {
  return { workload_id: id, requests: Number(requests), tokens_in: Number(tokensIn), tokens_out: Number(tokensOut) };
}

function provider([id, { requests, costPico }]: readonly [string, Usage]): unknown {
  return { provider: id, requests: Number(requests), cost_usd: usdFromPico(costPico) };
}
