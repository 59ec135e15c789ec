/*
 * Where the price of one name may come from. Several of them make a chain: the first that has a price at the moment of
 * the call is taken.
 */
import { RATE_KINDS } from '../../model/usage.ts';
import { Periods } from '../price-list/list-periods.ts';
import { listedRates } from '../price-list/list-rates.ts';
import { type ConditionalPrices, conditionalPrices, type ListModel } from '../price-list/list-shape.ts';
import type { Price, PriceTerm, Rates } from '../types.ts';
import type { Candidate } from './price-names.ts';
import { type DatedRates, type RatesRow, rowInForce } from './rate-list.ts';

/** The kinds of what a price may come from, the one that counts before the others first. */
export type PriceOrigin = 'override' | 'correction' | 'list' | 'own' | 'free' | 'default';

/** What a price has that neither a row nor the list says: of its model under this name, at this provider. */
export interface Complement {
  readonly terms: readonly PriceTerm[] | undefined;
  readonly maxOutputTokens: number | undefined;
}

/** One place where a price may come from. */
export interface PriceLink {
  readonly origin: PriceOrigin;
  readonly candidate: Candidate;
  /** It has a price at every moment. */
  readonly always: boolean;
  /** That price, where it is always the same. */
  readonly fixed: Price | undefined;
  priceAt(at: number): Price | undefined;
  /** Set for rows. */
  rowAt?(at: number): RatesRow | undefined;
  /** Set for the list. */
  readonly listed?: ListedLink;
}

export interface ListedLink {
  /** The list that was asked, and the one that knew the model. */
  readonly asked: string;
  readonly list: string;
  readonly model: ListModel;
  /** What limits the price that holds. */
  conditionAt(at: number): ConditionalPrices['constraint'];
}

/** Completes prices, and gives the same object for the same price and the same complement. */
export class Completion {
  readonly #known = new WeakMap<Price, Map<readonly PriceTerm[] | undefined, Map<number | undefined, Price>>>();
  readonly #models = new WeakMap<ListModel, readonly (() => Price)[]>();

  complete(price: Price, { terms, maxOutputTokens }: Complement): Price {
    if (terms === undefined && maxOutputTokens === price.maxOutputTokens) return price;
    const byTerms = entry(this.#known, price, () => new Map<readonly PriceTerm[] | undefined, Map<number | undefined, Price>>());
    const byOutput = entry(byTerms, terms, () => new Map<number | undefined, Price>());
    return entry(byOutput, maxOutputTokens, () => Object.freeze({ ...price, maxOutputTokens, ...(terms === undefined ? {} : { terms }) }));
  }

  /** The prices of a model of the list, each made when it is first needed. */
  listed(list: string, model: ListModel): readonly (() => Price)[] {
    return entry(this.#models, model, () =>
      conditionalPrices(model).map(({ prices }) =>
        once((): Price => Object.freeze({ ...listedRates(list, model.id, prices), source: 'catalogue', maxOutputTokens: undefined })),
      ),
    );
  }
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

interface MapLike<K, V> {
  get(key: K): V | undefined;
  set(key: K, value: V): unknown;
}

function entry<K, V extends {}>(map: MapLike<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

/**
 * A link of the rows for a name.
 * @param finish what becomes of a row's price at a moment; undefined: the row has nothing to say then
 * @param steady `finish` gives the same at every moment
 * @returns undefined for a row that never has anything to say
 */
export function rowsLink(
  origin: PriceOrigin,
  candidate: Candidate,
  chain: DatedRates,
  { finish, steady }: { readonly finish: (price: Price, at: number) => Price | undefined; readonly steady: boolean },
): PriceLink | undefined {
  const isFixed = steady && chain.earlier === undefined && chain.from === Number.NEGATIVE_INFINITY;
  const fixed = isFixed ? finish(chain.row.price, 0) : undefined;
  if (isFixed && fixed === undefined) return undefined;
  return {
    origin,
    candidate,
    always: hasNoBegin(chain),
    fixed,
    priceAt(at) {
      const row = rowInForce(chain, at);
      return row === undefined ? undefined : finish(row.price, at);
    },
    rowAt: (at) => rowInForce(chain, at),
  };
}

function hasNoBegin(chain: DatedRates): boolean {
  let oldest = chain;
  while (oldest.earlier !== undefined) oldest = oldest.earlier;
  return oldest.from === Number.NEGATIVE_INFINITY;
}

export function listLink(
  candidate: Candidate,
  { asked, list, model }: Pick<ListedLink, 'asked' | 'list' | 'model'>,
  completion: Completion,
  complement: Complement,
): PriceLink {
  const conditions = conditionalPrices(model);
  const periods = new Periods(conditions);
  const prices = completion.listed(list, model);
  const priceOf = (index: number): Price | undefined => {
    const price = prices[index]?.();
    return price === undefined ? undefined : completion.complete(price, complement);
  };
  return {
    origin: 'list',
    candidate,
    always: true,
    fixed: conditions.length === 1 ? priceOf(0) : undefined,
    priceAt: (at) => priceOf(periods.indexAt(at)),
    listed: { asked, list, model, conditionAt: (at) => conditions[periods.indexAt(at)]?.constraint },
  };
}

/** Of what costs nothing because its provider says so in the name. */
export const FREE_PRICE: Price = Object.freeze({ in: '0', out: '0', source: 'catalogue', maxOutputTokens: undefined });

export function freeLink(candidate: Candidate): PriceLink {
  return { origin: 'free', candidate, always: true, fixed: FREE_PRICE, priceAt: () => FREE_PRICE };
}

/** Whether nothing of a price costs anything. */
export function costsNothing({ units, longPrompts, ...rates }: Price): boolean {
  return units === undefined && [rates, ...(longPrompts ?? [])].every(isFreeOfCharge);
}

function isFreeOfCharge(rates: Rates): boolean {
  return rates.in === '0' && rates.out === '0' && RATE_KINDS.every(({ rate }) => (rates[rate] ?? '0') === '0');
}
