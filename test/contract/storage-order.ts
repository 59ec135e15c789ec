import type { Store } from '../../src/storage/contract/store.ts';
import { add, makeRecord, put, rejection, type StoreUnderTest, states, type Tap, texts } from './store-under-test.ts';

/** A commit of the sequence `of` that says its number in every way that a commit can. */
function hand(store: Store, of: string, n: number): Promise<void> {
  const effects = [put(`${of}/last`, n), put(`${of}/each/${String(n).padStart(4, '0')}`, n), add(of, { commits: 1n })];
  return store.commit(recordOf(of, n), effects);
}

/** Ids go down while commits go on: no order may be had from them. */
function recordOf(of: string, n: number): ReturnType<typeof makeRecord> {
  const record = makeRecord((of === 'a' ? 0x10_000 : 0x20_000) - n);
  return { ...record, text: JSON.stringify({ of, n, record_id: record.record_id }) };
}

/** The numbers of a sequence whose records these are, as they stand. */
function numbersOf(of: string, read: readonly string[]): readonly number[] {
  return read.map((text) => JSON.parse(text) as { of: string; n: number }).flatMap((one) => (one.of === of ? [one.n] : []));
}

function upTo(end: number): readonly number[] {
  return Array.from({ length: end }, (_, n) => n);
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** How many commits of a sequence are there; fails where something is there without what came before it. */
async function lengthOf(t: Tap, store: Store, of: string): Promise<number> {
  const each = (await store.list('e', { prefix: `${of}/each/` })).map(({ value }) => value);
  const { length } = each;
  t.strictSame(each, upTo(length), 'no commit is there without those before it');
  t.equal(await store.get('e', `${of}/last`), length === 0 ? undefined : length - 1);
  t.strictSame(await store.counter('c', of), length === 0 ? {} : { commits: BigInt(length) });
  t.strictSame(numbersOf(of, await texts(store, { limit: 1_000 })), upTo(length));
  return length;
}

/** Order is that of a writer, whether or not somebody waits for its commits. */
export async function ordering(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('commits become visible in the order in which they were handed over', async (t) => {
    const under = await open(t);
    const handed = Array.from({ length: 40 }, (_, n) => makeRecord(100 - n));
    const settled: number[] = [];
    await Promise.all(handed.map((record, n) => under.store.commit(record, [put('last', n)]).then(() => settled.push(n))));
    t.strictSame(
      settled,
      handed.map((_, n) => n),
    );
    t.equal(await under.store.get('e', 'last'), 39);
    t.strictSame(
      await texts(under.store, { limit: 100 }),
      handed.map((record) => record.text),
    );
    t.strictSame(
      await texts(await under.reopen(), { limit: 100 }),
      handed.map((record) => record.text),
    );
  });

  await t.test('commits that nobody awaits keep their order, and are there when a later one has resolved', async (t) => {
    const under = await open(t);
    const { store } = under;
    const told: unknown[] = [];
    await store.watch('e', (event) => {
      if (event.lost !== true && event.key === 'a/last') told.push(event.value);
    });
    for (let n = 0; n < 99; n += 1) {
      void hand(store, 'a', n);
      // Some fall into one group of a driver and some into several.
      if (n % 7 === 0) await nextTurn();
    }
    await hand(store, 'a', 99);
    for await (const state of states(under, 'reopen', 'reopenAfterDeath')) t.equal(await lengthOf(t, state, 'a'), 100);
    t.strictSame(told, upTo(100));
  });

  await t.test('of commits that nobody awaits a process that dies leaves the first ones', async (t) => {
    const under = await open(t);
    for (let n = 0; n < 40; n += 1) void hand(under.store, 'a', n);
    await hand(under.store, 'a', 40);
    for (let n = 41; n < 80; n += 1) {
      void hand(under.store, 'a', n);
      if (n % 10 === 0) await nextTurn();
    }
    const left = await lengthOf(t, await under.reopenAfterDeath(), 'a');
    t.ok(left >= 41, 'what has resolved is there');
  });

  await t.test('of commits that nobody awaits none is stored behind one that a failing disk has refused', async (t) => {
    const under = await open(t);
    const handed = upTo(10).map((n) => rejection(hand(under.store, 'a', n)));
    await nextTurn();
    under.failWrites(true);
    for (const n of upTo(20).slice(10)) handed.push(rejection(hand(under.store, 'a', n)));
    const stored = (await Promise.all(handed)).map((error) => error === undefined);
    const first = stored.indexOf(false);
    t.strictSame(stored.slice(first), Array<boolean>(20 - first).fill(false));
    under.failWrites(false);
    await under.waitForProbe();
    for await (const state of states(under, 'reopenAfterDeath')) t.equal(await lengthOf(t, state, 'a'), first);
  });

  await t.test('who follows all writers follows each of them in its order and misses nothing', async (t) => {
    const under = await open(t);
    const { store } = under;
    const other = (await under.another?.()) ?? store;
    const count = 150;
    const writing = [
      { writer: store, of: 'a' },
      { writer: other, of: 'b' },
    ].map(async ({ writer, of }) => {
      const commits: Promise<void>[] = [];
      for (let n = 0; n < count; n += 1) {
        commits.push(hand(writer, of, n));
        if (n % (of === 'a' ? 3 : 5) === 0) await nextTurn();
      }
      await Promise.all(commits);
    });
    let over = false;
    const ended = Promise.all(writing).then(() => {
      over = true;
    });
    const read: string[] = [];
    for (let after: string | undefined; ; ) {
      const isLast = over;
      const page = await store.records({ limit: 7, ...(after === undefined ? {} : { after }) });
      read.push(...page.map(({ text }) => text));
      after = page.at(-1)?.position ?? after;
      if (page.length === 0 && isLast) break;
      await nextTurn();
    }
    await ended;
    for (const of of ['a', 'b']) t.strictSame(numbersOf(of, read), upTo(count));
    t.strictSame((await texts(store, { limit: 1_000, newestFirst: true })).reverse(), read);
  });
}
