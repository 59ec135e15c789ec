/*
 * Windows of budgets, a row for each kind (decisions 6.2, 6.22): the hour and the day in UTC, the ISO week (from
 * Monday) and the calendar month. A moment is a number of whole hours since 1970-01-01 UTC, the finest that any window
 * begins at: nothing depends on a time zone or on summer time.
 */

import { BUDGET_PERIODS, type BudgetPeriod } from '../../base/model/budget-limit.ts';

const HOUR_MS = 3_600_000;
const DAY = 24;
/** 1970-01-01 was a Thursday. */
const MONDAY_OFFSET = 3;

interface WindowKind {
  /** The first hour of the window that an hour lies in. */
  start(hour: number): number;
  /** Hours of the longest window of the kind: so many hours after a window begins, the next one is under way. */
  readonly longest: number;
  /** How much of a time names its beginning. */
  readonly shown: 'day' | 'hour';
}

const KINDS: Readonly<Record<BudgetPeriod, WindowKind>> = {
  hourly: { start: (hour) => hour, longest: 1, shown: 'hour' },
  daily: { start: (hour) => dayOf(hour) * DAY, longest: DAY, shown: 'day' },
  weekly: { start: (hour) => (dayOf(hour) - ((dayOf(hour) + MONDAY_OFFSET) % 7)) * DAY, longest: 7 * DAY, shown: 'day' },
  monthly: { start: startOfMonth, longest: 31 * DAY, shown: 'day' },
};

/** The moment of a time. */
export function hourOf(epochMs: number): number {
  return Math.floor(epochMs / HOUR_MS);
}

/** Whole days since 1970-01-01 UTC. */
export function dayOf(hour: number): number {
  return Math.floor(hour / DAY);
}

/** `2026-11-22`. */
export function dayText(day: number): string {
  return new Date(day * DAY * HOUR_MS).toISOString().slice(0, 10);
}

/** The first hour of the window that `hour` lies in. */
export function windowStart(period: BudgetPeriod, hour: number): number {
  return KINDS[period].start(hour);
}

/** Epoch milliseconds at which the window ends that `hour` lies in. */
export function windowEnd(period: BudgetPeriod, hour: number): number {
  const { start, longest } = KINDS[period];
  return start(start(hour) + longest) * HOUR_MS;
}

/** What names a window by its first hour: `2026-11-22`, of an hour `2026-11-22T17:00:00Z`. */
export function startText(period: BudgetPeriod, start: number): string {
  return KINDS[period].shown === 'day' ? dayText(dayOf(start)) : `${new Date(start * HOUR_MS).toISOString().slice(0, 13)}:00:00Z`;
}

/** The first day of any window that is open in `hour`. */
export function earliestDay(hour: number): number {
  return Math.min(...BUDGET_PERIODS.map((period) => dayOf(windowStart(period, hour))));
}

function startOfMonth(hour: number): number {
  const date = new Date(hour * HOUR_MS);
  return hourOf(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1));
}
