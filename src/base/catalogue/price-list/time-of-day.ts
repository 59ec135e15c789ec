/*
 * Times of the day in the price list: `16:30:00Z`, `01:00:00.5+08:00`.
 */

const TIME = /^(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:Z|([+-])(\d{2}):(\d{2}))$/;
const DAY_SECONDS = 86_400;
const DAY_MS = 86_400_000;

/** Seconds after midnight UTC; undefined for what is no time. */
export function secondsOfDay(text: string): number | undefined {
  const match = TIME.exec(text);
  if (match === null) return undefined;
  const [, hours = '', minutes = '', seconds = '', fraction = '', sign, zoneHours = '00', zoneMinutes = '00'] = match;
  if (hours > '23' || minutes > '59' || seconds > '59' || zoneHours > '23' || zoneMinutes > '59') return undefined;
  const zone = (Number(zoneHours) * 60 + Number(zoneMinutes)) * 60 * (sign === '-' ? -1 : 1);
  const local = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds) + Number(`0.${fraction === '' ? '0' : fraction}`);
  return (local - zone + DAY_SECONDS) % DAY_SECONDS;
}

/** @param at epoch milliseconds. @returns seconds after midnight UTC, with their thousandths */
export function secondsInDay(at: number): number {
  return (((at % DAY_MS) + DAY_MS) % DAY_MS) / 1000;
}

/**
 * Whether a moment of the day lies in a window, of which the end is outside; one that ends before it starts passes
 * midnight.
 */
export function isInWindow(seconds: number, start: number, end: number): boolean {
  return end < start ? seconds >= start || seconds < end : seconds >= start && seconds < end;
}
