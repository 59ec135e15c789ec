/*
 * What the list says of a model at one time, as a price of ours: decimal texts, rates by the length of the prompt, what
 * is billed apart from tokens.
 */
import { amountFromNumber, timesFactor } from '../../lib/amounts.ts';
import { significant } from '../../lib/text.ts';
import type { PartRate, Unit, UnitRate } from '../../model/usage.ts';
import type { LongPromptRates, Rates } from '../types.ts';
import { LIST_KEYS } from './list-keys.ts';
import { isTiered, type KeyedPrices, type TieredPrice } from './list-shape.ts';

/** As far as the list knows a price. */
export interface ListedRates extends Rates {
  readonly longPrompts?: readonly LongPromptRates[];
  readonly units?: Readonly<Partial<Record<Unit, UnitRate>>>;
}

/** Digits that a number of JSON tells truly; what follows is noise, as in 0.18000000000000002. */
const TRUE_DIGITS = 15;

/**
 * Charged for at least so much of a unit, in a call with any of it: a fact about the model, for which the list has no
 * key.
 */
const LEAST_UNITS: readonly { readonly list: string; readonly models: readonly string[]; readonly unit: Unit; readonly least: number }[] = [
  { list: 'groq', models: ['whisper-large-v3', 'whisper-large-v3-turbo'], unit: 'audio_seconds', least: 10 },
];

/** What every model of a maker is billed for alike, though the list says it of some only. Names of models begin so. */
const UNITS_OF_ALL: readonly { readonly list: string; readonly models: string; readonly unit: Unit; readonly rate: UnitRate }[] = [
  { list: 'openai', models: '', unit: 'web_searches', rate: { usd: '10', per: 1000 } },
  { list: 'anthropic', models: 'claude', unit: 'web_searches', rate: { usd: '10', per: 1000 } },
  { list: 'google', models: 'claude', unit: 'web_searches', rate: { usd: '10', per: 1000 } },
];

/** Anthropic's models keep a prompt for an hour at twice their rate of input, at every provider. */
const HOUR_FACTOR = '2';
const ANTHROPIC = /claude/i;

/** @throws RangeError for a number that is no amount; the reader of the list refuses those */
export function decimalText(value: number): string {
  const text = amountFromNumber(String(significant(value, TRUE_DIGITS)));
  if (text === undefined) throw new RangeError(`${value} is no amount`);
  return text;
}

/** The price of a model of the list `list`. A side that has no rate costs nothing there: embeddings have no output. */
export function listedRates(list: string, model: string, prices: KeyedPrices): ListedRates {
  const starts = new Set<number>();
  for (const price of Object.values(prices)) if (isTiered(price)) for (const { start } of price.tiers) starts.add(start);
  const longPrompts = [...starts].sort((a, b) => b - a).map((above) => ({ ...ratesAbove(model, prices, above), above }));
  const units = unitsOf(list, model, prices);
  return {
    ...ratesAbove(model, prices, undefined),
    ...(longPrompts.length === 0 ? {} : { longPrompts }),
    ...(units === undefined ? {} : { units }),
  };
}

/** @param above the rates of prompts with more tokens than this, up to the next tier; undefined: of short ones */
function ratesAbove(model: string, prices: KeyedPrices, above: number | undefined): Rates {
  const rates: Partial<Record<'in' | 'out' | PartRate, string>> = {};
  for (const [key, kind] of LIST_KEYS) {
    const price = prices[key];
    if (price !== undefined && 'rate' in kind) rates[kind.rate] = decimalText(priceAbove(price, above));
  }
  if (rates.cacheWrite !== undefined && rates.in !== undefined && ANTHROPIC.test(model))
    rates.cacheWrite1h ??= timesFactor(rates.in, HOUR_FACTOR);
  return { ...rates, in: rates.in ?? '0', out: rates.out ?? '0' };
}

function priceAbove(price: number | TieredPrice, above: number | undefined): number {
  if (!isTiered(price)) return price;
  let found = price.base;
  let from = -1;
  for (const { start, price: tier } of price.tiers) {
    if (above === undefined || start > above || start < from) continue;
    found = tier;
    from = start;
  }
  return found;
}

function unitsOf(list: string, model: string, prices: KeyedPrices): ListedRates['units'] {
  const units: Partial<Record<Unit, UnitRate>> = {};
  for (const [key, kind] of LIST_KEYS) {
    const price = prices[key];
    if (price === undefined || !('unit' in kind) || units[kind.unit] !== undefined) continue;
    const least = leastOf(list, model, kind.unit);
    units[kind.unit] = { usd: decimalText(dearestTier(price)), per: kind.per, ...(least === undefined ? {} : { least }) };
  }
  // What only embeds, moderates or speaks searches nothing.
  const writes = prices['output_mtok'] !== undefined;
  for (const row of writes ? UNITS_OF_ALL : []) if (row.list === list && model.startsWith(row.models)) units[row.unit] ??= row.rate;
  // Pages with annotations are pages, where they have no price of their own.
  if (units.pages !== undefined && units.annotated_pages === undefined) units.annotated_pages = units.pages;
  return Object.keys(units).length === 0 ? undefined : units;
}

/** No unit is priced by the length of a prompt; one that were would be charged at its dearest. */
function dearestTier(price: number | TieredPrice): number {
  return isTiered(price) ? Math.max(price.base, ...price.tiers.map((tier) => tier.price)) : price;
}

function leastOf(list: string, model: string, unit: Unit): number | undefined {
  return LEAST_UNITS.find((row) => row.list === list && row.unit === unit && row.models.includes(model))?.least;
}
