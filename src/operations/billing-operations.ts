import { z } from 'zod';
import { usdFromPico } from '../base/lib/money.ts';
import { REPORT_BOUNDS } from '../base/model/work-bounds.ts';
import { OTHER_WORKLOADS } from '../services/reports/named-sums.ts';
import type { MonthlyUsage } from '../services/reports/usage-reports.ts';
import { NO_USAGE, sumUsage, type UsageSum } from '../services/reports/usage-sums.ts';
import { csvLine } from './csv-line.ts';
import { inParts, jsonParts } from './json-parts.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import { PERIOD_QUERY, reportPeriod } from './report-query.ts';
import { count, month, usd } from './shapes.ts';
import { DOUBTS, shownDoubts, shownTotalDoubts, TOTAL_DOUBTS } from './shown-usage.ts';

const COLUMNS = ['period', 'org_id', 'workload_id', 'connector_id', 'request_count', 'tokens_in', 'tokens_out', 'cost_usd'];
const query = { schema: () => PERIOD_QUERY };

const USAGE = z.object({ requests: count, tokens_in: count, tokens_out: count, cost_usd: usd, ...DOUBTS });

/** Beyond so many they are one row. */
const MAX_WORKLOADS = REPORT_BOUNDS.billNames.one;

/** Usage by connector, by workload. */
type Breakdown = ReadonlyMap<string, ReadonlyMap<string, UsageSum>>;

/** Monthly billing over all orgs (specification, "Gateway admin API"; decision 8.13). */
export const BILLING_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'billing.summary',
    method: 'GET',
    path: '/v1/admin/billing/summary',
    scope: 'admin',
    summary: 'Requests and cost of a month (`period=YYYY-MM`, default the current one), by workload and connector.',
    annotations: READS,
    input: { query },
    output: {
      status: 200,
      schema: z.object({
        period: month,
        total_requests: count,
        total_cost_usd: usd,
        ...TOTAL_DOUBTS,
        breakdown: z.record(z.string(), z.record(z.string(), USAGE)).meta({ description: 'By workload, by connector' }),
      }),
    },
    handle: async ({ query: asked }, { reports: { reports, clock } }) => {
      const period = reportPeriod(asked, clock.now());
      const { total, breakdown } = await summed(reports.month(period));
      const sums = { total_requests: Number(total.requests), total_cost_usd: usdFromPico(total.costPico) };
      const head = { period, ...sums, ...shownTotalDoubts(total) };
      return { parts: jsonParts(head, 'breakdown', '{}', membersOf(breakdown)) };
    },
  }),
  operation({
    id: 'billing.export',
    method: 'GET',
    path: '/v1/admin/billing/export.csv',
    scope: 'admin',
    summary: 'The same month as CSV: one line for each org, workload and connector.',
    annotations: READS,
    input: { query },
    output: { status: 200, contentType: 'text/csv; charset=utf-8; header=present' },
    handle: ({ query: asked }, { reports: { reports, clock } }) => {
      const period = reportPeriod(asked, clock.now());
      return {
        parts: csvParts(period, reports.month(period)),
        headers: ['Content-Disposition', `attachment; filename="billing-${period}.csv"`],
      };
    },
  }),
];

/** Workloads that have the same id in several orgs are added up. */
async function summed(rows: AsyncIterable<readonly MonthlyUsage[]>): Promise<{ readonly total: UsageSum; readonly breakdown: Breakdown }> {
  let total = NO_USAGE;
  const breakdown = new Map<string, Map<string, UsageSum>>();
  for await (const some of rows) {
    total = sumUsage([total, ...some]);
    for (const row of some) {
      const name = breakdown.has(row.workloadId) || breakdown.size < MAX_WORKLOADS ? row.workloadId : OTHER_WORKLOADS;
      const connectors = breakdown.get(name) ?? new Map<string, UsageSum>();
      breakdown.set(name, connectors);
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

function shown(sum: UsageSum): unknown {
  const { requests, tokensIn, tokensOut, costPico } = sum;
  const counts = { requests: Number(requests), tokens_in: Number(tokensIn), tokens_out: Number(tokensOut) };
  return { ...counts, cost_usd: usdFromPico(costPico), ...shownDoubts(sum) };
}

function cellsOf(period: string, row: MonthlyUsage): readonly string[] {
  const { orgId, workloadId, connectorId, requests, tokensIn, tokensOut, costPico } = row;
  return [period, orgId, workloadId, connectorId, `${requests}`, `${tokensIn}`, `${tokensOut}`, usdFromPico(costPico)];
}
