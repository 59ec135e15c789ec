import type { LongPromptRates, Price, Rates } from '../../base/catalogue/types.ts';
import { timesFactor } from '../../base/lib/amounts.ts';
import { RATE_KINDS } from '../../base/model/rate-kinds.ts';

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
 * The rates that hold for a prompt of so many tokens, on these terms (decision 6.3): first those of its length, then what each term makes of them.
 * @param terms each as `name=value`; one that the price does not know changes nothing and is told
 */
export function ratesInForce(price: Price, tokensIn: number, terms: readonly string[] | undefined): RatesInForce {
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
export function reachableRates(price: Price, tokensIn: number, terms: readonly string[] | undefined): readonly Rates[] {
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
