import { z } from 'zod';
import { parseDate, parseTime, timestamp } from '../base/lib/clock.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { dayAfter, TimeZone, UTC } from '../base/lib/time-zone.ts';
import type { Principal } from '../base/model/principal.ts';
import { HOUR_MS } from '../services/reports/usage-sums.ts';
import { ALSO_WHEN_WRONG, id } from './members.ts';
import type { OperationServices } from './services.ts';

export const DAY_MS: number = 24 * HOUR_MS;
/** Bounds the work of one answer: it reads one stretch of rows for each month. */
const LONGEST_MS = 3_660 * DAY_MS;
/** What lies behind has no RFC 3339 text. */
const LAST_MS = Date.UTC(9999, 11, 31);
const FIRST_DAY = '0001-01-02';
const LAST_DAY = '9999-12-29';
const PERIOD = /^\d{4}-(?:0[1-9]|1[0-2])$/;

/** Milliseconds since the epoch; `to` is exclusive. */
export interface ReportRange {
  readonly from: number;
  readonly to: number;
}

/** A parameter that is wrong, and how. */
type Mistake = readonly [name: 'from' | 'to', message: string];

/** A time of a query. */
export const moment: z.ZodOptional<z.ZodString> = z
  .string()
  .optional()
  .meta({ description: 'An RFC 3339 time, or a day', examples: ['2026-11-22T05:00:00Z', '2026-11-22'] });

/** The zone whose days are meant (decision 8.14). */
export const timeZone: z.ZodOptional<z.ZodString> = z
  .string()
  .refine((name) => TimeZone.of(name) !== undefined, 'must be a time zone of the IANA database, such as Europe/Berlin')
  .optional()
  .meta({ description: 'IANA time zone of days; default: UTC', examples: ['Europe/Berlin'] });

/** UTC where nobody names a zone, or one that there is not: that is told by its own rule. */
export function zoneOf(name: unknown): TimeZone {
  return (typeof name === 'string' ? TimeZone.of(name) : undefined) ?? UTC;
}

const TIME_RULE = 'must be an RFC 3339 time such as 2026-11-22T05:00:00Z, or a day such as 2026-11-22';

const RANGE = { from: moment, to: moment, tz: timeZone };

/**
 * The range of `from` and `to`: RFC 3339 times, or days of `tz`, of which `to` names the last one. Without `to` it ends
 * now, without `from` it begins 24 hours before its end.
 */
function rangeQuery({ reports }: Pick<OperationServices, 'reports'>) {
  return z.strictObject(RANGE).superRefine((query, { addIssue }) => {
    for (const [name, message] of readRange(query, reports.clock.now()).mistakes) addIssue({ code: 'custom', path: [name], message });
  }, ALSO_WHEN_WRONG);
}

/** The same of an org that the query names. */
function orgRangeQuery({ reports }: Pick<OperationServices, 'reports'>) {
  return z.strictObject({ org_id: id.optional(), ...RANGE }).superRefine((query, { addIssue }) => {
    for (const [name, message] of readRange(query, reports.clock.now()).mistakes) addIssue({ code: 'custom', path: [name], message });
  }, ALSO_WHEN_WRONG);
}

export const RANGE_QUERY = {
  schema: (services: Pick<OperationServices, 'reports'>): ReturnType<typeof rangeQuery> => rangeQuery(services),
};
export const ORG_RANGE_QUERY = {
  schema: (services: Pick<OperationServices, 'reports'>): ReturnType<typeof orgRangeQuery> => orgRangeQuery(services),
};
export type RangeQuery = z.output<ReturnType<typeof rangeQuery>>;

/** The range of a query that {@link RANGE_QUERY} has let through. */
export function reportRange(query: RangeQuery, now: number): ReportRange {
  return readRange(query, now).range;
}

function readRange(
  query: Pick<RangeQuery, 'from' | 'to' | 'tz'>,
  now: number,
): { readonly range: ReportRange; readonly mistakes: readonly Mistake[] } {
  const mistakes: Mistake[] = [];
  const zone = zoneOf(query.tz);
  const end = query.to === undefined ? undefined : timeOf(query.to, 1, zone);
  if (query.to !== undefined && (end === undefined || end > LAST_MS)) mistakes.push(['to', TIME_RULE]);
  const start = query.from === undefined ? undefined : timeOf(query.from, 0, zone);
  if (query.from !== undefined && (start === undefined || start > LAST_MS)) mistakes.push(['from', TIME_RULE]);
  const to = end ?? now;
  const from = start ?? to - DAY_MS;
  if (from >= to) mistakes.push(['from', 'must be before to, which is now when it is not given']);
  else if (to - from > LONGEST_MS) mistakes.push(['from', 'must be at most ten years before to']);
  return { range: { from, to }, mistakes };
}

/**
 * Milliseconds since the epoch of a time of a query; undefined for what is none.
 * @param days what is added to a plain day: 1 for `to`, which includes it
 */
export function timeOf(text: string, days: 0 | 1, zone: TimeZone): number | undefined {
  // In a query an unescaped plus sign stands for a space.
  if (parseDate(text) === undefined) return parseTime(text.replace(/ (?=\d\d:\d\d$)/, '+'));
  return text < FIRST_DAY || text > LAST_DAY ? undefined : zone.startOf(dayAfter(text, days));
}

const period = z
  .string()
  .regex(PERIOD, 'must be a month such as 2026-11')
  .optional()
  .meta({ description: 'A month in UTC; default: the current one' });

export const PERIOD_QUERY = z.strictObject({ period });
export const ORG_PERIOD_QUERY = z.strictObject({ org_id: id.optional().meta({ description: 'Default: the org of the API key' }), period });

/** The month that a query means. */
export function reportPeriod(query: { readonly period?: string | undefined }, now: number): string {
  return query.period ?? timestamp(now).slice(0, 7);
}

/**
 * Whose report is asked for.
 * @throws GatewayError `invalid_request` when nobody has named an org, `forbidden` for one that an API key is not of
 */
export function reportOrg(query: { readonly org_id?: string | undefined }, { orgId }: Principal): string {
  const named = query.org_id ?? orgId;
  if (named === undefined)
    throw new GatewayError('invalid_request', 'The query has 1 bad parameter(s).', {
      details: [{ path: 'org_id', message: 'must name the org' }],
    });
  if (orgId !== undefined && named !== orgId) throw new GatewayError('forbidden', `This API key is of org ${orgId}.`);
  return named;
}
