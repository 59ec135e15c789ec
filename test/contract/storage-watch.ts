import type { EntityEvent, Store } from '../../src/storage/contract/store.ts';
import { add, makeRecord, put, rejection, type StoreUnderTest, type Tap } from './store-under-test.ts';

type Told = Exclude<EntityEvent, { readonly lost: true }>;

/**
 * Everything that a watcher of a space is told, and how many turns of the event loop it takes until it has been told of
 * a key.
 */
async function watched(store: Store, space = 'e'): Promise<{ readonly told: Told[]; end(): void; until(key: string): Promise<void> }> {
  const told: Told[] = [];
  let wake = (): void => undefined;
  const end = await store.watch(space, (event) => {
    if (event.lost) throw new Error('Nothing was lost');
    told.push(event);
    wake();
  });
  return {
    told,
    end,
    async until(key) {
      const next = (): Promise<void> =>
        new Promise((resolve) => {
          wake = resolve;
        });
      while (!told.some((event) => event.key === key)) await next();
    },
  };
}

/**
 * What a watcher may rely on. The last commit of a test puts `end`: when a watcher was told of that, it was told of
 * what came before.
 */
export async function watching(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('a watcher is told of what is put and deleted in its space, in order, with value and version', async (t) => {
    const { store } = await open(t);
    await store.commit(undefined, [put('before', 1)]);
    const { told, until } = await watched(store);
    await store.commit(makeRecord(1), [put('a', { n: 1 }), put('a', 1, 'other'), add('a', { n: 1n }, 'e'), put('b', null)]);
    const version = (await store.entity('e', 'a'))?.version;
    await Promise.all([
      store.commit(undefined, [put('a', { n: 2 }), { op: 'delete', space: 'e', key: 'b' }]),
      store.commit(undefined, [{ op: 'delete', space: 'e', key: 'a' }, put('a', 3)]),
    ]);
    await store.commit(undefined, [put('end', 1)]);
    await until('end');
    const of = (wanted: string) => told.filter(({ key }) => key === wanted).map(({ value }) => value);
    t.strictSame([...new Set(told.map(({ key }) => key))].sort(), ['a', 'b', 'end']);
    t.strictSame(of('a'), [{ n: 1 }, { n: 2 }, undefined, 3]);
    t.strictSame(of('b'), [null, undefined]);
    t.equal(told.find(({ key }) => key === 'a')?.version, version);
    t.ok(told.every((event) => (event.value === undefined) === (event.version === undefined)));
  });

  await t.test('what a watcher is told of, reads see, and what does not become visible it is not told of', async (t) => {
    const under = await open(t);
    const { store } = under;
    const read: Promise<unknown>[] = [];
    const { told, until } = await watched(store);
    await store.watch('e', (event) => {
      if (!event.lost) read.push(store.get('e', event.key));
    });
    under.failWrites(true);
    await rejection(store.commit(makeRecord(1), [put('lost', 1)]));
    under.failWrites(false);
    await under.waitForProbe();
    await store.commit(undefined, [put('a', 1)]);
    await t.rejects(store.commit(undefined, [put('a', 2)], [{ space: 'e', key: 'a', version: undefined }]), { code: 'conflict' });
    await store.commit(undefined, [put('end', 3)]);
    await until('end');
    t.strictSame(
      told.map(({ key }) => key),
      ['a', 'end'],
    );
    t.strictSame(await Promise.all(read), [1, 3]);
  });

  await t.test('a list, and what a watcher is told from before it on, make up what is stored', async (t) => {
    const { store } = await open(t);
    const change = (n: number) =>
      store.commit(undefined, [n % 5 === 4 ? { op: 'delete', space: 'e', key: `k${(n * 7) % 13}` } : put(`k${(n * 7) % 13}`, n)]);
    const first = Array.from({ length: 40 }, (_, n) => change(n));
    const { told, until } = await watched(store);
    const listed = store.list('e');
    const second = Array.from({ length: 60 }, (_, n) => change(40 + n));
    const state = new Map((await listed).map(({ key, value }) => [key, value]));
    await Promise.all([...first, ...second]);
    await store.commit(undefined, [put('end', 1)]);
    await until('end');
    for (const { key, value } of told) {
      if (value === undefined) state.delete(key);
      else state.set(key, value);
    }
    t.strictSame(
      [...state].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => ({ key, value })),
      await store.list('e'),
    );
  });

  await t.test('a listener that throws, rejects, or changes what it is told harms nobody', async (t) => {
    const { store } = await open(t);
    await store.watch('e', () => {
      throw new Error('a listener throws');
    });
    await store.watch('e', () => Promise.reject<void>(new Error('a listener rejects')));
    await store.watch('e', (event) => {
      if (!event.lost && Array.isArray(event.value)) event.value.push('changed');
    });
    const { told, until } = await watched(store);
    await store.commit(undefined, [put('a', [1])]);
    await store.commit(undefined, [put('end', 1)]);
    await until('end');
    t.strictSame(
      told.map(({ value }) => value),
      [[1], 1],
    );
    t.strictSame(await store.get('e', 'a'), [1]);
  });

  await t.test('who has ended watching is told nothing more, and others are', async (t) => {
    const { store } = await open(t);
    const twice: string[] = [];
    const listener = (event: EntityEvent): void => void (event.lost || twice.push(event.key));
    const [one] = [await store.watch('e', listener), await store.watch('e', listener)];
    const ended = await watched(store);
    const other = await watched(store);
    await store.commit(undefined, [put('a', 1)]);
    await Promise.all([ended.until('a'), other.until('a')]);
    one();
    one();
    ended.end();
    await store.commit(undefined, [put('end', 1)]);
    await other.until('end');
    t.equal(ended.told.length, 1);
    t.strictSame(twice, ['a', 'a', 'end']);
  });
}
