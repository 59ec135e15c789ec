/*
 * The conformance suite of src/storage/contract/store.ts: one subtest per MUST and MUST NOT. A driver's own test file
 * calls `storageContract` with a way to open, reopen and break its store.
 */
import type { Effect, RecordCommit } from '../../src/storage/contract/store.ts';
import { expectations } from './storage-expect.ts';
import { closing, failures, retention } from './storage-life.ts';
import { ordering } from './storage-order.ts';
import { queries } from './storage-query.ts';
import { entitiesAndCounters } from './storage-values.ts';
import { watching } from './storage-watch.ts';
import { add, EPOCH, makeRecord, put, rejection, type StoreUnderTest, states, type Tap, texts } from './store-under-test.ts';

/** Runs the whole suite; `open` gives a new empty store and cleans up by itself. */
export async function storageContract(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await commits(t, open);
  await ordering(t, open);
  await expectations(t, open);
  await watching(t, open);
  await reads(t, open);
  await queries(t, open);
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
    t.strictSame(await store.counters('c', { limit: 5 }), [{ key: 'k', amounts: { n: 1n } }]);
  });

  await t.test('before it resolves, no read sees a commit', async (t) => {
    const { store } = await open(t);
    const commit = store.commit(makeRecord(1), [put('a', 1), add('k', { n: 1n })]);
    const early = Promise.all([
      store.recordById(makeRecord(1).record_id),
      store.get('e', 'a'),
      store.counter('c', 'k'),
      store.records({ limit: 1 }),
    ]);
    const [record, entity, counter] = await early;
    t.strictSame([record, entity, counter], [undefined, undefined, {}]);
    await commit;
    t.equal(await store.get('e', 'a'), 1);
  });

  await t.test('the effects of a commit take place in their order', async (t) => {
    const { store } = await open(t);
    await store.commit(undefined, [
      put('a', 1),
      { op: 'delete', space: 'e', key: 'a' },
      put('a', 2),
      put('b', 1),
      { op: 'delete', space: 'e', key: 'b' },
    ]);
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
    for (const key of ['nul\0', 'ü', '']) {
      t.equal(await store.get('e', key), undefined, 'nothing is kept under a key that is none');
      t.equal(await store.entity('e', key), undefined);
    }
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
          t.equal(new Set(positions).size, all.length, 'each has a position of its own');
        }
      }
    }
  });

  await t.test('since a time there are the records that were committed then or later, in their order, page by page', async (t) => {
    const under = await open(t);
    const all = Array.from({ length: 60 }, (_, n) => makeRecord(n + 1, { pad: 500 }));
    for (const [n, record] of all.entries()) {
      await under.store.commit(record, []);
      if (n % 4 === 0) await under.store.commit(undefined, [add('between', { n: 1n })]);
    }
    for await (const store of states(under, 'reopen')) {
      for (const since of [0, EPOCH + 1, EPOCH + 2, EPOCH + 31, EPOCH + 60, EPOCH + 61]) {
        const want = all.filter(({ committed_at: at }) => at >= since).map(({ text }) => text);
        t.strictSame(await texts(store, { since, limit: 500 }), want, `${since - EPOCH}`);
        const walked: string[] = [];
        let page = await store.records({ since, limit: 7 });
        while (page.length > 0) {
          walked.push(...page.map(({ text }) => text));
          page = await store.records({ since, limit: 7, after: page.at(-1)?.position ?? '' });
        }
        t.strictSame(walked, want, `${since - EPOCH}, by sevens`);
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
