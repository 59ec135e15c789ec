/*
 * The tables of rates that go with the price list (decisions 6.3, 6.16): rows for providers and names that the list
 * lacks, corrections that lie above it, and the maximum output of models, of which the list says nothing.
 */
import { UNITS } from '../../model/usage.ts';
import type { RowProblems } from '../row-reader.ts';
import { readCsv } from '../row-reader.ts';
import type { Price } from '../types.ts';
import { ANY_PROVIDER, RateList } from './rate-list.ts';
import { dayStart, faultsOf, priceOf, type RateTexts } from './row-texts.ts';

const RATE_COLUMNS = ['provider', 'model', 'in', 'out', 'cached_in', 'cache_write', 'units', 'source', 'source_date', 'valid_from'];
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
const UNIT_RATE = /^([a-z_]+)=(\d{1,6}(?:\.\d{1,6})?)\/([1-9]\d{0,6})$/;
const MAX_OUTPUT = /^[1-9]\d{0,8}$/;

/** @param knownProvider says whether a row's provider is a registry row */
export function readOwnRows(text: string, knownProvider: (id: string) => boolean, problems: RowProblems): RateList {
  return readRates(text, RATE_COLUMNS, knownProvider, problems);
}

/** Rows that lie above the list, each with the reason for it. */
export function readCorrections(text: string, knownProvider: (id: string) => boolean, problems: RowProblems): RateList {
  return readRates(text, CORRECTION_COLUMNS, knownProvider, problems);
}

type Cells = Readonly<Record<string, string>>;

function readRates(text: string, columns: readonly string[], knownProvider: (id: string) => boolean, problems: RowProblems): RateList {
  const list = new RateList();
  for (const { line, cells } of readCsv(text, columns, problems)) {
    const row: Cells = Object.fromEntries(columns.map((column, i) => [column, cells[i] ?? '']));
    const faults = faultsOfRow(row, knownProvider);
    if (faults.length === 0 && !addRow(list, row)) faults.push('stands twice');
    for (const message of faults) problems.add(`${row['provider']} ${row['model']}`, message, { line, column: 1 });
  }
  return list;
}

function faultsOfRow(row: Cells, knownProvider: (id: string) => boolean): string[] {
  const { provider = '', model = '', reason } = row;
  const faults = faultsOf(textsOf(row)).map(([, message]) => message);
  if (provider !== ANY_PROVIDER && !knownProvider(provider)) faults.push(`"${provider}" is no provider`);
  if ((row['units'] ?? '') !== '' && unitsOf(row['units']) === undefined) faults.push(`"${row['units']}" is no rate of a unit`);
  if (reason === '') faults.push('a correction says why');
  if (model === '' || model.includes('*') || model !== model.toLowerCase()) faults.push('a shipped row names one model, in lower case');
  return faults;
}

/** @returns false when the list has such a row */
function addRow(list: RateList, row: Cells): boolean {
  const { provider = '', model = '', source = '', source_date: date = '', reason } = row;
  const texts = textsOf(row);
  const origin = date === '' ? source : `${source} ${date}`;
  const units = unitsOf(row['units']);
  const price = priceOf(texts, 'catalogue');
  const priced = { provider, model, price: units === undefined ? price : Object.freeze({ ...price, units }), origin };
  return list.add(reason === undefined ? priced : { ...priced, reason }, dayStart(texts));
}

/** `search_units=2/1000`: 2 USD for 1,000 of them. */
function unitsOf(text = ''): Price['units'] {
  const [, unit, usd, per] = UNIT_RATE.exec(text) ?? [];
  const known = UNITS.find((one) => one === unit);
  return known === undefined || usd === undefined ? undefined : { [known]: { usd, per: Number(per) } };
}

function textsOf(row: Cells): RateTexts {
  return { ...row, in: row['in'] ?? '', out: row['out'] ?? '' };
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
