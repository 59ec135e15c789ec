/*
 * Money is never a floating-point number. On the path of a request it is a bigint of pico-dollars (1 USD = 10^12), at
 * the edges an exact decimal text. What people write is read, and reckoned with, in amounts.ts. A rate of up to six
 * decimals per million tokens times any token count is a whole number of pico-dollars, so the listed prices lose
 * nothing.
 */

/** Decimals that a pico-dollar amount can hold. */
export const PICO_DECIMALS = 12;
const PICO_PER_USD = 10n ** 12n;
const TOKENS_PER_RATE = 1_000_000n;
const PICO_PER_MICRO = 1_000_000n;

/** What is an amount: a plain non-negative decimal. */
export const USD = /^(\d{1,18})(?:\.(\d{1,40}))?$/;

/** Rates in pico-dollars per million tokens: {@link picoFromUsd} of a price list's text. */
export interface RatesPico {
  readonly in: bigint;
  readonly out: bigint;
}

/** Tokens of the input or the output that have a rate of their own. */
export interface PricedPart {
  readonly of: 'in' | 'out';
  readonly tokens: number;
  readonly rate: bigint;
}

const NO_PARTS: readonly PricedPart[] = [];

/**
 * Reads an amount such as `5`, `0.15` or `12.50` exactly.
 * @throws RangeError when it is not a plain non-negative decimal, or is finer than a pico-dollar
 */
export function picoFromUsd(text: string): bigint {
  const pico = parseUsd(text);
  if (pico === undefined) throw new RangeError('an amount is a plain decimal number of dollars with at most 12 decimals, such as 12.50');
  return pico;
}

let lastText = '';
let lastPico: bigint | undefined;

/**
 * As {@link picoFromUsd}, but undefined instead of an exception. Several ask for the cost of one call, so the last
 * answer is kept.
 */
export function parseUsd(text: string): bigint | undefined {
  if (text === lastText) return lastPico;
  lastPico = readUsd(text);
  lastText = text;
  return lastPico;
}

function readUsd(text: string): bigint | undefined {
  const match = USD.exec(text);
  if (match === null) return undefined;
  const fraction = (match[2] ?? '').replace(/0+$/, '');
  if (fraction.length > PICO_DECIMALS) return undefined;
  return BigInt(match[1] ?? '0') * PICO_PER_USD + BigInt(fraction.padEnd(PICO_DECIMALS, '0'));
}

/** Decimal text without exponent and without padding zeros (decision 8.8): `0`, `0.0105`, `12.5`. */
export function usdFromPico(pico: bigint): string {
  if (pico < 0n) return `-${usdFromPico(-pico)}`;
  const whole = pico / PICO_PER_USD;
  const rest = pico % PICO_PER_USD;
  if (rest === 0n) return whole.toString();
  return `${whole}.${rest.toString().padStart(PICO_DECIMALS, '0').replace(/0+$/, '')}`;
}

/**
 * Cost of a call: (tokens_in × rate_in + tokens_out × rate_out) / 1,000,000 (specification, "Cost estimation"), exact
 * for rates of up to six decimals, rounded half up to a pico-dollar for finer ones.
 * @param parts tokens that are priced apart; no token is in two of them, and what exceeds its side counts for nothing
 * @throws RangeError when a count is not a non-negative safe integer
 */
export function costPico(tokensIn: number, tokensOut: number, rates: RatesPico, parts = NO_PARTS): bigint {
  if (!Number.isSafeInteger(tokensIn) || tokensIn < 0 || !Number.isSafeInteger(tokensOut) || tokensOut < 0) throw noTokenCount();
  let restIn = BigInt(tokensIn);
  let restOut = BigInt(tokensOut);
  let total = 0n;
  for (const { of, tokens, rate } of parts) {
    if (!Number.isSafeInteger(tokens) || tokens < 0) throw noTokenCount();
    const counted = BigInt(tokens);
    const rest = of === 'in' ? restIn : restOut;
    const apart = counted < rest ? counted : rest;
    total += apart * rate;
    if (of === 'in') restIn -= apart;
    else restOut -= apart;
  }
  total += restIn * rates.in + restOut * rates.out;
  return (total + TOKENS_PER_RATE / 2n) / TOKENS_PER_RATE;
}

/** Millionths of a unit: of seconds no provider tells finer ones. */
const UNIT_PARTS = 1_000_000;

/**
 * Cost of so many of what is billed beside tokens (decision 6.16), rounded half up to a pico-dollar.
 * @param count a finite number of at least 0; below `least` it counts as that
 */
export function unitsPico(
  count: number,
  { usd, per, least = 0 }: { readonly usd: string; readonly per: number; readonly least?: number },
): bigint {
  const parts = BigInt(Math.round(Math.min(Math.max(count, least), Number.MAX_SAFE_INTEGER / UNIT_PARTS) * UNIT_PARTS));
  const divisor = BigInt(per) * BigInt(UNIT_PARTS);
  return (parts * picoFromUsd(usd) + divisor / 2n) / divisor;
}

function noTokenCount(): RangeError {
  return new RangeError('a token count is a non-negative integer');
}

/** Micro-dollars as a number: for comparing amounts, never for adding them up. */
export function roughMicros(pico: bigint): number {
  return Number(pico / PICO_PER_MICRO);
}

/** The amount behind rough micro-dollars. @throws RangeError for what is no finite number */
export function picoFromMicros(micros: number): bigint {
  return BigInt(Math.round(micros)) * PICO_PER_MICRO;
}

/**
 * The number that is nearest to an amount, in dollars: to be shown where only a number can stand, never for reckoning.
 */
export function shownDollars(pico: bigint): number {
  return Number(usdFromPico(pico));
}
