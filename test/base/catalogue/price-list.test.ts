import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { calcPrice, type Provider as JudgeProvider, waitForUpdate } from '@pydantic/genai-prices';
import t from 'tap';
import { decimalText, listedRates } from '../../../src/base/catalogue/price-list/list-rates.ts';
import { checkListRegex, listRegex } from '../../../src/base/catalogue/price-list/list-regex.ts';
import { conditionalPrices, type ListModel, type MatchRule } from '../../../src/base/catalogue/price-list/list-shape.ts';
import { fittingRule, ruleText, testOf } from '../../../src/base/catalogue/price-list/match-names.ts';
import { openPriceList } from '../../../src/base/catalogue/price-list/open-list.ts';
import type { PriceList } from '../../../src/base/catalogue/price-list/price-list.ts';
import { isInWindow, secondsInDay, secondsOfDay } from '../../../src/base/catalogue/price-list/time-of-day.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { namesOf } from '../../support/price-names.ts';
import { fc } from '../../support/properties.ts';

const FILE = 'src/base/catalogue/data/price-list.json';
const text = readFileSync(join(packageRoot(), FILE), 'utf8');

async function packaged(): Promise<readonly JudgeProvider[]> {
  return (await waitForUpdate()) ?? [];
}

/** One provider with one model, of which a member is another one. */
function listWith(model: Record<string, unknown>, provider: Record<string, unknown> = {}): string {
  const known = { id: 'm', match: { equals: 'm' }, prices: { input_mtok: 1 }, ...model };
  return JSON.stringify([{ id: 'p', name: 'P', api_pattern: 'https://p\\.example', models: [known], ...provider }]);
}

function problemsOf(list: string): readonly string[] {
  return openPriceList(list, { file: 'list.json', regexes: true }).problems.map(({ path, message }) => `${path} ${message}`);
}

function opened(list: string): PriceList {
  const { list: read, problems } = openPriceList(list, { file: 'list.json', regexes: true });
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return read;
}

t.test('the shipped list is that of the pinned package, and every pattern of it can be compiled', async (t) => {
  t.equal(execFileSync(process.execPath, [join(packageRoot(), 'scripts/price-list.mjs'), '--check'], { encoding: 'utf8' }), '');
  const { list, problems, warnings } = openPriceList(text, { file: FILE, regexes: true });
  t.strictSame(problems, []);
  t.strictSame(warnings, []);
  t.match(list.identity, { version: '0.1.8', date: '2026-09-23', sha256: /^[0-9a-f]{64}$/, providers: 43, models: 1694 });
});

t.test('all published forms say the same: the full one, and the older one without types of constraints', async (t) => {
  const full = await packaged();
  const older = JSON.stringify(full, (key, value: unknown) => (key === 'type' ? undefined : value));
  for (const form of [JSON.stringify(full), older]) t.strictSame(opened(form).providers, opened(text).providers);
});

t.test('a list that is not what it must be is refused, with provider and model', async (t) => {
  const nested = (depth: number): unknown => (depth === 0 ? { equals: 'm' } : { or: [nested(depth - 1)] });
  const table: readonly (readonly [string, RegExp])[] = [
    ['{', /is no JSON/],
    ['{"providers":[]}', /schema must be gw\.price_list\.v1/],
    ['[1]', /providers\[0\] must be a map/],
    ['"list"', /providers must be a list/],
    [listWith({}, { id: 7 }), /providers\[0\]\.id must be a text/],
    [listWith({}, { models: {} }), /p\.models must be a list/],
    [listWith({}, { api_pattern: '(' }), /p\.api_pattern the regular expression/],
    [listWith({ id: 'x'.repeat(300) }), /p\.models\[0\]\.id must be a text of 1 to 256/],
    [listWith({ match: { sounds_like: 'm' } }), /p m match "sounds_like" is no rule/],
    [listWith({ match: { equals: 'm', contains: 'n' } }), /p m match must be one rule/],
    [listWith({ match: { or: [] } }), /p m match has an empty or/],
    [listWith({ match: nested(40) }), /p m match is deeper than 8/],
    [
      listWith({ match: { or: Array.from({ length: 8 }, (_, i) => ({ regex: `^(a{0,900}b{0,900}c{0,900}d{0,${900 - i}})$` })) } }),
      /with this regular expression those of the list have more than 50000 steps together/,
    ],
    [listWith({ match: { regex: '(a' } }), /p m match the regular expression "\(a" cannot be taken over/],
    [listWith({ match: { regex: 'a(?=b)' } }), /cannot be taken over/],
    [listWith({ match: { regex: 'a(?!b)c' } }), /cannot be taken over/],
    [listWith({ match: { regex: '(a)\\1' } }), /cannot be taken over/],
    [listWith({ match: { regex: '^(?!a)b|c' } }), /cannot be taken apart/],
    [listWith({ match: { regex: '[[:alpha:]]' } }), /another meaning/],
    [listWith({ match: { regex: '(?i)gpt' } }), /another meaning/],
    [listWith({ match: { regex: 'gpt\\z' } }), /another meaning/],
    [listWith({ prices: { input_mtok: -1 } }), /p m prices input_mtok must be an amount from 0/],
    [listWith({ prices: { input_mtok: 1e10 } }), /p m prices input_mtok must be an amount from 0 to 1000000000/],
    [listWith({ prices: { input_mtok: null } }), /input_mtok must be an amount/],
    [listWith({ prices: { input_mtok: '1' } }), /input_mtok must be an amount/],
    [listWith({ prices: { output_mtok: { base: 1 } } }), /output_mtok tiers must be a list/],
    [listWith({ prices: { output_mtok: { base: 1, tiers: [{ start: 0.5, price: 1 }] } } }), /a tier begins at a whole number/],
    [listWith({ prices: [] }), /p m prices must hold at least one price/],
    [listWith({ prices: [{ constraint: { start_date: '2026-02-30' }, prices: {} }] }), /p m prices\[0\] the constraint/],
    [listWith({ prices: [{ constraint: { start_time: '25:00:00Z', end_time: '01:00:00Z' }, prices: {} }] }), /the constraint/],
    [listWith({ prices: [{ constraint: { start_date: '2026-02-03', weekday: 1 }, prices: {} }] }), /the constraint/],
    [listWith({ prices: [{ constraint: { start_date: '2026-02-03', type: 'time_of_date' }, prices: {} }] }), /the constraint/],
    [listWith({}, { models: Array.from({ length: 2 }, () => ({ id: 'm', match: { equals: 'm' }, prices: {} })) }), /p m stands twice/],
  ];
  for (const [list, wanted] of table) {
    const found = problemsOf(list);
    t.ok(
      found.some((problem) => wanted.test(problem)),
      `${wanted} in ${found.join('; ')}`,
    );
  }
  const many = Array.from({ length: 20_001 }, (_, i) => ({ id: `m${i}`, match: { equals: 'm' }, prices: {} }));
  t.match(problemsOf(listWith({}, { models: many })), [/has 20001 elements, more than 20000/]);
  t.match(problemsOf(`["${'x'.repeat(17 * 1024 * 1024)}"]`), [/more than 16777216 bytes/]);
  t.ok(problemsOf(JSON.stringify(Array.from({ length: 900 }, () => 1))).length <= 50, 'nobody is told ten thousand mistakes');
});

t.test('what a newer list says and nobody here understands is told, and the rest of its model holds', async (t) => {
  const { list, problems, warnings } = openPriceList(listWith({ prices: { input_mtok: 2, input_smell_mtok: 9 }, colour: 'red' }), {
    file: 'list.json',
    regexes: true,
  });
  t.strictSame(problems, []);
  t.match(warnings, [/input_smell_mtok is not understood, first at p m/]);
  t.strictSame(list.find('p', 'm')?.model.prices, { input_mtok: 2 });
});

t.test('numbers become exact decimal texts', async (t) => {
  const table: readonly (readonly [number, string])[] = [
    [0.18000000000000002, '0.18'],
    [0.1 + 0.2, '0.3'],
    [3, '3'],
    [1e-7, '0.0000001'],
    [0.08333333333333334, '0.083333333334'],
    [1e9, '1000000000'],
    [0, '0'],
    [1e-13, '0.000000000001'],
  ];
  for (const [number, wanted] of table) t.equal(decimalText(number), wanted);
});

t.test('rates by length hold for all of a price, the longest first; units keep what they are counted by', async (t) => {
  const prices = {
    input_mtok: {
      base: 1,
      tiers: [
        { start: 200, price: 2 },
        { start: 100, price: 1.5 },
      ],
    },
    output_mtok: { base: 3, tiers: [{ start: 200, price: 4 }] },
    cache_read_mtok: 0.1,
    web_searches_kcount: 10,
    audio_hours: 0.36,
    input_audio_hours: 0.36,
    input_document_kpages: 2,
  };
  t.strictSame(listedRates('groq', 'whisper-large-v3', prices), {
    in: '1',
    out: '3',
    cachedIn: '0.1',
    longPrompts: [
      { in: '2', out: '4', cachedIn: '0.1', above: 200 },
      { in: '1.5', out: '3', cachedIn: '0.1', above: 100 },
    ],
    units: {
      web_searches: { usd: '10', per: 1000 },
      pages: { usd: '2', per: 1000 },
      annotated_pages: { usd: '2', per: 1000 },
      audio_seconds: { usd: '0.36', per: 3600, least: 10 },
    },
  });
  t.strictSame(listedRates('p', 'm', {}), { in: '0', out: '0' }, 'what the list says costs nothing');
});

t.test('times of the day have zones and fractions, and windows pass midnight', async (t) => {
  t.equal(secondsOfDay('00:30:00Z'), 1800);
  t.equal(secondsOfDay('01:00:00.5+08:00'), 17 * 3600 + 0.5);
  t.equal(secondsOfDay('23:00:00-02:30'), 5400);
  for (const wrong of ['24:00:00Z', '00:60:00Z', '00:00Z', '00:00:00', '1:00:00Z', '00:00:00+24:00'])
    t.equal(secondsOfDay(wrong), undefined, wrong);
  t.equal(secondsInDay(Date.UTC(2026, 0, 1, 1, 0, 0, 250)), 3600.25);
  t.equal(secondsInDay(-1), 86_399.999);
  const inside = (at: number): boolean => isInWindow(at, 82_800, 3_600);
  t.strictSame([82_799, 82_800, 0, 3_599, 3_600].map(inside), [false, true, true, true, false]);
});

t.test('patterns mean what they mean in the package, on every name', async (t) => {
  const patterns = (await packaged()).flatMap(({ models, model_match: rule }) => [
    ...models.flatMap(({ match }) => regexesOf(match)),
    ...(rule ? regexesOf(rule) : []),
  ]);
  t.ok(patterns.length > 40);
  const pieces = [
    'gpt-5.6-luna',
    '-2025-01-03',
    'mistral',
    'x/',
    'labs-',
    '-tts',
    'gemini-2.5-pro',
    'o3',
    '-20250103',
    'open-',
    'grok-4.6',
    'x-ai/',
    '[fast=true]',
    'composer-2.5',
    '7',
    '-',
  ];
  const name = fc.array(fc.constantFrom(...pieces), { maxLength: 5 }).map((parts) => parts.join(''));
  for (const pattern of new Set(patterns)) {
    checkListRegex(pattern);
    const ours = listRegex(pattern);
    fc.assert(
      fc.property(name, (one) => ours.test(one) === new RegExp(pattern).test(one)),
      { numRuns: 200 },
    );
    t.ok(
      namesOf({ regex: pattern }).some((one) => ours.test(one)),
      pattern,
    );
  }
});

function regexesOf(rule: object): readonly string[] {
  return Object.entries(rule).flatMap(([kind, value]: [string, unknown]) => {
    if (Array.isArray(value)) return (value as object[]).flatMap(regexesOf);
    return kind === 'regex' ? [String(value)] : [];
  });
}

t.test('of any name the list finds the model that the package finds', async (t) => {
  const list = opened(text);
  const all = await packaged();
  const words = all.map(({ id, models }) => ({ id, names: models.flatMap(({ match }) => namesOf(match as MatchRule)) }));
  const piece = fc.constantFrom(
    '',
    '-20250514',
    '-2025-05-14',
    '-20259999',
    'zz',
    '-mini',
    ':free',
    '@default',
    ' ',
    'x/',
    '-v1:0',
    '-latest',
    'A',
  );
  const name = fc.constantFrom(...words).chain(({ id, names }) => fc.tuple(fc.constant(id), piece, fc.constantFrom(...names), piece));
  fc.assert(
    fc.property(name, ([id, before, middle, after]) => {
      const asked = before + middle + after;
      const theirs = calcPrice({}, asked, { providerId: id })?.model.id;
      return list.find(id, asked.toLowerCase().trim())?.model.id === theirs;
    }),
    { numRuns: 6000 },
  );
  for (const asked of ['gpt-6-sol', 'claude-x', 'mistral-x', 'x/mistral-x', 'o3-x', 'grok-x', 'acme', 'glm-x', 'kimi', 'command-x']) {
    const theirs = all.find(({ model_match: rule }) => rule !== undefined && testOf(rule as MatchRule)(asked))?.id;
    t.equal(list.maker(asked), theirs, asked);
  }
  t.equal(list.maker('x/mistral-x'), undefined);
  t.equal(list.atAddress('https://api.openai.com/v1'), 'openai');
  t.equal(list.atAddress('https://bedrock-runtime.eu-central-1.amazonaws.com'), 'aws');
  t.equal(list.atAddress('http://localhost:11434'), undefined);
  t.equal(list.atAddress('https://evil.example/https://api.openai.com'), undefined);
});

t.test('a rule says which part of it a name fits', async (t) => {
  const model = opened(text).find('anthropic', 'claude-opus-5-5-20260922')?.model as ListModel;
  t.equal(ruleText(fittingRule(model.match, 'claude-opus-5-5-20260922')), 'regex "^claude-opus-5-5-\\\\d{8}$"');
  t.equal(
    ruleText({ and: [{ contains: 'a' }, { or: [{ equals: 'b' }, { ends_with: 'c' }] }] }),
    'contains "a" and equals "b" or ends_with "c"',
  );
  t.equal(conditionalPrices(model).length, 1);
});
