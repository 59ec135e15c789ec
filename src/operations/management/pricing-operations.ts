import { z } from 'zod';
import type { ListedPrice, LongPromptRates, PriceTerm, Rates } from '../../base/catalogue/types.ts';
import { RATE_KINDS, UNITS } from '../../base/model/usage.ts';
import { text } from '../members.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { providerFilter } from '../provider-filter.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';

const rate = z.string().meta({ description: 'US dollars per million tokens, decimal text', examples: ['2.5'] });

/** Rates of what is a part of input or output, by the kinds of the catalogue. */
const PART_RATES = Object.fromEntries(RATE_KINDS.map(({ member }) => [`rate_${member}`, rate.optional()]));

const LONG_PROMPTS = z
  .array(z.object({ above: z.int(), rate_in: rate, rate_out: rate, ...PART_RATES }))
  .meta({ description: 'Rates of all tokens of a call with a prompt of more than `above`, the longest first' });

const PRICE = z.object({
  provider: z.string().meta({ description: '`*`: whoever serves the model' }),
  model: z.string().meta({ description: 'Lower case; a pattern has one `*`' }),
  rate_in: rate,
  rate_out: rate,
  ...PART_RATES,
  long_prompts: LONG_PROMPTS.optional(),
  units: z
    .array(z.object({ unit: z.enum(UNITS), usd: z.string(), per: z.int(), least: z.int().optional() }))
    .optional()
    .meta({ description: 'What is billed apart from tokens: `usd` for `per` of a unit, at least for `least`' }),
  terms: z
    .array(
      z.object({
        term: z.string(),
        factor: z.string().optional(),
        rate_in: rate.optional(),
        rate_out: rate.optional(),
        ...PART_RATES,
        long_prompts: LONG_PROMPTS.optional(),
      }),
    )
    .optional()
    .meta({ description: 'What terms that an answer states make of the rates: all of them times `factor`, or others' }),
  max_output_tokens: z.int().optional(),
  rate_source: z
    .enum(['catalogue', 'override', 'default'])
    .meta({ description: '`override`: of `GW_PRICING_FILE`, before all others; `default`: what no other row is for' }),
});

/** What calls are charged (specification, "Management API": read-only, and no way to write on any surface). */
export const PRICING_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.pricing.list',
    method: 'GET',
    path: '/mgmt/v1/pricing',
    scope: 'read',
    summary: 'Rates that hold now, by provider and model.',
    annotations: READS,
    tools: [{ name: 'list_provider_pricing', title: 'List provider pricing' }],
    input: {
      query: {
        schema: (services) => z.strictObject({ provider: providerFilter(services), model: text.optional(), ...CURSOR_PARAMETERS }),
      },
    },
    output: { status: 200, schema: dataPage(PRICE) },
    handle: ({ query }, { trust: { catalogues }, reports: { clock } }) => {
      const { provider, model } = query;
      const part = model?.toLowerCase();
      const prices = catalogues
        .current()
        .prices(clock.now())
        .filter((row) => (provider === undefined || row.provider === provider) && (part === undefined || row.model.includes(part)));
      // Of two thousand rows those of the page alone are written out.
      const page = pageInMemory(prices, keyOf, cursorPage('pricing', query));
      return { json: { ...page, data: page.data.map(shown) } };
    },
  }),
];

function shown({ provider, model, price }: ListedPrice) {
  const { units, terms, longPrompts, maxOutputTokens } = price;
  return {
    provider,
    model,
    ...shownRates(price),
    ...shownLong(longPrompts),
    ...(units === undefined ? {} : { units: UNITS.flatMap((unit) => (units[unit] === undefined ? [] : [{ unit, ...units[unit] }])) }),
    ...(terms === undefined ? {} : { terms: terms.map(shownTerm) }),
    ...(maxOutputTokens === undefined ? {} : { max_output_tokens: maxOutputTokens }),
    rate_source: price.source,
  };
}

function shownRates(rates: Rates) {
  const parts = RATE_KINDS.flatMap(({ rate: part, member }) => {
    const value = rates[part];
    return value === undefined ? [] : [[`rate_${member}`, value] as const];
  });
  return { rate_in: rates.in, rate_out: rates.out, ...Object.fromEntries(parts) };
}

function shownLong(longPrompts: readonly LongPromptRates[] | undefined) {
  return longPrompts === undefined ? {} : { long_prompts: longPrompts.map((rates) => ({ above: rates.above, ...shownRates(rates) })) };
}

function shownTerm({ term, factor, rates, longPrompts }: PriceTerm) {
  return {
    term,
    ...(factor === undefined ? {} : { factor }),
    ...(rates === undefined ? {} : shownRates(rates)),
    ...shownLong(longPrompts),
  };
}

/** A row of the operator's and one of the catalogue may be for the same. */
function keyOf({ provider, model, price }: ListedPrice): string {
  return `${provider} ${model} ${price.source}`;
}
