import { calcPrice, waitForUpdate } from '@pydantic/genai-prices';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import type { MatchRule } from '../../../src/base/catalogue/price-list/list-shape.ts';
import type { PriceExplanation } from '../../../src/base/catalogue/prices/price-explanation.ts';
import { decoratedNames } from '../../../src/base/catalogue/prices/price-names.ts';
import { namesOf } from '../../support/price-names.ts';
import { fc } from '../../support/properties.ts';

const catalogue = loadCatalogue();
const AT = Date.UTC(2026, 10, 26, 12);
const ARN = 'arn:aws:bedrock:us-east-1:123456789012:inference-profile/';

function explain(provider: string, model: string): PriceExplanation {
  return catalogue.explainPrice(provider, model, AT);
}

t.test('a name in the decoration of its provider has the price of its model', async (t) => {
  const table: readonly (readonly [provider: string, model: string, rateIn: string, rateOut: string, steps: readonly string[]])[] = [
    ['openai', 'ft:gpt-4o-mini-2024-07-18:acme::abc123', '0.3', '1.2', []],
    ['openai', 'ft:gpt-4o-2024-08-06:acme:mine:abc123:ckpt-step-90', '3.75', '15', []],
    ['openai', 'ft:gpt-4.1-2025-04-14:acme::abc123', '3', '12', ['fine-tuned model']],
    ['openai', 'ft:gpt-4.1-nano-2025-04-14:acme:mine:abc', '0.2', '0.8', ['fine-tuned model']],
    ['openai', 'ft:o4-mini-2025-04-16:acme::x', '4', '16', ['fine-tuned model']],
    ['openai', 'ft:gpt-5-mini-2025-08-07:acme::x', '0.25', '2', ['fine-tuned model']],
    ['openai', 'ft:gpt-9-ultra:acme::x', '10', '30', []],
    ['azure_openai', 'gpt-4o-2024-08-06.ft-0e208cf33a6a466994aff31a08aba678', '3.75', '15', ['fine-tuned model of Azure']],
    ['azure_openai', 'gpt-4.1-2025-04-14.ft-0e208cf33a6a46', '3', '12', ['fine-tuned model of Azure']],
    ['mistral', 'ft:open-mistral-7b:daf5e488:20240604:c1bed559', '0.25', '0.25', ['fine-tuned model']],
    ['openrouter', 'openai/gpt-4o:nitro', '2.5', '10', ['way of OpenRouter']],
    ['openrouter', 'openai/gpt-4o:floor', '2.5', '10', ['way of OpenRouter']],
    ['openrouter', 'openai/gpt-4o:online', '2.5', '10', ['way of OpenRouter']],
    ['openrouter', 'openai/gpt-4o:extended', '6', '18', []],
    ['openrouter', 'anthropic/claude-opus-4.6:extended', '10', '30', []],
    ['openrouter', 'nobody/knows-it:free', '0', '0', [':free of OpenRouter']],
    ['openai', 'gpt-4o:free', '10', '30', []],
    ['openrouter', '~anthropic/claude-opus-latest', '4', '20', []],
    ['openrouter', '~openai/gpt-4o:nitro', '2.5', '10', ['way of OpenRouter', '~ of OpenRouter']],
    ['bedrock', `${ARN}us.anthropic.claude-sonnet-4-5-20250929-v1:0`, '3.3', '16.5', []],
    ['bedrock', `${ARN}us.anthropic.claude-opus-5-5`, '4.4', '22', ['ARN of Bedrock']],
    ['bedrock', encodeURIComponent(`${ARN}global.anthropic.claude-opus-5-5`), '4', '20', []],
    [
      'bedrock',
      'arn%3Aaws%3Abedrock%3Aus-east-1%3A%3Afoundation-model%2Fopenai.gpt-5.5',
      '5.5',
      '33',
      ['percent escapes', 'ARN of Bedrock'],
    ],
    ['bedrock', 'arn:aws:bedrock:us-east-1::foundation-model/openai.gpt-5.4', '2.75', '16.5', ['ARN of Bedrock']],
    [
      'bedrock',
      'arn:aws-us-gov:bedrock:us-gov-west-1:123456789012:inference-profile/us-gov.anthropic.claude-opus-5',
      '5.5',
      '27.5',
      ['ARN of Bedrock', 'area of Bedrock'],
    ],
    ['bedrock', 'arn:aws-cn:bedrock:cn-north-1::foundation-model/amazon.nova-lite-v1:0', '0.06', '0.24', []],
    ['bedrock', 'arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3d4e5f6', '10', '30', []],
    ['bedrock', 'sa.anthropic.claude-opus-5-5', '4.4', '22', ['area of Bedrock']],
    ['bedrock', 'us.anthropic.claude-opus-5-5-20261001-v1:0', '4.4', '22', ['area of Bedrock', 'version of Bedrock', 'date']],
    ['bedrock', 'apac.amazon.nova-pro-v1:0', '0.84', '3.36', []],
    ['gemini', 'models/gemini-2.5-pro', '1.25', '10', ['collection of Google']],
    ['gemini', 'gemini-pro-latest', '2', '12', ['alias of Google']],
    ['gemini', 'gemini-2.5-flash-preview-12-2025', '0.3', '2.5', ['preview']],
    ['gemini', 'gemini-3.5-flash-exp-11-20', '1.5', '9', ['preview']],
    ['vertex', 'google/gemini-2.5-flash', '0.3', '2.5', ['publisher']],
    ['vertex', 'publishers/google/models/gemini-2.5-flash', '0.3', '2.5', ['path of Google']],
    ['vertex', 'projects/p/locations/l/publishers/google/models/gemini-2.5-flash-lite', '0.1', '0.4', ['path of Google']],
    ['vertex', 'claude-opus-5-5@20260922', '4', '20', []],
    ['vertex', 'anthropic/claude-haiku-4-5@20251001', '1', '5', ['publisher']],
    ['vertex', 'mistral-large-2411@001', '2', '6', ['@ before a version']],
    ['vertex', 'gemma-4-31b-it-maas', '10', '30', []],
    ['xai', 'grok-4.6-0901', '2', '6', ['month and day']],
    ['groq', 'openai/gpt-oss-120b', '0.15', '0.6', []],
    ['groq', 'openai/gpt-4o-mini', '10', '30', []],
    ['openai', 'openai/gpt-4o', '2.5', '10', ['publisher']],
    ['openai', 'gpt-6-sol-20261101', '2', '10', []],
    ['openai', 'gpt-5.4-mini-2027-01-05', '0.75', '4.5', ['date']],
    ['openai', ' GPT-4o-mini ', '0.15', '0.6', []],
    ['openai', 'gpt-9-ultra', '10', '30', []],
    ['openai', 'gpt-4o-ultra', '10', '30', []],
    ['openai', 'gpt-6-sol-mini', '10', '30', []],
    ['openai', 'gpt-4o-fp8', '10', '30', []],
    ['huggingface', 'Qwen/Qwen3-32B:groq', '0.29', '0.59', ['supplier']],
    ['github_models', 'openai/gpt-4.1', '0', '0', []],
    ['github_models', 'openai/gpt-6-sol', '2', '10', ['publisher']],
    ['github_models', 'acme/gpt-6-sol', '10', '30', []],
    ['deepinfra', 'google/gemma-3-27b-it', '10', '30', []],
    ['deepinfra', 'anthropic/claude-opus-5-5', '4', '20', ['publisher']],
  ];
  for (const [provider, model, rateIn, rateOut, steps] of table) {
    const { price, steps: found, from } = explain(provider, model);
    const wanted = [rateIn, rateOut, from === 'default' ? [] : steps];
    t.strictSame([price.in, price.out, found.map(({ rule }) => rule)], wanted, `${provider} ${model}`);
  }
});

t.test('of a router with several suppliers the dearest counts where nobody has chosen one', async (t) => {
  const { priceList } = catalogue;
  const dearest = priceList.providers
    .filter(({ id }) => id.startsWith('huggingface_'))
    .flatMap(({ id }) => priceList.find(id, 'openai/gpt-oss-120b') ?? [])
    .map(({ model: { prices } }) => Number((prices as Record<string, number>)['output_mtok']));
  t.ok(new Set(dearest).size > 1);
  for (const way of ['', ':cheapest', ':fastest'])
    t.equal(Number(explain('huggingface', `openai/gpt-oss-120b${way}`).price.out), Math.max(...dearest), way);
});

t.test('who asks is told which source and which rule priced a name', async (t) => {
  t.match(explain('openai', 'gpt-6-sol'), {
    from: 'list',
    listed: { list: 'openai', model: 'gpt-6-sol', rule: 'equals "gpt-6-sol"' },
    steps: [],
  });
  t.match(explain('azure_openai', 'gpt-6-sol'), { from: 'list', listed: { list: 'azure', through: 'openai', model: 'gpt-6-sol' } });
  t.match(explain('gemini', 'gemini-3.6-flash-preview'), { listed: { rule: 'starts_with "gemini-3.6-flash"' } });
  t.match(catalogue.explainPrice('gemini', 'gemini-3.6-flash', Date.UTC(2027, 5, 1)).listed?.period, { start_date: '2027-01-01' });
  t.match(explain('deepseek', 'deepseek-v4-pro').listed?.period, { start_date: '2026-08-17' }, 'at noon');
  t.match(
    catalogue.explainPrice('deepseek', 'deepseek-v4-pro', AT - 5 * 3_600_000).listed?.period,
    { start_time: '06:00:00Z' },
    'at seven',
  );
  t.match(explain('mistral', 'mistral-large-latest'), { from: 'correction', row: { origin: 'models.dev 2026-07-02', reason: /2512/ } });
  t.match(explain('cohere', 'command-nightly'), { from: 'own', row: { provider: 'cohere', model: 'command-nightly' } });
  t.equal(explain('openrouter', 'x/y:free').from, 'free');
  t.equal(explain('openai', 'gpt-9').from, 'default');
});

t.test('the pairs of the specification hold at every provider, with what else the list says', async (t) => {
  const pairs: readonly (readonly [string, string, string])[] = [
    ['gpt-4o-2024-05-13', '5', '15'],
    ['chatgpt-4o-latest', '5', '15'],
    ['gpt-4o-mini', '0.15', '0.6'],
    ['gpt-4', '30', '60'],
    ['claude-3-opus', '15', '75'],
    ['claude-3-5-sonnet', '3', '15'],
    ['claude-3-5-haiku', '0.8', '4'],
    ['claude-3-5-haiku-20241022', '0.8', '4'],
  ];
  for (const { id } of [...catalogue.providers, { id: 'custom:x' }]) {
    for (const [model, rateIn, rateOut] of pairs) {
      const { in: input, out, source } = catalogue.price(id, model, AT);
      t.strictSame([input, out, source], [rateIn, rateOut, 'catalogue'], `${id} ${model}`);
    }
  }
  t.match(catalogue.price('anthropic', 'claude-3-5-haiku', AT), { cacheWrite1h: '1.6', units: { web_searches: { usd: '10', per: 1000 } } });
});

t.test('a decoration never leads to another model', async () => {
  const all = (await waitForUpdate()) ?? [];
  const named = catalogue.providers
    .filter(({ priceLists, priceSuppliers }) => priceLists.length > 0 && priceSuppliers === undefined)
    .map(({ id, priceLists: [list = ''] }) => {
      const models = all.find((one) => one.id === list)?.models ?? [];
      return {
        provider: id,
        list,
        names: models.flatMap(({ match }) => namesOf(match as MatchRule)).filter((name) => !name.includes('preview')),
      };
    });
  const decorations: readonly ((name: string) => string)[] = [
    (name) => `${name}-20270105`,
    (name) => `${name}-2027-01-05`,
    (name) => `${name}@20270105`,
    (name) => `${name}@default`,
    (name) => `${name}-latest`,
    (name) => `${name}:latest`,
    (name) => `${name}-preview`,
    (name) => `${name}-preview-05-06`,
    (name) => `${name}-exp-0827`,
    (name) => `${name}:nitro`,
    (name) => `${name}:batch`,
    (name) => `ft:${name}:acme::x1`,
    (name) => `us.${name}`,
    (name) => `${ARN}${name}`,
    (name) => `models/${name}`,
    (name) => `${name}-ultra`,
    (name) => `${name}-mini`,
    (name) => `${name}2`,
    (name) => `my-${name}`,
    (name) => `acme/${name}`,
    (name) => encodeURIComponent(name),
  ];
  const asked = fc
    .constantFrom(...named)
    .chain((one) => fc.tuple(fc.constant(one), fc.constantFrom(...one.names), fc.constantFrom(...decorations)));
  fc.assert(
    fc.property(asked, ([{ provider, list }, name, decorate]) => {
      const decorated = decorate(name);
      const { from, listed, price, steps, name: found } = explain(provider, decorated);
      if (from !== 'list') return true;
      const theirs = calcPrice({}, found, { providerId: list, timestamp: new Date(AT) });
      // What the list knows by itself is its own affair; what rules lead to is the bare name's model, or its fine-tuned
      // one.
      if (steps.length === 0) return theirs === null ? provider === 'vertex' || provider === 'zai' : theirs.model.id === listed?.model;
      const bare = explain(provider, name);
      return (price.in === bare.price.in && price.out === bare.price.out) || Number(price.out) > Number(bare.price.out);
    }),
    { numRuns: 10_000 },
  );
});

t.test('hostile names cost no more than others, and none stays for ever', async (t) => {
  const fresh = loadCatalogue();
  const calls = t.capture(fresh.priceList, 'find', fresh.priceList.find.bind(fresh.priceList));
  const asks = (provider: string, model: string): number => {
    const { in: input, source } = fresh.price(provider, model, AT);
    if (source !== 'default' || input !== '10') t.fail(`${provider} ${model.slice(0, 80)}`);
    return calls().length;
  };
  const strange = [
    '__proto__',
    'constructor',
    'toString',
    '\u0000',
    'gpt-4o\n',
    '%',
    '%zz',
    '%E0%A4%A',
    'ft:',
    ':',
    '/',
    '//',
    '@',
    '-',
    '~',
    ':free',
    'models/',
    '\ud800',
    '../../etc',
  ];
  for (const name of strange) if (name.trim() !== 'gpt-4o') asks('openrouter', name);
  for (const long of [
    'a'.repeat(10_000),
    'ft:'.repeat(4_000),
    '%25'.repeat(4_000),
    '-latest'.repeat(1_500),
    `${'us.'.repeat(3_000)}anthropic.x`,
  ])
    for (const provider of ['openai', 'bedrock', 'vertex', 'huggingface', 'nvidia'])
      t.equal(asks(provider, long), 0, 'no rule looks at it');
  for (const name of [
    '-latest'.repeat(36),
    'ft:a:'.repeat(50),
    `${'us.'.repeat(60)}anthropic.x`,
    '%25'.repeat(80),
    '-preview'.repeat(30),
    'models/'.repeat(35),
  ])
    for (const provider of ['openai', 'bedrock', 'vertex', 'huggingface', 'nvidia'])
      t.ok(asks(provider, name) <= 32 * 11, 'so many names at most are tried');
  t.equal(fresh.price('openai', 'gpt-4o', AT), fresh.price('openai', 'gpt-4o', AT));
  t.equal(calls().length, 1, 'what was found is not looked for again');
  asks('openai', 'nobody-knows');
  t.equal(asks('openai', 'nobody-knows'), 0, 'nor what was not');
  let looked = 0;
  for (let i = 0; i < 3_000; i++) looked += asks('openai', `nobody-knows-${i}`);
  t.ok(looked <= 3_000 * 2, `${looked} look-ups for 3000 names`);
  asks('openai', 'nobody-knows');
  fresh.price('openai', 'gpt-4o', AT);
  t.ok(calls().length > 0, 'after so many others it was forgotten');
});

t.test('names that are made up to compare lists by are decorated: each has the price of the name that it was made of', async (t) => {
  const fallsBack = (list: string): readonly string[] => catalogue.priceList.fallbacksOf(list);
  const { lanes } = catalogue.priceGrounds;
  for (const [provider, name, least] of [
    ['openai', 'gpt-4.1', 15],
    ['bedrock', 'anthropic.claude-sonnet-4-5-20250929', 30],
    ['vertex', 'gemini-2.5-pro', 15],
    ['openrouter', 'anthropic/claude-sonnet-4.5', 20],
    ['azure_openai', 'gpt-4.1', 15],
  ] as const) {
    const lane = lanes.find((one) => one.provider === provider);
    const forms = lane === undefined ? [] : decoratedNames(lane, name, fallsBack, () => true);
    t.ok(forms.length >= least, `${provider}: ${forms.length}`);
    for (const form of forms) t.ok(explain(provider, form).from !== 'default' && form !== name, `${provider} ${form}`);
  }
});
