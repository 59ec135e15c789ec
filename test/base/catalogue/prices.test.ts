import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Decimal } from 'decimal.js';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { CatalogueInForce } from '../../../src/base/catalogue/catalogue-in-force.ts';
import type { CustomRow } from '../../../src/base/catalogue/custom-row.ts';
import { openPriceList } from '../../../src/base/catalogue/price-list/open-list.ts';
import { CatalogueError } from '../../../src/base/catalogue/row-reader.ts';
import type { Catalogue } from '../../../src/base/catalogue/types.ts';
import { usdFromPico } from '../../../src/base/lib/money.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { sha256Hex } from '../../../src/base/lib/sha256.ts';
import { meter } from '../../../src/decide/pricing/cost.ts';
import { fc } from '../../support/properties.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const DATA = join(packageRoot(), 'src/base/catalogue/data');
const SOURCES = ['specified', 'genai-prices', 'litellm', 'models.dev', 'vendor'];

/** Rows of a shipped table, by column. */
function table(name: string): readonly Readonly<Record<string, string>>[] {
  const [head = '', ...lines] = readFileSync(join(DATA, name), 'utf8').trim().split('\n');
  const columns = head.split(',');
  return lines.map((line) => Object.fromEntries(line.split(',').map((cell, i) => [columns[i] ?? '', cell])));
}

const shipped = table('prices.csv');
const corrections = table('price-corrections.csv');

function withFile(t: HasTeardown, text: string): () => Catalogue {
  const pricingFile = join(tempDir(t), 'rates.yaml');
  writeFileSync(pricingFile, text);
  return () => loadCatalogue({ pricingFile });
}

function mistakes(load: () => unknown): readonly string[] {
  try {
    load();
  } catch (error) {
    if (error instanceof CatalogueError) return error.details.map(({ line, path, message }) => `${line} ${path} ${message}`);
    throw error;
  }
  return [];
}

function rates(catalogue: Catalogue, provider: string, model: string, at?: number): readonly string[] {
  const price = catalogue.price(provider, model, at);
  return [price.in, price.out, price.source];
}

t.test('each shipped row says where it is from and when, and all sources may be shipped', async (t) => {
  for (const row of [...shipped, ...corrections, ...table('price-terms.csv')]) {
    if (SOURCES.includes(row['source'] ?? '') && /^20\d\d-\d\d-\d\d$/.test(row['source_date'] ?? '')) continue;
    t.fail(JSON.stringify(row));
  }
  t.ok(shipped.length > 400);
  t.ok(corrections.every(({ reason = '' }) => reason.length > 20));
});

t.test('a shipped row stands only where the list has no price for its name', async (t) => {
  const catalogue = loadCatalogue();
  const priced = shipped
    .filter(({ provider }) => provider !== '*')
    .map(({ provider = '', model = '' }) => [provider, model, catalogue.explainPrice(provider, model).from]);
  t.strictSame(
    priced.filter(([, , from]) => from !== 'own'),
    [],
  );
});

t.test('every shipped rate gives an exact cost, as decimal arithmetic says', async () => {
  const count = fc.integer({ min: 0, max: 10_000_000 });
  const rates = loadCatalogue()
    .prices(Date.UTC(2026, 10, 26))
    .map(({ price }) => ({ in: price.in, out: price.out, cachedIn: price.cachedIn, cacheWrite: price.cacheWrite }));
  fc.assert(
    fc.property(fc.constantFrom(...rates), count, count, count, count, (rate, tokensIn, tokensOut, cachedTokens, written) => {
      const price = { ...rate, source: 'catalogue', maxOutputTokens: undefined } as const;
      const hit = rate.cachedIn === undefined ? 0 : Math.min(cachedTokens, tokensIn);
      const put = rate.cacheWrite === undefined ? 0 : Math.min(written, tokensIn - hit);
      const usage = { tokens_in: tokensIn, tokens_out: tokensOut, cached_tokens_in: cachedTokens, cache_write_tokens_in: written };
      const plain = new Decimal(tokensIn).mul(rate.in).plus(new Decimal(tokensOut).mul(rate.out)).div(1e6);
      const saved = new Decimal(hit).mul(new Decimal(rate.in).minus(rate.cachedIn ?? 0));
      const added = new Decimal(put).mul(new Decimal(rate.cacheWrite ?? 0).minus(rate.in));
      const apart = plain.minus(saved.div(1e6)).plus(added.div(1e6));
      const rounded = (cost: Decimal): string => cost.toDecimalPlaces(12, Decimal.ROUND_HALF_UP).toFixed();
      return (
        usdFromPico(meter(usage, price).costPico) === rounded(plain) && usdFromPico(meter(usage, price, true).costPico) === rounded(apart)
      );
    }),
    { numRuns: 2000 },
  );
});

t.test('a price that changes on a day is the one in force when the call came', async (t) => {
  const catalogue = loadCatalogue();
  const change = Date.UTC(2027, 0, 1);
  t.strictSame(rates(catalogue, 'gemini', 'gemini-3.6-flash', change - 1), ['0.75', '3.75', 'catalogue']);
  t.strictSame(rates(catalogue, 'gemini', 'gemini-3.6-flash', change), ['1.5', '7.5', 'catalogue']);
  t.strictSame(rates(catalogue, 'gemini', 'gemini-3.6-flash'), ['1.5', '7.5', 'catalogue']);
});

t.test("an operator's rates lie over the shipped ones", async (t) => {
  const catalogue = withFile(
    t,
    `rates:
  - {provider: provider_a, model: gpt-4o, in: 2.40, out: "9.60", cached_in: 1.2, cache_write: 3.125, max_output: 100}
  - {model: my-own, in: 1, out: 2}
  - {model: gpt-4o-2024-11-20, in: 7, out: 8}
  - {model: 'ft:gpt-4o:*', in: 3.75, out: 15}
  - {model: 'ft:*', in: 30, out: 40}
  - {provider: groq, model: 'ft:*', in: 0.000001, out: 0}
  - {model: 'ft:gpt-4o:acme', in: 4, out: 5}
  - {provider: azure, model: '*', in: 6, out: 7, valid_from: 2026-12-01}
  - {model: my-own, in: 3, out: 4, valid_from: 2026-12-01}
`,
  )();
  t.strictSame(catalogue.price('openai', 'gpt-4o'), {
    in: '2.4',
    out: '9.6',
    cachedIn: '1.2',
    cacheWrite: '3.125',
    source: 'override',
    maxOutputTokens: 100,
  });
  const december = Date.UTC(2026, 11, 1);
  const table: readonly (readonly [provider: string, model: string, at: number, string, string, string])[] = [
    ['groq', 'My-Own', december - 1, '1', '2', 'override'],
    ['groq', 'My-Own', december, '3', '4', 'override'],
    ['openai', 'gpt-4o-2024-11-20', 0, '7', '8', 'override'],
    ['openai', 'ft:gpt-4o:other', 0, '3.75', '15', 'override'],
    ['openai', 'FT:gpt-4o:acme', 0, '4', '5', 'override'],
    ['openai', 'ft:gpt-4o', 0, '30', '40', 'override'],
    ['groq', 'ft:gpt-4o:other', 0, '0.000001', '0', 'override'],
    ['azure_openai', 'gpt-4o', december - 1, '2.5', '10', 'catalogue'],
    ['azure_openai', 'gpt-4o', december, '6', '7', 'override'],
    ['azure_openai', 'unlisted', december - 1, '10', '30', 'default'],
    ['openai', 'gpt-4o-mini', 0, '0.15', '0.6', 'catalogue'],
  ];
  for (const [provider, model, at, ...want] of table)
    t.strictSame(rates(catalogue, provider, model, at), want, `${provider} ${model} ${at}`);
});

t.test('every mistake of a pricing file is named with its line', async (t) => {
  const found = mistakes(
    withFile(
      t,
      `rates:
  - {provider: nobody, model: m, in: 1, out: 2}
  - {model: a, in: -1, out: 2}
  - {model: b, in: 1, out: 0.0000001}
  - {model: c, in: 1}
  - {model: 'c*d*', in: 1, out: 2}
  - {model: e, in: 1, out: 2, valid_from: 2026-02-30}
  - {model: f, in: 1, out: 2, max_output: many}
  - {model: g, input: 1, out: 2}
  - {model: h, in: 1, out: 2}
  - {model: H, in: 1, out: 2}
  - {model: i, in: 1e3, out: 2}
  - {model: j, in: 1, out: 2, audio_out: loud, cache_write_1h: 6}
`,
    ),
  );
  const wanted = [/^2 .*nobody/, /^3 .*-1/, /^4 .*0\.0000001/, /^5 .*out is missing/, /^6 .*more than one/, /^7 .*2026-02-30/, /^8 .*many/];
  for (const want of [...wanted, /^9 .*input/, /^9 .*in is missing/, /^11 .*twice/, /^12 .*1e3/, /^13 .*audio_out.*loud/])
    t.ok(
      found.some((line) => want.test(line)),
      `${want} in\n${found.join('\n')}`,
    );
  t.equal(found.length, 12, found.join('\n'));
  t.match(mistakes(withFile(t, 'prices: []\n')), [/prices/, /missing/]);
  t.match(mistakes(withFile(t, 'rates: [\n')), [/./]);
  t.match(
    mistakes(() => loadCatalogue({ pricingFile: join(tempDir(t), 'absent.yaml') })),
    [/cannot be read/],
  );
});

t.test("an operator's rates may say all that a price can hold", async (t) => {
  const catalogue = withFile(
    t,
    `rates:
  - model: all-of-it
    in: 1
    out: 2
    image_in: 3
    cached_image_in: 0.5
    video_out: 9
    reasoning_out: 4
    citation_out: 5
    long_prompts: [{above: 100, in: 2, out: 3, cached_in: 0.2}, {above: 1000, in: 4, out: 6}]
    units: {web_searches: {usd: "10.0", per: 1000}, requests: 0.0010, audio_seconds: {usd: 0.36, per: 3600, least: 10}}
    terms:
      - {term: service_tier=flex, factor: 0.5}
      - {term: speed=fast, in: 6, out: 12, long_prompts: [{above: 1000, in: 12, out: 18}]}
`,
  )();
  t.strictSame(catalogue.price('openai', 'all-of-it'), {
    in: '1',
    out: '2',
    imageIn: '3',
    cachedImageIn: '0.5',
    videoOut: '9',
    reasoningOut: '4',
    citationOut: '5',
    source: 'override',
    maxOutputTokens: undefined,
    longPrompts: [
      { in: '4', out: '6', above: 1000 },
      { in: '2', out: '3', cachedIn: '0.2', above: 100 },
    ],
    units: {
      web_searches: { usd: '10', per: 1000 },
      requests: { usd: '0.001', per: 1 },
      audio_seconds: { usd: '0.36', per: 3600, least: 10 },
    },
    terms: [
      { term: 'service_tier=flex', factor: '0.5' },
      { term: 'speed=fast', rates: { in: '6', out: '12' }, longPrompts: [{ in: '12', out: '18', above: 1000 }] },
    ],
  });
  const found = mistakes(
    withFile(
      t,
      `rates:
  - {model: a, in: 1, out: 2, long_prompts: [{above: few, in: 1, out: 2}]}
  - {model: b, in: 1, out: 2, long_prompts: [{above: 5, in: 1}]}
  - {model: c, in: 1, out: 2, long_prompts: [{above: 5, in: 1, out: 1}, {above: 5, in: 1, out: 1}]}
  - {model: d, in: 1, out: 2, units: {kisses: 1}}
  - {model: e, in: 1, out: 2, units: {pages: free}}
  - {model: f, in: 1, out: 2, units: {pages: {usd: 1, per: 0}}}
  - {model: g, in: 1, out: 2, terms: [{term: flex, factor: 2}]}
  - {model: h, in: 1, out: 2, terms: [{term: a=b, factor: -2}]}
  - {model: i, in: 1, out: 2, terms: [{term: a=b, factor: 2, in: 1}]}
  - {model: j, in: 1, out: 2, terms: [{term: a=b}]}
  - {model: k, in: 1, out: 2, terms: [{term: a=b, factor: 2}, {term: a=b, factor: 3}]}
  - {model: l, in: 1, out: 2, units: many}
`,
    ),
  );
  const wanted = [
    /^2 .*above.*few/,
    /^3 .*out is missing/,
    /^4 .*two rates above 5/,
    /^5 .*kisses/,
    /^6 .*"free" is no amount/,
    /^7 .*per must be/,
  ];
  for (const want of [
    ...wanted,
    /^8 .*"flex" is no term/,
    /^9 .*"-2" is no factor/,
    /^10 .*together with a factor/,
    /^11 .*in is missing/,
    /^12 .*twice/,
    /^13 .*map/,
  ])
    t.ok(
      found.some((line) => want.test(line)),
      `${want} in\n${found.join('\n')}`,
    );
});

t.test('what an answer states of its terms has rates, for the names of a family and at the list that is asked alone', async (t) => {
  const catalogue = loadCatalogue();
  const cost = (provider: string, model: string, terms: readonly string[], tokensIn = 1_000_000): string => {
    const made = meter({ tokens_in: tokensIn, tokens_out: 0, terms }, catalogue.price(provider, model, Date.UTC(2026, 10, 26)), true);
    return [usdFromPico(made.costPico), ...(made.unpriced ?? [])].join(' ');
  };
  t.equal(cost('openai', 'gpt-5-2025-08-07', ['service_tier=default']), '1.25');
  t.equal(cost('openai', 'gpt-5-2025-08-07', ['service_tier=flex']), '0.625');
  t.equal(cost('openai', 'gpt-4o-mini-2024-07-18', ['service_tier=priority']), '0.25');
  t.equal(cost('openai', 'gpt-5.4', ['service_tier=flex']), '2.5', 'of a long prompt, too');
  t.equal(cost('openai', 'gpt-6-sol', ['service_tier=priority'], 1000), '0.002 service_tier=priority');
  t.equal(cost('azure_openai', 'gpt-5', ['service_tier=priority']), '1.25 service_tier=priority');
  t.equal(cost('anthropic', 'claude-opus-5-5', ['speed=fast', 'inference_geo=us']), '8.8');
  t.equal(cost('anthropic', 'claude-opus-4-6', ['speed=fast']), '30');
  t.equal(cost('gemini', 'gemini-3.8-flash', ['service_tier=priority']), '1.35');
  t.equal(cost('groq', 'llama-3.1-8b-instant', ['service_tier=flex']), '0.05');
  t.equal(cost('github_models', 'openai/gpt-5', ['service_tier=flex']), '0.625', "at the maker's list, through whom nobody knows");
  const rows = table('price-terms.csv');
  const { priceList } = catalogue;
  const unknown = rows.filter(
    ({ list = '', model = '' }) => model !== '*' && ![...priceList.models(list)].some((one) => one.model.id === model),
  );
  t.strictSame(unknown, [], 'every row is for a model of the list');
});

t.test("all of Google's models are priced on Vertex AI's OpenAI path, and all Claudes there", async (t) => {
  const catalogue = loadCatalogue();
  const at = Date.UTC(2026, 10, 26);
  const ids = (list: string): readonly string[] =>
    [...catalogue.priceList.models(list)].filter((one) => one.list === list).map(({ model }) => model.id);
  const gemini = ids('google');
  for (const id of gemini) t.equal(catalogue.price('vertex', `google/${id}`, at), catalogue.price('vertex', id, at), id);
  t.strictSame(
    gemini.filter((id) => catalogue.price('vertex', `google/${id}`, at).source === 'default'),
    [],
  );
  const claudes = ids('anthropic').filter((id) => id.startsWith('claude-'));
  t.strictSame(
    claudes.filter((id) =>
      ['', '@20250514', '@default'].some((version) => catalogue.price('vertex', id + version, at).source === 'default'),
    ),
    [],
  );
});

t.test('a price is the same object as long as it holds, and another list takes its place as a whole', async (t) => {
  const catalogue = loadCatalogue();
  const change = Date.UTC(2027, 0, 1);
  const [before, after] = [catalogue.price('gemini', 'gemini-3.8-flash', 0), catalogue.price('gemini', 'gemini-3.8-flash', change)];
  t.not(before, after);
  t.equal(catalogue.price('gemini', 'gemini-3.8-flash', change - 1), before);
  t.equal(catalogue.price('gemini', 'gemini-3.8-flash', change + 1), after);
  t.equal(catalogue.price('vertex', 'google/gemini-3.8-flash', change), after, 'nor does it matter who asks');
  const text =
    '[{"id":"openai","name":"O","api_pattern":"https://api.openai","models":[{"id":"n","match":{"equals":"n"},"prices":{"input_mtok":7}}]}]';
  const { list, problems } = openPriceList(text, { file: 'new.json', regexes: true });
  t.strictSame(problems, []);
  const inForce = new CatalogueInForce(catalogue);
  inForce.replacePriceList(list);
  t.match(inForce.current().price('openai', 'n', 0), { in: '7', out: '0', source: 'catalogue' });
  t.equal(inForce.current().price('openai', 'gpt-6-sol', 0).source, 'default');
  t.equal(inForce.current().price('cohere', 'command-nightly', 0).source, 'catalogue', 'own rows stay');
  t.equal(inForce.current().providers, catalogue.providers);
  t.equal(catalogue.price('openai', 'n', 0).source, 'default', 'what was taken before goes on with what it had');
  t.match(inForce.shipped().priceList.identity, { version: undefined, models: 1, sha256: sha256Hex(text) });
  t.ok(inForce.shipped().spellsOutModel('openai', 'gpt-6-sol'), 'names of the shipped list are no secret');
  t.notOk(inForce.shipped().spellsOutModel('openai', 'n'), 'names of another one may be');
  t.notOk(inForce.shipped().spellsOutModel('openai', 'gpt-4o-audio-preview-acme'), 'nor is what a pattern fits');
});

t.test('every list that a provider names is in the shipped one', async (t) => {
  const catalogue = loadCatalogue();
  const named = catalogue.providers.flatMap(({ priceLists }) => priceLists);
  t.ok(named.length > 30);
  t.strictSame(
    named.filter((id) => !catalogue.priceList.has(id)),
    [],
  );
});

t.test("a connector that an org has made has the prices of who is at its address, else of its models' makers", async (t) => {
  const inForce = new CatalogueInForce(loadCatalogue());
  const row = (id: string, host: string, path: string, tls = true, port = tls ? 443 : 80): CustomRow => ({
    id,
    orgId: 'o',
    host,
    port,
    tls,
    path,
    dialect: 'openai',
    auth: { mode: 'none' },
    defaultModel: undefined,
  });
  inForce.replaceCustom([
    row('or', 'openrouter.ai', '/api/v1'),
    row('arcee', 'api.arcee.ai', '/api/v1'),
    row('own', 'models.example.com', '/v1'),
    row('near', 'localhost', '/v1', false, 11_434),
  ]);
  const at = Date.UTC(2026, 10, 26);
  const table: readonly (readonly [string, string, string, string])[] = [
    ['custom:or', 'openai/gpt-4o:extended', '6', '18'],
    ['custom:or', 'nobody/knows:free', '0', '0'],
    ['custom:arcee', 'nobody-knows', '10', '30'],
    ['custom:own', 'claude-opus-5-5', '4', '20'],
    ['custom:own', 'anthropic/claude-opus-5-5', '4', '20'],
    ['custom:own', 'us.anthropic.claude-opus-5-5', '4.4', '22'],
    ['custom:own', 'openrouter/openai/gpt-4o:extended', '6', '18'],
    ['custom:own', 'gpt-4o', '2.5', '10'],
    ['custom:own', 'gpt-9-ultra', '10', '30'],
    ['custom:own', 'our-own:free', '10', '30'],
    ['custom:near', 'gpt-oss:120b', '10', '30'],
  ];
  for (const [provider, model, rateIn, rateOut] of table) {
    const { in: input, out } = inForce.current().forOrg('o').price(provider, model, at);
    t.strictSame([input, out], [rateIn, rateOut], `${provider} ${model}`);
    t.strictSame(inForce.explainPrice(provider, model, at).price, inForce.current().price(provider, model, at));
  }
  t.match(inForce.explainPrice('custom:or', 'openai/gpt-4o:nitro', at), { from: 'list', listed: { list: 'openrouter' } });
  t.equal(inForce.explainPrice('Claude', 'claude-opus-5-5', at).listed?.list, 'anthropic', 'aliases are providers, too');
});
