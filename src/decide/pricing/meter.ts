/*
 * What a call may cost and what it did cost: token counts and the catalogue's rates in, exact integer pico-dollars out. Nothing here keeps a sum, knows a
 * budget or decides; counts come from the connectors, sums live in the services.
 */
import type { Price } from '../../base/catalogue/types.ts';
import { costPico, picoFromUsd, type RatesPico } from '../../base/lib/money.ts';
import type { Metering } from '../../base/model/execution-record.ts';
import type { Usage } from '../../base/model/usage.ts';

/** Cost and rates of a call, for the record's `metering` (decision 7.5). */
export interface Cost {
  readonly costPico: bigint;
  /** USD per million tokens, decimal text. */
  readonly rateIn: string;
  readonly rateOut: string;
  /** Only when cached tokens were priced apart (decision 6.3). */
  readonly rateCachedIn: string | undefined;
  /** Only when tokens written to a cache were priced apart. */
  readonly rateCacheWrite: string | undefined;
  readonly rateSource: Metering['rate_source'];
}

interface Rates {
  readonly plain: RatesPico;
  readonly cached: RatesPico;
  /** Every input token at the dearest rate that `cached` has for one. */
  readonly dearest: RatesPico;
}

const known = new WeakMap<Price, Rates>();

function ratesOf(price: Price): Rates {
  let rates = known.get(price);
  if (rates === undefined) {
    const plain = { in: picoFromUsd(price.in), out: picoFromUsd(price.out) };
    const cached = {
      ...plain,
      ...(price.cachedIn === undefined ? {} : { cachedIn: picoFromUsd(price.cachedIn) }),
      ...(price.cacheWrite === undefined ? {} : { cacheWrite: picoFromUsd(price.cacheWrite) }),
    };
    const dearest = { ...plain, in: [cached.in, cached.cachedIn, cached.cacheWrite].reduce<bigint>(larger, 0n) };
    rates = { plain, cached, dearest };
    known.set(price, rates);
  }
  return rates;
}

function larger(a: bigint, b: bigint | undefined): bigint {
  return b !== undefined && b > a ? b : a;
}

/**
 * Cost of a call from its real token counts (specification, "Cost estimation"); zero when the provider reported none.
 * @param cachedRates `GW_PRICING_CACHED`: input tokens that were read from a cache or written to one at the catalogue's rates for them, where it has some
 * (decision 6.3)
 * @throws RangeError when a count is not a non-negative safe integer
 */
export function meter(usage: Usage | undefined, price: Price, cachedRates = false): Cost {
  const rates = ratesOf(price);
  return {
    costPico: usage === undefined ? 0n : costOf(usage, cachedRates ? rates.cached : rates.plain),
    rateIn: price.in,
    rateOut: price.out,
    rateCachedIn: cachedRates ? price.cachedIn : undefined,
    rateCacheWrite: cachedRates ? price.cacheWrite : undefined,
    rateSource: price.source,
  };
}

function costOf(
  { tokens_in, tokens_out, cached_tokens_in: cached = 0, cache_write_tokens_in: written = 0 }: Usage,
  rates: RatesPico,
): bigint {
  return costPico(tokens_in, tokens_out, rates, { cached, written });
}

/** Cost at the plain rates; for estimates, which know nothing of caches. */
export function plainCost(tokensIn: number, tokensOut: number, price: Price): bigint {
  return costPico(tokensIn, tokensOut, ratesOf(price).plain);
}

/** What these tokens can cost at most; more than the plain cost where a cache is priced apart and is dearer. */
export function dearestCost(tokensIn: number, tokensOut: number, price: Price, cachedRates: boolean): bigint {
  const rates = ratesOf(price);
  return costPico(tokensIn, tokensOut, cachedRates ? rates.dearest : rates.plain);
}
