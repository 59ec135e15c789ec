import { z } from 'zod';
import type { ListedPrice } from '../../base/catalogue/types.ts';
import { RATE_KINDS } from '../../base/model/rate-kinds.ts';
import { text } from '../members.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';

const rate = z.string().meta({ description: 'US dollars per million tokens, decimal text', examples: ['2.5'] });

const PRICE = z.object({
  provider: z.string().meta({ description: '`*`: whoever serves the model' }),
  model: z.string().meta({ description: 'Lower case; a pattern has one `*`' }),
  rate_in: rate,
  rate_out: rate,
  rate_cached_in: rate.optional(),
  rate_cache_write: rate.optional(),
  rate_cache_write_1h: rate.optional(),
  rate_audio_in: rate.optional(),
  rate_audio_out: rate.optional(),
  rate_cached_audio_in: rate.optional(),
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
    summary: 'Rates that hold now, by provider and model; `provider` and a part of the name of a `model` narrow them.',
    annotations: READS,
    tools: [{ name: 'list_provider_pricing', title: 'List provider pricing' }],
    input: { query: { schema: () => z.strictObject({ provider: text.optional(), model: text.optional(), ...CURSOR_PARAMETERS }) } },
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
  const parts = RATE_KINDS.flatMap(({ rate: part, member }) => {
    const value = price[part];
    return value === undefined ? [] : [[`rate_${member}`, value] as const];
  });
  return {
    provider,
    model,
    rate_in: price.in,
    rate_out: price.out,
    ...Object.fromEntries(parts),
    ...(price.maxOutputTokens === undefined ? {} : { max_output_tokens: price.maxOutputTokens }),
    rate_source: price.source,
  };
}

/** A row of the operator's and one of the catalogue may be for the same. */
function keyOf({ provider, model, price }: ListedPrice): string {
  return `${provider} ${model} ${price.source}`;
}
