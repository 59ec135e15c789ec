/*
 * What a call may cost and what it did cost: token counts and the catalogue's rates in, exact integer pico-dollars out.
 * Nothing here keeps a sum, knows a budget or decides; counts come from the connectors, sums live in the services.
 */
import type { LongPromptRates, Price, Rates } from '../../base/catalogue/types.ts';
import { timesFactor } from '../../base/lib/amounts.ts';
import { costPico, type PricedPart, picoFromUsd, type RatesPico, unitsPico } from '../../base/lib/money.ts';
import type { Metering } from '../../base/model/execution-record.ts';
import type { PartTokens, Pass, TokenCounts, Usage } from '../../base/model/usage.ts';
import {
  type PartRate,
  RATE_KINDS,
  type RateKind,
  UNIT_WITHIN,
  UNITS,
  type Unit,
  type UnitCounts,
  type UnitRate,
} from '../../base/model/usage.ts';

/** Cost and rates of a call, for the record's `metering` (decision 7.5). */
export interface Cost {
  /** All of it, pico-dollars. */
  readonly costPico: bigint;
  /** USD per million tokens, decimal text. */
  readonly rateIn: string;
  readonly rateOut: string;
  /** Rates of the parts that are priced apart. */
  readonly apart: PartTexts;
  readonly rateSource: Metering['rate_source'];
  /** Set where the usage is told by passes. */
  readonly passes?: readonly PassCost[];
  /** Set where something beside tokens was charged. */
  readonly units?: readonly UnitCost[];
  /**
   * Terms that the answer states and the list has no rates for, of which the usual ones were charged, and units that it
   * counts and that cost nothing here.
   */
  readonly unpriced?: readonly string[];
}

export interface PassCost extends Cost {
  readonly pass: Pass;
}

export interface UnitCost {
  readonly unit: Unit;
  readonly count: number;
  readonly rate: UnitRate;
  readonly costPico: bigint;
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
interface CompiledRates {
  readonly plain: RatesPico;
  readonly parts: readonly Part[];
  readonly texts: PartTexts;
  /** Every token at the dearest rate that there is for one of its side. */
  readonly dearest: RatesPico;
}

const knownPlain = new WeakMap<RatesInForce['rates'], CompiledRates>();
const knownCached = new WeakMap<RatesInForce['rates'], CompiledRates>();

function compiledOf(rates: RatesInForce['rates'], cachedRates: boolean): CompiledRates {
  const known = cachedRates ? knownCached : knownPlain;
  let compiled = known.get(rates);
  if (compiled === undefined) {
    compiled = compile(rates, cachedRates);
    known.set(rates, compiled);
  }
  return compiled;
}

function compile(rates: RatesInForce['rates'], cachedRates: boolean): CompiledRates {
  const plain = { in: picoFromUsd(rates.in), out: picoFromUsd(rates.out) };
  const texts: Partial<Record<PartRate, string>> = {};
  for (const { rate } of cachedRates ? RATE_KINDS : []) {
    const text = rates[rate];
    if (text !== undefined) texts[rate] = text;
  }
  // What has no rate of its own goes with the kind that it is a part of, unless there are two of these: then it must
  // not count in both.
  const isStated = (rate: PartRate): boolean => texts[rate] !== undefined;
  const apart = RATE_KINDS.filter(({ rate, within }) => isStated(rate) || (within.length > 1 && within.every(isStated)));
  const parts = apart.map(({ rate, of, tokens, within }): Part => {
    const text = [rate, ...within].map((name) => texts[name]).find((stated) => stated !== undefined) ?? rates.in;
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
 * Cost of a call from its real counts (specification, "Cost estimation"; decisions 6.3, 6.16); zero when the provider
 * reported none. Each token is charged once: at the rate of the narrowest kind that it is of and that has one, of those
 * that hold for so long a prompt and on the terms that the answer states. Passes of other models are charged at the
 * rates of these.
 * @param cachedRates `GW_PRICING_CACHED`: tokens that have a rate of their own (read from a cache, written to one,
 * sound, pictures, …) at that rate, and what is billed beside tokens; without it the formula to the letter: one rate
 * for all input, one for all output
 * @param passPrices of the passes of the usage, in their order; where there is none that of the call holds
 * @throws RangeError when a count is not a non-negative safe integer
 */
export function meter(usage: Usage | undefined, price: Price, cachedRates = false, passPrices: readonly Price[] = []): Cost {
  const { passes } = usage ?? {};
  const cost = costOfTokens(passes === undefined ? usage : undefined, price, usage && promptOf(usage, price, passPrices), cachedRates);
  if (usage === undefined) return cost;
  const units = cachedRates ? unitsOf(usage, price) : undefined;
  const unpricedUnits = cachedRates ? unitsWithoutRate(usage, price) : undefined;
  if (passes === undefined && units === undefined && unpricedUnits === undefined) return cost;
  const costs = passes?.map((pass, at) => {
    const own = passPrices[at] ?? price;
    const { unpriced, ...counted } = costOfTokens(pass, own, { ...pass, terms: usage.terms }, cachedRates);
    // Terms are those of the call: another model of it may know nothing of them.
    return { ...counted, pass, ...(unpriced === undefined || own !== price ? {} : { unpriced }) };
  });
  const sum = (list: readonly { readonly costPico: bigint }[] | undefined): bigint =>
    (list ?? []).reduce((all, one) => all + one.costPico, 0n);
  return {
    ...cost,
    costPico: cost.costPico + sum(costs) + sum(units),
    ...(costs === undefined ? {} : { passes: costs }),
    ...(units === undefined ? {} : { units }),
    ...(unpricedUnits === undefined ? {} : { unpriced: [...(cost.unpriced ?? []), ...unpricedUnits] }),
  };
}

/**
 * The prompt whose length decides the rates of the call: each pass has its own, and the call shows those of the longest
 * of its own model.
 */
function promptOf(usage: Usage, price: Price, passPrices: readonly Price[]): Pick<Usage, 'tokens_in' | 'terms'> {
  if (usage.passes === undefined) return usage;
  const lengths = usage.passes.map(({ tokens_in: length }, at) => ((passPrices[at] ?? price) === price ? length : 0));
  return { tokens_in: Math.max(0, ...lengths), ...(usage.terms === undefined ? {} : { terms: usage.terms }) };
}

function costOfTokens(
  counts: TokenCounts | undefined,
  price: Price,
  { tokens_in: length, terms }: { readonly tokens_in: number; readonly terms?: readonly string[] | undefined } = NO_PROMPT,
  cachedRates: boolean,
): Cost {
  const { rates, unpriced } = ratesInForce(price, length, terms);
  const compiled = compiledOf(rates, cachedRates);
  const cost = {
    costPico: counts === undefined ? 0n : costAt(counts, compiled),
    rateIn: rates.in,
    rateOut: rates.out,
    apart: compiled.texts,
    rateSource: price.source,
  };
  return unpriced === undefined ? cost : { ...cost, unpriced };
}

const NO_PROMPT = { tokens_in: 0 };

function costAt(counts: TokenCounts, { plain, parts }: CompiledRates): bigint {
  const { tokens_in: tokensIn, tokens_out: tokensOut } = counts;
  if (parts.length === 0) return costPico(tokensIn, tokensOut, plain);
  // Most answers have nothing that is priced apart, though their models have rates for it.
  let apart: PricedPart[] | undefined;
  for (const { of, tokens, less, rate } of parts) {
    const own = ownTokens(counts, tokens, less);
    if (own === 0) continue;
    apart ??= [];
    apart.push({ of, tokens: own, rate });
  }
  return costPico(tokensIn, tokensOut, plain, apart);
}

function ownTokens(counts: TokenCounts, tokens: PartTokens, less: readonly PartTokens[]): number {
  let own = counts[tokens] ?? 0;
  if (own === 0) return 0;
  for (const part of less) own -= counts[part] ?? 0;
  return Math.max(0, own);
}

/**
 * What is charged beside tokens; undefined for nothing. A price per request is that of every call which the model
 * answered.
 */
function unitsOf({ units }: Usage, { units: rates }: Price): readonly UnitCost[] | undefined {
  if (rates === undefined || (units === undefined && rates.requests === undefined)) return undefined;
  const costs: UnitCost[] = [];
  for (const unit of UNITS) {
    const rate = rates[unit];
    const count = Math.max(0, (units?.[unit] ?? (unit === 'requests' ? 1 : 0)) - chargedApart(unit, units, rates));
    if (rate !== undefined && count > 0) costs.push({ unit, count, rate, costPico: unitsPico(count, rate) });
  }
  return costs.length === 0 ? undefined : costs;
}

/**
 * Units that an answer counts and the price has no rate for, neither for them nor for what they are counted as, too;
 * undefined for none. A plan pays for all.
 */
export function unitsWithoutRate({ units }: Usage, { units: rates = {}, plan }: Price): readonly Unit[] | undefined {
  if (units === undefined || plan === true) return undefined;
  const missing = UNITS.filter((unit) => {
    const wider = UNIT_WITHIN[unit];
    return (units[unit] ?? 0) > 0 && rates[unit] === undefined && (wider === undefined || rates[wider] === undefined);
  });
  return missing.length === 0 ? undefined : missing;
}

/** How many of a unit are charged as a finer one. */
function chargedApart(unit: Unit, units: UnitCounts | undefined, rates: NonNullable<Price['units']>): number {
  let apart = 0;
  for (const finer of UNITS) if (UNIT_WITHIN[finer] === unit && rates[finer] !== undefined) apart += units?.[finer] ?? 0;
  return apart;
}

/** Cost at the rates of input and output that hold for so long a prompt; for estimates, which know nothing of parts. */
export function plainCost(tokensIn: number, tokensOut: number, price: Price, terms?: readonly string[]): bigint {
  return costPico(tokensIn, tokensOut, compiledOf(ratesInForce(price, tokensIn, terms).rates, false).plain);
}

/**
 * What these tokens can cost at most: more than the plain cost where a part of them is priced apart and is dearer, and
 * where the prompt, of which the count is an approximation, may be long enough for dearer rates (decision 6.3).
 */
export function dearestCost(tokensIn: number, tokensOut: number, price: Price, cachedRates: boolean, terms?: readonly string[]): bigint {
  let dearest = 0n;
  for (const rates of reachableRates(price, tokensIn, terms)) {
    const cost = costPico(tokensIn, tokensOut, compiledOf(rates, cachedRates).dearest);
    if (cost > dearest) dearest = cost;
  }
  return dearest;
}

/** The rates of one call. */
export interface RatesInForce {
  /** The same object for the same rates. */
  readonly rates: Rates;
  /** Terms without rates of their own in the list. */
  readonly unpriced: readonly string[] | undefined;
}

/** Values of terms that change no rate at any provider. */
const USUAL_VALUES: ReadonlySet<string> = new Set([
  'standard',
  'default',
  'auto',
  'on_demand',
  'normal',
  'global',
  'not_available',
  'unspecified',
  'traffic_type_unspecified',
]);
/** Vertex AI writes it before the tier. */
const PAY_AS_YOU_GO = /^on_demand_/;

/** The value of a term as prices name it. */
export function termOf(text: string): string {
  return text.toLowerCase().replace(PAY_AS_YOU_GO, '');
}
/** Whether a term, by its value, is what everybody has who asked for nothing else. */
export function isUsualTerm(value: string): boolean {
  return USUAL_VALUES.has(value);
}

/** An approximated prompt may be longer than its count by this factor. */
const LONGEST_BY = 1.25;
const MOST_KEPT = 32;

const known = new WeakMap<Rates, Map<string, RatesInForce>>();

/**
 * The rates that hold for a prompt of so many tokens, on these terms (decision 6.3): first those of its length, then
 * what each term makes of them.
 * @param terms each as `name=value`; one that the price does not know changes nothing and is told
 */
function ratesInForce(price: Price, tokensIn: number, terms: readonly string[] | undefined): RatesInForce {
  const own = price.longPrompts === undefined ? price : atLength(price, price.longPrompts, tokensIn);
  if (terms === undefined || terms.length === 0 || price.plan === true) return { rates: own, unpriced: undefined };
  const key = terms.join('\n');
  const byTerms = mapOf(own);
  let found = byTerms.get(key);
  if (found === undefined) {
    found = onTerms(price, own, tokensIn, terms);
    // What terms say is a provider's text.
    if (byTerms.size < MOST_KEPT) byTerms.set(key, found);
  }
  return found;
}

/** All rates that may hold for a prompt whose count is approximated. */
function reachableRates(price: Price, tokensIn: number, terms: readonly string[] | undefined): readonly Rates[] {
  const { rates } = ratesInForce(price, tokensIn, terms);
  if (price.longPrompts === undefined) return [rates];
  const { rates: longer } = ratesInForce(price, tokensIn * LONGEST_BY, terms);
  return longer === rates ? [rates] : [rates, longer];
}

function mapOf(rates: Rates): Map<string, RatesInForce> {
  let byTerms = known.get(rates);
  if (byTerms === undefined) {
    byTerms = new Map();
    known.set(rates, byTerms);
  }
  return byTerms;
}

function atLength(usual: Rates, longPrompts: readonly LongPromptRates[], tokensIn: number): Rates {
  for (const rates of longPrompts) if (tokensIn > rates.above) return rates;
  return usual;
}

function onTerms(price: Price, own: Rates, tokensIn: number, terms: readonly string[]): RatesInForce {
  let rates = own;
  const unpriced: string[] = [];
  for (const stated of terms) {
    const term = price.terms?.find((one) => one.term === stated);
    if (term?.rates !== undefined) rates = atLength(term.rates, term.longPrompts ?? [], tokensIn);
    else if (term?.factor !== undefined) rates = times(rates, term.factor);
    else if (!isUsualTerm(stated.slice(stated.indexOf('=') + 1))) unpriced.push(stated);
  }
  return { rates, unpriced: unpriced.length === 0 ? undefined : unpriced };
}

function times(rates: Rates, factor: string): Rates {
  const parts = RATE_KINDS.flatMap(({ rate }) => {
    const text = rates[rate];
    return text === undefined ? [] : [[rate, timesFactor(text, factor)] as const];
  });
  return { in: timesFactor(rates.in, factor), out: timesFactor(rates.out, factor), ...Object.fromEntries(parts) };
}
