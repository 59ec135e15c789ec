import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import { permits, type RecordedDecision, severityOf } from '../../base/model/decision.ts';
import type { UsageBetween, UsageReports } from '../../services/usage-reports.ts';
import { sumUsage } from '../../services/usage-sums.ts';
import { QueryMembers } from '../http/query-members.ts';
import type { Route } from '../http/route.ts';
import { reportRange } from './report-query.ts';

export interface ReportRouteOptions {
  readonly reports: UsageReports;
  readonly clock: Clock;
  /** The org of a dashboard query that names none. */
  readonly defaultOrg: string;
}

interface Asked extends UsageBetween {
  readonly orgId: string;
}

/** The dashboard (specification, "Gateway admin API"; decisions 8.10, 8.13). */
export function dashboardRoutes({ reports, clock, defaultOrg }: ReportRouteOptions): readonly Route[] {
  const ask = async (parameters: URLSearchParams): Promise<Asked> => {
    const query = new QueryMembers(parameters, ['org_id', 'from', 'to']);
    const orgId = query.id('org_id') ?? defaultOrg;
    const now = clock.now();
    const { from, to } = reportRange(query, now);
    query.check();
    return { orgId, ...(await reports.byDecision(orgId, from, to, now)) };
  };
  return [
    {
      method: 'GET',
      path: '/v1/dashboard/summary',
      auth: 'admin',
      summary: 'Requests, tokens and cost of an org; `org_id`, `from`, `to` (default: the last 24 hours).',
      handle: async ({ query }) => ({ status: 200, json: summaryOf(await ask(query)) }),
    },
    {
      method: 'GET',
      path: '/v1/dashboard/decisions',
      auth: 'admin',
      summary: 'How often each decision was made; `org_id`, `from`, `to` as for the summary.',
      handle: async ({ query }) => ({ status: 200, json: countsOf(await ask(query)) }),
    },
  ];
}

function summaryOf({ orgId, from, to, decisions }: Asked): unknown {
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
function countsOf({ decisions }: Asked): unknown {
  const rank = (decision: RecordedDecision) => (decision === 'error' ? Number.POSITIVE_INFINITY : severityOf(decision));
  return [...decisions].sort(([a], [b]) => rank(a) - rank(b)).map(([decision, { requests }]) => ({ decision, count: Number(requests) }));
}
