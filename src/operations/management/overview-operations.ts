import { z } from 'zod';
import { timestamp } from '../../base/lib/clock.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import { type RequestBucket, requestBuckets, WINDOWS, type Window } from '../../services/money/request-buckets.ts';
import { sumUsage } from '../../services/reports/usage-sums.ts';
import { allowedOf, countsOf, DECISION_COUNT, usageAsked } from '../dashboard-operations.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { RANGE_QUERY } from '../report-query.ts';
import { count, time, usd } from '../shapes.ts';
import { shownTotalDoubts, TOTAL_DOUBTS } from '../shown-usage.ts';
import { orgOf } from './org-of.ts';

const WINDOW_NAMES = Object.keys(WINDOWS) as readonly Window[];
const DEFAULT_WINDOW: Window = '24h';

/**
 * The one parameter of which a value that is not known is no mistake (specification, "Management API"; decision 8.10).
 */
const window = z.string().optional().meta({ enum: WINDOW_NAMES, default: DEFAULT_WINDOW, description: 'Any other value counts as `1h`' });

export const BUCKET: z.ZodObject<{ time: typeof time; allow_count: typeof count; deny_count: typeof count }> = z.object({
  time: time.meta({ description: 'Its beginning' }),
  allow_count: count,
  deny_count: count,
});

export function shownBucket({ at, allowed, denied }: RequestBucket): z.output<typeof BUCKET> {
  return { time: timestamp(at), allow_count: Number(allowed), deny_count: Number(denied) };
}

const DASHBOARD = z.object({
  org_id: z.string(),
  from: time,
  to: time,
  total_requests: count,
  allow_count: count,
  deny_count: count,
  approval_count: count,
  quarantine_count: count,
  total_cost_usd: usd,
  ...TOTAL_DOUBTS,
});

/** What goes on in an org (specification, "Management API"; decisions 8.10, 8.13, 8.14). */
export const OVERVIEW_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.spend.read',
    method: 'GET',
    path: '/mgmt/v1/spend',
    scope: 'read',
    summary: 'How many requests were allowed and denied, bucket by bucket. Dollars are in the cost report.',
    annotations: READS,
    tools: [{ name: 'get_spend', title: 'Get request counts over time' }],
    input: { query: { schema: () => z.strictObject({ window }) } },
    output: {
      status: 200,
      schema: z.object({ org_id: z.string(), from: time, to: time, bucket: z.enum(['5m', '30m', '1h']), buckets: z.array(BUCKET) }),
    },
    handle: async ({ principal, query }, { store, reports: { clock } }) => {
      const [orgId, now] = [orgOf(principal), clock.now()];
      const asked = (query.window ?? DEFAULT_WINDOW).toLowerCase();
      const known = WINDOW_NAMES.find((name) => name === asked) ?? '1h';
      const buckets = await requestBuckets(store, orgId, known, now);
      return {
        json: {
          org_id: orgId,
          from: timestamp(buckets[0]?.at ?? now),
          to: timestamp(now),
          bucket: WINDOWS[known].bucket,
          buckets: buckets.map(shownBucket),
        },
      };
    },
  }),
  operation({
    id: 'mgmt.dashboard.read',
    method: 'GET',
    path: '/mgmt/v1/dashboard',
    scope: 'read',
    summary: 'Requests allowed, denied, held for approval and quarantined, and their cost (default: the last 24 hours).',
    annotations: READS,
    tools: [{ name: 'get_dashboard', title: 'Get dashboard' }],
    input: { query: RANGE_QUERY },
    output: { status: 200, schema: DASHBOARD },
    handle: async ({ principal, query }, services) => {
      const { orgId, from, to, decisions } = await usageAsked(orgOf(principal), query, services);
      const total = sumUsage(decisions.values());
      const of = (decision: 'deny' | 'require_approval' | 'quarantine') => Number(decisions.get(decision)?.requests ?? 0n);
      return {
        json: {
          org_id: orgId,
          from: timestamp(from),
          to: timestamp(to),
          total_requests: Number(total.requests),
          allow_count: allowedOf({ decisions }),
          deny_count: of('deny'),
          approval_count: of('require_approval'),
          quarantine_count: of('quarantine'),
          total_cost_usd: usdFromPico(total.costPico),
          ...shownTotalDoubts(total),
        },
      };
    },
  }),
  operation({
    id: 'mgmt.dashboard.decisions',
    method: 'GET',
    path: '/mgmt/v1/dashboard/decisions',
    scope: 'read',
    summary: 'How often each decision was made in the org.',
    annotations: READS,
    tools: [{ name: 'list_dashboard_decisions', title: 'List decisions with counts' }],
    input: { query: RANGE_QUERY },
    output: { status: 200, schema: z.object({ decisions: z.array(DECISION_COUNT) }) },
    handle: async ({ principal, query }, services) => {
      return { json: { decisions: countsOf(await usageAsked(orgOf(principal), query, services)) } };
    },
  }),
];
