import { readAmount, tidyAmount } from '../lib/amounts.ts';
import { parseYaml } from '../lib/yaml.ts';
import { type PartRate, RATE_KINDS } from '../model/rate-kinds.ts';
import { readCsv } from './csv.ts';
import { ANY_PROVIDER, RateList } from './rate-list.ts';
import { Row, type RowProblems } from './row-reader.ts';
import type { ListedPrice, Price } from './types.ts';

const COLUMNS = ['provider', 'model', 'in', 'out', 'cached_in', 'cache_write', 'max_output', 'source', 'source_date', 'valid_from'];
/** Members of rates beside `in` and `out`. */
const PARTS: readonly string[] = RATE_KINDS.map(({ member }) => member);
const OVERRIDE_MEMBERS = ['provider', 'model', 'in', 'out', ...PARTS, 'max_output', 'valid_from'];
/** Finer rates would not give whole pico-dollars for every number of tokens. */
const RATE = /^\d{1,9}(?:\.\d{1,6})?$/;
const MAX_OUTPUT = /^[1-9]\d{0,8}$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** Any unlisted model (specification, "Cost estimation"). */
export const DEFAULT_PRICE: Price = Object.freeze({
  in: '10',
  out: '30',
  source: 'default',
  maxOutputTokens: undefined,
});

/** The texts of a row that are not names. */
const RATE_TEXTS = ['in', 'out', ...PARTS, 'max_output', 'valid_from'];
/** Each empty or absent when the row has none. */
type RateTexts = Readonly<Record<string, string | undefined>> & Readonly<Record<'in' | 'out', string>>;

/** Rates by provider, model and day: those of the operator before the shipped ones, then the default. Names are compared without regard to case. */
export class PriceTable {
  readonly #shipped = new RateList();
  readonly #overrides = new RateList();

  /** @param knownProvider says whether a row's provider is a registry row */
  static parse(text: string, knownProvider: (id: string) => boolean, problems: RowProblems): PriceTable {
    const table = new PriceTable();
    for (const { line, cells } of readCsv(text, COLUMNS, problems)) {
      const [provider = '', model = '', input = '', output = '', cached = '', cacheWrite = '', maxOutput = '', , , validFrom = ''] = cells;
      const texts = { in: input, out: output, cached_in: cached, cache_write: cacheWrite, max_output: maxOutput, valid_from: validFrom };
      const problem = (message: string): void => problems.add(`${provider} ${model}`, message, { line, column: 1 });
      const faults = faultsOf(texts);
      for (const [, message] of faults) problem(message);
      if (provider !== ANY_PROVIDER && !knownProvider(provider)) problem(`"${provider}" is no provider`);
      if (model === '' || model.includes('*')) problem('a shipped row names one model');
      else if (faults.length === 0 && !table.#shipped.add(provider, model, priceOf(texts, 'catalogue'), dayStart(texts)))
        problem('stands twice');
    }
    return table;
  }

  /**
   * Lays the rates of an operator's file over the shipped ones (`GW_PRICING_FILE`, decision 2): `rates`, a list of `{model, in, out}` with optional
   * `provider` (else any), rates of parts (`cached_in`, …, see `RATE_KINDS`), `max_output` and `valid_from`; `model` is a name or a pattern with one `*`. What such a row does not say, it does
   * not inherit.
   * @param canonicalProvider folds an id or alias, undefined for a name that nobody has
   */
  override(text: string, canonicalProvider: (name: string) => string | undefined, problems: RowProblems): void {
    const { root, errors } = parseYaml(text, problems.file);
    for (const error of errors) problems.add(error.path, error.message, { line: error.line ?? 1, column: error.column ?? 1 });
    if (errors.length > 0) return;
    const file = Row.from(root, 'pricing', problems, ['rates']);
    if (file !== undefined && !file.has('rates')) file.problem('rates', 'is missing');
    for (const row of file?.rows('rates', OVERRIDE_MEMBERS) ?? []) this.#overrideBy(row, canonicalProvider);
  }

  /**
   * @param at epoch milliseconds of the call: some prices change on a day
   * @returns the rates in force then; never undefined
   */
  find(providerId: string, model: string | undefined, at: number): Price {
    if (model === undefined) return DEFAULT_PRICE;
    const name = model.toLowerCase();
    return this.#overrides.find(providerId, name, at) ?? this.#shipped.find(providerId, name, at) ?? DEFAULT_PRICE;
  }

  /** All rates in force at a moment, and what holds where none does. */
  list(at: number): readonly ListedPrice[] {
    return [...this.#overrides.list(at), ...this.#shipped.list(at), { provider: ANY_PROVIDER, model: ANY_PROVIDER, price: DEFAULT_PRICE }];
  }

  #overrideBy(row: Row, canonicalProvider: (name: string) => string | undefined): void {
    const named = row.text('provider');
    const provider = named === undefined || named === ANY_PROVIDER ? ANY_PROVIDER : canonicalProvider(named);
    if (provider === undefined) row.problem('provider', `"${named}" is no provider`, row.value('provider'));
    const model = row.need('model').toLowerCase();
    const stars = model.split('*').length - 1;
    if (stars > 1) row.problem('model', `"${model}" has more than one *`, row.value('model'));
    const texts = {
      ...Object.fromEntries([...PARTS, 'max_output', 'valid_from'].map((member) => [member, row.text(member)])),
      in: row.need('in'),
      out: row.need('out'),
    };
    const faults = faultsOf(texts).filter(([member]) => row.has(member));
    for (const [member, message] of faults) row.problem(member, message, row.value(member));
    if (provider === undefined || model === '' || stars > 1 || faults.length > 0 || !row.has('in') || !row.has('out')) return;
    if (!this.#overrides.add(provider, model, priceOf(texts, 'override'), dayStart(texts))) row.problem('model', `"${model}" stands twice`);
  }
}

/** What is wrong with the texts of a row, each with the member that it is about. */
function faultsOf(texts: RateTexts): readonly (readonly [member: string, message: string])[] {
  return RATE_TEXTS.flatMap((member) => {
    const text = texts[member] ?? '';
    const message = text === '' && member !== 'in' && member !== 'out' ? undefined : faultOf(member, text);
    return message === undefined ? [] : [[member, `"${text}" is no ${message}`] as const];
  });
}

function faultOf(member: string, text: string): string | undefined {
  if (member === 'max_output') return MAX_OUTPUT.test(text) ? undefined : 'number of tokens';
  if (member === 'valid_from') return Number.isNaN(dayStart({ valid_from: text })) ? 'day: write it as 2026-09-01' : undefined;
  return RATE.test(text) && readAmount(text) !== undefined
    ? undefined
    : 'rate: a decimal number of USD per million tokens with at most six decimals, such as 0.15';
}

/** Midnight UTC of the day that a row holds from, epoch milliseconds; not a number for a day that does not exist. */
function dayStart({ valid_from: text = '' }: Readonly<Record<string, string | undefined>>): number {
  if (text === '') return Number.NEGATIVE_INFINITY;
  const at = DAY.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  return Number.isNaN(at) || new Date(at).toISOString().startsWith(text) ? at : Number.NaN;
}

function priceOf(texts: RateTexts, source: Price['source']): Price {
  const { max_output: maxOutput = '' } = texts;
  const maxOutputTokens = maxOutput === '' ? undefined : Number(maxOutput);
  const parts: Partial<Record<PartRate, string>> = {};
  for (const { rate, member } of RATE_KINDS) {
    const text = texts[member] ?? '';
    if (text !== '') parts[rate] = tidyAmount(text);
  }
  return Object.freeze({
    in: tidyAmount(texts.in),
    out: tidyAmount(texts.out),
    ...parts,
    source,
    maxOutputTokens,
  });
}
