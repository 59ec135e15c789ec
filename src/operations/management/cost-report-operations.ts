import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { nearestName } from '../../base/lib/mistakes.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import { shorten } from '../../base/lib/text.ts';
import { dayAfter } from '../../base/lib/time-zone.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import type { PeriodSpend } from '../../decide/limits/forecast.ts';
import { OTHER } from '../../services/reports/attribution-reports.ts';
import {
  COST_KEYS,
  type CostFilter,
  type CostKey,
  type CostPeriod,
  type CostRow,
  costsOf,
  filteredUsage,
  readsRecords,
} from '../../services/reports/cost-report.ts';
import { usageInQuarters } from '../../services/reports/usage-breakdown.ts';
import { isNothing, NO_USAGE, type UsageSum } from '../../services/reports/usage-sums.ts';
import { csvLine } from '../csv-line.ts';
import { inParts, jsonParts } from '../json-parts.ts';
import { ALSO_WHEN_WRONG } from '../members.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { type AskedDays, DAY_PARAMETERS, dayMistakes, daysOf, monthBehind } from '../report-days.ts';
import type { OperationServices } from '../services.ts';
import { count, usd } from '../shapes.ts';
import { FORECAST, shownForecast } from '../shown-forecast.ts';
import { DOUBTS, shownTotalDoubts, TOTAL_DOUBTS } from '../shown-usage.ts';
import { shown } from './billing-summary-operations.ts';
import { orgOf } from './org-of.ts';
import { filterParameters, filtersOf } from './report-filters.ts';

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
/** Of a key that is told back. */
const MAX_SHOWN_KEY = 64;
const PER = ['total', 'month', 'day'] as const;

const by = z
  .string()
  .optional()
  .meta({
    description: `${COST_KEYS.join(', ')}, label:NAME; several with commas; none: the total`,
    examples: ['project', 'project,label:team', 'customer,model'],
  });
const per = z
  .enum(PER, `must be one of ${PER.join(', ')}`)
  .optional()
  .meta({ default: 'total', description: 'What has a row of its own' });

/** What a key may have meant that is none: another spelling, or the name of a label. */
function hintOf(key: string): string | undefined {
  if (key.startsWith(LABEL) || key === '' || COST_KEYS.some((known) => known === key)) return undefined;
  const [meant, is] = [nearestName(key, COST_KEYS), shorten(key, MAX_SHOWN_KEY)];
  return meant === undefined ? `; a label ${is} is label:${is}` : `; did you mean ${meant}?`;
}

function mistakeIn(text: string | undefined): string | undefined {
  const keys = text === undefined ? [] : text.split(',');
  const right = keys.every((key) =>
    key.startsWith(LABEL) ? key.length > LABEL.length && key.length <= LABEL.length + MAX_LABEL : COST_KEYS.some((known) => known === key),
  );
  if (right && keys.length <= MAX_KEYS && new Set(keys).size === keys.length) return undefined;
  return `${BY_RULE}${keys.map(hintOf).find((hint) => hint !== undefined) ?? ''}`;
}

function keysOf(text: string | undefined): readonly CostKey[] {
  return text === undefined ? [] : (text.split(',') as CostKey[]);
}

const PARAMETERS = { by, per, ...DAY_PARAMETERS };

function reportQuery(services: Pick<OperationServices, 'reports' | 'trust'>) {
  const { reports } = services;
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
  return z.strictObject({ ...PARAMETERS, ...filterParameters(services), limit, format }).superRefine((query, { addIssue }) => {
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

type ReportQuery = Omit<z.output<ReturnType<typeof reportQuery>>, 'limit' | 'format'>;

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
  filter: z
    .record(z.string(), z.string())
    .optional()
    .meta({ description: 'Of which calls it is, by key; absent: of all', examples: [{ project: 'apollo' }] }),
  total_cost_usd: usd,
  total_requests: count,
  total_tokens_in: count,
  total_tokens_out: count,
  total_cached_tokens_in: count,
  ...TOTAL_DOUBTS,
  unsorted_requests: count.optional().meta({
    description:
      'Of a filtered report: calls that are counted without that name (removed records, names beyond those that are counted one by one); no part of any sum; absent: none',
  }),
  unsorted_cost_usd: usd.optional(),
  forecast: FORECAST.optional().meta({ description: 'Of a report of the current month: what it comes to. With filters without caps' }),
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
      'Cost, share, requests and tokens of any days by project, customer, account, caller, workload, provider, model or label, or several of them; for the whole range, by month or by day; of all calls or of some; and where the current month will end. `format=csv` or `Accept: text/csv` for a spreadsheet.',
    annotations: READS,
    tools: [
      {
        name: 'get_cost_report',
        title: 'Get cost report',
        description: 'Cost, share, requests and tokens of days (default: this month), and what the month will come to.',
      },
    ],
    input: { query: { schema: reportQuery } },
    output: { status: 200, schema: REPORT, also: CSV },
    handle: async ({ principal, query, headers }, services) => {
      const asked = await askedOf(orgOf(principal), query, services);
      if (query.format === 'csv' || (query.format === undefined && wantsCsv(headers['accept']))) return csvOf(asked, services);
      const head = headOf(asked, services);
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
  readonly filters: readonly CostFilter[];
  readonly days: AskedDays;
  readonly periods: readonly CostPeriod[];
  readonly total: UsageSum;
  readonly unsorted: UsageSum;
}

/** @throws GatewayError `invalid_request` when more records would have to be read than one answer reads */
async function askedOf(orgId: string, query: ReportQuery, { store, reports: { clock } }: OperationServices): Promise<Asked> {
  const now = clock.now();
  const days = daysOf(query, now);
  const keys = keysOf(query.by);
  const filters = filtersOf(query);
  const { zone, first, last } = days;
  const range = { from: zone.startOf(first), to: zone.startOf(dayAfter(last)) };
  const all = await usageInQuarters(store, orgId, range.from, range.to);
  const most = REPORT_BOUNDS.costRecords.one;
  if (readsRecords([...new Set([...keys, ...filters.map(({ key }) => key)])]) && all.requests > BigInt(most)) {
    const message = `together are read from the records, of which there are more than ${most} in this range: ask for a shorter one, or for fewer keys`;
    const path = query.by === undefined ? filters.map(({ key }) => key).join(',') : 'by';
    throw new GatewayError('invalid_request', 'The query has 1 bad parameter(s).', { details: [{ path, message }] });
  }
  const { usage: total, unsorted } =
    filters.length === 0 ? { usage: all, unsorted: NO_USAGE } : await filteredUsage(store, orgId, range, filters);
  // Nothing is counted in days to come.
  const today = zone.dayOf(now);
  const periods = periodsOf({ ...days, last: last < today ? last : today }, query.per ?? 'total');
  return { orgId, keys, filters, days, periods, total, unsorted };
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

function headOf({ orgId, keys, filters, days, total, unsorted }: Asked, { reports: { clock }, budgets }: OperationServices) {
  const month = monthSpend(days, total, clock.now());
  const limits = filters.length === 0 ? budgets.service.list(orgId) : [];
  return {
    org_id: orgId,
    from: days.first,
    to: days.last,
    tz: days.zone.name,
    by: keys,
    ...(filters.length === 0 ? {} : { filter: Object.fromEntries(filters.map(({ key, name }) => [key, name])) }),
    total_cost_usd: usdFromPico(total.costPico),
    total_requests: Number(total.requests),
    total_tokens_in: Number(total.tokensIn),
    total_tokens_out: Number(total.tokensOut),
    total_cached_tokens_in: Number(total.cachedIn),
    ...shownTotalDoubts(total),
    ...(isNothing(unsorted) ? {} : { unsorted_requests: Number(unsorted.requests), unsorted_cost_usd: usdFromPico(unsorted.costPico) }),
    ...(month === undefined ? {} : { forecast: shownForecast(month, limits, clock.now()) }),
  };
}

/** The current month of a zone, as far as it has gone; undefined: the days are others. */
function monthSpend({ first, last, zone }: AskedDays, { costPico: spentPico }: UsageSum, now: number): PeriodSpend | undefined {
  const today = zone.dayOf(now);
  const [from, behind] = [`${today.slice(0, 7)}-01`, monthBehind(today.slice(0, 7))];
  if (first !== from || last < today || last >= behind) return undefined;
  return { start: zone.startOf(from), end: zone.startOf(behind), spentPico };
}

async function* rowTexts(
  { orgId, keys, filters, periods, total }: Asked,
  limit: number,
  { store }: OperationServices,
): AsyncGenerator<readonly string[], void> {
  for (const period of periods) {
    const rows = [...(await costsOf(store, orgId, period, keys, limit, filters))].sort(dearestFirst);
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

async function* csvParts({ orgId, keys, filters, periods }: Asked, { store }: OperationServices): AsyncGenerator<string, void> {
  yield csvLine(['period', 'org_id', ...keys, ...FIGURES]);
  for (const { name, ...range } of periods) {
    const rows = await costsOf(store, orgId, { name, ...range }, keys, REPORT_BOUNDS.costRows.one, filters);
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
