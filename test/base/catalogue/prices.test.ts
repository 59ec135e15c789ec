import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Decimal } from 'decimal.js';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { CatalogueError } from '../../../src/base/catalogue/catalogue-error.ts';
import type { Catalogue } from '../../../src/base/catalogue/types.ts';
import { usdFromPico } from '../../../src/base/lib/money.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
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
