import { Decimal } from 'decimal.js';
import { PICO_DECIMALS, USD } from './money.ts';

/*
 * Amounts as people write them (limits, thresholds, price files) and what is reckoned from them when they are read.
 * What a call reckons is integers: money.ts.
 */

/**
 * Wide enough for all digits that an amount can have, with twelve more before the point: nothing is rounded, nothing
 * has an exponent.
 */
const Exact = Decimal.clone({ precision: 80, toExpNeg: -80, toExpPos: 80, rounding: Decimal.ROUND_UP, defaults: true });
const PICO_PER_USD = new Exact(10).pow(PICO_DECIMALS);

/**
 * Pico-dollars of an amount such as `5`, `0.15` or `12.50`; undefined for what is not a plain non-negative decimal, or
 * is finer than a pico-dollar. Whatever text it takes `parseUsd` takes, and says the same: an amount means one thing
 * wherever it is read.
 */
export function readAmount(text: string): bigint | undefined {
  if (!USD.test(text)) return undefined;
  const pico = new Exact(text).times(PICO_PER_USD);
  return pico.isInteger() ? BigInt(pico.toString()) : undefined;
}

/**
 * An amount as records hold it, without zeros that say nothing (decision 8.8): `2.50` is 2.5.
 * @throws RangeError for what is none
 */
export function tidyAmount(text: string): string {
  if (readAmount(text) === undefined) throw new RangeError(`"${text}" is no amount`);
  return new Exact(text).toString();
}

/**
 * An amount to compare others with, as programs write numbers (`0.5`, `1e-7`), in plain decimal text; undefined for
 * what is no number of at least 0. What is finer than a pico-dollar is rounded up: no amount lies between.
 */
export function amountFromNumber(text: string): string | undefined {
  if (!/^\d{1,18}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,2})?$/.test(text)) return undefined;
  const plain = new Exact(text).toDecimalPlaces(PICO_DECIMALS).toFixed();
  return USD.test(plain) ? plain : undefined;
}

/**
 * So many percent of pico-dollars, rounded up to a whole one: whoever has spent less than that share has not reached
 * it.
 */
export function shareOf(pico: bigint, percent: number): bigint {
  return BigInt(new Exact(pico).times(percent).div(100).ceil().toString());
}

/** An amount times a decimal factor, as records hold it; what is finer than a pico-dollar is rounded up. */
export function timesFactor(text: string, factor: string): string {
  return new Exact(text).times(factor).toDecimalPlaces(PICO_DECIMALS).toString();
}
