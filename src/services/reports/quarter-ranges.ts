import { quarterNames } from '../../storage/contract/counter-spaces.ts';
import type { CounterRow } from '../../storage/contract/store.ts';
import { HOUR_MS, NO_USAGE, plus, type UsageSum } from './usage-sums.ts';

export const QUARTER_MS: number = HOUR_MS / 4;
const DAY_MS = 24 * HOUR_MS;
const QUARTERS = [0, 1, 2, 3] as const;
type QuarterNames = ReturnType<typeof quarterNames>;

/**
 * A part of a range of which totals are kept: a whole UTC day (`2026-11-22`), or some quarters of an hour
 * (`2026-11-22T05`).
 */
export type Stretch = { readonly day: string } | { readonly hour: string; readonly quarters: readonly number[] };

/** The beginning of the quarter of an hour that a time lies in: finer is no total. */
export function quarterStart(epochMs: number): number {
  return Math.floor(epochMs / QUARTER_MS) * QUARTER_MS;
}

/**
 * The whole days of a range, and the hours before and behind them, in order. Both ends are beginnings of quarters of an
 * hour.
 * @param to exclusive
 */
export function* stretchesOf(from: number, to: number): Generator<Stretch> {
  for (let at = from; at < to; ) {
    if (at % DAY_MS === 0 && at + DAY_MS <= to) {
      yield { day: isoText(at, 10) };
      at += DAY_MS;
      continue;
    }
    const hour = Math.floor(at / HOUR_MS) * HOUR_MS;
    const end = Math.min(to, hour + HOUR_MS);
    const first = at;
    yield { hour: isoText(hour, 13), quarters: QUARTERS.filter((quarter) => isWithin(hour + quarter * QUARTER_MS, first, end)) };
    at = end;
  }
}

function isWithin(at: number, from: number, to: number): boolean {
  return at >= from && at < to;
}

/** The totals of a row by day, by hour or by month. */
export function usageOf(amounts: CounterRow['amounts']): UsageSum {
  return read(amounts, PLAIN);
}

const PLAIN: QuarterNames = {
  requests: 'requests',
  tokens_in: 'tokens_in',
  tokens_out: 'tokens_out',
  cost_pico: 'cost_pico',
  cached_in: 'cached_in',
  no_usage: 'no_usage',
  no_usage_pico: 'no_usage_pico',
  by_default: 'by_default',
  by_default_pico: 'by_default_pico',
};
const NAMES = QUARTERS.map(quarterNames);

/** Those of some quarters of a row by quarter of an hour. */
export function usageOfQuarters(amounts: CounterRow['amounts'], quarters: readonly number[]): UsageSum {
  let sum = NO_USAGE;
  for (const quarter of quarters) {
    const names = NAMES[quarter];
    if (names !== undefined) sum = plus(sum, read(amounts, names));
  }
  return sum;
}

function read(amounts: CounterRow['amounts'], names: QuarterNames): UsageSum {
  return {
    requests: amounts[names.requests] ?? 0n,
    tokensIn: amounts[names.tokens_in] ?? 0n,
    tokensOut: amounts[names.tokens_out] ?? 0n,
    costPico: amounts[names.cost_pico] ?? 0n,
    cachedIn: amounts[names.cached_in] ?? 0n,
    withoutUsage: amounts[names.no_usage] ?? 0n,
    withoutUsagePico: amounts[names.no_usage_pico] ?? 0n,
    byDefault: amounts[names.by_default] ?? 0n,
    byDefaultPico: amounts[names.by_default_pico] ?? 0n,
  };
}

function isoText(epochMs: number, length: number): string {
  return new Date(epochMs).toISOString().slice(0, length);
}
