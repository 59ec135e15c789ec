import t from 'tap';
import { diffLists, type RateChange, withHeld } from '../../../src/base/catalogue/price-list/list-diff.ts';
import type { KeyedPrices, ListModel, ListProvider, MatchRule } from '../../../src/base/catalogue/price-list/list-shape.ts';
import { PriceList } from '../../../src/base/catalogue/price-list/price-list.ts';

function model(id: string, prices: ListModel['prices'], match: MatchRule = { equals: id }): ListModel {
  return { id, match, prices };
}

function lists(...models: readonly ListModel[]): readonly ListProvider[] {
  return [{ id: 'p', name: 'P', api_pattern: 'https://p', models }];
}

const shown = ({ model: id, key, above, period, old, new: now, factor, held, name }: RateChange): unknown => [
  id,
  ...(name === undefined ? [] : [`name ${name}`]),
  above === undefined ? key : `${key}>${above}`,
  ...(period === undefined ? [] : [JSON.stringify(period)]),
  old,
  now,
  factor,
  held,
];

const NOBODY = (): boolean => false;

/** What a list charges for a name, without and with what is held. */
function pricesOf(providers: readonly ListProvider[], name: string): unknown {
  return new PriceList(providers, { version: undefined, date: undefined }, '').find('p', name)?.model.prices;
}

t.test('models that came and went, and every rate that is another one, with what it has become', async (t) => {
  const old = lists(model('a', { input_mtok: 1, output_mtok: 4 }), model('b', { input_mtok: 1 }));
  const next = lists(model('a', { input_mtok: 1.5, output_mtok: 4, cache_read_mtok: 0.15 }), model('c', { input_mtok: 2 }));
  const { added, removed, changed } = diffLists(old, next);
  t.strictSame(added, [{ provider: 'p', model: 'c' }]);
  t.strictSame(removed, [{ provider: 'p', model: 'b' }]);
  t.strictSame(changed.map(shown), [
    ['a', 'input_mtok', '1', '1.5', 1.5, false],
    ['a', 'cache_read_mtok', undefined, '0.15', 0.15, false],
  ]);
  t.strictSame(diffLists(old, old), { added: [], removed: [], changed: [] });
  t.strictSame(withHeld(old, next, NOBODY), next, 'nothing of it needs a yes');
});

t.test('a rate that falls to nothing, or changes more than tenfold, is held until somebody accepts it', async (t) => {
  const cases: readonly (readonly [string, KeyedPrices, KeyedPrices, readonly string[]])[] = [
    ['zero', { input_mtok: 1, output_mtok: 2 }, { input_mtok: 0, output_mtok: 2 }, ['input_mtok']],
    ['left out', { input_mtok: 1, output_mtok: 2 }, { output_mtok: 2 }, ['input_mtok']],
    ['just tenfold', { input_mtok: 1 }, { input_mtok: 10 }, []],
    ['more than tenfold', { input_mtok: 1 }, { input_mtok: 10.01 }, ['input_mtok']],
    ['a tenth', { input_mtok: 1 }, { input_mtok: 0.1 }, []],
    ['less than a tenth', { input_mtok: 1 }, { input_mtok: 0.099 }, ['input_mtok']],
    ['from nothing', { input_mtok: 0 }, { input_mtok: 5 }, []],
    ['a part that is to be free', { input_mtok: 1 }, { input_mtok: 1, cache_read_mtok: 0 }, ['cache_read_mtok']],
    ['a part at less than a tenth', { input_mtok: 1 }, { input_mtok: 1, input_audio_mtok: 0.05 }, ['input_audio_mtok']],
    ['a part that goes with its whole', { input_mtok: 1, cache_read_mtok: 0.1 }, { input_mtok: 1 }, []],
    ['a part that was nearly free', { input_mtok: 1, cache_read_mtok: 0.01 }, { input_mtok: 1 }, ['cache_read_mtok']],
    ['a unit', { web_searches_kcount: 10 }, {}, ['web_searches_kcount']],
    [
      'a length',
      { input_mtok: { base: 1, tiers: [{ start: 200, price: 2 }] } },
      { input_mtok: { base: 1, tiers: [{ start: 200, price: 0 }] } },
      ['input_mtok>200'],
    ],
  ];
  for (const [name, before, after, wanted] of cases) {
    const [old, next] = [lists(model('m', before)), lists(model('m', after))];
    const held = diffLists(old, next).changed.filter((change) => change.held);
    t.strictSame(
      held.map(({ key, above }) => (above === undefined ? key : `${key}>${above}`)),
      wanted,
      name,
    );
    t.strictSame(pricesOf(withHeld(old, next, NOBODY), 'm'), wanted.length === 0 ? after : before, `${name}: held`);
    t.strictSame(
      pricesOf(
        withHeld(old, next, () => true),
        'm',
      ),
      after,
      `${name}: accepted`,
    );
  }
});

t.test('of a model only what is held stays', async (t) => {
  const old = lists(model('m', { input_mtok: 1, output_mtok: 2, cache_read_mtok: 0.1 }));
  const next = lists(model('m', { input_mtok: 0, output_mtok: 3, cache_read_mtok: 0.2 }));
  t.strictSame(pricesOf(withHeld(old, next, NOBODY), 'm'), { output_mtok: 3, cache_read_mtok: 0.2, input_mtok: 1 });
  t.strictSame(
    pricesOf(
      withHeld(old, next, ({ key }) => key !== 'output_mtok'),
      'm',
    ),
    { input_mtok: 0, output_mtok: 3, cache_read_mtok: 0.2 },
  );
});

t.test('a price of another time is compared with that of the same time; where the times are others all of the old ones stay', async (t) => {
  const from = (day: string, prices: KeyedPrices) => ({ constraint: { type: 'start_date', start_date: day } as const, prices });
  const old = lists(model('m', [{ prices: { input_mtok: 0.5 } }, from('2026-01-01', { input_mtok: 10 })]));
  const same = lists(model('m', [{ prices: { input_mtok: 0.6 } }, from('2026-01-01', { input_mtok: 0 })]));
  t.strictSame(diffLists(old, same).changed.map(shown), [
    ['m', 'input_mtok', '0.5', '0.6', 1.2, false],
    ['m', 'input_mtok', '{"type":"start_date","start_date":"2026-01-01"}', '10', '0', 0, true],
  ]);
  t.strictSame(pricesOf(withHeld(old, same, NOBODY), 'm'), [{ prices: { input_mtok: 0.6 } }, from('2026-01-01', { input_mtok: 10 })]);
  const forever = lists(model('m', { input_mtok: 0.5 }));
  t.ok(
    diffLists(old, forever).changed.some(({ held }) => held),
    'the first price is as it was, the one in force is not',
  );
  t.strictSame(withHeld(old, forever, NOBODY), old);
  const later = lists(
    model('m', [{ prices: { input_mtok: 0.5 } }, from('2026-01-01', { input_mtok: 10 }), from('2027-01-01', { input_mtok: 0.01 })]),
  );
  t.strictSame(withHeld(old, later, NOBODY), old, 'a price of a day to come is one, too');
  const hours = lists(
    model('m', [
      { prices: { input_mtok: 10 } },
      { constraint: { type: 'time_of_date', start_time: '22:00:00Z', end_time: '02:00:00Z' }, prices: {} },
    ]),
  );
  t.strictSame(pricesOf(withHeld(lists(model('m', { input_mtok: 10 })), hours, NOBODY), 'm'), { input_mtok: 10 }, 'nor is an hour free');
});
