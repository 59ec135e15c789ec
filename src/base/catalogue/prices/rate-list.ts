import type { ListedPrice, Price } from '../types.ts';

/** Rates of models that hold whoever serves them. */
export const ANY_PROVIDER = '*';

/** Rates from a moment on, and those that were in force before. */
export interface DatedRates<R extends RatesRow = RatesRow> {
  /** Epoch milliseconds; minus infinity: always. */
  readonly from: number;
  readonly row: R;
  readonly earlier: DatedRates<R> | undefined;
}

/** What a row says, as it is shown to those who ask where a price is from. */
export interface RatesRow {
  readonly provider: string;
  readonly model: string;
  readonly price: Price;
  /** Why the row is there, and what says so; undefined for rows of the operator. */
  readonly reason?: string;
  readonly origin?: string;
}

/** A row as data. */
export interface DatedRow<R extends RatesRow = RatesRow> {
  readonly row: R;
  /** Epoch milliseconds; minus infinity: always. */
  readonly from: number;
}

interface Pattern<R extends RatesRow> {
  readonly provider: string;
  readonly before: string;
  readonly after: string;
  dated: DatedRates<R> | undefined;
}

/**
 * Rates by provider, model or pattern, and day. A name wins over every pattern, a row of the provider over one for all,
 * an earlier pattern over a later one.
 */
export class RateList<R extends RatesRow = RatesRow> {
  readonly #byProvider = new Map<string, Map<string, DatedRates<R>>>();
  readonly #patterns = new Map<string, Pattern<R>>();

  static of<R extends RatesRow>(rows: readonly DatedRow<R>[]): RateList<R> {
    const list = new RateList<R>();
    for (const { row, from } of rows) list.add(row, from);
    return list;
  }

  /** All that was added. */
  rows(): readonly DatedRow<R>[] {
    const named = [...this.#byProvider.values()].flatMap((models) => [...models.values()]);
    const patterns = [...this.#patterns.values()].flatMap(({ dated }) => dated ?? []);
    return [...named, ...patterns].flatMap(rowsOf);
  }

  /**
   * @param row its model in lower case; with one `*` it is a pattern
   * @param from epoch milliseconds from which the rates hold
   * @returns false when the list has rates for this from the same moment on
   */
  add(row: R, from: number): boolean {
    const star = row.model.indexOf('*');
    if (star !== -1) return this.#addPattern(row, star, from);
    let models = this.#byProvider.get(row.provider);
    if (models === undefined) {
      models = new Map();
      this.#byProvider.set(row.provider, models);
    }
    const dated = inserted(models.get(row.model), row, from);
    if (dated !== undefined) models.set(row.model, dated);
    return dated !== undefined;
  }

  /**
   * All rates that a name may have, those that count before others first: the first with a row in force is its price.
   * @param model lower case
   */
  chains(provider: string, model: string): readonly DatedRates<R>[] {
    const own = this.#byProvider.get(provider)?.get(model);
    const any = this.#byProvider.get(ANY_PROVIDER)?.get(model);
    const named = [own, any].filter((chain) => chain !== undefined);
    return this.#patterns.size === 0 ? named : [...named, ...this.#matching(provider, model), ...this.#matching(ANY_PROVIDER, model)];
  }

  /** All rates in force at a moment. */
  *list(at: number): Generator<ListedPrice> {
    for (const [provider, models] of this.#byProvider) {
      for (const [model, dated] of models) {
        const row = rowInForce(dated, at);
        if (row !== undefined) yield { provider, model, price: row.price };
      }
    }
    for (const { provider, before, after, dated } of this.#patterns.values()) {
      const row = dated === undefined ? undefined : rowInForce(dated, at);
      if (row !== undefined) yield { provider, model: `${before}*${after}`, price: row.price };
    }
  }

  #addPattern(row: R, star: number, from: number): boolean {
    const key = `${row.provider}\n${row.model}`;
    const pattern = this.#patterns.get(key) ?? {
      provider: row.provider,
      before: row.model.slice(0, star),
      after: row.model.slice(star + 1),
      dated: undefined,
    };
    const dated = inserted(pattern.dated, row, from);
    if (dated === undefined) return false;
    pattern.dated = dated;
    this.#patterns.set(key, pattern);
    return true;
  }

  *#matching(provider: string, model: string): Generator<DatedRates<R>> {
    for (const { provider: owner, before, after, dated } of this.#patterns.values()) {
      if (owner !== provider || dated === undefined || model.length < before.length + after.length) continue;
      if (model.startsWith(before) && model.endsWith(after)) yield dated;
    }
  }
}

function rowsOf<R extends RatesRow>({ row, from, earlier }: DatedRates<R>): readonly DatedRow<R>[] {
  return [{ row, from }, ...(earlier === undefined ? [] : rowsOf(earlier))];
}

/** The chain with the new rates at their place; undefined when it has some from that moment. */
function inserted<R extends RatesRow>(chain: DatedRates<R> | undefined, row: R, from: number): DatedRates<R> | undefined {
  if (chain === undefined || from > chain.from) return { from, row, earlier: chain };
  if (from === chain.from) return undefined;
  const earlier = inserted(chain.earlier, row, from);
  return earlier === undefined ? undefined : { ...chain, earlier };
}

/** @param at epoch milliseconds */
export function rowInForce<R extends RatesRow>(chain: DatedRates<R>, at: number): R | undefined {
  let dated: DatedRates<R> | undefined = chain;
  while (dated !== undefined && at < dated.from) dated = dated.earlier;
  return dated?.row;
}
