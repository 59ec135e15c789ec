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
  readonly rateSource: Metering['rate_source'];
}

interface Rates {
  readonly plain: RatesPico;
  readonly cached: RatesPico;
}

const known = new WeakMap<Price, Rates>();

function ratesOf(price: Price): Rates {
  let rates = known.get(price);
  if (rates === undefined) {
    const plain = { in: picoFromUsd(price.in), out: picoFromUsd(price.out) };
    rates = { plain, cached: price.cachedIn === undefined ? plain : { ...plain, cachedIn: picoFromUsd(price.cachedIn) } };
    known.set(price, rates);
  }
  return rates;
}

/**
 * Cost of a call from its real token counts (specification, "Cost estimation"); zero when the provider reported none.
 * @param cachedRates `GW_PRICING_CACHED`: cached input tokens at the catalogue's rate for them, where it has one (decision 6.3)
 * @throws RangeError when a count is not a non-negative safe integer
 */
export function meter(usage: Usage | undefined, price: Price, cachedRates = false): Cost {
  const rates = ratesOf(price);
  const apart = cachedRates && price.cachedIn !== undefined;
  const cost =
    usage === undefined ? 0n : costPico(usage.tokens_in, usage.tokens_out, apart ? rates.cached : rates.plain, usage.cached_tokens_in ?? 0);
  return {
    costPico: cost,
    rateIn: price.in,
    rateOut: price.out,
    rateCachedIn: apart ? price.cachedIn : undefined,
    rateSource: price.source,
  };
}

/** Cost at the plain rates; for estimates, which know nothing of caches. */
export function plainCost(tokensIn: number, tokensOut: number, price: Price): bigint {
  return costPico(tokensIn, tokensOut, ratesOf(price).plain);
}
