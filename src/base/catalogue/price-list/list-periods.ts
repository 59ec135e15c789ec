import type { ConditionalPrices } from './list-shape.ts';
import { isInWindow, secondsInDay, secondsOfDay } from './time-of-day.ts';

/** When one of a model's prices holds: from a moment on, in a window of each day, or, with neither, always. */
interface Period {
  /** Epoch milliseconds. */
  readonly from: number | undefined;
  /** Seconds after midnight UTC. */
  readonly window: { readonly start: number; readonly end: number } | undefined;
}

/** The prices of a model by time: of several that hold the last one does, and where none does the first. */
export class Periods {
  readonly #periods: readonly Period[];

  constructor(prices: readonly ConditionalPrices[]) {
    this.#periods = prices.map(periodOf);
  }

  /**
   * @param at epoch milliseconds; infinity is after all days and in no window.
   * @returns the index of the prices that hold then
   */
  indexAt(at: number): number {
    for (let index = this.#periods.length - 1; index > 0; index--) {
      const period = this.#periods[index];
      if (period !== undefined && holds(period, at)) return index;
    }
    return 0;
  }

  /** A moment at which the prices of an index hold, as far as one can be named: for comparing two lists. */
  momentOf(index: number): number {
    const { from, window } = this.#periods[index] ?? ALWAYS;
    if (from !== undefined) return from;
    if (window === undefined) return Number.NEGATIVE_INFINITY;
    // On a day when everything that begins has begun.
    const begun = this.#periods.reduce((latest, one) => Math.max(latest, one.from ?? 0), 0);
    return begun + DAY_MS + window.start * 1000;
  }
}

const DAY_MS = 86_400_000;
const ALWAYS: Period = { from: undefined, window: undefined };

function periodOf({ constraint }: ConditionalPrices): Period {
  if (constraint === undefined) return ALWAYS;
  if (constraint.type === 'start_date') return { from: Date.parse(`${constraint.start_date}T00:00:00Z`), window: undefined };
  return { from: undefined, window: { start: secondsOfDay(constraint.start_time) ?? 0, end: secondsOfDay(constraint.end_time) ?? 0 } };
}

function holds({ from, window }: Period, at: number): boolean {
  if (from !== undefined) return at >= from;
  if (window === undefined) return true;
  return Number.isFinite(at) && isInWindow(secondsInDay(at), window.start, window.end);
}
