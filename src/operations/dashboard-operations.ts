import { z } from 'zod';
import { timestamp } from '../base/lib/clock.ts';
import { usdFromPico } from '../base/lib/money.ts';
import { DECISIONS, permits, type RecordedDecision, severityOf } from '../base/model/reason-codes.ts';
import type { UsageBetween } from '../services/reports/usage-reports.ts';
import { sumUsage } from '../services/reports/usage-sums.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import { ORG_RANGE_QUERY, type RangeQuery, reportRange } from './report-query.ts';
import type { OperationServices } from './services.ts';
import { count, time, usd } from './shapes.ts';
import { shownTotalDoubts, TOTAL_DOUBTS } from './shown-usage.ts';

export interface DecisionUsage extends UsageBetween {
  readonly orgId: string;
}

/** What an org used in the range of a query, by decision. */
export async function usageAsked(
  orgId: string,
  query: RangeQuery,
  { reports: { reports, clock } }: OperationServices,
): Promise<DecisionUsage> {
  const now = clock.now();
  const { from, to } = reportRange(query, now);
  return { orgId, ...(await reports.byDecision(orgId, from, to, now)) };
}

const SUMMARY = z.object({
  org_id: z.string(),
  from: time,
  to: time,
  total_requests: count,
  total_allowed: count,
  total_denied: count,
  total_tokens_in: count,
  total_tokens_out: count,
  total_cost_usd: usd,
  ...TOTAL_DOUBTS,
});

/** How often one decision was made. */
export const DECISION_COUNT: z.ZodObject<{ decision: z.ZodEnum<Record<RecordedDecision, RecordedDecision>>; count: typeof count }> =
  z.object({
    decision: z.enum([...DECISIONS, 'error']),
    count,
  });

/** The dashboard (specification, "Gateway admin API"; decisions 8.10, 8.13). */
export const DASHBOARD_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'dashboard.summary',
    method: 'GET',
    path: '/v1/dashboard/summary',
    scope: 'admin',
    summary: 'Requests, tokens and cost of an org; `org_id`, `from`, `to` (default: the last 24 hours), `tz`.',
    annotations: READS,
    input: { query: ORG_RANGE_QUERY },
    output: { status: 200, schema: SUMMARY },
    handle: async ({ query: { org_id: named, ...query } }, services) => {
      return { json: summaryOf(await usageAsked(named ?? services.reports.defaultOrg, query, services)) };
    },
  }),
  operation({
    id: 'dashboard.decisions',
    method: 'GET',
    path: '/v1/dashboard/decisions',
    scope: 'admin',
    summary: 'How often each decision was made; `org_id`, `from`, `to`, `tz` as for the summary.',
    annotations: READS,
    input: { query: ORG_RANGE_QUERY },
    output: { status: 200, schema: z.array(DECISION_COUNT) },
    handle: async ({ query: { org_id: named, ...query } }, services) => {
      return { json: countsOf(await usageAsked(named ?? services.reports.defaultOrg, query, services)) };
    },
  }),
];

function summaryOf({ orgId, from, to, decisions }: DecisionUsage) {
  const total = sumUsage(decisions.values());
  return {
    org_id: orgId,
    from: timestamp(from),
    to: timestamp(to),
    total_requests: Number(total.requests),
    total_allowed: allowedOf({ decisions }),
    total_denied: Number(decisions.get('deny')?.requests ?? 0n),
    total_tokens_in: Number(total.tokensIn),
    total_tokens_out: Number(total.tokensOut),
    total_cost_usd: usdFromPico(total.costPico),
    ...shownTotalDoubts(total),
  };
}

/** What policy let run (decision 8.13). */
export function allowedOf({ decisions }: Pick<DecisionUsage, 'decisions'>): number {
  const allowed = [...decisions].filter(([decision]) => decision !== 'error' && permits(decision)).map(([, usage]) => usage);
  return Number(sumUsage(allowed).requests);
}

/** From the mildest decision to the most severe, calls that failed last. */
export function countsOf({ decisions }: Pick<DecisionUsage, 'decisions'>): { decision: RecordedDecision; count: number }[] {
  const rank = (decision: RecordedDecision) => (decision === 'error' ? Number.POSITIVE_INFINITY : severityOf(decision));
  return [...decisions].sort(([a], [b]) => rank(a) - rank(b)).map(([decision, { requests }]) => ({ decision, count: Number(requests) }));
}
