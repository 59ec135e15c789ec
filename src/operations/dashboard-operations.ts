import { z } from 'zod';
import { timestamp } from '../base/lib/clock.ts';
import { usdFromPico } from '../base/lib/money.ts';
import { DECISIONS, permits, type RecordedDecision, severityOf } from '../base/model/decision.ts';
import type { UsageBetween } from '../services/usage-reports.ts';
import { sumUsage } from '../services/usage-sums.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import { RANGE_QUERY, type RangeQuery, reportRange } from './report-query.ts';
import type { OperationServices } from './services.ts';
import { count, time, usd } from './shapes.ts';

interface Answered extends UsageBetween {
  readonly orgId: string;
}

async function ask(query: RangeQuery, { reports: { reports, clock, defaultOrg } }: OperationServices): Promise<Answered> {
  const orgId = query.org_id ?? defaultOrg;
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
});

/** The dashboard (specification, "Gateway admin API"; decisions 8.10, 8.13). */
export const DASHBOARD_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'dashboard.summary',
    method: 'GET',
    path: '/v1/dashboard/summary',
    scope: 'admin',
    summary: 'Requests, tokens and cost of an org; `org_id`, `from`, `to` (default: the last 24 hours).',
    annotations: READS,
    input: { query: RANGE_QUERY },
    output: { status: 200, schema: SUMMARY },
    handle: async ({ query }, services) => ({ json: summaryOf(await ask(query, services)) }),
  }),
  operation({
    id: 'dashboard.decisions',
    method: 'GET',
    path: '/v1/dashboard/decisions',
    scope: 'admin',
    summary: 'How often each decision was made; `org_id`, `from`, `to` as for the summary.',
    annotations: READS,
    input: { query: RANGE_QUERY },
    output: { status: 200, schema: z.array(z.object({ decision: z.enum([...DECISIONS, 'error']), count })) },
    handle: async ({ query }, services) => ({ json: countsOf(await ask(query, services)) }),
  }),
];

function summaryOf({ orgId, from, to, decisions }: Answered) {
  const total = sumUsage(decisions.values());
  const allowed = [...decisions].filter(([decision]) => decision !== 'error' && permits(decision)).map(([, usage]) => usage);
  return {
    org_id: orgId,
    from: timestamp(from),
    to: timestamp(to),
    total_requests: Number(total.requests),
    total_allowed: Number(sumUsage(allowed).requests),
    total_denied: Number(decisions.get('deny')?.requests ?? 0n),
    total_tokens_in: Number(total.tokensIn),
    total_tokens_out: Number(total.tokensOut),
    total_cost_usd: usdFromPico(total.costPico),
  };
}

/** From the mildest decision to the most severe, calls that failed last. */
function countsOf({ decisions }: Answered) {
  const rank = (decision: RecordedDecision) => (decision === 'error' ? Number.POSITIVE_INFINITY : severityOf(decision));
  return [...decisions].sort(([a], [b]) => rank(a) - rank(b)).map(([decision, { requests }]) => ({ decision, count: Number(requests) }));
}
