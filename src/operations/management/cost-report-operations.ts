import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import { dayAfter } from '../../base/lib/time-zone.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import { OTHER } from '../../services/attribution-reports.ts';
import { COST_KEYS, type CostKey, type CostPeriod, type CostRow, costsOf, readsRecords } from '../../services/cost-report.ts';
import { usageInQuarters } from '../../services/usage-breakdown.ts';
import type { UsageSum } from '../../services/usage-sums.ts';
import { csvLine } from '../csv-line.ts';
import { inParts, jsonParts } from '../json-parts.ts';
import { ALSO_WHEN_WRONG } from '../members.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { type AskedDays, DAY_PARAMETERS, dayMistakes, daysOf, monthBehind } from '../report-days.ts';
import type { OperationServices } from '../services.ts';
import { count, usd } from '../shapes.ts';
import { DOUBTS, shownTotalDoubts, TOTAL_DOUBTS } from '../shown-usage.ts';
import { shown } from './billing-summary-operations.ts';
import { orgOf } from './org-of.ts';

const CSV = 'text/csv; charset=utf-8; header=present';
/** Combinations of one period, as JSON. */
const USUAL_ROWS = 100;
const MAX_ROWS = REPORT_BOUNDS.reportNames.one;
const LIMIT_RULE = `must be a whole number from 1 to ${MAX_ROWS}`;
const MAX_KEYS = 4;
const MAX_LABEL = 256;
const LABEL = 'label:';
/** As JSON: periods times rows. */
const MAX_DAYS_APART = 366;
const BY_RULE = `must be up to ${MAX_KEYS} of ${COST_KEYS.join(', ')} and label:NAME, each once, separated by commas`;
const PER = ['total', 'month', 'day'] as const;

const by = z
  .string()
  .optional()
  .meta({
    description: `By what: ${COST_KEYS.join(', ')}, label:NAME, or several of them separated by commas; none: the total alone`,
    examples: ['project', 'project,label:team', 'customer,model'],
  });
const per = z.enum(PER).optional().meta({ default: 'total', description: 'One row for the whole range, for each month, or for each day' });

function mistakeIn(text: string | undefined): string | undefined {
  const keys = text === undefined ? [] : text.split(',');
  const right = keys.every((key) =>
    key.startsWith(LABEL) ? key.length > LABEL.length && key.length <= LABEL.length + MAX_LABEL : COST_KEYS.some((known) => known === key),
  );
  return right && keys.length <= MAX_KEYS && new Set(keys).size === keys.length ? undefined : BY_RULE;
}

function keysOf(text: string | undefined): readonly CostKey[] {
  return text === undefined ? [] : (text.split(',') as CostKey[]);
}

const PARAMETERS = { by, per, ...DAY_PARAMETERS };

function reportQuery({ reports }: Pick<OperationServices, 'reports'>) {
  const limit = z
    .string()
    .regex(/^\d{1,4}$/, LIMIT_RULE)
    .transform(Number)
    .refine((rows) => rows >= 1 && rows <= MAX_ROWS, LIMIT_RULE)
    .default(USUAL_ROWS)
    .meta({
      ...{ type: 'integer', minimum: 1, maximum: MAX_ROWS, default: USUAL_ROWS },
      description: 'Rows of each period, the dearest; all others are one. CSV has all',
    });
  const format = z.enum(['json', 'csv']).optional().meta({ default: 'json', description: '`Accept: text/csv` means csv, too' });
  return z.strictObject({ ...PARAMETERS, limit, format }).superRefine((query, { addIssue }) => {
    const now = reports.clock.now();
    for (const [name, message] of mistakesOf(query, now)) addIssue({ code: 'custom', path: [name], message });
    const days = daysOf(query, now);
    if (query.per === 'day' && query.format !== 'csv' && dayAfter(days.first, MAX_DAYS_APART) <= days.last)
      addIssue({
        code: 'custom',
        path: ['per'],
        message: `by day a range of at most ${MAX_DAYS_APART} days is answered as JSON; CSV has more`,
      });
  }, ALSO_WHEN_WRONG);
}

type ReportQuery = Pick<z.output<ReturnType<typeof reportQuery>>, keyof typeof PARAMETERS>;

function mistakesOf(query: Partial<ReportQuery>, now: number): readonly (readonly [string, string])[] {
  const wrong = mistakeIn(query.by);
  return [...(wrong === undefined ? [] : [['by', wrong] as const]), ...dayMistakes(query, now)];
}

const ROW = z.object({
  period: z
    .string()
    .meta({ description: 'A day, a month, or the days from which and to which it is', examples: ['2026-11-22', '2026-11'] }),
  keys: z.record(z.string(), z.string()).meta({
    description: 'The name of each key of `by`; empty: the call had none. `other` is all that have no row',
    examples: [{ project: 'apollo' }],
  }),
  cost_usd: usd,
  share_pct: z.string().meta({ description: 'Of the cost of the whole range, in percent', examples: ['12.5'] }),
  requests: count,
  tokens_in: count,
  tokens_out: count,
  cached_tokens_in: count.meta({ description: 'Part of tokens_in' }),
  ...DOUBTS,
});

const REPORT = z.object({
  org_id: z.string(),
  from: z.string().meta({ description: 'The first day', examples: ['2026-11-01'] }),
  to: z.string().meta({ description: 'The last day, included', examples: ['2026-11-30'] }),
  tz: z.string().meta({ description: 'The zone whose days they are', examples: ['UTC'] }),
  by: z.array(z.string()),
  total_cost_usd: usd,
  total_requests: count,
  total_tokens_in: count,
  total_tokens_out: count,
  total_cached_tokens_in: count,
  ...TOTAL_DOUBTS,
  rows: z.array(ROW).meta({ description: 'Of each period the dearest first' }),
});

/** What is charged to whom (decision 6.18). */
export const COST_REPORT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.billing.report',
    method: 'GET',
    path: '/mgmt/v1/billing/report',
    scope: 'read',
    summary:
      'Cost, share, requests and tokens of any days by project, customer, account, caller, workload, provider, model or label, or several of them; for the whole range, by month or by day; `format=csv` or `Accept: text/csv` for a spreadsheet.',
    annotations: READS,
    tools: [
      {
        name: 'get_cost_report',
        title: 'Get cost report',
        description:
          'What was spent, by whom and on what: cost, share, requests and tokens of the days of `period`, of the `last` 7d, or of `from` and `to`.',
      },
    ],
    input: { query: { schema: reportQuery } },
    output: { status: 200, schema: REPORT, also: CSV },
    handle: async ({ principal, query, headers }, services) => {
      const asked = await askedOf(orgOf(principal), query, services);
      if (query.format === 'csv' || (query.format === undefined && wantsCsv(headers['accept']))) return csvOf(asked, services);
      const head = headOf(asked);
      return { parts: jsonParts(head, 'rows', '[]', rowTexts(asked, query.limit, services)) };
    },
  }),
];

/** Whether CSV is what an `Accept` names, and JSON is not. */
function wantsCsv(accept: string | undefined): boolean {
  return accept !== undefined && /\btext\/csv\b/i.test(accept) && !/\bapplication\/json\b/i.test(accept);
}

interface Asked {
  readonly orgId: string;
  readonly keys: readonly CostKey[];
  readonly days: AskedDays;
  readonly periods: readonly CostPeriod[];
  readonly total: UsageSum;
}

/** @throws GatewayError `invalid_request` when more records would have to be read than one answer reads */
async function askedOf(orgId: string, query: ReportQuery, { store, reports: { clock } }: OperationServices): Promise<Asked> {
  const now = clock.now();
  const days = daysOf(query, now);
  const keys = keysOf(query.by);
  const { zone, first, last } = days;
  const total = await usageInQuarters(store, orgId, zone.startOf(first), zone.startOf(dayAfter(last)));
  const most = REPORT_BOUNDS.costRecords.one;
  if (readsRecords(keys) && total.requests > BigInt(most)) {
    const message = `together are read from the records, of which there are more than ${most} in this range: ask for a shorter one, or for fewer keys`;
    throw new GatewayError('invalid_request', 'The query has 1 bad parameter(s).', { details: [{ path: 'by', message }] });
  }
  // Nothing is counted in days to come.
  const today = zone.dayOf(now);
  return { orgId, keys, days, periods: periodsOf({ ...days, last: last < today ? last : today }, query.per ?? 'total'), total };
}

function periodsOf({ first, last, zone }: AskedDays, one: (typeof PER)[number]): readonly CostPeriod[] {
  const period = (name: string, from: string, to: string) => ({ name, from: zone.startOf(from), to: zone.startOf(dayAfter(to)) });
  if (first > last) return [];
  if (one === 'total') return [period(first === last ? first : `${first}/${last}`, first, last)];
  const periods: CostPeriod[] = [];
  for (let at = first; at <= last; ) {
    const month = at.slice(0, 7);
    const next = one === 'day' ? dayAfter(at) : monthBehind(month);
    const end = dayAfter(next, -1) < last ? dayAfter(next, -1) : last;
    periods.push(period(one === 'day' ? at : month, at, end));
    at = next;
  }
  return periods;
}

function headOf({ orgId, keys, days, total }: Asked) {
  return {
    org_id: orgId,
    from: days.first,
    to: days.last,
    tz: days.zone.name,
    by: keys,
    total_cost_usd: usdFromPico(total.costPico),
    total_requests: Number(total.requests),
    total_tokens_in: Number(total.tokensIn),
    total_tokens_out: Number(total.tokensOut),
    total_cached_tokens_in: Number(total.cachedIn),
    ...shownTotalDoubts(total),
  };
}

async function* rowTexts(
  { orgId, keys, periods, total }: Asked,
  limit: number,
  { store }: OperationServices,
): AsyncGenerator<readonly string[], void> {
  for (const period of periods) {
    const rows = [...(await costsOf(store, orgId, period, keys, limit))].sort(dearestFirst);
    for (const part of inParts(rows)) yield part.map(({ names, usage }) => JSON.stringify(rowOf(period.name, keys, names, usage, total)));
  }
}

/** What has no row of its own comes last. */
function dearestFirst({ usage: a, names: named }: CostRow, { usage: b, names: others }: CostRow): number {
  if (isRest(named) !== isRest(others)) return isRest(named) ? 1 : -1;
  if (a.costPico !== b.costPico) return a.costPico > b.costPico ? -1 : 1;
  return Number(b.requests - a.requests);
}

function isRest(names: readonly string[]): boolean {
  return names.length > 0 && names.every((name) => name === OTHER);
}

function rowOf(period: string, keys: readonly CostKey[], names: readonly string[], usage: UsageSum, total: UsageSum) {
  const { cost_usd, ...counts } = shown(usage);
  return {
    period,
    keys: Object.fromEntries(keys.map((key, at) => [key, names[at] ?? ''])),
    cost_usd,
    share_pct: shareOf(usage.costPico, total.costPico),
    ...counts,
    cached_tokens_in: Number(usage.cachedIn),
  };
}

/** In percent, of one decimal, to the nearest. */
function shareOf(part: bigint, whole: bigint): string {
  const tenths = whole === 0n ? 0n : (part * 1_000n + whole / 2n) / whole;
  return `${tenths / 10n}.${tenths % 10n}`;
}

const FIGURES = [
  'requests',
  'tokens_in',
  'tokens_out',
  'cached_tokens_in',
  'cost_usd',
  'requests_without_usage',
  'cost_without_usage_usd',
  'requests_priced_by_default',
  'cost_priced_by_default_usd',
];

function csvOf(asked: Asked, services: OperationServices) {
  const { first, last } = asked.days;
  const name = `costs-${first}-to-${last}.csv`;
  return {
    parts: csvParts(asked, services),
    contentType: CSV,
    headers: ['Content-Disposition', `attachment; filename="${name}"`],
  };
}

async function* csvParts({ orgId, keys, periods }: Asked, { store }: OperationServices): AsyncGenerator<string, void> {
  yield csvLine(['period', 'org_id', ...keys, ...FIGURES]);
  for (const { name, ...range } of periods) {
    const rows = await costsOf(store, orgId, { name, ...range }, keys, REPORT_BOUNDS.costRows.one);
    for (const part of inParts(rows)) yield part.map(({ names, usage }) => csvLine([name, orgId, ...names, ...cellsOf(usage)])).join('');
  }
}

function cellsOf(usage: UsageSum): readonly string[] {
  const { requests, tokensIn, tokensOut, cachedIn, costPico, withoutUsage, withoutUsagePico, byDefault, byDefaultPico } = usage;
  const counts = [requests, tokensIn, tokensOut, cachedIn].map(String);
  return [
    ...counts,
    usdFromPico(costPico),
    String(withoutUsage),
    usdFromPico(withoutUsagePico),
    String(byDefault),
    usdFromPico(byDefaultPico),
  ];
}
