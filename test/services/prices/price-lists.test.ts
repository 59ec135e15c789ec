// The price list in force: what is taken, what is held back, what is refused, and what holds after a restart and at
// other nodes.
import t from 'tap';
import type { StoredList } from '../../../src/services/prices/stored-list.ts';
import type { Effect } from '../../../src/storage/contract/store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { given, listOf, openListStore, openLists, type Prices, SHIPPED_TEXT, shippedList } from '../../support/price-lists.ts';
import { tempDir } from '../../support/temp-dir.ts';

const DAY_MS = 86_400_000;

t.test('a newer list is in force from the next call on, is kept over a restart, and says which it is', async (t) => {
  const dir = tempDir(t);
  const store = await openListStore(t, dir);
  const { lists, change, cost, catalogues, clock, lines } = await openLists(store);
  t.match(lists.inForce, { kind: 'shipped', version: '0.1.8', date: '2026-09-23', models: 1 });
  t.equal(lists.ageDays, 59);
  const before = catalogues.current();
  const text = listOf({ m: { input_mtok: 3, output_mtok: 9 }, n: { input_mtok: 1, output_mtok: 2 } });
  const taken = await lists.take(given(text), change);
  t.match(taken, { outcome: 'taken', held: [], diff: { added: [{ provider: 'openai', model: 'n' }], removed: [], changed: [{}, {}] } });
  t.same([cost(), cost('n')], ['3 / 9', '1 / 2']);
  t.equal(before.price('openai', 'm', clock.now()).in, '2', 'what has begun goes on with what it took');
  t.match(lists.inForce, {
    kind: 'given',
    name: 'new.json',
    date: '2026-11-21',
    version: undefined,
    models: 2,
    taken_by: 'admin',
    taken_at: '2026-11-21T12:00:00.000Z',
  });
  t.equal(lists.ageSeconds, 12 * 3_600);
  t.same(lines, ['info: another price list is in force']);
  t.match(await lists.take(given(text), change), { outcome: 'unchanged' }, 'the same once more changes nothing');
  t.same(lists.counts, { taken: 1, unchanged: 1, refused: 0, failed: 0 });
  await store.close();
  const again = await openLists(await openListStore(t, dir));
  t.same([again.cost(), again.cost('n')], ['3 / 9', '1 / 2']);
  t.same(again.lists.inForce, lists.inForce);
  t.same(again.lines, [], 'nobody has changed it');
});

const HUGE = `${JSON.stringify(Array.from({ length: 20_001 }, (_, at) => at)).slice(0, -1)}]`;
const wrong = (text: string, why: RegExp) => [text, why] as const;
const oneModel = (model: unknown): string => JSON.stringify([{ id: 'p', name: 'p', api_pattern: 'p', models: [model] }]);

// Holds: one-price-list-a-call
t.test('a list that cannot be used is refused in one line that says why, and the last one stays in force', async (t) => {
  const { lists, change, cost, store } = await openLists(await openListStore(t));
  const whole = listOf({ m: { input_mtok: 3 } });
  for (const [text, why] of [
    wrong(whole.slice(0, -20), /is no JSON/),
    wrong('<html>sign in</html>', /is no JSON/),
    wrong('', /is no JSON/),
    wrong('"text"', /must be a list/),
    wrong('{"schema":"gw.price_list.v9","providers":[]}', /schema must be gw.price_list.v1/),
    wrong('[]', /it has no models/),
    wrong(HUGE, /has 20001 elements/),
    wrong(listOf({ m: { input_mtok: -1 } }), /must be an amount/),
    wrong(listOf({ m: { input_mtok: 1e300 } }), /must be an amount/),
    wrong(listOf({ m: { input_mtok: 1e-100 } }), /must be an amount/),
    wrong(listOf({ m: { input_mtok: '3' } }), /must be an amount/),
    wrong(oneModel({ id: 'm', match: { regex: '(a+)+\\1$' }, prices: {} }), /cannot be taken over/),
    wrong(oneModel({ id: 'm', match: { regex: '(?:a{500}){500}' }, prices: {} }), /more than 50000 steps together/),
    wrong(oneModel({ id: 'm', match: { sounds_like: 'm' }, prices: {} }), /no rule of matching/),
  ]) {
    const refused = lists.take(given(text), change);
    await t.rejects(refused, { code: 'invalid_price_list', message: why }, text.slice(0, 60));
    await t.rejects(refused, { message: /^The price list of new\.json cannot be used; the one before stays in force: [^\n]*$/ });
    t.equal(cost(), '2 / 8');
  }
  t.equal(lists.counts.refused, 14);
  t.equal(await store.get('price_list', 'taken'), undefined, 'nothing of it is kept');
  t.match(await lists.take(given(whole), change), { outcome: 'taken' }, 'and a sound one is taken after them');
});

t.test('every published form is taken: a list, one beside the units, and the one that is shipped', async (t) => {
  const { lists, change, cost } = await openLists(await openListStore(t));
  for (const [form, rate] of [
    [(text: string) => text, 3],
    [(text: string) => `{"units":{"input_tokens":{"per":1000000}},"providers":${text}}`, 4],
    [(text: string) => shippedList(text, '2026-11-20'), 5],
  ] as const) {
    t.match(await lists.take(given(form(listOf({ m: { input_mtok: rate, output_mtok: 8 } }))), change), { outcome: 'taken' });
    t.equal(cost(), `${rate} / 8`);
  }
});

t.test('a name that callers choose costs no more than its length, whatever a list says', async (t) => {
  const { lists, change, cost } = await openLists(await openListStore(t));
  await lists.take(given(oneModel({ id: 'm', match: { regex: '^(a+)+$' }, prices: {} }).replaceAll('"p"', '"openai"')), change);
  const started = process.cpuUsage().user;
  t.equal(cost(`${'a'.repeat(250)}!`), '10 / 30');
  t.ok(process.cpuUsage().user - started < 2_000_000, 'a backtracking engine would go on for years');
});

// Holds: one-price-list-a-call
t.test('a rate that would fall to zero or change more than tenfold keeps its old value until somebody says yes', async (t) => {
  const cases: readonly (readonly [now: Prices, then: Prices, cost: string, held: readonly string[]])[] = [
    [{ input_mtok: 2, output_mtok: 8 }, { input_mtok: 0, output_mtok: 7 }, '2 / 7', ['input_mtok']],
    [{ input_mtok: 2, output_mtok: 8 }, { input_mtok: 2 }, '2 / 8', ['output_mtok']],
    [{ input_mtok: 2, output_mtok: 8 }, { input_mtok: 20, output_mtok: 0.8 }, '20 / 0.8', []],
    [{ input_mtok: 2, output_mtok: 8 }, { input_mtok: 20.01, output_mtok: 8 }, '2 / 8', ['input_mtok']],
    [{ input_mtok: 2, output_mtok: 8 }, { input_mtok: 0.19, output_mtok: 0.79 }, '2 / 8', ['input_mtok', 'output_mtok']],
    [{ input_mtok: 0, output_mtok: 8 }, { input_mtok: 5, output_mtok: 8 }, '5 / 8', []],
  ];
  for (const [now, then, cost, held] of cases) {
    const dir = tempDir(t);
    const store = await openListStore(t, dir);
    const place = await openLists(store, { shipped: shippedList(listOf({ m: now })) });
    const name = `${JSON.stringify(now)} -> ${JSON.stringify(then)}`;
    const taken = await place.lists.take(given(listOf({ m: then })), place.change);
    t.equal(place.cost(), cost, name);
    t.same(
      taken.held.map(({ key }) => key),
      held,
      name,
    );
    t.same(place.lists.warnings().length, held.length === 0 ? 0 : 1, name);
    await store.close();
    const again = await openLists(await openListStore(t, dir), { shipped: shippedList(listOf({ m: now })) });
    t.equal(again.cost(), cost, `${name}, after a restart`);
    t.same(again.lists.held, taken.held, `${name}, after a restart`);
    const accepted = await again.lists.accept('all', again.change);
    t.same(accepted, taken.held, name);
    t.same(again.lists.held, []);
    t.equal(again.cost(), `${String(then['input_mtok'] ?? 0)} / ${String(then['output_mtok'] ?? 0)}`, `${name}, with a yes`);
  }
});

t.test('a change is told once, however many times of the old list it ends', async (t) => {
  const windows = [
    { prices: { input_mtok: 2, output_mtok: 8 } },
    { constraint: { start_time: '01:00:00Z', end_time: '04:00:00Z' }, prices: { input_mtok: 2, output_mtok: 8 } },
  ];
  const { lists, change } = await openLists(await openListStore(t), { shipped: shippedList(listOf({ m: windows })) });
  const { held } = await lists.take(given(listOf({ m: { input_mtok: 0, output_mtok: 8 } })), change);
  t.match(held, [{ key: 'input_mtok', old: '2', new: '0' }]);
  t.equal(held.length, 1);
});

t.test('a yes is for the models that it names, and lasts; another list asks again', async (t) => {
  const shipped = shippedList(listOf({ a: { input_mtok: 1, output_mtok: 1 }, b: { input_mtok: 1, output_mtok: 1 } }));
  const dir = tempDir(t);
  const store = await openListStore(t, dir);
  const { lists, change, cost } = await openLists(store, { shipped });
  await lists.take(given(listOf({ a: { input_mtok: 0, output_mtok: 1 }, b: { input_mtok: 50, output_mtok: 1 } })), change);
  t.same([cost('a'), cost('b')], ['1 / 1', '1 / 1']);
  await t.rejects(lists.accept([{ provider: 'openai', model: 'c' }], change), { code: 'not_found', message: /openai c/ });
  t.match(await lists.accept([{ provider: 'openai', model: 'b' }], change), [{ model: 'b', new: '50' }]);
  t.same([cost('a'), cost('b')], ['1 / 1', '50 / 1']);
  await t.rejects(lists.accept([{ provider: 'openai', model: 'b' }], change), { code: 'not_found' }, 'it has had its yes');
  await lists.take(given(listOf({ a: { input_mtok: 0, output_mtok: 2 }, b: { input_mtok: 51, output_mtok: 1 } })), change);
  t.same([cost('a'), cost('b')], ['1 / 2', '51 / 1'], 'what was accepted is what the next one is compared with');
  t.match(lists.held, [{ model: 'a', old: '1', new: '0' }]);
  await store.close();
  const again = await openLists(await openListStore(t, dir), { shipped });
  t.same([again.cost('a'), again.cost('b')], ['1 / 2', '51 / 1']);
  t.same(await again.lists.accept('all', again.change).then((all) => all.length), 1);
  t.same(await again.lists.accept('all', again.change), [], 'nothing waits');
});

t.test('another model that takes a name at such a price does not take it before a yes', async (t) => {
  const wide = JSON.stringify([
    {
      id: 'openai',
      name: 'openai',
      api_pattern: 'https://api\\.openai\\.com',
      models: [
        { id: 'all', match: { starts_with: 'm' }, prices: { input_mtok: 0, output_mtok: 0 } },
        { id: 'm', match: { equals: 'm' }, prices: { input_mtok: 2, output_mtok: 8 } },
      ],
    },
  ]);
  const dir = tempDir(t);
  const store = await openListStore(t, dir);
  const { lists, change, cost } = await openLists(store);
  t.ok((await lists.take(given(wide), change)).held.length > 0);
  t.equal(cost(), '2 / 8');
  await store.close();
  const again = await openLists(await openListStore(t, dir));
  t.equal(again.cost(), '2 / 8', 'also after a restart');
  await again.lists.accept('all', again.change);
  t.equal(again.cost(), '0 / 0');
});

t.test('after an upgrade the newest list holds, and what was taken over an older one stays until then', async (t) => {
  const dir = tempDir(t);
  const at = async (shippedOn: string, work: (place: Awaited<ReturnType<typeof openLists>>) => Promise<unknown>, setting = 'shipped') => {
    const store = await openListStore(t, dir);
    const shipped = shippedList(listOf({ m: { input_mtok: Number(shippedOn.slice(-2)), output_mtok: 8 } }), shippedOn);
    const place = await openLists(store, { shipped, setting, clock: fakeClock(Date.UTC(2027, 1, 1)) });
    await work(place);
    await store.close();
  };
  await at('2026-09-23', async ({ lists, change }) => {
    await lists.take(given(listOf({ m: { input_mtok: 3, output_mtok: 8 } }), { day: '2026-11-21' }), change);
  });
  await at('2026-11-20', async ({ cost, lists }) => t.same([cost(), lists.inForce.kind], ['3 / 8', 'given'], 'it is newer'));
  await at('2026-11-22', async ({ cost, lists, change }) => {
    t.same([cost(), lists.inForce.kind], ['22 / 8', 'shipped'], 'that of the package is newer');
    t.same([lists.held, lists.warnings()], [[], []]);
    // An older one that somebody wants all the same.
    await lists.take(given(listOf({ m: { input_mtok: 4, output_mtok: 8 } }), { day: '2026-10-01' }), change);
    t.equal(cost(), '4 / 8');
  });
  await at('2026-11-22', async ({ cost }) => t.equal(cost(), '4 / 8', 'it is wanted over this very list'));
  await at('2026-11-23', async ({ cost }) => t.equal(cost(), '23 / 8', 'and not over the next'));
  const setting = '/etc/prices.json';
  await at('2026-11-23', async ({ lists, change }) => {
    await lists.take(given(listOf({ m: { input_mtok: 5, output_mtok: 8 } }), { day: '2026-10-01', kind: 'file', name: setting }), change);
  });
  await at('2026-12-24', async ({ cost }) => t.equal(cost(), '5 / 8', 'the file of the setting holds whatever its day is'), setting);
  await at('2026-12-24', async ({ cost }) => t.equal(cost(), '24 / 8', 'and is a list like others when the setting is gone'));
});

t.test('a list is of no day to come', async (t) => {
  const { lists, change } = await openLists(await openListStore(t));
  await lists.take(given(shippedList(listOf({ m: { input_mtok: 2, output_mtok: 7 } }), '2999-01-01')), change);
  t.match(lists.inForce, { date: '2026-11-21', version: '0.1.8' });
});

t.test('the list of the package can be put back into force', async (t) => {
  const dir = tempDir(t);
  const store = await openListStore(t, dir);
  const { lists, change, cost } = await openLists(store);
  t.match(await lists.backToShipped(change), { outcome: 'unchanged' });
  await lists.take(given(listOf({ m: { input_mtok: 3, output_mtok: 9 } })), change);
  t.match(await lists.compareShipped(), { diff: { changed: [{ old: '3', new: '2' }, {}] } });
  t.match(await lists.backToShipped(change), { outcome: 'taken', diff: { changed: [{ old: '3', new: '2' }, {}] } });
  t.equal(cost(), '2 / 8');
  t.equal(lists.inForce.kind, 'shipped');
  await store.close();
  t.equal((await openLists(await openListStore(t, dir))).cost(), '2 / 8');
});

t.test('what nobody has asked for but a setting: the same, and what is older, changes nothing', async (t) => {
  const store = await openListStore(t);
  const url = 'https://lists.example.com/data.json';
  const { lists, change, cost } = await openLists(store, { setting: url });
  const served = (rate: number, more = {}) =>
    given(listOf({ m: { input_mtok: rate, output_mtok: 8 } }), { kind: 'address', name: url, ...more });
  t.match(await lists.take(served(3, { day: '2026-09-22' }), change, true), { outcome: 'older' });
  t.equal(cost(), '2 / 8');
  t.match(await lists.take(served(3, { etag: '"a"' }), change, true), { outcome: 'taken' });
  t.match(lists.seen, { name: url, etag: '"a"' });
  // Somebody goes back by hand: the address does not undo that before it has something new.
  await lists.take(given(listOf({ m: { input_mtok: 2.5, output_mtok: 8 } })), change);
  t.match(await lists.take(served(3), change, true), { outcome: 'unchanged' });
  t.equal(cost(), '2.5 / 8');
  t.match(await lists.take(served(3), change), { outcome: 'taken' }, 'unless somebody asks for it');
  t.match(await lists.take(served(4), change, true), { outcome: 'taken' });
  t.equal(cost(), '4 / 8');
  await lists.backToShipped(change);
  t.match(await lists.take(served(4), change, true), { outcome: 'unchanged' }, 'the same after the list of the package was put back');
  t.equal(cost(), '2 / 8');
});

t.test('what one node takes, accepts and takes back holds at the others of its store', async (t) => {
  const store = await openListStore(t);
  const [one, two] = await Promise.all([openLists(store), openLists(store)]);
  const told = async (cost: string): Promise<void> => {
    while (two.cost() !== cost) await new Promise((resolve) => setImmediate(resolve));
  };
  await one.lists.take(given(listOf({ m: { input_mtok: 3, output_mtok: 0 } })), one.change);
  await told('3 / 8');
  t.match(two.lists.held, [{ key: 'output_mtok', old: '8', new: '0' }]);
  t.same(two.lists.inForce, one.lists.inForce);
  await one.lists.accept('all', one.change);
  await told('3 / 0');
  await two.lists.backToShipped(two.change);
  while (one.cost() !== '2 / 8') await new Promise((resolve) => setImmediate(resolve));
  t.same(two.lines, [
    'info: another node has changed the price list',
    'info: another node has changed the price list',
    'info: the price list of the package is in force',
  ]);
});

t.test('of two who change it at the same moment one is told so, and nothing of his is in force', async (t) => {
  const store = await openListStore(t);
  const one = await openLists(store);
  const two = await openLists(store);
  const overtaken = {
    by: 'admin',
    // Another node is quicker, between the comparing and the storing.
    commit: async (...given: Parameters<typeof one.change.commit>) => {
      const value: StoredList = { revision: 'of-the-other' };
      const effects: readonly Effect[] = [{ op: 'put', space: 'price_list', key: 'taken', value }];
      await store.commit(undefined, effects);
      await one.change.commit(...given);
    },
  };
  const text = listOf({ m: { input_mtok: 3, output_mtok: 8 } });
  await t.rejects(one.lists.take(given(text), overtaken), { code: 'conflict' });
  t.same([one.cost(), one.lists.counts.failed], ['2 / 8', 1]);
  t.match(await one.lists.take(given(text), one.change), { outcome: 'taken' }, 'and may try again');
  while (two.cost() !== '3 / 8') await new Promise((resolve) => setImmediate(resolve));
  await Promise.all([two.lists.take(given(listOf({ m: { input_mtok: 4, output_mtok: 8 } })), two.change), one.lists.compareShipped()]);
  t.equal(two.cost(), '4 / 8');
});

t.test('a store that does not take it leaves the last one in force', async (t) => {
  const { lists, cost } = await openLists(await openListStore(t));
  const change = { by: 'admin', commit: () => Promise.reject(Object.assign(new Error('disk full'), { code: 'record_store_unavailable' })) };
  await t.rejects(lists.take(given(listOf({ m: { input_mtok: 3, output_mtok: 8 } })), change), { message: 'disk full' });
  t.equal(cost(), '2 / 8');
  t.equal(lists.inForce.kind, 'shipped');
});

t.test('what is stored and cannot be read is told once, and the list of the package holds', async (t) => {
  const text = listOf({ m: { input_mtok: 3, output_mtok: 8 } });
  for (const damage of [
    (list: Record<string, unknown>) => ({ ...list, text: 'AAAA' }),
    (list: Record<string, unknown>) => ({ ...list, kept: 'AAAA' }),
    (list: Record<string, unknown>) => ({ ...list, text: 7 }),
  ]) {
    const store = await openListStore(t);
    const first = await openLists(store);
    await first.lists.take(given(text), first.change);
    const stored = (await store.get('price_list', 'taken')) as { revision: string; list: Record<string, unknown> };
    const value = { revision: 'damaged', list: damage(stored.list) };
    await store.commit(undefined, [{ op: 'put', space: 'price_list', key: 'taken', value }]);
    const again = await openLists(store);
    t.equal(again.cost(), '2 / 8');
    t.match(again.lists.warnings(), [{ code: 'price_list_unusable', message: /stays in force/ }]);
    t.same(again.lines, ['error: the price list that is stored cannot be used; the one before stays in force']);
    t.match(await again.lists.take(given(text), again.change), { outcome: 'taken' }, 'the next one takes its place');
    t.same(again.lists.warnings(), []);
  }
});

t.test('the age is that of the day of the list', async (t) => {
  const clock = fakeClock();
  const { lists } = await openLists(await openListStore(t), { clock, shipped: SHIPPED_TEXT });
  clock.advance(10 * DAY_MS);
  t.equal(lists.ageDays, 69);
  clock.set(Date.UTC(2026, 0, 1));
  t.equal(lists.ageSeconds, 0, 'never less than nothing');
});
