// What strangers put into a record, a key or a query goes in and out as it is, or is refused before it harms others.
import t from 'tap';
import type { RecordCommit } from '../../../src/storage/contract/store.ts';
import { monthOf, storedTime } from '../../../src/storage/postgres/record-months.ts';
import { RecordPlaces } from '../../../src/storage/postgres/record-places.ts';
import { textArray } from '../../../src/storage/postgres/sql.ts';
import { add, EPOCH, makeRecord, put, rejection, texts } from '../../contract/store-under-test.ts';
import { fc } from '../../support/properties.ts';
import { PgRig } from './pg-rig.ts';
import { PgliteDatabase } from './pglite-database.ts';

t.setTimeout(300_000);
const database = await PgliteDatabase.start(t);

/** A record whose text has these members. */
function recordWith(n: number, members: object): RecordCommit {
  const plain = makeRecord(n);
  return { ...plain, text: JSON.stringify({ ...(JSON.parse(plain.text) as object), ...members }) };
}

await t.test('texts of records and values come back byte for byte', async (t) => {
  const { store } = await new PgRig(t, await database.clear()).open();
  const odd = ['\0', '\\u0000', '"\\', '{},NULL', '\ud800', '🙂', '\u2028', "'; DROP TABLE gw_records; --", '\uffff', 'é'.repeat(5_000)];
  for (const [n, text] of odd.entries()) {
    const record = recordWith(n, { text, labels: { [text]: text }, model: text, workload_id: text });
    await store.commit(record, [put(`k${n}`, { [text]: [text] })]);
    t.equal((await store.recordById(record.record_id))?.text, record.text);
    t.strictSame(await store.get('e', `k${n}`), { [text]: [text] });
    for (const filters of [
      { workload_id: text },
      { org_id: 'o', workload_id: text },
      { label: { key: text, value: text } },
      { model: text },
    ])
      t.strictSame(await texts(store, { ...filters, limit: 9 }), 'org_id' in filters ? [] : [record.text], `${n}: ${Object.keys(filters)}`);
  }
  const raw = { ...makeRecord(100), text: 'NUL \0' };
  t.type(await rejection(store.commit(raw, [])), TypeError);
  t.equal(store.writable, true);
});

await t.test('names that are longer than an index takes are found; a space or an amount that is longer is refused', async (t) => {
  const { store } = await new PgRig(t, await database.clear()).open();
  const long = (end: string) => '🙂'.repeat(4_000) + end;
  for (const [n, end] of ['a', 'b'].entries())
    await store.commit(
      recordWith(n, { org_id: long(end), workload_id: long(end), decision: long(end), reason: 'x', reason_codes: [long(end)] }),
      [],
    );
  for (const filters of [
    { org_id: long('b') },
    { org_id: long('b'), workload_id: long('b'), decision: long('b') },
    { reason_code: long('b') },
  ])
    t.equal((await store.records({ ...filters, limit: 9 })).length, 1);
  const key = 'k'.repeat(1_999);
  await store.commit(undefined, [put(key, 1), add(key, { [`n${'n'.repeat(499)}`]: 1n })]);
  t.equal(await store.get('e', key), 1);
  t.type(await rejection(store.commit(undefined, [put('k', 1, 's'.repeat(501))])), RangeError);
  t.type(await rejection(store.commit(undefined, [add('k', { ['n'.repeat(501)]: 1n })])), RangeError);
  t.equal(store.writable, true);
});

await t.test('what no key can be finds nothing, whoever asks', async (t) => {
  const { store } = await new PgRig(t, await database.clear()).open();
  await store.commit(undefined, [put('a', 1), put('a\x01', 2), put('b', 3), add('a', { n: 1n }), add('b', { n: 1n })]);
  for (const prefix of ['\0', 'a\0', 'ü', '\ud800']) {
    t.strictSame(await store.list('e', { prefix }), []);
    t.strictSame(await store.counters('c', { prefix, limit: 9 }), []);
  }
  const keysBehind = async (after: string) => (await store.list('e', { after })).map(({ key }) => key);
  t.strictSame(await keysBehind('a\0'), ['a\x01', 'b']);
  t.strictSame(await keysBehind('aü'), ['b']);
  t.strictSame(await keysBehind('\ud800'), []);
  t.strictSame(await store.list('no\0space'), []);
  t.strictSame(await store.list('e', { limit: Number.POSITIVE_INFINITY, prefix: '\x7f' }), []);
  t.strictSame(await store.records({ record_id: 'NUL \0', limit: 1 }), []);
  t.equal(await store.recordById('\0'), undefined);
});

await t.test('any time of a commit is kept, and found again', async (t) => {
  const { store } = await new PgRig(t, await database.clear()).open();
  const times = [EPOCH + 0.25, 0, -1, -1e300, 1e300, Date.UTC(2024, 1, 29, 23, 59, 59, 999), Date.UTC(1999, 11, 31, 23, 59, 59, 999.5)];
  for (const [n, committed_at] of times.entries()) await store.commit(makeRecord(n, { committed_at }), []);
  const found = async (since: number, until: number) => (await store.records({ since, until, limit: 9 })).length;
  t.equal(await found(EPOCH + 0.25, EPOCH + 0.5), 1);
  t.equal(await found(EPOCH, EPOCH + 0.25), 0);
  t.equal(await found(-1, 0), 1);
  t.equal(await found(Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY), times.length);
  t.equal(await store.removeRecordsBefore(0), 2);
  t.equal(await found(Number.NEGATIVE_INFINITY, 1), 1);
  t.equal(storedTime(-1e300), '0001-01-01T00:00:00.000000Z');
  t.equal(monthOf(1e300), '9999_12');
});

await t.test('a position of one store is none of another', (t) => {
  const [one, other] = [new RecordPlaces('one'), new RecordPlaces('other')];
  for (const place of ['1024', '9007199254740993', '9223372036854775807']) {
    t.equal(one.placeAt(one.positionOf(place)), place);
    t.throws(() => other.placeAt(one.positionOf(place)), { code: 'invalid_request' });
  }
  t.end();
});

await t.test('a list of any texts is what PostgreSQL reads of it', async (t) => {
  const pools = await (await database.clear()).openPools();
  const connection = await pools.reads.connect();
  const item = fc.option(fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\0', '')));
  await fc.assert(
    fc.asyncProperty(fc.array(item, { maxLength: 6 }), async (items) => {
      const [row] = await connection.query('SELECT array_to_json($1::text::text[])::text AS read', [textArray(items)]);
      const read = JSON.parse(row?.['read'] ?? 'null') as unknown;
      return JSON.stringify(read) === JSON.stringify(items);
    }),
    { numRuns: 200 },
  );
  connection.release(false);
  t.pass('each item as it was');
});
