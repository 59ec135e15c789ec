/*
 * The operator's file of rates (`GW_PRICING_FILE`, decision 2), which lies over every other price.
 */
import { readAmount, tidyAmount } from '../../lib/amounts.ts';
import { parseYaml, type YamlNode } from '../../lib/yaml.ts';
import { UNITS, type Unit, type UnitRate } from '../../model/usage.ts';
import { Row, type RowProblems } from '../row-reader.ts';
import type { LongPromptRates, Price, PriceTerm } from '../types.ts';
import { statedForProvider } from './plan-price.ts';
import { isFactor, isTerm } from './price-terms.ts';
import { ANY_PROVIDER, RateList } from './rate-list.ts';
import { dayStart, faultsOf, PART_MEMBERS, priceOf, type RateTexts, ratesOf } from './row-texts.ts';

const RATES = ['in', 'out', ...PART_MEMBERS];
const MEMBERS = ['provider', 'model', ...RATES, 'max_output', 'valid_from', 'long_prompts', 'units', 'terms'];
const LONG_MEMBERS = ['above', ...RATES];
const TERM_MEMBERS = ['term', 'factor', ...RATES, 'long_prompts'];
const UNIT_MEMBERS = ['usd', 'per', 'least'];
const COUNT = /^[1-9]\d{0,8}$/;

/**
 * `rates`, a list of `{model, in, out}` with optional `provider` (else any), rates of parts (`cached_in`, …, see
 * `RATE_KINDS`), `long_prompts`, `units`, `terms`, `max_output` and `valid_from`; `model` is a name or a pattern with
 * one `*`. What such a row does not say, it does not inherit.
 * @param canonicalProvider folds an id or alias, undefined for a name that nobody has
 */
export function readOperatorRates(text: string, canonicalProvider: (name: string) => string | undefined, problems: RowProblems): RateList {
  const list = new RateList();
  const { root, errors } = parseYaml(text, problems.file);
  for (const error of errors) problems.add(error.path, error.message, { line: error.line ?? 1, column: error.column ?? 1 });
  if (errors.length > 0) return list;
  const file = Row.from(root, 'pricing', problems, ['rates']);
  if (file !== undefined && !file.has('rates')) file.problem('rates', 'is missing');
  for (const row of file?.rows('rates', MEMBERS) ?? []) addRow(list, row, canonicalProvider);
  return list;
}

function addRow(list: RateList, row: Row, canonicalProvider: (name: string) => string | undefined): void {
  const named = row.text('provider');
  const provider = named === undefined || named === ANY_PROVIDER ? ANY_PROVIDER : canonicalProvider(named);
  if (provider === undefined) row.problem('provider', `"${named}" is no provider`, row.value('provider'));
  const model = row.need('model').toLowerCase();
  const stars = model.split('*').length - 1;
  if (stars > 1) row.problem('model', `"${model}" has more than one *`, row.value('model'));
  const texts = rateTexts(row, ['max_output', 'valid_from']);
  const more = { ...longPrompts(row), ...units(row), ...terms(row) };
  if (provider === undefined || model === '' || stars > 1 || texts === undefined) return;
  const price: Price = Object.freeze({ ...priceOf(texts, 'override'), ...more });
  if (provider !== ANY_PROVIDER) statedForProvider(price);
  if (!list.add({ provider, model, price }, dayStart(texts))) row.problem('model', `"${model}" stands twice`);
}

/** The rates of a row and what else of it is such a text; undefined where one of them is wrong. */
function rateTexts(row: Row, others: readonly string[] = []): RateTexts | undefined {
  const optional = [...PART_MEMBERS, ...others];
  const texts = { ...Object.fromEntries(optional.map((member) => [member, row.text(member)])), in: row.need('in'), out: row.need('out') };
  const faults = faultsOf(texts).filter(([member]) => row.has(member));
  for (const [member, message] of faults) row.problem(member, message, row.value(member));
  return faults.length > 0 || !row.has('in') || !row.has('out') ? undefined : texts;
}

/** Rates of longer prompts, in any order. */
function longPrompts(row: Row): { readonly longPrompts?: readonly LongPromptRates[] } {
  const read = row.rows('long_prompts', LONG_MEMBERS).flatMap((long) => {
    const above = long.need('above');
    if (!COUNT.test(above)) long.problem('above', `"${above}" is no number of tokens`, long.value('above'));
    const texts = rateTexts(long);
    return texts === undefined || !COUNT.test(above) ? [] : [{ ...ratesOf(texts), above: Number(above) }];
  });
  for (const [i, { above }] of read.entries()) {
    if (read.findIndex((one) => one.above === above) !== i)
      row.problem('long_prompts', `has two rates above ${above}`, row.value('long_prompts'));
  }
  return read.length === 0 ? {} : { longPrompts: read.sort((a, b) => b.above - a.above) };
}

/** What is billed apart from tokens: `{web_searches: {usd: 10, per: 1000}}`, or the dollars of one alone. */
function units(row: Row): { readonly units?: Readonly<Partial<Record<Unit, UnitRate>>> } {
  if (!row.has('units')) return {};
  const map = row.row('units', UNITS);
  const read: Partial<Record<Unit, UnitRate>> = {};
  for (const unit of UNITS) {
    const rate = map?.has(unit) === true ? unitRate(map, unit) : undefined;
    if (rate !== undefined) read[unit] = rate;
  }
  return { units: read };
}

function unitRate(map: Row, unit: Unit): UnitRate | undefined {
  const node = map.value(unit);
  if (node?.kind !== 'map') return amount(map, unit, node) ? { usd: tidyAmount(map.need(unit)), per: 1 } : undefined;
  const rate = map.row(unit, UNIT_MEMBERS);
  if (rate === undefined) return undefined;
  const { per = '1', least } = { per: rate.text('per'), least: rate.text('least') };
  const faulty = (['per', 'least'] as const).filter((member) => rate.has(member) && !COUNT.test(rate.text(member) ?? ''));
  for (const member of faulty) rate.problem(member, 'must be a whole number from 1 on', rate.value(member));
  if (!amount(rate, 'usd', rate.value('usd')) || faulty.length > 0) return undefined;
  return { usd: tidyAmount(rate.need('usd')), per: Number(per), ...(least === undefined ? {} : { least: Number(least) }) };
}

function amount(row: Row, member: string, node: YamlNode | undefined): boolean {
  const text = row.need(member);
  const fits = readAmount(text) !== undefined;
  if (!fits && row.has(member)) row.problem(member, `"${text}" is no amount: a decimal number of USD with at most twelve decimals`, node);
  return fits;
}

/** What terms that answers state make of the rates. */
function terms(row: Row): { readonly terms?: readonly PriceTerm[] } {
  const read = row.rows('terms', TERM_MEMBERS).flatMap((term) => priceTerm(term) ?? []);
  for (const [i, { term }] of read.entries()) {
    if (read.findIndex((one) => one.term === term) !== i) row.problem('terms', `has "${term}" twice`, row.value('terms'));
  }
  return read.length === 0 ? {} : { terms: read };
}

function priceTerm(row: Row): PriceTerm | undefined {
  const term = row.need('term');
  if (!isTerm(term)) row.problem('term', `"${term}" is no term: write it as service_tier=flex`, row.value('term'));
  const factor = row.text('factor');
  if (factor === undefined) {
    const texts = rateTexts(row);
    return texts === undefined || !isTerm(term) ? undefined : { term, rates: ratesOf(texts), ...longPrompts(row) };
  }
  if (!isFactor(factor)) row.problem('factor', `"${factor}" is no factor: a decimal number such as 1.8`, row.value('factor'));
  const both = [...RATES, 'long_prompts'].find((member) => row.has(member));
  if (both !== undefined) row.problem(both, 'cannot stand together with a factor', row.value(both));
  return isTerm(term) && isFactor(factor) && both === undefined ? { term, factor } : undefined;
}
