import { z } from 'zod';
import { timestamp } from '../../base/lib/clock.ts';
import { parseUsd, usdFromPico } from '../../base/lib/money.ts';
import { dayAfter } from '../../base/lib/time-zone.ts';
import type { LimitStatus } from '../../services/money/budgets.ts';
import { requestBuckets, WINDOWS, type Window } from '../../services/money/request-buckets.ts';
import { usageInQuarters } from '../../services/reports/usage-breakdown.ts';
import { APPROVAL } from '../approval-operations.ts';
import { countsOf, DECISION_COUNT, usageAsked } from '../dashboard-operations.ts';
import { ORG_DOMAIN } from '../discovery-operations.ts';
import { HEALTH, healthOf } from '../health-operations.ts';
import { choice, optional } from '../members.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { timeZone, zoneOf } from '../report-query.ts';
import type { OperationServices } from '../services.ts';
import { count, time, usd } from '../shapes.ts';
import { FORECAST, shownForecast } from '../shown-forecast.ts';
import { shownTotalDoubts, TOTAL_DOUBTS } from '../shown-usage.ts';
import { STOP } from '../stop-operations.ts';
import { orgOf } from './org-of.ts';
import { BUCKET, shownBucket } from './overview-operations.ts';
import { LISTED_RECORD, listed } from './record-list-operations.ts';

const WINDOW_NAMES = Object.keys(WINDOWS) as readonly Window[];
/** Of each list: the page of the subject has them all. */
const MOST = 5;
const LATEST = 10;

const TODAY = z.object({
  day: z.string().meta({ description: 'The day that goes on in `tz`', examples: ['2026-11-22'] }),
  tz: z.string(),
  cost_usd: usd,
  requests: count,
  ...TOTAL_DOUBTS,
  cap: z
    .object({ limit_id: z.string(), effective_limit_usd: usd, spent_usd: usd })
    .optional()
    .meta({ description: 'The daily cap of the whole org of which the least is left, in its own day (UTC); absent: it has none' }),
  forecast: FORECAST.meta({ description: 'What the day comes to, and the cap of the org that refuses first' }),
});

const NOW = z.object({
  org_id: z.string(),
  at: time,
  window: z.enum(WINDOW_NAMES),
  bucket: z.enum(['5m', '30m', '1h']),
  buckets: z.array(BUCKET),
  decisions: z.array(DECISION_COUNT).meta({ description: 'In the window; those that were not made are left out' }),
  today: TODAY,
  waiting: z.object({
    approvals: z.array(APPROVAL).meta({ description: `Requests that wait for a person, the newest first; at most ${MOST}` }),
    more: z.boolean().meta({ description: 'More of them wait' }),
    in_quarantine: count.meta({ description: `Callers that are in quarantine; ${MOST} stands for as many or more` }),
  }),
  unmanaged_domains: z
    .array(ORG_DOMAIN)
    .meta({ description: `AI that is used and that no connector covers, the last seen first; at most ${MOST}` }),
  stops: z.array(STOP),
  nodes: count,
  health: HEALTH,
  latest: z.array(LISTED_RECORD).meta({ description: `The last ${LATEST} records` }),
});

/** What a person asks first: is it working, and does anybody wait for me (decision 10.20). */
export const NOW_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.overview.read',
    method: 'GET',
    path: '/mgmt/v1/overview',
    scope: 'read',
    summary:
      'All that a first look asks, in one answer: calls over time, spend of today and its forecast, what waits, health, the latest calls.',
    annotations: READS,
    input: { query: { schema: () => z.strictObject({ window: choice(WINDOW_NAMES).optional(), tz: timeZone }) } },
    output: { status: 200, schema: NOW },
    handle: async ({ principal, query }, services) => {
      const [orgId, now] = [orgOf(principal), services.reports.clock.now()];
      const window = query.window ?? '24h';
      const [buckets, usage, today, waiting, latest, nodes] = await Promise.all([
        requestBuckets(services.store, orgId, window, now),
        usageAsked(orgId, { from: timestamp(now - WINDOWS[window].lengthMs) }, services),
        todayOf(orgId, query.tz, services, now),
        waitingOf(orgId, services),
        services.store.records({ org_id: orgId, newestFirst: true, limit: LATEST }),
        services.nodes.list(),
      ]);
      return {
        json: {
          org_id: orgId,
          at: timestamp(now),
          window,
          bucket: WINDOWS[window].bucket,
          buckets: buckets.map(shownBucket),
          decisions: countsOf(usage),
          today,
          waiting,
          unmanaged_domains: unmanagedOf(orgId, services),
          stops: [...services.stops.list(orgId)],
          nodes: nodes.length,
          health: healthOf(services.health),
          latest: latest.map(listed),
        },
      };
    },
  }),
];

async function todayOf(
  orgId: string,
  tz: string | undefined,
  { store, budgets }: OperationServices,
  now: number,
): Promise<z.output<typeof TODAY>> {
  const zone = zoneOf(tz);
  const day = zone.dayOf(now);
  const [start, end] = [zone.startOf(day), zone.startOf(dayAfter(day))];
  const usage = await usageInQuarters(store, orgId, start, end);
  const limits = budgets.service.list(orgId);
  return {
    day,
    tz: zone.name,
    cost_usd: usdFromPico(usage.costPico),
    requests: Number(usage.requests),
    ...shownTotalDoubts(usage),
    ...optional('cap', dailyCapOf(limits)),
    forecast: shownForecast({ start, end, spentPico: usage.costPico }, limits, now),
  };
}

function dailyCapOf(limits: readonly LimitStatus[]): z.output<typeof TODAY>['cap'] {
  const caps = limits.filter(({ limit }) => limit.scope === 'org' && limit.period === 'daily' && limit.actions.includes('cap'));
  const [first] = caps.toSorted((a, b) => (leftOf(a) < leftOf(b) ? -1 : 1));
  return first && { limit_id: first.limit.limit_id, effective_limit_usd: first.effectiveUsd, spent_usd: first.spentUsd };
}

function leftOf({ effectiveUsd, spentUsd }: LimitStatus): bigint {
  return (parseUsd(effectiveUsd) ?? 0n) - (parseUsd(spentUsd) ?? 0n);
}

async function waitingOf(orgId: string, { approvals, quarantines }: OperationServices) {
  const [pending, held] = await Promise.all([
    approvals.page({ approvalId: undefined, orgId, workloadId: undefined, status: 'pending' }, { limit: MOST, after: undefined }),
    quarantines.page({ orgId, workloadId: undefined, active: true }, { limit: MOST, after: undefined }),
  ]);
  return { approvals: pending.items, more: pending.next !== undefined, in_quarantine: held.items.length };
}

function unmanagedOf(orgId: string, { discovery }: OperationServices) {
  const found = discovery?.listOf(orgId, { managed: false, ai: true, vendor: undefined, workloadId: undefined }) ?? [];
  return found.toSorted((a, b) => (a.last_seen < b.last_seen ? 1 : -1)).slice(0, MOST);
}
