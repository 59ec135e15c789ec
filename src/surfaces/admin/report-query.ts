import { timestamp } from '../../base/lib/clock.ts';
import { parseDate, parseTime } from '../../base/lib/rfc3339.ts';
import { HOUR_MS } from '../../services/usage-sums.ts';
import type { QueryMembers } from '../http/query-members.ts';

const DAY_MS = 24 * HOUR_MS;
/** Bounds the work of one answer: it reads one stretch of rows for each month. */
const LONGEST_MS = 3_660 * DAY_MS;
/** What lies behind has no RFC 3339 text. */
const LAST_MS = Date.UTC(9999, 11, 31);
const PERIOD = /^\d{4}-(?:0[1-9]|1[0-2])$/;

/** Milliseconds since the epoch; `to` is exclusive. */
export interface ReportRange {
  readonly from: number;
  readonly to: number;
}

/**
 * The range of `from` and `to`: RFC 3339 times or UTC days, of which `to` names the last one. Without `to` it ends now, without `from` it begins 24 hours
 * before its end.
 */
export function reportRange(query: QueryMembers, now: number): ReportRange {
  const to = timeOf(query, 'to', DAY_MS) ?? now;
  const from = timeOf(query, 'from', 0) ?? to - DAY_MS;
  if (from >= to) query.problem('from', 'must be before to, which is now when it is not given');
  else if (to - from > LONGEST_MS) query.problem('from', 'must be at most ten years before to');
  return { from, to };
}

/** @param dayLength what is added to a plain day: `to` includes it */
function timeOf(query: QueryMembers, name: string, dayLength: number): number | undefined {
  const text = query.value(name);
  if (text === undefined) return undefined;
  const day = parseDate(text);
  // In a query an unescaped plus sign stands for a space.
  const time = day === undefined ? parseTime(text.replace(/ (?=\d\d:\d\d$)/, '+')) : day + dayLength;
  if (time === undefined || time > LAST_MS)
    query.problem(name, 'must be an RFC 3339 time such as 2026-11-22T05:00:00Z, or a day such as 2026-11-22');
  return time;
}

/** The month of `period`; the current one in UTC when there is none. */
export function reportPeriod(query: QueryMembers, now: number): string {
  const text = query.value('period');
  if (text === undefined) return timestamp(now).slice(0, 7);
  if (!PERIOD.test(text)) query.problem('period', 'must be a month such as 2026-11');
  return text;
}
