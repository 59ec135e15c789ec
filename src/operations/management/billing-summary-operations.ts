import { z } from 'zod';
import { parseDate } from '../../base/lib/clock.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import { dayAfter } from '../../base/lib/time-zone.ts';
import { type UsageBreakdown, usageOnDays } from '../../services/reports/usage-breakdown.ts';
import type { UsageSum } from '../../services/reports/usage-sums.ts';
import { ALSO_WHEN_WRONG } from '../members.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { timeZone, zoneOf } from '../report-query.ts';
import { count, usd } from '../shapes.ts';
import { DOUBTS, shownDoubts, shownTotalDoubts, TOTAL_DOUBTS } from '../shown-usage.ts';
import { orgOf } from './org-of.ts';

const DAY_RULE = 'must be a day such as 2026-11-22';
/** Bounds the work of one answer. */
const MAX_DAYS = 3_660;
const DAY_MS = 86_400_000;

const day = z
  .string()
  .refine((text) => parseDate(text) !== undefined && text >= '1970-01-02' && text <= '9999-12-29', DAY_RULE)
  .optional()
  .meta({ description: 'A day of `tz`', examples: ['2026-11-22'], format: 'date' });

function billingQuery() {
  return z.strictObject({ from: day, to: day, tz: timeZone }).superRefine(({ from, to }, { addIssue }) => {
    const add = (name: string, message: string) => addIssue({ code: 'custom', path: [name], message });
    if (from !== undefined && to === undefined) add('to', 'is needed beside from');
    if (from === undefined && to !== undefined) add('from', 'is needed beside to');
    if (from === undefined || to === undefined || parseDate(from) === undefined || parseDate(to) === undefined) return;
    if (from > to) add('from', 'must not be behind to');
    else if (Date.parse(to) - Date.parse(from) > MAX_DAYS * DAY_MS) add('from', 'must be at most ten years before to');
  }, ALSO_WHEN_WRONG);
}

const USAGE = z.object({ cost_usd: usd, requests: count, tokens_in: count, tokens_out: count, ...DOUBTS });
const BY_NAME = z.record(z.string(), USAGE);

const SUMMARY = z.object({
  period: z
    .string()
    .meta({ description: 'A month, or the days from which and to which it is', examples: ['2026-11', '2026-11-01/2026-11-15'] }),
  period_start: z.string().meta({ description: 'The first day', examples: ['2026-11-01'] }),
  total_cost_usd: usd,
  total_requests: count,
  total_tokens_in: count,
  total_tokens_out: count,
  ...TOTAL_DOUBTS,
  by_workload: BY_NAME,
  by_connector: BY_NAME.meta({ description: 'The name is empty for calls that were refused before one was chosen' }),
  by_model: BY_NAME.meta({ description: 'The name is empty for calls that no provider accepted' }),
  by_day: z.record(z.string(), usd).meta({ description: 'Cost of each day up to today' }),
});

/** The bill of an org (specification, "Management API"; decision 8.14). */
export const BILLING_SUMMARY_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.billing.summary',
    method: 'GET',
    path: '/mgmt/v1/billing/summary',
    scope: 'read',
    summary:
      'Cost, requests and tokens by workload, connector, model and day, of days of `tz` (both ends or neither; default: this month).',
    annotations: READS,
    tools: [{ name: 'get_billing_summary', title: 'Get billing summary' }],
    input: { query: { schema: billingQuery } },
    output: { status: 200, schema: SUMMARY },
    handle: async ({ principal, query }, { store, reports: { clock } }) => {
      const zone = zoneOf(query.tz);
      const today = zone.dayOf(clock.now());
      const { period, first, last } = periodOf(query, today);
      // Nothing is counted in days to come.
      const counted = last < today ? last : today;
      const usage = await usageOnDays(store, orgOf(principal), { first, last: counted, zone });
      return { json: { period, period_start: first, ...shownUsage(usage) } };
    },
  }),
];

function periodOf({ from, to }: { readonly from?: string | undefined; readonly to?: string | undefined }, today: string) {
  if (from !== undefined && to !== undefined) return { period: `${from}/${to}`, first: from, last: to };
  const period = today.slice(0, 7);
  const first = `${period}-01`;
  return { period, first, last: dayAfter(`${dayAfter(first, 31).slice(0, 7)}-01`, -1) };
}

function shownUsage({ total, byWorkload, byConnector, byModel, byDay }: UsageBreakdown) {
  const names = (sums: ReadonlyMap<string, UsageSum>) => Object.fromEntries([...sums].map(([name, usage]) => [name, shown(usage)]));
  const { cost_usd: cost, requests, tokens_in: tokensIn, tokens_out: tokensOut } = shown(total);
  return {
    total_cost_usd: cost,
    total_requests: requests,
    total_tokens_in: tokensIn,
    total_tokens_out: tokensOut,
    ...shownTotalDoubts(total),
    by_workload: names(byWorkload),
    by_connector: names(byConnector),
    by_model: names(byModel),
    by_day: Object.fromEntries([...byDay].map(([of, pico]) => [of, usdFromPico(pico)])),
  };
}

/** One sum as answers tell it. */
export function shown(sum: UsageSum): z.output<typeof USAGE> {
  const { requests, tokensIn, tokensOut, costPico } = sum;
  const counts = { requests: Number(requests), tokens_in: Number(tokensIn), tokens_out: Number(tokensOut) };
  return { cost_usd: usdFromPico(costPico), ...counts, ...shownDoubts(sum) };
}
