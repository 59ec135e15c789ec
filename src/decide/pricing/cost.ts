/*
 * What a call may cost and what it did cost: token counts and the catalogue's rates in, exact integer pico-dollars out. Nothing here keeps a sum, knows a
 * budget or decides; counts come from the connectors, sums live in the services.
 */
import type { Price } from '../../base/catalogue/types.ts';
import { costPico, picoFromUsd, type RatesPico } from '../../base/lib/money.ts';
import type { Metering } from '../../base/model/execution-record.ts';
import { type PartRate, RATE_KINDS, type RateKind } from '../../base/model/rate-kinds.ts';
import type { PartTokens, Usage } from '../../base/model/usage.ts';

/** Cost and rates of a call, for the record's `metering` (decision 7.5). */
export interface Cost {
  readonly costPico: bigint;
  /** USD per million tokens, decimal text. */
  readonly rateIn: string;
  readonly rateOut: string;
  /** Rates of the parts that are priced apart. */
  readonly apart: PartTexts;
  readonly rateSource: Metering['rate_source'];
}

type PartTexts = Readonly<Partial<Record<PartRate, string>>>;

/** How the tokens of one kind are priced. */
interface Part {
  readonly of: RateKind['of'];
  readonly tokens: PartTokens;
  /** Kinds that are a part of it and are priced before it. */
  readonly less: readonly PartTokens[];
  readonly rate: bigint;
}

/** What holds with `GW_PRICING_CACHED`, or without. */
interface Rates {
  readonly plain: RatesPico;
  readonly parts: readonly Part[];
  readonly texts: PartTexts;
  /** Every token at the dearest rate that there is for one of its side. */
  readonly dearest: RatesPico;
}

const knownPlain = new WeakMap<Price, Rates>();
const knownCached = new WeakMap<Price, Rates>();

function ratesOf(price: Price, cachedRates: boolean): Rates {
  const known = cachedRates ? knownCached : knownPlain;
  let rates = known.get(price);
  if (rates === undefined) {
    rates = makeRates(price, cachedRates);
    known.set(price, rates);
  }
  return rates;
}

function makeRates(price: Price, cachedRates: boolean): Rates {
  const plain = { in: picoFromUsd(price.in), out: picoFromUsd(price.out) };
  const texts: Partial<Record<PartRate, string>> = {};
  for (const { rate, cache } of RATE_KINDS) {
    const text = price[rate];
    if (text !== undefined && (cachedRates || !cache)) texts[rate] = text;
  }
  // What has no rate of its own goes with the kind that it is a part of, unless there are two of these: then it must not count in both.
  const isStated = (rate: PartRate): boolean => texts[rate] !== undefined;
  const apart = RATE_KINDS.filter(({ rate, within }) => isStated(rate) || (within.length > 1 && within.every(isStated)));
  const parts = apart.map(({ rate, of, tokens, within }): Part => {
    const text = [rate, ...within].map((name) => texts[name]).find((stated) => stated !== undefined) ?? price.in;
    const less = apart.filter((kind) => kind.within.includes(rate)).map((kind) => kind.tokens);
    return { of, tokens, less, rate: picoFromUsd(text) };
  });
  return { plain, parts, texts, dearest: { in: dearestOf('in', plain.in, parts), out: dearestOf('out', plain.out, parts) } };
}

function dearestOf(side: Part['of'], plain: bigint, parts: readonly Part[]): bigint {
  let dearest = plain;
  for (const { of, rate } of parts) if (of === side && rate > dearest) dearest = rate;
  return dearest;
}

/**
 * Cost of a call from its real token counts (specification, "Cost estimation"); zero when the provider reported none. Each token is charged once: at the rate of the
 * narrowest kind that it is of and that has one.
 * @param cachedRates `GW_PRICING_CACHED`: input tokens that were read from a cache or written to one at the catalogue's rates for them, where it has some
 * (decision 6.3)
 * @throws RangeError when a count is not a non-negative safe integer
 */
export function meter(usage: Usage | undefined, price: Price, cachedRates = false): Cost {
  const rates = ratesOf(price, cachedRates);
  return {
    costPico: usage === undefined ? 0n : costOf(usage, rates),
    rateIn: price.in,
    rateOut: price.out,
    apart: rates.texts,
    rateSource: price.source,
  };
}

function costOf(usage: Usage, { plain, parts }: Rates): bigint {
  const { tokens_in: tokensIn, tokens_out: tokensOut } = usage;
  if (parts.length === 0) return costPico(tokensIn, tokensOut, plain);
  const apart = parts.map(({ of, tokens, less, rate }) => ({ of, tokens: ownTokens(usage, tokens, less), rate }));
  return costPico(tokensIn, tokensOut, plain, apart);
}

function ownTokens(usage: Usage, tokens: PartTokens, less: readonly PartTokens[]): number {
  let own = usage[tokens] ?? 0;
  for (const part of less) own -= usage[part] ?? 0;
  return Math.max(0, own);
}

/** Cost at the rates of input and output; for estimates, which know nothing of parts. */
export function plainCost(tokensIn: number, tokensOut: number, price: Price): bigint {
  return costPico(tokensIn, tokensOut, ratesOf(price, false).plain);
}

/** What these tokens can cost at most; more than the plain cost where a part of them is priced apart and is dearer. */
export function dearestCost(tokensIn: number, tokensOut: number, price: Price, cachedRates: boolean): bigint {
  return costPico(tokensIn, tokensOut, ratesOf(price, cachedRates).dearest);
}
