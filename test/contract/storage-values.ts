import type { Store } from '../../src/storage/contract/store.ts';
import { add, makeRecord, put, type StoreUnderTest, states, type Tap, until } from './store-under-test.ts';

/** What entities and counters must keep to. */
export async function entitiesAndCounters(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('any JSON value comes back as it went in', async (t) => {
    const under = await open(t);
    const values: unknown[] = [
      null,
      true,
      0,
      -1.5,
      '',
      'NUL \0 ü 🙂 \ud800',
      [],
      {},
      { deep: [{ a: null }] },
      JSON.parse('{"__proto__":{"x":1},"constructor":2}'),
    ];
    await under.store.commit(
      undefined,
      values.map((value, n) => put(`v${n}`, value)),
    );
    for await (const store of states(under, 'reopen')) {
      for (const [n, value] of values.entries()) t.equal(JSON.stringify(await store.get('e', `v${n}`)), JSON.stringify(value));
    }
  });

  await t.test('a key may be as long as callers name things', async (t) => {
    const under = await open(t);
    const keys = [1_399, 1_400, 1_401, 2_800, 9_000].map((length, n) => `${n}${'%E2%82%AC'.repeat(1_000)}`.slice(0, length));
    const told: unknown[] = [];
    await under.store.watch('e', (event) => void told.push(event));
    for (const [n, key] of keys.entries()) await under.store.commit(undefined, [put(key, n), add(key, { n: BigInt(n) + 1n })]);
    await until(() => told.length === keys.length);
    t.match(
      told,
      keys.map((key, value) => ({ key, value })),
    );
    for await (const store of states(under, 'reopen')) {
      t.strictSame(
        await store.list('e'),
        keys.map((key, value) => ({ key, value })),
      );
      t.strictSame(
        await store.counters('c', { limit: 9, after: keys[1] ?? '' }),
        keys.slice(2).map((key, n) => ({ key, amounts: { n: BigInt(n) + 3n } })),
      );
      for (const [n, key] of keys.entries()) {
        const found = await store.entity('e', key);
        t.equal(found?.value, n);
        t.strictSame(await store.counter('c', key), { n: BigInt(n) + 1n });
        const expect = [{ space: 'e', key, version: found?.version }];
        await store.commit(undefined, [put(key, n)], expect);
        await t.rejects(store.commit(undefined, [put(key, 9)], [{ space: 'e', key, version: undefined }]), { code: 'conflict' });
      }
      t.equal(await store.get('e', `${keys[4]}x`), undefined);
    }
  });

  await t.test('a list is in key order, by prefix, after a key, up to a limit, before and after indexing', async (t) => {
    const under = await open(t);
    const keys = ['b', 'a', 'a/2', 'a/10', 'a/1', 'B', '~', ' ', 'a/1/x'];
    await under.store.commit(undefined, [...keys.map((key) => put(key, key)), put('a', 1, 'e2'), put('a', 1, 'd')]);
    const sorted = [...keys].sort((x, y) => (x < y ? -1 : 1));
    let { store } = under;
    const check = async (expected: readonly string[], page?: Parameters<Store['list']>[1]): Promise<void> => {
      t.strictSame(
        (await store.list('e', page)).map((row) => row.key),
        expected,
      );
    };
    for (const round of ['new', 'reopened', 'changed after reopening']) {
      const expected = round === 'changed after reopening' ? [...sorted.filter((key) => key !== 'a/10'), '~~'] : sorted;
      if (round === 'reopened') store = await under.reopen();
      if (round === 'changed after reopening')
        await store.commit(undefined, [{ op: 'delete', space: 'e', key: 'a/10' }, put('~~', 1), put('b', 'new')]);
      await check(expected);
      await check(
        expected.filter((key) => key.startsWith('a/')),
        { prefix: 'a/' },
      );
      await check(
        expected.filter((key) => key > 'a/1'),
        { after: 'a/1' },
      );
      await check(expected.filter((key) => key.startsWith('a/') && key > 'a/1').slice(0, 2), { prefix: 'a/', after: 'a/1', limit: 2 });
      await check(expected.slice(0, 3), { limit: 3 });
      await check([], { prefix: 'nothing' });
      await check([], { limit: 0 });
    }
    t.equal((await store.list('e', { prefix: 'b' }))[0]?.value, 'new');
  });

  await t.test('a list is one consistent state, whatever is committed meanwhile', async (t) => {
    const { store } = await open(t);
    await store.commit(
      undefined,
      Array.from({ length: 300 }, (_, n) => put(`k${n}`, 0)),
    );
    const listed = store.list('e');
    await store.commit(
      undefined,
      Array.from({ length: 300 }, (_, n) => put(`k${n}`, 1)),
    );
    t.strictSame([...new Set((await listed).map((row) => row.value))], [0]);
  });

  await t.test('counters are exact beyond doubles, signed, and apart from entities of the same key', async (t) => {
    const under = await open(t);
    const huge = 2n ** 80n + 1n;
    await under.store.commit(undefined, [add('k', { usd: huge, __proto__x: 1n }), put('k', 'entity', 'c')]);
    await under.store.commit(undefined, [add('k', { usd: -1n, other: -5n }), add('k', { usd: 3n })]);
    for await (const store of states(under, 'reopen', 'reopenAfterDeath')) {
      t.strictSame(await store.counter('c', 'k'), { usd: huge + 2n, __proto__x: 1n, other: -5n });
      t.equal(await store.get('c', 'k'), 'entity');
    }
  });

  await t.test('counters of a space come in key order, by prefix, with what was added last', async (t) => {
    const under = await open(t);
    await under.store.commit(undefined, [add('b', { n: 1n }), add('a/2', { n: 2n }), add('a/1', { n: 3n }), add('x', { n: 1n }, 'c2')]);
    const store = await under.reopen();
    await store.commit(undefined, [add('a/1', { n: 1n }), add('a/0', { n: 9n })]);
    t.strictSame(await store.counters('c', { prefix: 'a/', limit: 5 }), [
      { key: 'a/0', amounts: { n: 9n } },
      { key: 'a/1', amounts: { n: 4n } },
      { key: 'a/2', amounts: { n: 2n } },
    ]);
    t.strictSame(
      (await store.counters('c', { limit: 5 })).map((row) => row.key),
      ['a/0', 'a/1', 'a/2', 'b'],
    );
  });

  await t.test('counters come in pages, each with what is visible by then, before and after indexing', async (t) => {
    const under = await open(t);
    const keys = ['b', 'a', 'a/2', 'a/10', 'a/1', 'B', '~', 'a/1/x'];
    await under.store.commit(undefined, [...keys.map((key) => add(key, { n: 1n })), add('a', { n: 1n }, 'c2'), add('~~', { n: 1n }, 'b')]);
    const sorted = [...keys].sort();
    let { store } = under;
    const check = async (expected: readonly string[], page: Parameters<Store['counters']>[1]): Promise<void> => {
      t.strictSame(
        (await store.counters('c', page)).map((row) => row.key),
        expected,
        JSON.stringify(page),
      );
    };
    for (const round of ['new', 'reopened', 'changed after reopening']) {
      const expected = round === 'changed after reopening' ? [...sorted, '~~'] : sorted;
      if (round === 'reopened') store = await under.reopen();
      if (round === 'changed after reopening')
        await store.commit(
          undefined,
          ['a/10', '~~', 'B'].map((key) => add(key, { n: 4n })),
        );
      for (let limit = 1; limit <= expected.length + 1; limit += 1) {
        const read: string[] = [];
        for (let page = expected; page.length > 0; ) {
          const after = read.at(-1);
          const at = { limit, ...(after === undefined ? {} : { after }) };
          page = (await store.counters('c', at)).map((row) => row.key);
          t.equal(page.length, Math.min(limit, expected.length - read.length), 'only the last page has fewer rows');
          read.push(...page);
        }
        t.strictSame(read, expected, `${round}, ${limit} at a time`);
      }
      const inside = expected.filter((key) => key.startsWith('a/'));
      await check(inside.slice(0, 3), { prefix: 'a/', limit: 3 });
      await check(inside.slice(1, 3), { prefix: 'a/', after: 'a/1', limit: 2 });
      await check(inside, { prefix: 'a/', after: 'B', limit: 9 });
      await check([], { prefix: 'a/', after: 'b', limit: 9 });
      await check([], { prefix: 'nothing', limit: 9 });
    }
    await store.commit(undefined, [add('a', { n: 6n }), add('a/1', { n: 8n })]);
    t.strictSame(await store.counters('c', { after: 'B', limit: 2 }), [
      { key: 'a', amounts: { n: 7n } },
      { key: 'a/1', amounts: { n: 9n } },
    ]);
  });

  await t.test('additions that are under way together are all counted', async (t) => {
    const under = await open(t);
    await Promise.all(
      Array.from({ length: 200 }, (_, n) => under.store.commit(makeRecord(n), [add('k', { n: 1n }), add(`k${n % 7}`, { n: 1n })])),
    );
    for await (const store of states(under, 'reopen')) {
      t.strictSame(await store.counter('c', 'k'), { n: 200n });
      t.equal(
        (await store.counters('c', { prefix: 'k', limit: 9 })).reduce((sum, row) => sum + (row.amounts['n'] ?? 0n), 0n),
        400n,
      );
    }
  });
}
