/* How forecasts are told, on every face (decision 6.21). */

import { z } from 'zod';
import { timestamp } from '../base/lib/clock.ts';
import { parseUsd, usdFromPico } from '../base/lib/money.ts';
import { BUDGET_PERIODS } from '../base/model/budget-limit.ts';
import { forecastPico, limitForecast, OUTLOOKS, type PeriodSpend } from '../decide/limits/forecast.ts';
import { hourOf, windowEnd } from '../decide/limits/windows.ts';
import type { LimitStatus } from '../services/money/budgets.ts';
import { BUDGET_SCOPES } from '../services/money/spend-book.ts';
import { time, usd } from './shapes.ts';

const RULE = 'spent so far, divided by the time that has passed, times the length of the period; null before a 24th of it has passed';
const forecastUsd = usd.nullable().meta({ description: `What it comes to at its end: ${RULE}`, examples: ['1438.23'] });
const outlook = z.enum(OUTLOOKS);
const reachedAt = time
  .nullable()
  .meta({ description: 'When it is reached at the rate so far; null: not in this period, already, or not known' });
const periodEnd = time.meta({ description: 'When the period ends, which is no part of it' });

/** Of a budget limit. */
export const LIMIT_FORECAST = z.object({ period_end: periodEnd, forecast_usd: forecastUsd, outlook, reached_at: reachedAt });

/** Of a cost report, and of an org's month. */
export const FORECAST = z.object({
  period_end: periodEnd,
  forecast_usd: forecastUsd,
  first_cap: z
    .object({
      limit_id: z.string(),
      scope: z.enum(BUDGET_SCOPES),
      scope_id: z.string().optional(),
      period: z.enum(BUDGET_PERIODS),
      effective_limit_usd: usd,
      spent_usd: usd,
      outlook,
      reached_at: reachedAt,
    })
    .optional()
    .meta({ description: 'The cap of the org that refuses first, or does already; absent: none in its period, as far as is known' }),
});

type ShownLimitForecast = z.output<typeof LIMIT_FORECAST>;

interface ToldForecast {
  readonly shown: ShownLimitForecast;
  readonly reachedPico: bigint | undefined;
}

/** Of one limit. @param now epoch milliseconds */
export function shownLimitForecast(status: LimitStatus, now: number): ShownLimitForecast {
  return toldForecast(status, now).shown;
}

function toldForecast(status: LimitStatus, now: number): ToldForecast {
  const { limit, override, effectiveUsd, spentUsd, periodStart } = status;
  const start = Date.parse(periodStart);
  const end = windowEnd(limit.period, hourOf(start));
  const own = { pico: parseUsd(limit.limit_usd) ?? 0n, until: end };
  const amounts = override === undefined ? [own] : [{ pico: parseUsd(effectiveUsd) ?? 0n, until: Date.parse(override.until) }, own];
  const {
    outlook: told,
    forecastPico: pico,
    reachedAt: at,
    reachedPico,
  } = limitForecast({ start, end, spentPico: parseUsd(spentUsd) ?? 0n }, amounts, now);
  const shown = {
    period_end: timestamp(end),
    forecast_usd: pico === undefined ? null : usdFromPico(pico),
    outlook: told,
    reached_at: at === undefined ? null : timestamp(at),
  };
  return { shown, reachedPico };
}

/** Of a period. @param limits of the org, to say which cap refuses first; none: nothing is said of caps */
export function shownForecast(spend: PeriodSpend, limits: readonly LimitStatus[], now: number): z.output<typeof FORECAST> {
  const pico = forecastPico(spend, now);
  const first = firstCap(limits, now);
  return {
    period_end: timestamp(spend.end),
    forecast_usd: pico === undefined ? null : usdFromPico(pico),
    ...(first === undefined ? {} : { first_cap: first }),
  };
}

function firstCap(limits: readonly LimitStatus[], now: number): z.output<typeof FORECAST>['first_cap'] {
  let first:
    | { readonly status: LimitStatus; readonly forecast: ShownLimitForecast; readonly reachedPico: bigint; readonly at: number }
    | undefined;
  for (const status of limits) {
    if (!status.limit.actions.includes('cap')) continue;
    const { shown: forecast, reachedPico } = toldForecast(status, now);
    if (reachedPico === undefined) continue;
    const at = forecast.outlook === 'reached' ? now : Date.parse(forecast.reached_at ?? '');
    // Of those that are reached at the same time the oldest.
    if (at < (first?.at ?? Number.POSITIVE_INFINITY)) first = { status, forecast, reachedPico, at };
  }
  if (first === undefined) return undefined;
  const { limit, spentUsd } = first.status;
  return {
    limit_id: limit.limit_id,
    scope: limit.scope,
    ...(limit.scope_id === undefined ? {} : { scope_id: limit.scope_id }),
    period: limit.period,
    // An override may have ended by then: what is said is the amount that stops the calls.
    effective_limit_usd: usdFromPico(first.reachedPico),
    spent_usd: spentUsd,
    outlook: first.forecast.outlook,
    reached_at: first.forecast.reached_at,
  };
}
