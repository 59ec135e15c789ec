/*
 * Numbers and times as people read them: in the language of the browser, in the zone that the address names. Money is
 * decimal text and is never made a floating-point number on the way to the screen.
 */
import { gatewayNow } from './gateway-time.ts';
import { place } from './place.ts';

const LANGUAGE = navigator.language;
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
// Digits that stand beside those of decimal text are of its kind.
const COUNT = new Intl.NumberFormat(LANGUAGE, { numberingSystem: 'latn' });
const PERCENT = new Intl.NumberFormat(LANGUAGE, { numberingSystem: 'latn', style: 'percent', maximumFractionDigits: 1 });
const DECIMAL_POINT = COUNT.formatToParts(1.5).find(({ type }) => type === 'decimal')?.value ?? '.';
const DOLLARS = /^(-?)(\d+)(?:\.(\d+))?$/;

/** The IANA zone whose days and hours are shown: `tz` of the address, else the browser's. */
export function zone(): string {
  const asked = place.value.query.get('tz');
  return asked !== null && isZone(asked) ? asked : OWN_ZONE;
}

function isZone(name: string): boolean {
  try {
    Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** What there is of these, in one line. */
export function together(...parts: readonly (string | number | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== '').join(', ');
}

export function count(value: number): string {
  return COUNT.format(value);
}

/** @param part of `whole`; nothing of nothing is 0 % */
export function share(part: number, whole: number): string {
  return PERCENT.format(whole === 0 ? 0 : part / whole);
}

/**
 * Dollars: to the cent from one dollar on, below that four digits that say something. What is rounded off is never
 * shown as nothing: `<$0.0001`.
 * @param usd decimal text
 * @param fine all digits that there are
 */
export function money(usd: string, fine = false): string {
  const match = DOLLARS.exec(usd);
  if (match === null) return usd;
  const [, sign = '', whole = '0', fraction = ''] = match;
  if (fine) return `${sign}$${grouped(whole)}${fraction === '' ? '' : DECIMAL_POINT + fraction.padEnd(2, '0')}`;
  const isSmall = BigInt(whole) === 0n;
  if (isSmall && !/[1-9]/.test(fraction)) return '$0';
  const rounded = roundedTo(whole, fraction, isSmall ? 4 : 2);
  if (!/[1-9]/.test(rounded.replace('.', ''))) return `${sign}<$0${DECIMAL_POINT}0001`;
  const [units = '0', digits = ''] = rounded.split('.');
  return `${sign}$${grouped(units)}${DECIMAL_POINT}${digits}`;
}

/** For places of a chart alone, never for a sum. */
export function dollarsForChart(usd: string): number {
  return Number.parseFloat(usd);
}

function grouped(whole: string): string {
  return COUNT.format(BigInt(whole));
}

function roundedTo(whole: string, fraction: string, digits: number): string {
  const unit = 10n ** BigInt(digits);
  const scaled = BigInt(whole + fraction.padEnd(digits, '0').slice(0, digits)) + ((fraction[digits] ?? '0') >= '5' ? 1n : 0n);
  return `${scaled / unit}.${String(scaled % unit).padStart(digits, '0')}`;
}

/** How much of a limit is used, in percent; undefined for a limit of nothing. */
export function percentOf(part: string, whole: string): number | undefined {
  const base = dollarsForChart(whole);
  return base > 0 ? (dollarsForChart(part) / base) * 100 : undefined;
}

function inZone(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = JSON.stringify([zone(), options]);
  const known = formats.get(key) ?? new Intl.DateTimeFormat(LANGUAGE, { timeZone: zone(), hourCycle: 'h23', ...options });
  formats.set(key, known);
  return known;
}
const formats = new Map<string, Intl.DateTimeFormat>();

const CLOCK: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', second: '2-digit' };

/** `14:02:11`, with the day before it unless that is today. */
export function shortTime(time: string, now = gatewayNow()): string {
  const at = new Date(time);
  const isToday = day(at) === day(new Date(now));
  return isToday ? inZone(CLOCK).format(at) : `${dayAndMonth(at)} ${inZone({ hour: '2-digit', minute: '2-digit' }).format(at)}`;
}

/** Day, time and zone, for a title. */
export function longTime(time: string): string {
  return inZone({ dateStyle: 'full', timeStyle: 'long', hourCycle: undefined }).format(new Date(time));
}

export function hourAndMinute(at: number): string {
  return inZone({ hour: '2-digit', minute: '2-digit' }).format(at);
}

export function dayAndMonth(at: Date | number): string {
  return inZone({ day: 'numeric', month: 'short' }).format(at);
}

/** A day of a report, `2026-11-22`, which is one of no zone. */
export function reportDay(text: string): string {
  return new Intl.DateTimeFormat(LANGUAGE, { timeZone: 'UTC', day: 'numeric', month: 'short' }).format(new Date(`${text}T00:00:00Z`));
}

/** `2026-11-22` in the zone. */
export function day(at: Date): string {
  return new Intl.DateTimeFormat('en-CA', { timeZone: zone() }).format(at);
}

const STEPS = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const;

/** `41 s`, `21 h`: in the largest unit of which there are at least two. @param ms negative counts as none */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  for (const [name, length] of STEPS) if (seconds >= length * (length === 1 ? 0 : 2)) return `${Math.floor(seconds / length)} ${name}`;
  return `${seconds} s`;
}

/** `3 min ago`. */
export function ago(time: string, now = gatewayNow()): string {
  const ms = now - Date.parse(time);
  return ms < 2_000 ? 'now' : `${span(ms)} ago`;
}

export function bytes(size: number): string {
  const units = ['B', 'KB', 'MB', 'GB'];
  let at = 0;
  let value = size;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${COUNT.format(Math.round(value * 10) / 10)} ${units[at]}`;
}

export function milliseconds(ms: number): string {
  return ms < 1000 ? `${count(Math.round(ms))} ms` : `${COUNT.format(Math.round(ms / 100) / 10)} s`;
}
