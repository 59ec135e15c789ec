/*
 * The conformance suite of src/storage/contract/store.ts: one subtest per MUST and MUST NOT. A driver's own test file calls `storageContract` with a way to
 * open, reopen and break its store.
 */
import { createHash } from 'node:crypto';
import type { Test } from 'tap';
import { type Effect, type RecordCommit, type Store, StoreError } from '../../src/storage/contract/store.ts';

export type Tap = Test;

export interface StoreUnderTest {
  readonly store: Store;
  /** Closes the store and opens it again on the same data. */
  reopen(): Promise<Store>;
  /** Opens it again on the same data without closing, as after the death of the process. */
  reopenAfterDeath(): Promise<Store>;
  /** From now on writes fail as on a full disk, or work again. */
  failWrites(failing: boolean): void;
  /** Lets time pass until the driver has probed. */
  waitForProbe(): Promise<void>;
}

const EPOCH = 1_795_000_000_000;

/** A record as small as the contract allows; ids grow with `n`. */
export function makeRecord(n: number, more: { readonly committed_at?: number; readonly pad?: number } = {}): RecordCommit {
  const record_id = `01999999-0000-7000-8000-${n.toString(16).padStart(12, '0')}`;
  const record_hash = createHash('sha256').update(record_id).digest('hex');
  const text = JSON.stringify({ n, pad: 'ü'.repeat(more.pad ?? 3), record_hash, record_id });
  return { record_id, record_hash, text, committed_at: more.committed_at ?? EPOCH + n };
}

function add(key: string, amounts: Readonly<Record<string, bigint>>, space = 'c'): Effect {
  return { op: 'add', space, key, amounts };
}

function put(key: string, value: unknown, space = 'e'): Effect {
  return { op: 'put', space, key, value };
}

async function texts(store: Store, page: Parameters<Store['records']>[0]): Promise<string[]> {
  return (await store.records(page)).map((record) => record.text);
}

function isUnavailable(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'record_store_unavailable';
}

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** The store as it is, then opened again in these ways: what holds must hold in every state. */
async function* states(under: StoreUnderTest, ...ways: readonly ('reopen' | 'reopenAfterDeath')[]): AsyncGenerator<Store> {
  yield under.store;
  for (const way of ways) yield await under[way]();
}

/** Runs the whole suite; `open` gives a new empty store and cleans up by itself. */
export async function storageContract(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await commits(t, open);
  await reads(t, open);
  await entitiesAndCounters(t, open);
  await failures(t, open);
  await retention(t, open);
  await closing(t, open);
}

async function commits(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('a resolved commit is there after the process has died', async (t) => {
    const under = await open(t);
    await under.store.commit(makeRecord(1), [put('a', { x: 1 }), add('k', { n: 5n })]);
    await under.store.commit(undefined, [add('k', { n: 2n, m: -1n })]);
    const again = await under.reopenAfterDeath();
    t.equal((await again.recordById(makeRecord(1).record_id))?.text, makeRecord(1).text);
    t.strictSame(await again.get('e', 'a'), { x: 1 });
    t.strictSame(await again.counter('c', 'k'), { n: 7n, m: -1n });
  });

  await t.test('after resolving, every read sees the commit', async (t) => {
    const { store } = await open(t);
    const record = makeRecord(1);
    await store.commit(record, [put('a', 'first'), put('gone', 1), { op: 'delete', space: 'e', key: 'gone' }, add('k', { n: 1n })]);
    t.equal((await store.recordById(record.record_id))?.text, record.text);
    t.equal((await store.recordByHash(record.record_hash))?.text, record.text);
    t.strictSame(await texts(store, { limit: 5 }), [record.text]);
    t.strictSame(await texts(store, { limit: 5, newestFirst: true }), [record.text]);
    t.equal(await store.get('e', 'a'), 'first');
    t.equal(await store.get('e', 'gone'), undefined);
    t.strictSame(await store.list('e'), [{ key: 'a', value: 'first' }]);
    t.strictSame(await store.counter('c', 'k'), { n: 1n });
    t.strictSame(await store.counters('c'), [{ key: 'k', amounts: { n: 1n } }]);
  });

  await t.test('before it resolves, no read sees a commit', async (t) => {
    const { store } = await open(t);
    const commit = store.commit(makeRecord(1), [put('a', 1), add('k', { n: 1n })]);
    const early = Promise.all([store.recordById(makeRecord(1).record_id), store.get('e', 'a'), store.counter('c', 'k'), store.records({ limit: 1 })]);
    const [record, entity, counter] = await early;
    t.strictSame([record, entity, counter], [undefined, undefined, {}]);
    await commit;
    t.equal(await store.get('e', 'a'), 1);
  });

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

  await t.test('the effects of a commit take place in their order', async (t) => {
    const { store } = await open(t);
    await store.commit(undefined, [put('a', 1), { op: 'delete', space: 'e', key: 'a' }, put('a', 2), put('b', 1), { op: 'delete', space: 'e', key: 'b' }]);
    t.strictSame(await store.list('e'), [{ key: 'a', value: 2 }]);
  });

  await t.test('committing a record id that exists is a conflict and changes nothing', async (t) => {
    const under = await open(t);
    await under.store.commit(makeRecord(2), [put('a', 'kept')]);
    const other = { ...makeRecord(2), text: '{"other":true}' };
    await t.rejects(under.store.commit(other, [put('a', 'lost'), add('k', { n: 1n })]), { code: 'conflict' });
    const again = await under.reopen();
    await t.rejects(again.commit(other, [put('a', 'lost')]), { code: 'conflict' });
    t.equal((await again.recordById(other.record_id))?.text, makeRecord(2).text);
    t.equal(await again.get('e', 'a'), 'kept');
    t.strictSame(await again.counter('c', 'k'), {});
    await again.commit(makeRecord(1), []);
    t.equal((await again.records({ limit: 9 })).length, 2, 'a smaller id that is new is no conflict');
  });

  await t.test('of two commits with one record id in the same turn the first wins', async (t) => {
    const { store } = await open(t);
    const first = store.commit(makeRecord(1), [put('a', 1)]);
    await t.rejects(store.commit(makeRecord(1), [put('a', 2)]), { code: 'conflict' });
    await first;
    t.equal(await store.get('e', 'a'), 1);
  });

  await t.test('what was handed over is copied', async (t) => {
    const under = await open(t);
    const value = { list: [1] };
    const amounts = { n: 1n };
    const commit = under.store.commit(undefined, [put('a', value), add('k', amounts)]);
    value.list.push(2);
    amounts.n = 9n;
    await commit;
    t.strictSame(await under.store.get('e', 'a'), { list: [1] });
    t.strictSame(await under.store.counter('c', 'k'), { n: 1n });
    const read = (await under.store.get('e', 'a')) as { list: number[] };
    read.list.push(3);
    t.strictSame(await under.store.get('e', 'a'), { list: [1] }, 'what is read is a copy too');
  });

  await t.test('a commit that breaks the rules of its types is a TypeError and changes nothing', async (t) => {
    const { store } = await open(t);
    const record = makeRecord(1);
    const bad: [RecordCommit | undefined, readonly Effect[]][] = [
      [undefined, [put('nul\0', 1)]],
      [undefined, [put('ü', 1)]],
      [undefined, [put('', 1)]],
      [undefined, [put('a', 1, '')]],
      [undefined, [put('a', undefined)]],
      [undefined, [put('a', 1n)]],
      [undefined, [put('fine', 1), add('k', { 'na\0me': 1n })]],
      [{ ...record, record_id: '' }, []],
      [{ ...record, record_id: 'with space' }, []],
      [{ ...record, record_id: 'x'.repeat(129) }, []],
      [{ ...record, record_hash: record.record_hash.toUpperCase() }, []],
      [{ ...record, record_hash: 'abc' }, []],
      [{ ...record, committed_at: Number.NaN }, []],
    ];
    for (const [badRecord, effects] of bad) t.ok((await rejection(store.commit(badRecord, effects))) instanceof TypeError);
    t.strictSame(await store.list('e'), []);
    t.strictSame(await store.records({ limit: 1 }), []);
    await store.commit(record, []);
    t.ok(store.writable);
  });
}

async function reads(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('pages of records follow commit order both ways without loss or repetition', async (t) => {
    const under = await open(t);
    const all: string[] = [];
    for (let n = 1; n <= 120; n += 1) {
      const record = makeRecord(n, { pad: n === 60 ? 90_000 : (n * 37) % 900 });
      all.push(record.text);
      await under.store.commit(record, n % 3 === 0 ? [put(`k${n}`, n)] : []);
      if (n % 5 === 0) await under.store.commit(undefined, [add('between', { n: 1n })]);
    }
    for await (const store of states(under, 'reopen')) {
      for (const limit of [1, 7, 50, 500]) {
        for (const newestFirst of [false, true]) {
          const walked: string[] = [];
          const positions: string[] = [];
          let after: string | undefined;
          for (;;) {
            const page = await store.records({ limit, newestFirst, ...(after === undefined ? {} : { after }) });
            if (page.length === 0) break;
            t.ok(page.length <= limit);
            walked.push(...page.map((record) => record.text));
            positions.push(...page.map((record) => record.position));
            after = page.at(-1)?.position;
          }
          t.strictSame(walked, newestFirst ? [...all].reverse() : all, `limit ${limit}, newest first ${newestFirst}`);
          t.strictSame(positions, newestFirst ? [...positions].sort().reverse() : [...positions].sort(), 'later records have larger positions');
        }
      }
    }
  });

  await t.test('the position of a record found by id or hash is its place in the pages', async (t) => {
    const { store } = await open(t);
    for (let n = 1; n <= 3; n += 1) await store.commit(makeRecord(n), []);
    const position = (await store.recordById(makeRecord(2).record_id))?.position ?? '';
    t.equal((await store.recordByHash(makeRecord(2).record_hash))?.position, position);
    t.strictSame(await texts(store, { after: position, limit: 9 }), [makeRecord(3).text]);
    t.strictSame(await texts(store, { after: position, limit: 9, newestFirst: true }), [makeRecord(1).text]);
  });

  await t.test('unknown ids, hashes, entities and counters are absent, an empty store has no page', async (t) => {
    const { store } = await open(t);
    t.equal(await store.recordById(makeRecord(1).record_id), undefined);
    t.equal(await store.recordByHash('no such hash'), undefined);
    t.equal(await store.get('e', 'none'), undefined);
    t.strictSame(await store.counter('c', 'none'), {});
    t.strictSame([await store.records({ limit: 5 }), await store.records({ limit: 5, newestFirst: true })], [[], []]);
  });

  await t.test('a position that the store never gave out is refused', async (t) => {
    const { store } = await open(t);
    await store.commit(makeRecord(1), []);
    const position = (await store.records({ limit: 1 }))[0]?.position ?? '';
    const last = position.slice(0, -1) + (position.endsWith('f') ? 'e' : 'f');
    for (const after of ['', 'x', '../../etc/passwd', 'ffffffffffffffff', last, `${position}0`]) {
      await t.rejects(store.records({ after, limit: 1 }), { code: 'invalid_request' });
      await t.rejects(store.records({ after, limit: 1, newestFirst: true }), { code: 'invalid_request' });
    }
    await t.rejects(store.records({ limit: 0 }), TypeError);
  });
}

async function entitiesAndCounters(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('any JSON value comes back as it went in', async (t) => {
    const under = await open(t);
    const values: unknown[] = [null, true, 0, -1.5, '', 'NUL \0 ü 🙂 \ud800', [], {}, { deep: [{ a: null }] }, JSON.parse('{"__proto__":{"x":1},"constructor":2}')];
    await under.store.commit(
      undefined,
      values.map((value, n) => put(`v${n}`, value)),
    );
    for await (const store of states(under, 'reopen')) {
      for (const [n, value] of values.entries()) t.equal(JSON.stringify(await store.get('e', `v${n}`)), JSON.stringify(value));
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
      if (round === 'changed after reopening') await store.commit(undefined, [{ op: 'delete', space: 'e', key: 'a/10' }, put('~~', 1), put('b', 'new')]);
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
    t.strictSame(await store.counters('c', 'a/'), [
      { key: 'a/0', amounts: { n: 9n } },
      { key: 'a/1', amounts: { n: 4n } },
      { key: 'a/2', amounts: { n: 2n } },
    ]);
    t.strictSame(
      (await store.counters('c')).map((row) => row.key),
      ['a/0', 'a/1', 'a/2', 'b'],
    );
  });

  await t.test('additions that are under way together are all counted', async (t) => {
    const under = await open(t);
    await Promise.all(Array.from({ length: 200 }, (_, n) => under.store.commit(makeRecord(n), [add('k', { n: 1n }), add(`k${n % 7}`, { n: 1n })])));
    for await (const store of states(under, 'reopen')) {
      t.strictSame(await store.counter('c', 'k'), { n: 200n });
      t.equal(
        (await store.counters('c', 'k')).reduce((sum, row) => sum + (row.amounts['n'] ?? 0n), 0n),
        400n,
      );
    }
  });
}

async function failures(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('a commit that cannot be stored rejects and never becomes visible, not even after reopening', async (t) => {
    const under = await open(t);
    await under.store.commit(makeRecord(1), [add('k', { n: 1n })]);
    under.failWrites(true);
    const lost = [under.store.commit(makeRecord(2), [put('a', 1), add('k', { n: 1n })]), under.store.commit(makeRecord(3), [put('b', 1)])];
    for (const commit of lost) t.ok(isUnavailable(await rejection(commit)));
    under.failWrites(false);
    await under.waitForProbe();
    await under.store.commit(makeRecord(4), [add('k', { n: 10n })]);
    for await (const store of states(under, 'reopenAfterDeath')) {
      t.strictSame(await texts(store, { limit: 9 }), [makeRecord(1).text, makeRecord(4).text]);
      t.equal(await store.recordById(makeRecord(2).record_id), undefined);
      t.strictSame(await store.list('e'), []);
      t.strictSame(await store.counter('c', 'k'), { n: 11n });
    }
  });

  await t.test('the store says that it cannot be written, probes by itself and recovers', async (t) => {
    const under = await open(t);
    await under.store.commit(makeRecord(1), []);
    t.equal(under.store.writable, true);
    under.failWrites(true);
    t.ok(isUnavailable(await rejection(under.store.commit(makeRecord(2), []))));
    t.equal(under.store.writable, false);
    t.ok(isUnavailable(await rejection(under.store.commit(makeRecord(3), []))), 'refused while it cannot be written');
    t.equal((await under.store.recordById(makeRecord(1).record_id))?.text, makeRecord(1).text, 'reading goes on');
    await under.waitForProbe();
    t.equal(under.store.writable, false, 'a probe that fails changes nothing');
    under.failWrites(false);
    await under.waitForProbe();
    t.equal(under.store.writable, true);
    await under.store.commit(makeRecord(2), []);
    t.equal((await under.store.recordById(makeRecord(2).record_id))?.text, makeRecord(2).text, 'the id of a rejected commit is free');
  });
}

async function retention(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('retention removes old records, and neither younger ones nor entities nor counters', async (t) => {
    const under = await open(t);
    for (let n = 1; n <= 200; n += 1) await under.store.commit(makeRecord(n, { pad: 500 }), [put(`k${n}`, n), add('k', { n: 1n })]);
    const [second] = (await under.store.records({ limit: 2 })).slice(1);
    t.equal(await under.store.removeRecordsBefore(EPOCH), 0);
    const removed = await under.store.removeRecordsBefore(EPOCH + 120);
    t.ok(removed <= 119, 'none of 120 or later');
    for await (const store of states(under, 'reopen')) {
      const left = await store.records({ limit: 500 });
      t.equal(left.length, 200 - removed);
      for (const n of [120, 121, 200]) t.ok(await store.recordById(makeRecord(n).record_id));
      if (removed > 0) {
        t.equal(await store.recordById(makeRecord(1).record_id), undefined);
        t.equal(await store.recordByHash(makeRecord(1).record_hash), undefined);
      }
      t.equal((await store.list('e')).length, 200);
      t.strictSame(await store.counter('c', 'k'), { n: 200n });
      t.equal((await store.records({ after: second?.position ?? '', limit: 1 }))[0]?.text, removed > 0 ? left[0]?.text : makeRecord(3, { pad: 500 }).text);
      t.ok((await store.records({ after: left[0]?.position ?? '', limit: 500 })).length === left.length - 1, 'positions stay valid');
      if (removed > 2) t.strictSame(await store.records({ after: second?.position ?? '', limit: 5, newestFirst: true }), []);
    }
  });

  await t.test('all records are removed when all are old enough, and new ones follow', async (t) => {
    const under = await open(t);
    for (let n = 1; n <= 5; n += 1) await under.store.commit(makeRecord(n), []);
    t.equal(await under.store.removeRecordsBefore(EPOCH + 6), 5);
    t.equal(await under.store.removeRecordsBefore(EPOCH + 6), 0);
    await under.store.commit(makeRecord(6), []);
    t.strictSame(await texts(await under.reopen(), { limit: 9 }), [makeRecord(6).text]);
  });
}

async function closing(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('close waits for what is under way, and may be called again', async (t) => {
    const under = await open(t);
    const commits = Promise.all([under.store.commit(makeRecord(1), []), under.store.commit(makeRecord(2), [])]);
    await under.store.close();
    await commits;
    await under.store.close();
    t.equal((await (await under.reopen()).records({ limit: 5 })).length, 2);
  });

  await t.test('after close a commit and a read reject', async (t) => {
    const { store } = await open(t);
    await store.close();
    t.equal(store.writable, false);
    t.ok(isUnavailable(await rejection(store.commit(makeRecord(1), []))));
    for (const read of [store.recordById('x'), store.get('e', 'a'), store.records({ limit: 1 }), store.list('e'), store.counters('c')]) {
      t.ok((await rejection(read)) instanceof StoreError);
    }
  });

  await t.test('sync resolves with commits around it', async (t) => {
    const { store } = await open(t);
    const commit = store.commit(makeRecord(1), []);
    await store.sync();
    await commit;
    await store.sync();
    t.equal((await store.records({ limit: 5 })).length, 1);
  });
}
