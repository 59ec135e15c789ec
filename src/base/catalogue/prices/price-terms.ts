import { readAmount } from '../../lib/amounts.ts';
import { readCsv } from '../csv.ts';
import type { RowProblems } from '../row-reader.ts';
import type { PriceTerm } from '../types.ts';
import { faultsOf, ratesOf } from './row-texts.ts';

const COLUMNS = ['list', 'model', 'term', 'factor', 'in', 'out', 'cached_in', 'source', 'source_date'];
/** Every model of a list. */
const ANY_MODEL = '*';
const TERM = /^[a-z_]{1,40}=[a-z0-9_.-]{1,40}$/;
const FACTOR = /^\d{1,3}(?:\.\d{1,6})?$/;

/**
 * What terms that answers state make of the rates of the list's models (decision 6.3): a factor for all of them, or rates of their own. Rows are for one list: another
 * provider that takes its models' prices from there has terms of his own.
 */
export class PriceTerms {
  readonly #byModel = new Map<string, PriceTerm[]>();

  static parse(text: string, problems: RowProblems): PriceTerms {
    const terms = new PriceTerms();
    for (const { line, cells } of readCsv(text, COLUMNS, problems)) {
      const [list = '', model = '', term = '', factor = '', input = '', output = '', cached = ''] = cells;
      const problem = (message: string): void => problems.add(`${list} ${model} ${term}`, message, { line, column: 1 });
      const texts = { in: input, out: output, cached_in: cached };
      const read = factor === '' ? undefined : factor;
      const faults = read === undefined ? faultsOf(texts).map(([, message]) => message) : [];
      if (read !== undefined && !isFactor(read)) faults.push(`"${read}" is no factor`);
      if (!isTerm(term)) faults.push(`"${term}" is no term: write it as service_tier=flex`);
      for (const fault of faults) problem(fault);
      if (faults.length === 0)
        terms.#add(`${list}\n${model}`, Object.freeze(read === undefined ? { term, rates: ratesOf(texts) } : { term, factor: read }));
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

export function isTerm(text: string): boolean {
  return TERM.test(text);
}

export function isFactor(text: string): boolean {
  return FACTOR.test(text) && readAmount(text) !== undefined;
}
