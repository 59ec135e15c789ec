/*
 * Times as people say them, for tools: `today`, `last week`, `7d`, `2026-11`, `friday`. On its way each becomes a day
 * or an RFC 3339 time, which is what operations read (decision 10.15).
 */
import { timestamp } from '../base/lib/clock.ts';
import { dayAfter, type TimeZone } from '../base/lib/time-zone.ts';

/** What stretch is meant: its two ends, as days (the last one included) or times. */
export interface SpelledRange {
  readonly from: string;
  readonly to: string;
}

const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const UNITS = '(m|mins?|minutes?|h|hours?|d|days?|w|weeks?)';
/** `7d`, `-7d`, `now-7d`, `last 7 days`, `7 days ago`, `past 24 hours`. */
const BACK = new RegExp(`^(?:now ?)?(?:-|last |past |previous )?(\\d{1,4}) ?${UNITS}(?: ago)?$`);
/** `3d`, `+3d`, `in 3 days`, `next 3 days`, `for 2 hours`, `now+3d`. */
const AHEAD = new RegExp(`^(?:now ?)?(?:\\+|in |next |for )?(\\d{1,4}) ?${UNITS}(?: from now)?$`);
/** `last hour`, `the past day`. */
const ONE_BACK = /^(?:the )?(?:last|past|previous) (minute|hour|day)$/;
const MONTH = /^(\d{4})-(0[1-9]|1[0-2])$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const SLASHED = /^\d{4}\/\d{2}\/\d{2}$/;
const NAMED_TIME = /^(today|yesterday)(?:,| at)? ([01]\d|2[0-3]):([0-5]\d)$/;
/** `friday 18:00`. */
const DAY_AND_TIME = /^(.+?)(?:,| at)? ([01]\d|2[0-3]):([0-5]\d)$/;
const LOCAL_TIME = /^(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2})(:\d{2})?(Z?)$/i;
const WEEKDAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];

/** Stretches by name, from the day it is. */
const NAMED: Readonly<Record<string, (today: string) => SpelledRange>> = {
  today: (day) => days(day, day),
  yesterday: (day) => days(dayAfter(day, -1), dayAfter(day, -1)),
  this_week: (day) => days(monday(day), day),
  last_week: (day) => days(dayAfter(monday(day), -7), dayAfter(monday(day), -1)),
  this_month: (day) => days(first(day), day),
  last_month: (day) => monthOf(dayAfter(first(day), -1).slice(0, 7)),
  this_year: (day) => days(`${day.slice(0, 4)}-01-01`, day),
};

/**
 * The stretch that a text means; undefined when it is none of these forms, as every RFC 3339 time.
 * @param inDays true: the ends are days, also of a stretch of hours
 */
export function spelledRange(text: string, zone: TimeZone, now: number, inDays: boolean): SpelledRange | undefined {
  const said = text.trim().toLowerCase().replace(/\s+/g, ' ').replace(ONE_BACK, '1 $1');
  const today = zone.dayOf(now);
  const named = Object.hasOwn(NAMED, said.replace(/[ -]/g, '_')) ? NAMED[said.replace(/[ -]/g, '_')] : undefined;
  if (named !== undefined) return named(today);
  if (MONTH.test(said)) return monthOf(said);
  const back = BACK.exec(said);
  if (back === null && said !== 'now') return undefined;
  const since = now - (back === null ? 0 : lengthOf(back));
  // Seven days of a report are today and the six before it.
  if (inDays) return days(zone.dayOf(since + (back === null ? 0 : Math.min(UNIT_MS['d'] ?? 0, lengthOf(back)))), today);
  return { from: timestamp(since), to: timestamp(now) };
}

/** A time that a text means as one end; undefined when it is none of these forms. @param end which one is asked for */
export function spelledEnd(text: string, end: 'from' | 'to', zone: TimeZone, now: number, inDays: boolean): string | undefined {
  const range = spelledRange(text, zone, now, inDays);
  if (range === undefined) return dayBack(text, zone, now) ?? timeOfDay(text, zone, now) ?? localTime(text);
  // `7d` is a time ago, at either end.
  return end === 'from' || (!DAY.test(range.to) && !inDays) ? range.from : range.to;
}

/** `monday`, `last monday`, `2026/11/22`: a day that is not to come. */
function dayBack(text: string, zone: TimeZone, now: number): string | undefined {
  const said = text.trim().toLowerCase();
  if (SLASHED.test(said)) return said.replaceAll('/', '-');
  const today = zone.dayOf(now);
  const weekday = WEEKDAYS.indexOf(said.replace(/^(?:last|on|since|past) /, ''));
  if (weekday < 0) return undefined;
  const back = (weekdayOf(today) - weekday + 7) % 7;
  return dayAfter(today, -(back === 0 && said.startsWith('last ') ? 7 : back));
}

/** `yesterday 14:00`, in the zone of the day. */
function timeOfDay(text: string, zone: TimeZone, now: number): string | undefined {
  const [, named = '', hour, minute] = NAMED_TIME.exec(text.trim().toLowerCase()) ?? [];
  if (hour === undefined || minute === undefined) return undefined;
  return timestamp(atTime(zone, dayAfter(zone.dayOf(now), named === 'yesterday' ? -1 : 0), hour, minute));
}

/** Hours and minutes behind the beginning of a day, in epoch milliseconds. */
function atTime(zone: TimeZone, day: string, hour = '0', minute = '0'): number {
  return zone.startOf(day) + Number(hour) * (UNIT_MS['h'] ?? 0) + Number(minute) * (UNIT_MS['m'] ?? 0);
}

/** A day as the moment of that end; every other text as it is. */
export function momentOf(text: string, end: 'from' | 'to', zone: TimeZone): string {
  if (!DAY.test(text) || Number.isNaN(Date.parse(`${text}T00:00:00Z`))) return text;
  return timestamp(zone.startOf(end === 'from' ? text : dayAfter(text)));
}

/** A time to come, as RFC 3339: of a day its end. Undefined for what is none of these forms. */
export function spelledUntil(text: string, zone: TimeZone, now: number): string | undefined {
  const said = text
    .trim()
    .toLowerCase()
    .replace(/\s+/g, ' ')
    .replace(/^until |^end of (?=today|tomorrow|the)|^next (?=[a-z]+day$)/, '');
  const day = dayToCome(said, zone.dayOf(now));
  if (day !== undefined) return timestamp(zone.startOf(dayAfter(day)));
  const [, named = '', hour, minute] = DAY_AND_TIME.exec(said) ?? [];
  const dayNamed = dayToCome(named, zone.dayOf(now));
  if (dayNamed !== undefined && !DAY.test(named)) return timestamp(atTime(zone, dayNamed, hour, minute));
  const ahead = AHEAD.exec(said);
  return ahead === null ? localTime(text) : timestamp(now + lengthOf(ahead));
}

function dayToCome(said: string, today: string): string | undefined {
  if (DAY.test(said)) return Number.isNaN(Date.parse(`${said}T00:00:00Z`)) ? undefined : said;
  if (said === 'today') return today;
  if (said === 'tomorrow') return dayAfter(today);
  if (/^(?:the )?(?:end of )?(?:the |this )?week$/.test(said)) return dayAfter(monday(today), 6);
  if (/^(?:the )?(?:end of )?(?:the |this )?month$/.test(said)) return monthOf(today.slice(0, 7)).to;
  const weekday = WEEKDAYS.indexOf(said);
  // Said on a Friday, `friday` is the next one.
  return weekday < 0 ? undefined : dayAfter(today, ((weekday - weekdayOf(today) + 6) % 7) + 1);
}

/** `2026-11-22 05:00`, which is UTC as all times are. */
function localTime(text: string): string | undefined {
  const [, day, minute, second = ':00'] = LOCAL_TIME.exec(text.trim()) ?? [];
  return day === undefined || minute === undefined ? undefined : `${day}T${minute}${second}Z`;
}

function lengthOf([, number = '0', unit = 'd']: RegExpExecArray): number {
  return Number(number) * (UNIT_MS[unit.charAt(0)] ?? 0);
}

function days(from: string, to: string): SpelledRange {
  return { from, to };
}

function first(day: string): string {
  return `${day.slice(0, 7)}-01`;
}

function monthOf(month: string): SpelledRange {
  const [year = 0, number = 1] = month.split('-').map(Number);
  return days(`${month}-01`, new Date(Date.UTC(year, number, 0)).toISOString().slice(0, 10));
}

function weekdayOf(day: string): number {
  return new Date(`${day}T00:00:00Z`).getUTCDay();
}

function monday(day: string): string {
  return dayAfter(day, -((weekdayOf(day) + 6) % 7));
}
