import type { Expectation, Store } from '../../src/storage/contract/store.ts';
import { add, isUnavailable, makeRecord, put, rejection, type StoreUnderTest, states, type Tap, texts } from './store-under-test.ts';

const AT_ONCE = 50;

/** What a commit that expects something must keep to. */
export async function expectations(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await versions(t, open);
  await races(t, open);
  await outcomes(t, open);
}

function expecting(key: string, version: string | undefined): readonly Expectation[] {
  return [{ space: 'e', key, version }];
}

async function versionOf(store: Store, key: string): Promise<string | undefined> {
  return (await store.entity('e', key))?.version;
}

/** How many of the commits took place; all others must have been conflicts. */
async function winners(t: Tap, commits: readonly Promise<void>[]): Promise<readonly number[]> {
  const ends = await Promise.allSettled(commits);
  for (const end of ends) if (end.status === 'rejected') t.match(end.reason, { code: 'conflict' });
  return ends.flatMap((end, n) => (end.status === 'fulfilled' ? [n] : []));
}

async function versions(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('an entity has a version, which other values do not have, and which lasts while it is not written', async (t) => {
    const under = await open(t);
    t.equal(await under.store.entity('e', 'a'), undefined);
    await under.store.commit(undefined, [put('a', { n: 1 }), put('b', { n: 2 })]);
    const first = await versionOf(under.store, 'a');
    await under.store.commit(undefined, [put('a', { n: 3 })]);
    const second = await versionOf(under.store, 'a');
    t.type(first, 'string');
    t.not(first, second);
    for await (const store of states(under, 'reopen', 'reopenAfterDeath')) {
      t.strictSame(await store.entity('e', 'a'), { value: { n: 3 }, version: second });
      t.strictSame(await store.entities('e'), [
        { key: 'a', value: { n: 3 }, version: second },
        { key: 'b', value: { n: 2 }, version: await versionOf(store, 'b') },
      ]);
      t.strictSame(
        (await store.entities('e', { after: 'a', limit: 1 })).map(({ key }) => key),
        ['b'],
      );
    }
  });

  await t.test('a commit takes place only if every entity is as it expects', async (t) => {
    const under = await open(t);
    t.type(await rejection(under.store.commit(undefined, [], expecting('nul\0', undefined))), TypeError);
    await under.store.commit(undefined, [put('a', 1), put('b', 1)], [...expecting('a', undefined), ...expecting('b', undefined)]);
    for await (const store of states(under, 'reopen', 'reopenAfterDeath')) {
      const [a, b] = [await versionOf(store, 'a'), await versionOf(store, 'b')];
      const wrong: readonly (readonly Expectation[])[] = [
        expecting('a', undefined),
        expecting('a', ''),
        expecting('a', `${a}0`),
        expecting('none', a),
        [...expecting('a', a), ...expecting('b', undefined)],
        [...expecting('none', undefined), ...expecting('b', b), ...expecting('a', undefined)],
      ];
      for (const expect of wrong) await t.rejects(store.commit(undefined, [put('a', 2)], expect), { code: 'conflict' });
      t.equal(await store.get('e', 'a'), 1);
      await store.commit(undefined, [put('a', 2)], [...expecting('a', a), ...expecting('b', b), ...expecting('none', undefined)]);
      await t.rejects(store.commit(undefined, [put('a', 3)], expecting('a', a)), { code: 'conflict' });
      await store.commit(undefined, [{ op: 'delete', space: 'e', key: 'a' }], expecting('a', await versionOf(store, 'a')));
      await store.commit(undefined, [put('a', 1)], expecting('a', undefined));
    }
  });
}

async function races(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('of fifty executions of one approval, handed over together, one takes place', async (t) => {
    const under = await open(t);
    await under.store.commit(undefined, [put('approval', { status: 'approved' })]);
    const approved = await versionOf(under.store, 'approval');
    const won = await winners(
      t,
      Array.from({ length: AT_ONCE }, (_, n) =>
        under.store.commit(
          makeRecord(n),
          [put('approval', { status: 'executed', by: n }), add('executions', { n: 1n })],
          expecting('approval', approved),
        ),
      ),
    );
    t.equal(won.length, 1);
    for await (const store of states(under, 'reopen', 'reopenAfterDeath')) {
      t.strictSame(await store.get('e', 'approval'), { status: 'executed', by: won[0] });
      t.strictSame(await store.counter('c', 'executions'), { n: 1n });
      t.strictSame(await texts(store, { limit: 99 }), [makeRecord(won[0] ?? -1).text]);
    }
  });

  await t.test('of fifty who want a lease that nobody holds, one gets it, and hands it on to one', async (t) => {
    const { store } = await open(t);
    const take = (version: string | undefined, until: number) =>
      winners(
        t,
        Array.from({ length: AT_ONCE }, (_, n) =>
          store.commit(undefined, [put('lease', { holder: n, until })], expecting('lease', version)),
        ),
      );
    const [holder] = await take(undefined, 10);
    t.strictSame(await store.get('e', 'lease'), { holder, until: 10 });
    t.equal((await take(undefined, 20)).length, 0, 'it is held');
    const held = await versionOf(store, 'lease');
    t.equal((await take(held, 30)).length, 1, 'it had run out');
    t.equal((await take(held, 40)).length, 0, 'whoever saw it run out before knows an old version');
    await store.commit(undefined, [{ op: 'delete', space: 'e', key: 'lease' }], expecting('lease', await versionOf(store, 'lease')));
    t.equal((await take(undefined, 50)).length, 1);
  });

  await t.test('of fifty deciders each turn of a chain has one winner, and no decision is lost', async (t) => {
    const { store } = await open(t);
    await store.commit(undefined, [put('chain', [])]);
    const decide = async (n: number): Promise<void> => {
      for (;;) {
        const chain = await store.entity('e', 'chain');
        const before = chain?.value as readonly number[];
        const error = await rejection(store.commit(undefined, [put('chain', [...before, n])], expecting('chain', chain?.version)));
        if (error === undefined) return;
        if (!(error instanceof Error && 'code' in error && error.code === 'conflict')) return void t.fail(String(error));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, (_, n) => decide(n)));
    const chain = (await store.get('e', 'chain')) as number[];
    t.strictSame(
      chain.sort((a, b) => a - b),
      Array.from({ length: AT_ONCE }, (_, n) => n),
    );
  });
}

async function outcomes(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('what was handed over before and is not stored yet counts', async (t) => {
    const { store } = await open(t);
    const made = store.commit(undefined, [put('a', 1)]);
    const second = store.commit(undefined, [put('a', 2)], expecting('a', undefined));
    const gone = store.commit(undefined, [put('b', 1), { op: 'delete', space: 'e', key: 'a' }]);
    const third = store.commit(undefined, [put('a', 3)], expecting('a', undefined));
    await t.rejects(second, { code: 'conflict' });
    t.not(await store.get('e', 'b'), undefined, 'who is told of a conflict reads what it was with');
    await Promise.all([made, gone, third]);
    t.equal(await store.get('e', 'a'), 3);
  });

  await t.test('a conflict changes nothing, and the id of its record is free', async (t) => {
    const under = await open(t);
    await under.store.commit(undefined, [put('a', 1)]);
    const refused = under.store.commit(makeRecord(1), [put('b', 1), add('k', { n: 1n })], expecting('a', undefined));
    await t.rejects(refused, { code: 'conflict' });
    await under.store.commit(makeRecord(1), [add('k', { n: 5n })], expecting('b', undefined));
    for await (const store of states(under, 'reopen', 'reopenAfterDeath')) {
      t.equal(await store.get('e', 'b'), undefined);
      t.strictSame(await store.counter('c', 'k'), { n: 5n });
      t.equal((await store.records({ limit: 9 })).length, 1);
    }
  });

  await t.test('what expects a commit that is not stored does not take place either', async (t) => {
    const under = await open(t);
    await under.store.commit(undefined, [put('a', 1)]);
    const a = await versionOf(under.store, 'a');
    under.failWrites(true);
    const lost = under.store.commit(makeRecord(1), [{ op: 'delete', space: 'e', key: 'a' }], expecting('a', a));
    const behind = under.store.commit(undefined, [put('a', 2)], expecting('a', undefined));
    const beside = under.store.commit(undefined, [put('a', 5)], expecting('a', a));
    for (const commit of [lost, behind, beside]) t.ok(isUnavailable(await rejection(commit)));
    under.failWrites(false);
    await under.waitForProbe();
    await t.rejects(under.store.commit(undefined, [put('a', 3)], expecting('a', undefined)), { code: 'conflict' });
    await under.store.commit(undefined, [put('a', 4)], expecting('a', a));
    t.equal(await under.store.get('e', 'a'), 4);
  });
}
