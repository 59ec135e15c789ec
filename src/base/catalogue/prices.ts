import { parseUsd } from '../lib/money.ts';
import { parseYaml } from '../lib/yaml.ts';
import { readCsv } from './csv.ts';
import { type Problems, Row } from './row-reader.ts';
import type { Price } from './types.ts';

const COLUMNS = ['provider', 'model', 'in', 'out', 'cached_in', 'max_output', 'source', 'source_date'];
const OVERRIDE_MEMBERS = ['provider', 'model', 'in', 'out', 'cached_in', 'max_output'];
/** Rates of models that hold whoever serves them. */
const ANY_PROVIDER = '*';

/** Any unlisted model (specification, "Cost estimation"). */
export const DEFAULT_PRICE: Price = Object.freeze({
  in: '10',
  out: '30',
  cachedIn: undefined,
  source: 'default',
  maxOutputTokens: undefined,
});

interface Rates {
  readonly in: string;
  readonly out: string;
  readonly cachedIn: string | undefined;
  readonly maxOutput: string | undefined;
}

/** Rates by provider and model; names are compared without regard to case. */
export class PriceTable {
  readonly #byProvider = new Map<string, Map<string, Price>>();

  /** @param knownProvider says whether a row's provider is a registry row */
  static parse(text: string, knownProvider: (id: string) => boolean, problems: Problems): PriceTable {
    const table = new PriceTable();
    for (const { line, cells } of readCsv(text, COLUMNS, problems)) {
      const [provider = '', model = '', input = '', output = '', cached = '', maxOutput = ''] = cells;
      const rates = { in: input, out: output, cachedIn: cached || undefined, maxOutput: maxOutput || undefined };
      const fault = faultOf(rates) ?? (provider === ANY_PROVIDER || knownProvider(provider) ? undefined : `"${provider}" is no provider`);
      const added = fault === undefined && table.#add(provider, model, priceOf(rates, 'catalogue'));
      if (!added) problems.add(`${provider} ${model}`, fault ?? 'stands twice', { line, column: 1 });
    }
    return table;
  }

  /**
   * Lays the rates of an operator's file over the shipped ones (`GW_PRICING_FILE`, decision 2): `rates`, a list of `{model, in, out}` with optional
   * `provider` (else any), `cached_in` and `max_output`. What such a row does not say, it does not inherit.
   * @param canonicalProvider folds an id or alias, undefined for a name that nobody has
   */
  override(text: string, canonicalProvider: (name: string) => string | undefined, problems: Problems): void {
    const { root, errors } = parseYaml(text, problems.file);
    for (const error of errors) problems.add(error.path, error.message, { line: error.line ?? 1, column: error.column ?? 1 });
    if (errors.length > 0) return;
    const file = Row.from(root, 'pricing', problems, ['rates']);
    const anyProvider = new Map<string, Price>();
    for (const row of file?.rows('rates', OVERRIDE_MEMBERS) ?? []) {
      const read = readOverride(row, canonicalProvider);
      if (read === undefined) continue;
      if (read.provider === ANY_PROVIDER) anyProvider.set(read.model, read.price);
      else this.#models(read.provider).set(read.model, read.price);
    }
    for (const [model, price] of anyProvider) this.#overrideEverywhere(model, price);
  }

  find(providerId: string, model: string | undefined): Price {
    if (model === undefined) return DEFAULT_PRICE;
    const name = model.toLowerCase();
    return this.#byProvider.get(providerId)?.get(name) ?? this.#byProvider.get(ANY_PROVIDER)?.get(name) ?? DEFAULT_PRICE;
  }

  /** A rate for any provider wins over shipped rates of single providers, not over the file's own. */
  #overrideEverywhere(model: string, price: Price): void {
    for (const models of this.#byProvider.values()) {
      if (models.get(model)?.source === 'catalogue') models.set(model, price);
    }
    this.#models(ANY_PROVIDER).set(model, price);
  }

  #add(provider: string, model: string, price: Price): boolean {
    const models = this.#models(provider);
    if (model === '' || models.has(model)) return false;
    models.set(model, price);
    return true;
  }

  #models(provider: string): Map<string, Price> {
    let models = this.#byProvider.get(provider);
    if (models === undefined) {
      models = new Map();
      this.#byProvider.set(provider, models);
    }
    return models;
  }
}

/** One row of an operator's file; undefined, and a problem, when it is not sound. */
function readOverride(
  row: Row,
  canonicalProvider: (name: string) => string | undefined,
): { provider: string; model: string; price: Price } | undefined {
  const name = row.text('provider');
  const provider = name === undefined ? ANY_PROVIDER : canonicalProvider(name);
  if (provider === undefined) row.problem('provider', `"${name}" is no provider`);
  const model = row.need('model').toLowerCase();
  const rates = { in: row.need('in'), out: row.need('out'), cachedIn: row.text('cached_in'), maxOutput: row.text('max_output') };
  const fault = faultOf(rates);
  if (fault !== undefined) row.problem('in', fault);
  return provider === undefined || fault !== undefined ? undefined : { provider, model, price: priceOf(rates, 'override') };
}

function faultOf(rates: Rates): string | undefined {
  for (const text of [rates.in, rates.out, rates.cachedIn ?? '0']) {
    if (parseUsd(text) === undefined) return `"${text}" is no rate: a decimal number of USD per million tokens, such as 0.15`;
  }
  return rates.maxOutput === undefined || /^[1-9]\d{0,8}$/.test(rates.maxOutput)
    ? undefined
    : `"${rates.maxOutput}" is no number of tokens`;
}

function priceOf(rates: Rates, source: Price['source']): Price {
  const maxOutputTokens = rates.maxOutput === undefined ? undefined : Number(rates.maxOutput);
  return Object.freeze({ in: rates.in, out: rates.out, cachedIn: rates.cachedIn, source, maxOutputTokens });
}
