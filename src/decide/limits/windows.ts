/** Windows of budgets: the UTC day, the ISO week (from Monday) and the calendar month (decision 6.2). */
export const PERIODS = ['daily', 'weekly', 'monthly'] as const;
export type Period = (typeof PERIODS)[number];

const DAY_MS = 86_400_000;
/** 1970-01-01 was a Thursday. */
const MONDAY_OFFSET = 3;

/** Days since 1970-01-01 UTC. */
export function dayOf(epochMs: number): number {
  return Math.floor(epochMs / DAY_MS);
}

/** Epoch milliseconds at which a day begins. */
export function dayStart(day: number): number {
  return day * DAY_MS;
}

/** `2026-11-22`. */
export function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

/** The first day of the window that `day` lies in. */
export function windowStart(period: Period, day: number): number {
  if (period === 'daily') return day;
  if (period === 'weekly') return day - ((day + MONDAY_OFFSET) % 7);
  const date = new Date(day * DAY_MS);
  return Math.floor(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1) / DAY_MS);
}

/** Epoch milliseconds at which the window ends that a moment lies in. */
export function endOf(period: Period, epochMs: number): number {
  return dayStart(nextWindowStart(period, dayOf(epochMs)));
}

/** The first day of the window behind the one that `day` lies in. */
export function nextWindowStart(period: Period, day: number): number {
  // No window is longer, and the next one is no shorter than what that goes beyond it.
  return windowStart(period, windowStart(period, day) + LONGEST[period]);
}

/** Days of the longest window of each kind. */
const LONGEST: Readonly<Record<Period, number>> = { daily: 1, weekly: 7, monthly: 31 };

/** The first day of any window that is open on `day`. */
export function earliestStart(day: number): number {
  return Math.min(...PERIODS.map((period) => windowStart(period, day)));
}
