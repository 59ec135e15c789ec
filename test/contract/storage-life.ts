import { StoreError } from '../../src/storage/contract/store.ts';
import { add, EPOCH, isUnavailable, makeRecord, put, rejection, type StoreUnderTest, states, type Tap, texts } from './store-under-test.ts';

/** What holds when writes fail. */
export async function failures(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
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

/** What retention may remove. */
export async function retention(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
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
      t.equal(
        (await store.records({ after: second?.position ?? '', limit: 1 }))[0]?.text,
        removed > 0 ? left[0]?.text : makeRecord(3, { pad: 500 }).text,
      );
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

/** What closing waits for. */
export async function closing(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
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
    for (const read of [
      store.recordById('x'),
      store.get('e', 'a'),
      store.records({ limit: 1 }),
      store.entity('e', 'a'),
      store.list('e'),
      store.entities('e'),
      store.watch('e', () => undefined),
      store.counters('c', { limit: 1 }),
    ]) {
      t.ok((await rejection(read)) instanceof StoreError);
    }
  });
}
