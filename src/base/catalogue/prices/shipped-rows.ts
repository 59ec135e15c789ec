/*
 * The tables of rates beside the price list (decisions 6.3, 6.16): rows for providers and names that the list lacks, corrections that lie above it, and the maximum output of models,
 * of which the list says nothing.
 */
import { readCsv } from '../csv.ts';
import type { RowProblems } from '../row-reader.ts';
import { ANY_PROVIDER, RateList } from './rate-list.ts';
import { dayStart, faultsOf, priceOf } from './row-texts.ts';

const RATE_COLUMNS = ['provider', 'model', 'in', 'out', 'cached_in', 'cache_write', 'source', 'source_date', 'valid_from'];
const CORRECTION_COLUMNS = [
  'provider',
  'model',
  'in',
  'out',
  'cached_in',
  'cache_write',
  'audio_in',
  'source',
  'source_date',
  'valid_from',
  'reason',
];
const OUTPUT_COLUMNS = ['provider', 'model', 'max_output'];
const MAX_OUTPUT = /^[1-9]\d{0,8}$/;

/** @param knownProvider says whether a row's provider is a registry row */
export function readOwnRows(text: string, knownProvider: (id: string) => boolean, problems: RowProblems): RateList {
  return readRates(text, RATE_COLUMNS, knownProvider, problems);
}

/** Rows that lie above the list, each with the reason for it. */
export function readCorrections(text: string, knownProvider: (id: string) => boolean, problems: RowProblems): RateList {
  return readRates(text, CORRECTION_COLUMNS, knownProvider, problems);
}

function readRates(text: string, columns: readonly string[], knownProvider: (id: string) => boolean, problems: RowProblems): RateList {
  const list = new RateList();
  for (const { line, cells } of readCsv(text, columns, problems)) {
    const cell = (column: string): string => cells[columns.indexOf(column)] ?? '';
    const [provider, model, source, date] = [cell('provider'), cell('model'), cell('source'), cell('source_date')];
    const reason = columns.includes('reason') ? cell('reason') : undefined;
    const texts = { ...Object.fromEntries(columns.map((column) => [column, cell(column)])), in: cell('in'), out: cell('out') };
    const problem = (message: string): void => problems.add(`${provider} ${model}`, message, { line, column: 1 });
    const faults = faultsOf(texts);
    for (const [, message] of faults) problem(message);
    if (provider !== ANY_PROVIDER && !knownProvider(provider)) problem(`"${provider}" is no provider`);
    if (reason === '') problem('a correction says why');
    if (model === '' || model.includes('*') || model !== model.toLowerCase()) problem('a shipped row names one model, in lower case');
    else if (faults.length === 0) {
      const origin = date === '' ? source : `${source} ${date}`;
      const row = { provider, model, price: priceOf(texts, 'catalogue'), origin, ...(reason === undefined ? {} : { reason }) };
      if (!list.add(row, dayStart(texts))) problem('stands twice');
    }
  }
  return list;
}

/** Maximum output tokens by provider and model; the provider `*` is any. */
export class MaxOutputs {
  readonly #byProvider = new Map<string, Map<string, number>>();

  static parse(text: string, problems: RowProblems): MaxOutputs {
    const outputs = new MaxOutputs();
    for (const { line, cells } of readCsv(text, OUTPUT_COLUMNS, problems)) {
      const [provider = '', model = '', most = ''] = cells;
      if (MAX_OUTPUT.test(most)) outputs.#add(provider, model, Number(most));
      else problems.add(`${provider} ${model}`, `"${most}" is no number of tokens`, { line, column: 1 });
    }
    return outputs;
  }

  /** @param models names of one model, in lower case; the first that is known counts */
  of(provider: string, models: readonly string[]): number | undefined {
    for (const model of models) {
      const found = this.#byProvider.get(provider)?.get(model) ?? this.#byProvider.get(ANY_PROVIDER)?.get(model);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #add(provider: string, model: string, most: number): void {
    const models = this.#byProvider.get(provider) ?? new Map<string, number>();
    this.#byProvider.set(provider, models);
    models.set(model, most);
  }
}
