import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { type Effect, StoreError } from '../../../src/storage/contract/store.ts';
import type { EmbeddedStore } from '../../../src/storage/embedded/embedded-store.ts';
import type { JournalCommit } from '../../../src/storage/embedded/journal-feed.ts';
import { add, EPOCH, makeRecord, put, rejection } from '../../contract/store-under-test.ts';
import { fc } from '../../support/properties.ts';
import { StoreRig } from './store-rig.ts';

const DAY_MS = 86_400_000;
const ALL = { commits: 1_000_000, bytes: 1_000_000_000 };

/** Everything behind a place, piece by piece, and the place behind it. */
async function following(
  store: EmbeddedStore,
  from: string | undefined,
  limits = ALL,
): Promise<{ commits: JournalCommit[]; next: string }> {
  const commits: JournalCommit[] = [];
  for (let at = from; ; ) {
    const piece = await store.journal(at, limits);
    commits.push(...piece.commits);
    if (piece.isLast) return { commits, next: piece.next };
    at = piece.next;
  }
}

await t.test('a journal gives back every commit as it was handed over, in order, whatever the size of the pieces', async (t) => {
  const effect: fc.Arbitrary<Effect> = fc.oneof(
    fc.record({
      op: fc.constant('put' as const),
      space: fc.constant('s'),
      key: fc.constantFrom('a', 'b|c'),
      value: fc.jsonValue({ maxDepth: 2 }),
    }),
    fc.record({ op: fc.constant('delete' as const), space: fc.constant('s'), key: fc.constantFrom('a', 'b|c') }),
    fc.record({
      op: fc.constant('add' as const),
      space: fc.constantFrom('c', 'd'),
      key: fc.constantFrom('k', 'l'),
      amounts: fc.dictionary(fc.constantFrom('n', 'usd', 'constructor'), fc.bigInt({ min: -(2n ** 90n), max: 2n ** 90n }), { minKeys: 1 }),
    }),
  );
  const commit = fc.record({
    record: fc.boolean(),
    pad: fc.nat({ max: 3_000 }),
    effects: fc.array(effect, { minLength: 1, maxLength: 3 }),
  });
  const limits = fc.record({ commits: fc.integer({ min: 1, max: 5 }), bytes: fc.integer({ min: 1, max: 20_000 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(commit, { maxLength: 25 }), limits, async (given, limits) => {
      // Segments of 16 KiB: most runs have several.
      const store = await new StoreRig(t).open();
      const wanted: JournalCommit[] = [];
      for (const [n, { record, pad, effects }] of given.entries()) {
        const own = record ? makeRecord(n + 1, { pad }) : undefined;
        // What an effect is becomes JSON on its way: -0 is 0 there.
        wanted.push({
          record: own,
          effects: effects.map((one) => (one.op === 'put' ? { ...one, value: JSON.parse(JSON.stringify(one.value)) as unknown } : one)),
        });
        await store.commit(own, effects);
      }
      const { commits, next } = await following(store, undefined, limits);
      // Generated objects have no prototype.
      t.strictSame(commits, structuredClone(wanted));
      t.strictSame((await following(store, next)).commits, []);
      await store.close();
    }),
    { numRuns: 20 },
  );
});

await t.test('a place stays: what comes later is read from there, also when the store was opened again', async (t) => {
  const rig = new StoreRig(t);
  const store = await rig.open();
  t.strictSame(await store.journal(undefined, ALL), { commits: [], next: '0000000100000020', isLast: true }, 'of an empty journal');
  await store.commit(makeRecord(1), [add('k', { n: 1n })]);
  const first = await store.journal(undefined, ALL);
  t.same(
    first.commits.map(({ record }) => record?.record_id),
    [makeRecord(1).record_id],
  );
  await store.commit(makeRecord(2), [put('a', 'ä')]);
  t.strictSame((await following(store, first.next)).commits, [{ record: makeRecord(2), effects: [put('a', 'ä')] }]);
  await store.close();
  const again = await rig.open();
  await again.commit(makeRecord(3), []);
  t.same(
    (await following(again, first.next)).commits.map(({ record }) => record?.record_id),
    [makeRecord(2).record_id, makeRecord(3).record_id],
  );
});

await t.test('what is not visible is not read', async (t) => {
  const rig = new StoreRig(t, { fsync: 'always' });
  const store = await rig.open();
  await store.commit(makeRecord(1), []);
  let release = (): void => undefined;
  rig.files.beforeSync = new Promise((resolve) => (release = resolve));
  const under = store.commit(makeRecord(2), []);
  await Promise.resolve();
  const { commits, next } = await following(store, undefined);
  t.equal(commits.length, 1);
  release();
  await under;
  t.equal((await following(store, next)).commits.length, 1);
});

await t.test('a place that cannot be read from is said', async (t) => {
  const rig = new StoreRig(t);
  const store = await rig.open();
  await store.commit(makeRecord(1, { pad: 2_000 }), []);
  const early = (await store.journal(undefined, ALL)).next;
  for (let n = 2; n < 40; n += 1) await store.commit(makeRecord(n, { pad: 2_000 }), []);
  const late = (await following(store, undefined)).next;
  for (const place of ['', 'nowhere', 'ffffffff00000020', '0000000100000000', `${late.slice(0, 8)}7fffffff`]) {
    const error = await rejection(store.journal(place, ALL));
    t.ok(error instanceof GatewayError && error.code === 'invalid_request', `${place}: ${String(error)}`);
  }
  rig.clock.advance(DAY_MS * 30);
  t.ok((await store.removeRecordsBefore(EPOCH + 40)) > 0);
  const gone = await rejection(store.journal(early, ALL));
  t.ok(gone instanceof StoreError && gone.code === 'corrupt', String(gone));
  t.strictSame((await following(store, undefined)).commits, [], 'what is kept is read from its beginning');
});
