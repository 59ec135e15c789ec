/* How price lists, and why a model costs what it costs, are shown. */
import { z } from 'zod';
import type { ListedModel, RateChange } from '../base/catalogue/price-list/list-diff.ts';
import { LIST_KEYS } from '../base/catalogue/price-list/list-keys.ts';
import type { PriceConstraint } from '../base/catalogue/price-list/list-shape.ts';
import type { ListIdentity } from '../base/catalogue/price-list/price-list.ts';
import type { PriceExplanation } from '../base/catalogue/prices/price-explanation.ts';
import type { LongPromptRates, Price, PriceTerm, Rates } from '../base/catalogue/types.ts';
import { RATE_KINDS } from '../base/model/usage.ts';
import type { ComparedList } from '../services/prices/price-lists.ts';
import { optional } from './members.ts';
import type { Shown } from './operation.ts';
import { count } from './shapes.ts';

const usd = z.string().meta({ description: 'US dollars, decimal text', examples: ['2.5'] });
const rates = z.record(z.string(), usd).meta({
  description: 'US dollars per million tokens: `in`, `out`, `cached_in`, `cache_write`, `audio_in`, …',
  examples: [{ in: '2.5', out: '10' }],
});
const day = z.string().meta({ description: 'A day in UTC', examples: ['2026-09-23'] });

export const LIST = z.object({
  version: z.string().optional().meta({ description: 'Of the package; published lists do not say it' }),
  date: day.optional(),
  sha256: z.string().meta({ description: 'Of its text as it was published' }),
  providers: count,
  models: count,
});

export const PLACE = z.object({ provider: z.string().meta({ description: 'Id of the list that it stands in' }), model: z.string() });

export const CHANGE = PLACE.extend({
  rate: z.string().meta({ description: '`in`, `out`, `cached_in`, …, or a unit such as `web_searches`' }),
  per: count.optional().meta({ description: 'Of a unit: so many of it for that amount' }),
  above: count.optional().meta({ description: 'Of prompts with more tokens than this' }),
  when: z.string().optional().meta({ description: 'What limits it: a first day, or a window of each day in UTC' }),
  before: usd.nullable().meta({ description: 'null: the list states none' }),
  after: usd.nullable().meta({ description: 'null: the list states none' }),
  factor: z.number().optional().meta({ description: 'What is charged then over what is charged now; absent where it costs nothing now' }),
  held: z.boolean().meta({ description: 'It needs somebody’s yes: it would fall to zero, or change more than tenfold' }),
  name: z
    .string()
    .optional()
    .meta({ description: 'Where another entry would price a name from then on: that name, the first that shows it' }),
});

export type ShownChange = Shown<z.output<typeof CHANGE>>;

export const DIFF = z.object({
  added: z.array(PLACE),
  removed: z.array(PLACE),
  changed: z.array(CHANGE),
  warnings: z.array(z.string()).meta({ description: 'What the list says and this version of the program does not understand' }),
});

export type ShownDiff = Shown<z.output<typeof DIFF>>;

const LONG = z.object({ above: count, rates });
const TERM = z.object({ term: z.string(), factor: z.string().optional(), rates: rates.optional(), long_prompts: z.array(LONG).optional() });

export const PRICE = z.object({
  rates,
  long_prompts: z.array(LONG).optional().meta({ description: 'Rates of all tokens of a call with a longer prompt; the longest first' }),
  units: z.record(z.string(), z.object({ usd, per: count, least: z.number().optional() })).optional(),
  terms: z.array(TERM).optional().meta({ description: 'What terms that an answer states make of the rates' }),
  max_output_tokens: count.optional(),
  rate_source: z.enum(['catalogue', 'override', 'default']),
});

export type ShownPrice = Shown<z.output<typeof PRICE>>;

export const EXPLANATION = z.object({
  price: PRICE,
  from: z.enum(['override', 'correction', 'list', 'own', 'free', 'default', 'plan']).meta({
    description:
      '`override`: GW_PRICING_FILE; `correction`: a row above the price list; `list`: the price list; `own`: a row beside it; `free`: the provider says so in the name; `default`: nobody knows the model; `plan`: a plan pays for every call to the provider',
  }),
  name: z.string().meta({ description: 'The name under which it was found' }),
  steps: z.array(z.object({ rule: z.string(), name: z.string() })).meta({ description: 'What was taken off the name, and what was left' }),
  row: z.object({ provider: z.string(), model: z.string(), origin: z.string().optional(), reason: z.string().optional() }).optional(),
  listed: z
    .object({
      list: z.string(),
      through: z.string().optional().meta({ description: 'The list that knows the model, where it is not the one that was asked' }),
      model: z.string(),
      rule: z.string(),
      when: z.string().optional(),
    })
    .optional(),
});

export function shownList({ version, date, sha256, providers, models }: ListIdentity): Shown<z.output<typeof LIST>> {
  return { ...optional('version', version), ...optional('date', date), sha256, providers, models };
}

export function shownDiff({ diff, warnings }: Pick<ComparedList, 'diff' | 'warnings'>): ShownDiff {
  return { added: diff.added.map(shownPlace), removed: diff.removed.map(shownPlace), changed: diff.changed.map(shownChange), warnings };
}

function shownPlace({ provider, model }: ListedModel): ListedModel {
  return { provider, model };
}

export function shownChange(change: RateChange): ShownChange {
  const { provider, model, key, above, period, old, new: next, factor, held, name } = change;
  return {
    provider,
    model,
    ...rateOf(key),
    ...optional('above', above),
    ...optional('when', period && whenText(period)),
    before: old ?? null,
    after: next ?? null,
    ...optional('factor', factor),
    held,
    ...optional('name', name),
  };
}

/** A key of the list by our own names. */
function rateOf(key: string): { readonly rate: string; readonly per?: number } {
  const kind = LIST_KEYS.get(key);
  if (kind === undefined) return { rate: key };
  if ('unit' in kind) return { rate: kind.unit, per: kind.per };
  return { rate: RATE_KINDS.find(({ rate }) => rate === kind.rate)?.member ?? kind.rate };
}

function whenText(period: PriceConstraint): string {
  return period.type === 'start_date' ? `from ${period.start_date}` : `${period.start_time} to ${period.end_time}`;
}

export function shownExplanation({ price, from, name, steps, row, listed }: PriceExplanation): Shown<z.output<typeof EXPLANATION>> {
  return {
    price: shownPrice(price),
    from,
    name,
    steps,
    ...optional('row', row),
    ...optional('listed', listed && shownListed(listed)),
  };
}

function shownListed({ list, through, model, rule, period }: NonNullable<PriceExplanation['listed']>) {
  return { list, ...optional('through', through), model, rule, ...optional('when', period && whenText(period)) };
}

function shownPrice({ longPrompts, units, terms, maxOutputTokens, source, ...own }: Price): ShownPrice {
  return {
    rates: shownRates(own),
    ...optional('long_prompts', longPrompts?.map(shownLong)),
    ...optional('units', units && Object.fromEntries(Object.entries(units))),
    ...optional('terms', terms?.map(shownTerm)),
    ...optional('max_output_tokens', maxOutputTokens),
    rate_source: source,
  };
}

function shownLong({ above, ...own }: LongPromptRates) {
  return { above, rates: shownRates(own) };
}

function shownTerm({ term, factor, rates: own, longPrompts }: PriceTerm) {
  return {
    term,
    ...optional('factor', factor),
    ...optional('rates', own && shownRates(own)),
    ...optional('long_prompts', longPrompts?.map(shownLong)),
  };
}

function shownRates(own: Rates): Record<string, string> {
  const parts = RATE_KINDS.toReversed().flatMap(({ rate, member }) => (own[rate] === undefined ? [] : [[member, own[rate]] as const]));
  return { in: own.in, out: own.out, ...Object.fromEntries(parts) };
}
