import { z } from 'zod';
import { parseDate } from '../base/lib/clock.ts';
import { dayAfter, type TimeZone } from '../base/lib/time-zone.ts';
import { timeZone, zoneOf } from './report-query.ts';

const WORDS = ['today', 'yesterday', 'this-week', 'last-week', 'this-month', 'last-month'] as const;
const MONTH = /^\d{4}-(?:0[1-9]|1[0-2])$/;
const LAST = /^([1-9]\d{0,3})([dw])$/;
const DAY_RULE = 'must be a day such as 2026-11-22';
const PERIOD_RULE = `must be one of ${WORDS.join(', ')}, a month such as 2026-11, or a day such as 2026-11-22`;
const LAST_RULE = 'must be a number of days or weeks such as 7d or 4w, of at most ten years';
/** Bounds the work of one answer. */
const MAX_DAYS = 3_660;
const DAY_MS = 86_400_000;

/** Days of a zone; both are part of the range. */
export interface AskedDays {
  readonly first: string;
  readonly last: string;
  readonly zone: TimeZone;
}

/** Parameters that name days of a zone in one of three ways; none of them: the current month up to today. */
export const DAY_PARAMETERS = {
  period: z
    .string()
    .optional()
    .meta({ description: `${WORDS.join(', ')}, 2026-11 or 2026-11-22`, examples: ['this-month', '2026-10', 'yesterday'] }),
  last: z
    .string()
    .optional()
    .meta({ description: 'Days or weeks up to today: 7d, 4w', examples: ['7d', '4w'] }),
  from: z
    .string()
    .optional()
    .meta({ format: 'date', description: 'The first day', examples: ['2026-11-01'] }),
  to: z
    .string()
    .optional()
    .meta({ format: 'date', description: 'The last day, included; default: today', examples: ['2026-11-15'] }),
  tz: timeZone,
};

type DayQuery = { readonly [K in keyof typeof DAY_PARAMETERS]?: string | undefined };
type Mistake = readonly [name: 'period' | 'last' | 'from' | 'to', message: string];

/** What of them is wrong, each with its parameter. @param now epoch milliseconds */
export function dayMistakes(query: DayQuery, now: number): readonly Mistake[] {
  return readDays(query, now).mistakes;
}

/** The days of a query that {@link dayMistakes} has nothing against. */
export function daysOf(query: DayQuery, now: number): AskedDays {
  return readDays(query, now).days;
}

type Days = Omit<AskedDays, 'zone'>;

function readDays(query: DayQuery, now: number): { readonly days: AskedDays; readonly mistakes: readonly Mistake[] } {
  const zone = zoneOf(query.tz);
  const today = zone.dayOf(now);
  const { period, last, from, to } = query;
  const mistakes: Mistake[] = [];
  if ([period, last, from ?? to].filter((given) => given !== undefined).length > 1)
    mistakes.push([period === undefined ? 'last' : 'period', 'cannot be given beside another way to name days']);
  for (const [name, text] of [['from', from] as const, ['to', to] as const])
    if (text !== undefined && !isDay(text)) mistakes.push([name, DAY_RULE]);
  const days = askedDays(query, today, mistakes) ?? { first: today, last: today };
  if (days.first > days.last) mistakes.push(['from', 'must not be behind to, which is today when it is not given']);
  else if (Date.parse(days.last) - Date.parse(days.first) > MAX_DAYS * DAY_MS)
    mistakes.push(['from', 'must be at most ten years before to']);
  return { days: { ...days, zone }, mistakes };
}

/** Undefined where they cannot be told. @param mistakes takes what is wrong */
function askedDays({ period, last, from, to }: DayQuery, today: string, mistakes: Mistake[]): Days | undefined {
  if (period !== undefined) {
    const days = namedPeriod(period, today);
    if (days === undefined) mistakes.push(['period', PERIOD_RULE]);
    return days;
  }
  if (last !== undefined) {
    const days = lastDays(last, today);
    if (days === undefined) mistakes.push(['last', LAST_RULE]);
    return days;
  }
  return mistakes.length > 0 ? undefined : between(from, to, today);
}

function isDay(text: string): boolean {
  return parseDate(text) !== undefined && text >= '1970-01-02' && text <= '9999-12-29';
}

/** Without either the current month, up to its last day that has begun. */
function between(from: string | undefined, to: string | undefined, today: string): Days {
  const last = to ?? today;
  return { first: from ?? `${last.slice(0, 7)}-01`, last };
}

function namedPeriod(period: string, today: string): Days | undefined {
  const month = today.slice(0, 7);
  const monday = dayAfter(today, -((new Date(`${today}T00:00:00Z`).getUTCDay() + 6) % 7));
  switch (period) {
    case 'today':
      return { first: today, last: today };
    case 'yesterday':
      return { first: dayAfter(today, -1), last: dayAfter(today, -1) };
    case 'this-week':
      return { first: monday, last: today };
    case 'last-week':
      return { first: dayAfter(monday, -7), last: dayAfter(monday, -1) };
    case 'this-month':
      return { first: `${month}-01`, last: today };
    case 'last-month':
      return wholeMonth(dayAfter(`${month}-01`, -1).slice(0, 7));
    default:
      if (isDay(period)) return { first: period, last: period };
      return MONTH.test(period) && isDay(`${period}-02`) ? wholeMonth(period) : undefined;
  }
}

function wholeMonth(month: string): Days {
  return { first: `${month}-01`, last: dayAfter(monthBehind(month), -1) };
}

/** The first day of the month behind one. */
export function monthBehind(month: string): string {
  return `${dayAfter(`${month}-01`, 31).slice(0, 7)}-01`;
}

function lastDays(text: string, today: string): Days | undefined {
  const [, number = '', unit] = LAST.exec(text) ?? [];
  const days = Number(number) * (unit === 'w' ? 7 : 1);
  return days >= 1 && days <= MAX_DAYS ? { first: dayAfter(today, 1 - days), last: today } : undefined;
}
