/*
 * Where the spend of a period will end, at the rate so far (decision 6.21). Pure: amounts are pico-dollars, times epoch
 * milliseconds.
 */

/**
 * Before one part in so many of its period has passed, nothing is forecast: 2.5 minutes of an hour, an hour of a day,
 * seven hours of a week, 28 to 31 hours of a month.
 */
const LEAST_PART = 24n;

/** What was spent in a period so far. */
export interface PeriodSpend {
  readonly start: number;
  /** No part of it. */
  readonly end: number;
  readonly spentPico: bigint;
}

/** An amount that may be spent, and until when it holds. */
export interface HeldAmount {
  readonly pico: bigint;
  readonly until: number;
}

/**
 * `reached`: it is spent already; `will_be_reached`: within the period, at the rate so far; `holds`: not within it;
 * `unknown`: too little of the period has passed.
 */
export const OUTLOOKS = ['reached', 'will_be_reached', 'holds', 'unknown'] as const;
export type Outlook = (typeof OUTLOOKS)[number];

export interface LimitForecast {
  readonly outlook: Outlook;
  /** Undefined: too little of the period has passed. */
  readonly forecastPico: bigint | undefined;
  /** When it will be reached; undefined for every other outlook. */
  readonly reachedAt: number | undefined;
  /** The amount that is reached then, or is already. */
  readonly reachedPico: bigint | undefined;
}

/**
 * Spent so far ÷ time that has passed × length of the period, rounded half up to a pico-dollar.
 * @returns undefined where too little of the period has passed
 */
export function forecastPico({ start, end, spentPico }: PeriodSpend, now: number): bigint | undefined {
  const [passed, whole] = [BigInt(now - start), BigInt(end - start)];
  if (passed <= 0n || passed * LEAST_PART < whole) return undefined;
  return passed >= whole ? spentPico : (spentPico * whole + passed / 2n) / passed;
}

/**
 * Whether and when a limit will be reached, at the rate so far.
 * @param amounts what may be spent from now on, one behind the other: an override first, and the limit's own behind it
 */
export function limitForecast(spend: PeriodSpend, amounts: readonly HeldAmount[], now: number): LimitForecast {
  const forecast = forecastPico(spend, now);
  const told = (outlook: Outlook, reachedPico?: bigint, reachedAt?: number) => ({
    outlook,
    forecastPico: forecast,
    reachedAt,
    reachedPico,
  });
  const { start, end, spentPico } = spend;
  const [held = 0n] = amounts.map(({ pico }) => pico);
  if (spentPico >= held) return told('reached', held);
  if (forecast === undefined) return told('unknown');
  if (spentPico === 0n) return told('holds');
  const passed = BigInt(now - start);
  let from = now;
  for (const { pico, until } of amounts) {
    // The first millisecond at which so much will be spent.
    const after = (pico * passed + spentPico - 1n) / spentPico;
    const at = Math.max(from, start + Number(after));
    if (at < Math.min(until, end)) return told('will_be_reached', pico, at);
    from = until;
  }
  return told('holds');
}
