import { z } from 'zod';
import { usdFromPico } from '../base/lib/money.ts';
import { NamedSums, OTHER_CONNECTORS } from '../services/reports/named-sums.ts';
import type { MonthlyUsage } from '../services/reports/usage-reports.ts';
import { NO_USAGE, sumUsage, type UsageSum } from '../services/reports/usage-sums.ts';
import { jsonParts } from './json-parts.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import { ORG_PERIOD_QUERY, reportOrg, reportPeriod } from './report-query.ts';
import { count, month, usd } from './shapes.ts';
import { DOUBTS, shownDoubts } from './shown-usage.ts';

const query = { schema: () => ORG_PERIOD_QUERY };

const USAGE = z.object({
  org_id: z.string(),
  period: month,
  workloads: z.array(z.object({ workload_id: z.string(), requests: count, tokens_in: count, tokens_out: count })),
});

const SPEND = z.object({
  org_id: z.string(),
  period: month,
  providers: z.array(z.object({ provider: z.string(), requests: count, cost_usd: usd, ...DOUBTS })),
  total_cost_usd: usd,
});

/**
 * Monthly reports of one org: that of the API key, or the one that the admin token names (specification, "Gateway admin
 * API"; decisions 3.6, 8.12).
 */
export const REPORT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'reports.usage',
    method: 'GET',
    path: '/v1/reports/usage',
    scope: 'org',
    summary:
      'Requests and tokens of an org (`org_id`, with an API key its own) in a month (`period=YYYY-MM`, default the current one), by workload.',
    annotations: READS,
    input: { query },
    output: { status: 200, schema: USAGE },
    handle: ({ principal, query: asked }, { reports: { reports, clock } }) => {
      const head = { org_id: reportOrg(asked, principal), period: reportPeriod(asked, clock.now()) };
      return { parts: jsonParts(head, 'workloads', '[]', byWorkload(reports.month(head.period, head.org_id))) };
    },
  }),
  operation({
    id: 'reports.spend',
    method: 'GET',
    path: '/v1/reports/spend',
    scope: 'org',
    summary:
      'Requests and cost of an org (`org_id`, with an API key its own) in a month (`period=YYYY-MM`, default the current one), by provider.',
    annotations: READS,
    input: { query },
    output: { status: 200, schema: SPEND },
    handle: async ({ principal, query: asked }, { reports: { reports, clock } }) => {
      const head = { org_id: reportOrg(asked, principal), period: reportPeriod(asked, clock.now()) };
      const spend = await byConnector(reports.month(head.period, head.org_id));
      const total = usdFromPico(sumUsage(spend.values()).costPico);
      return { json: { ...head, providers: [...spend].map(provider), total_cost_usd: total } };
    },
  }),
];

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
 * Sums by connector, in the order of their ids. A provider is known by its connector (decision 8.7); what was refused
 * before one was chosen went to none, and cost nothing.
 */
async function byConnector(rows: AsyncIterable<readonly MonthlyUsage[]>): Promise<ReadonlyMap<string, UsageSum>> {
  const sums = new NamedSums(OTHER_CONNECTORS);
  for await (const some of rows) for (const row of some) if (row.connectorId !== '') sums.add(row.connectorId, row);
  return sums.shown();
}

function workload([id, { requests, tokensIn, tokensOut }]: readonly [string, UsageSum]) {
  return { workload_id: id, requests: Number(requests), tokens_in: Number(tokensIn), tokens_out: Number(tokensOut) };
}

function provider([id, sum]: readonly [string, UsageSum]) {
  return { provider: id, requests: Number(sum.requests), cost_usd: usdFromPico(sum.costPico), ...shownDoubts(sum) };
}
