import { z } from 'zod';
import { timestamp } from '../../base/lib/clock.ts';
import { AttributionReports } from '../../services/reports/attribution-reports.ts';
import type { UsageSum } from '../../services/reports/usage-sums.ts';
import { ALSO_WHEN_WRONG } from '../members.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { moment, timeOf, timeZone, zoneOf } from '../report-query.ts';
import type { OperationServices } from '../services.ts';
import { count, time, usd } from '../shapes.ts';
import { DOUBTS, shownDoubts } from '../shown-usage.ts';
import { shown } from './billing-summary-operations.ts';
import { orgOf } from './org-of.ts';

const USAGE = z.object({ requests: count, tokens_in: count, tokens_out: count, cost_usd: usd, ...DOUBTS });
const BY_NAME = z.record(z.string(), USAGE);
const FROM_RULE = 'must be a time that is over, such as 2026-11-22T05:00:00Z, or a day such as 2026-11-22';

/**
 * `from` alone: the range is open, up to now (specification, "Management API"). Without it the current month is meant.
 */
function fromQuery({ reports }: OperationServices) {
  return z.strictObject({ from: moment, tz: timeZone }).superRefine((query, { addIssue }) => {
    const [now, from] = [reports.clock.now(), startOf(query, reports.clock.now())];
    if (from === undefined || from > now) addIssue({ code: 'custom', path: ['from'], message: FROM_RULE });
  }, ALSO_WHEN_WRONG);
}

type FromQuery = z.output<ReturnType<typeof fromQuery>>;

function startOf({ from, tz }: FromQuery, now: number): number | undefined {
  const zone = zoneOf(tz);
  return from === undefined ? zone.startOf(`${zone.dayOf(now).slice(0, 7)}-01`) : timeOf(from, 0, zone);
}

const input = { query: { schema: fromQuery } };

/** Who was charged (specification, "Management API"; decision 6.15). */
export const ATTRIBUTION_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.attribution.summary',
    method: 'GET',
    path: '/mgmt/v1/attribution/summary',
    scope: 'read',
    summary: 'Requests, tokens and cost by project, customer, account and caller, from `from` (default: this month) up to now.',
    annotations: READS,
    tools: [{ name: 'get_attribution_summary', title: 'Get attribution summary' }],
    input,
    output: {
      status: 200,
      schema: z.object({
        org_id: z.string(),
        from: time,
        to: time,
        by_project: BY_NAME,
        by_customer: BY_NAME,
        by_account: BY_NAME,
        by_caller: BY_NAME,
        unattributed: z
          .object({ project: USAGE, customer: USAGE, account: USAGE, caller: USAGE })
          .meta({ description: 'What named no project, no customer, no account, no caller' }),
      }),
    },
    handle: async ({ principal, query }, services) => {
      const { orgId, now, from, reports } = asked(orgOf(principal), query, services);
      const summary = await reports.summary(orgId, from, now);
      const { project, customer, account, caller } = summary.unattributed;
      return {
        json: {
          org_id: orgId,
          from: timestamp(summary.from),
          to: timestamp(now),
          by_project: byName(summary.by.project),
          by_customer: byName(summary.by.customer),
          by_account: byName(summary.by.account),
          by_caller: byName(summary.by.caller),
          unattributed: { project: shown(project), customer: shown(customer), account: shown(account), caller: shown(caller) },
        },
      };
    },
  }),
  operation({
    id: 'mgmt.attribution.labels',
    method: 'GET',
    path: '/mgmt/v1/attribution/labels',
    scope: 'read',
    summary: 'Keys of the labels that calls had since `from` (default: this month), with how many values and requests.',
    annotations: READS,
    tools: [{ name: 'list_attribution_labels', title: 'List attribution labels' }],
    input,
    output: { status: 200, schema: z.object({ data: z.array(z.object({ key: z.string(), values: count, requests: count })) }) },
    handle: async ({ principal, query }, services) => {
      const { orgId, now, from, reports } = asked(orgOf(principal), query, services);
      const labels = await reports.labels(orgId, from, now);
      return { json: { data: labels.map(({ key, values, requests }) => ({ key, values, requests: Number(requests) })) } };
    },
  }),
  operation({
    id: 'mgmt.attribution.label',
    method: 'GET',
    path: '/mgmt/v1/attribution/labels/{key}',
    scope: 'read',
    summary: 'Values of one label with their requests and cost, since `from` (default: this month).',
    annotations: READS,
    tools: [{ name: 'get_attribution_label', title: 'Get attribution label', ids: { key: 'label_key' } }],
    input: { ...input, params: z.object({ key: z.string().meta({ description: 'Key of the label' }) }) },
    output: {
      status: 200,
      schema: z.object({ key: z.string(), data: z.array(z.object({ value: z.string(), requests: count, cost_usd: usd, ...DOUBTS })) }),
    },
    handle: async ({ principal, query, params: { key } }, services) => {
      const { orgId, now, from, reports } = asked(orgOf(principal), query, services);
      const values = await reports.label(orgId, key, from, now);
      const data = [...values].map(([value, usage]) => ({
        value,
        requests: Number(usage.requests),
        cost_usd: shown(usage).cost_usd,
        ...shownDoubts(usage),
      }));
      return { json: { key, data } };
    },
  }),
];

function asked(orgId: string, query: FromQuery, { store, reports: { clock } }: OperationServices) {
  const now = clock.now();
  return { orgId, now, from: startOf(query, now) ?? now, reports: new AttributionReports(store) };
}

function byName(sums: ReadonlyMap<string, UsageSum>) {
  return Object.fromEntries([...sums].map(([name, usage]) => [name, shown(usage)]));
}
