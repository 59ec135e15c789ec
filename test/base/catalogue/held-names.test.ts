// A newer list is compared with the one in force by what names cost, whatever prices them: entries, rules, lists that
// others fall back on, rows, decorations.
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { type JudgedList, judgeList } from '../../../src/base/catalogue/price-list/judge-list.ts';
import type { ListedModel } from '../../../src/base/catalogue/price-list/list-diff.ts';
import type { KeyedPrices, ListModel, ListProvider, MatchRule } from '../../../src/base/catalogue/price-list/list-shape.ts';
import { PriceList } from '../../../src/base/catalogue/price-list/price-list.ts';
import { heldNames, withHeldNames } from '../../../src/base/catalogue/prices/held-names.ts';

const catalogue = loadCatalogue();
const SHIPPED = catalogue.priceList.providers;
const GROUNDS = catalogue.priceGrounds;
const FREE: KeyedPrices = { input_mtok: 0, output_mtok: 0 };
const CHEAP: KeyedPrices = { input_mtok: 0.001, output_mtok: 0.001 };
const NOBODY = (): boolean => false;
const ARN = 'arn:aws:bedrock:us-east-1:999999999999:inference-profile/';

type Change = (models: readonly ListModel[]) => readonly ListModel[];

function changed(list: string, change: Change): readonly ListProvider[] {
  return SHIPPED.map((one) => (one.id === list ? { ...one, models: change(one.models) } : one));
}

const first =
  (match: MatchRule, prices: KeyedPrices): Change =>
  (models) => [{ id: 'planted', match, prices }, ...models];
const last =
  (match: MatchRule, prices: KeyedPrices): Change =>
  (models) => [...models, { id: 'planted', match, prices }];

function judged(providers: readonly ListProvider[], before = SHIPPED, accepted: readonly ListedModel[] | 'all' = []): JudgedList {
  return judgeList({ text: JSON.stringify(providers), file: 'new.json', before, grounds: GROUNDS, accepted });
}

/** `in / out` of a name by a list. */
function cost(lists: readonly ListProvider[], provider: string, name: string): string {
  const { price } = catalogue.withPriceList(new PriceList(lists, { version: undefined, date: undefined }, '')).explainPrice(provider, name);
  return `${price.in} / ${price.out}`;
}

t.test('an entry that would price a known name at nothing, or at less than a tenth, is held until somebody accepts it', async (t) => {
  const cases: readonly (readonly [why: string, list: string, Change, names: readonly (readonly [provider: string, name: string])[]])[] = [
    [
      'a dated snapshot',
      'anthropic',
      first({ starts_with: 'claude-sonnet-4-5-2' }, FREE),
      [
        ['anthropic', 'claude-sonnet-4-5-20250929'],
        ['anthropic', 'claude-sonnet-4-5-20271231'],
      ],
    ],
    ['a list that is fallen back on', 'azure', first({ starts_with: 'gpt-4o' }, FREE), [['azure_openai', 'gpt-4o']]],
    ['the same, not for nothing', 'azure', first({ contains: 'claude' }, CHEAP), [['azure_openai', 'claude-opus-4-1']]],
    ['an own row', 'aws', first({ equals: 'deepseek.v3.2' }, FREE), [['bedrock', 'deepseek.v3.2']]],
    [
      'an own row of another provider',
      'google',
      first({ equals: 'meta/llama-3.3-70b-instruct-maas' }, FREE),
      [['vertex', 'meta/llama-3.3-70b-instruct-maas']],
    ],
    [
      'an ARN',
      'aws',
      first({ starts_with: 'arn:' }, FREE),
      [
        ['bedrock', `${ARN}us.anthropic.claude-sonnet-4-5-20250929-v1:0`],
        ['bedrock', `${ARN}deepseek.v3.2`],
      ],
    ],
    [
      'an ARN, not for nothing',
      'aws',
      first({ starts_with: 'arn:' }, CHEAP),
      [['bedrock', `${ARN}us.anthropic.claude-sonnet-4-5-20250929-v1:0`]],
    ],
    ['an area', 'aws', last({ starts_with: 'apac.' }, CHEAP), [['bedrock', 'apac.deepseek.v3.2']]],
    [
      'a way of OpenRouter, behind everything else',
      'openrouter',
      last({ contains: 'claude' }, FREE),
      [
        ['openrouter', 'anthropic/claude-sonnet-4.5:nitro'],
        ['openrouter', '~anthropic/claude-sonnet-4.5'],
      ],
    ],
    ['a percent escape', 'openrouter', last({ contains: '%2f' }, CHEAP), [['openrouter', 'anthropic%2Fclaude-sonnet-4.5']]],
    ['a fine-tuned model', 'openai', first({ starts_with: 'ft:' }, CHEAP), [['openai', 'ft:gpt-4o-2024-08-06:acme::x']]],
    ['a regular expression', 'openai', first({ regex: '^gpt-4\\.1(-mini)?$' }, FREE), [['openai', 'gpt-4.1']]],
    [
      'several parts',
      'anthropic',
      first({ and: [{ starts_with: 'claude-sonnet' }, { ends_with: '-20250929' }] }, FREE),
      [['anthropic', 'claude-sonnet-4-5-20250929']],
    ],
    [
      'a wider rule of a model that is known',
      'openai',
      (models) =>
        models
          .map((one) => (one.id === 'moderation' ? { ...one, match: { or: [one.match, { starts_with: 'gpt-4' }] } } : one))
          .sort((a, b) => Number(b.id === 'moderation') - Number(a.id === 'moderation')),
      [['openai', 'gpt-4o']],
    ],
  ];
  for (const [why, list, change, names] of cases) {
    const newer = changed(list, change);
    const { held, inForce, problems } = judged(newer);
    t.same(problems, [], why);
    for (const [provider, name] of names) {
      const now = cost(SHIPPED, provider, name);
      t.not(cost(newer, provider, name), now, `${why}: ${name} would cost something else`);
      t.equal(cost(inForce, provider, name), now, `${why}: ${name}`);
    }
    const model = held[0]?.model ?? '';
    t.match(held, [{ provider: list, name: String, held: true }], why);
    t.equal(new Set(held.map((one) => `${one.provider} ${one.model}`)).size, 1, `${why}: one entry waits`);
    const accepted = judged(newer, inForce, [{ provider: list, model }]);
    t.same(accepted.held, [], `${why}: accepted`);
    t.same(accepted.inForce, newer, `${why}: accepted`);
  }
});

t.test('what is new and takes no name away is taken', async (t) => {
  const isTaken = (newer: readonly ListProvider[], why: string): void => {
    const { held, inForce } = judged(newer);
    t.same(held, [], why);
    t.same(inForce, newer, why);
  };
  isTaken(changed('openai', first({ equals: 'gpt-9-nano' }, { input_mtok: 0.02, output_mtok: 0.1 })), 'a new model, far below the default');
  isTaken(
    changed(
      'openai',
      first({ starts_with: 'gpt-4.1-2' }, { input_mtok: 1.5, output_mtok: 6, web_searches_kcount: 10, storage_searches_kcount: 2.5 }),
    ),
    'names that cost a little less',
  );
  isTaken(changed('openrouter', first({ equals: 'acme/new:free' }, FREE)), 'what is free by its name');
  isTaken(
    changed('openai', (models) => models.filter(({ id }) => id !== 'gpt-4o')),
    'a model that is gone',
  );
  isTaken(
    SHIPPED.map((one) => ({ ...one, models: one.models.map((model) => ({ ...model, id: `${model.id}.` })) })),
    'other ids',
  );
  const free = judged(changed('openai', first({ equals: 'gpt-9' }, FREE)));
  t.match(free.held, [
    { provider: 'openai', model: 'planted', name: 'gpt-9', key: 'input_mtok', old: '10', new: '0' },
    { key: 'output_mtok' },
  ]);
  t.equal(free.held.length, 2);
  t.same(free.inForce, SHIPPED, 'a name that nobody knew is not free without a yes');
});

function list(id: string, models: readonly ListModel[], more: Partial<ListProvider> = {}): ListProvider {
  return { id, name: id, api_pattern: `https://${id}`, ...more, models };
}

const NO_ROWS = { lanes: [], corrections: [], own: [] };
const big: ListModel = { id: 'big', match: { or: [{ equals: 'big' }, { equals: 'big-2026' }] }, prices: { input_mtok: 5 } };
const small: ListModel = { id: 'small', match: { equals: 'small' }, prices: { input_mtok: 1 } };
const tiny: ListModel = { id: 'tiny', match: { contains: 'big' }, prices: { input_mtok: 0.01 } };

t.test('what priced a name is there again where the newer list has it no more, or has it behind another or elsewhere', async (t) => {
  const cases: readonly (readonly [string, readonly ListProvider[], readonly ListProvider[], readonly ListProvider[]])[] = [
    ['a new entry', [list('p', [big, small])], [list('p', [tiny, big, small])], [list('p', [big, small])]],
    ['another id and price', [list('p', [small, big])], [list('p', [small, { ...big, id: 'b', prices: {} }])], [list('p', [small, big])]],
    ['an entry that is gone', [list('p', [small, big, tiny])], [list('p', [small, tiny])], [list('p', [small, big, tiny])]],
    ['another order', [list('p', [big, tiny])], [list('p', [tiny, big])], [list('p', [big, tiny])]],
    [
      'another list to fall back on',
      [list('p', [small], { fallback_model_providers: ['q'] }), list('q', [big]), list('r', [tiny])],
      [list('p', [small], { fallback_model_providers: ['r'] }), list('q', [big]), list('r', [tiny])],
      [list('p', [small], { fallback_model_providers: ['q'] }), list('q', [big]), list('r', [tiny])],
    ],
    [
      'another maker',
      [list('p', [big], { model_match: { contains: 'big' } }), list('q', [tiny])],
      [list('p', [big]), list('q', [tiny], { model_match: { contains: 'big' } })],
      [list('p', [big], { model_match: { contains: 'big' } }), list('q', [tiny])],
    ],
    [
      'one behind the other',
      [list('p', [big])],
      [list('p', [tiny, { ...tiny, id: 'tiny-2', match: { starts_with: 'bi' } }, big])],
      [list('p', [big])],
    ],
  ];
  for (const [why, old, newer, kept] of cases) {
    t.ok(heldNames(old, newer, NO_ROWS).length > 0, why);
    t.same(withHeldNames(old, newer, NO_ROWS, NOBODY), kept, why);
    t.same(
      withHeldNames(old, newer, NO_ROWS, () => true),
      newer,
      `${why}: accepted`,
    );
  }
});

t.test('an entry is told by the first name that shows it, and what is accepted holds beside what is not', async (t) => {
  const old = [list('p', [big, small])];
  const cheap: ListModel = { id: 'cheap', match: { equals: 'small' }, prices: { input_mtok: 0.01 } };
  const newer = [list('p', [tiny, cheap, big, small])];
  t.match(heldNames(old, newer, NO_ROWS), [
    { provider: 'p', model: 'tiny', name: 'big', key: 'input_mtok', old: '5', new: '0.01', factor: 0.002, held: true },
    { provider: 'p', model: 'cheap', name: 'small', old: '1', new: '0.01' },
  ]);
  t.same(
    withHeldNames(old, newer, NO_ROWS, ({ model }) => model === 'cheap'),
    [list('p', [cheap, big, small])],
  );
});
