import { readAmount } from '../../lib/amounts.ts';
import type { RowProblems } from '../row-reader.ts';
import { readCsv } from '../row-reader.ts';
import type { PriceTerm } from '../types.ts';
import { faultsOf, ratesOf } from './row-texts.ts';

const COLUMNS = ['list', 'model', 'term', 'factor', 'in', 'out', 'cached_in', 'source', 'source_date'];
/** Every model of a list. */
const ANY_MODEL = '*';
const TERM = /^[a-z_]{1,40}=[a-z0-9_.-]{1,40}$/;
const FACTOR = /^\d{1,3}(?:\.\d{1,6})?$/;

/**
 * What terms that answers state make of the rates of the list's models (decision 6.3): a factor for all of them, or
 * rates of their own. Rows are for one list: another provider that takes its models' prices from there has terms of his
 * own.
 */
export class PriceTerms {
  readonly #byModel = new Map<string, PriceTerm[]>();

  static parse(text: string, problems: RowProblems): PriceTerms {
    const terms = new PriceTerms();
    for (const { line, cells } of readCsv(text, COLUMNS, problems)) {
      const [list = '', model = '', ...texts] = cells;
      const { term, faults } = readTerm(texts);
      for (const fault of faults) problems.add(`${list} ${model}`, fault, { line, column: 1 });
      if (faults.length === 0) terms.#add(`${list}\n${model}`, term());
    }
    return terms;
  }

  /** @returns the same list for the same terms; undefined for none */
  of(list: string, model: string): readonly PriceTerm[] | undefined {
    return this.#byModel.get(`${list}\n${model}`) ?? this.#byModel.get(`${list}\n${ANY_MODEL}`);
  }

  #add(key: string, term: PriceTerm): void {
    const terms = this.#byModel.get(key) ?? [];
    this.#byModel.set(key, terms);
    terms.push(term);
  }
}

/** @returns `term` to be called where there is no fault */
function readTerm([term = '', factor = '', input = '', output = '', cached = '']: readonly string[]): {
  readonly term: () => PriceTerm;
  readonly faults: readonly string[];
} {
  const texts = { in: input, out: output, cached_in: cached };
  const faults = factor === '' ? faultsOf(texts).map(([, message]) => message) : isFactor(factor) ? [] : [`"${factor}" is no factor`];
  if (!isTerm(term)) faults.push(`"${term}" is no term: write it as service_tier=flex`);
  return { term: () => Object.freeze(factor === '' ? { term, rates: ratesOf(texts) } : { term, factor }), faults };
}

export function isTerm(text: string): boolean {
  return TERM.test(text);
}

export function isFactor(text: string): boolean {
  return FACTOR.test(text) && readAmount(text) !== undefined;
}
