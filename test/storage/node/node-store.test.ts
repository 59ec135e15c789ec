// Two nodes on one database: what goes where, and what becomes of it when something breaks in between.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { UNSHARED_SPACES } from '../../../src/storage/node/node-spaces.ts';
import { add, isUnavailable, makeRecord, put, rejection, texts, until } from '../../contract/store-under-test.ts';
import { PgliteDatabase } from '../postgres/pglite-database.ts';
import { NodeRig } from './node-rig.ts';

const database = await PgliteDatabase.start(t);

await t.test('what a call leaves goes to the journal, and is in the database when somebody asks', async (t) => {
  const db = await database.clear();
  const [one, two] = [await new NodeRig(t, db, 'one').open(), await new NodeRig(t, db, 'two').open()];
  one.pools.sent.length = 0;
  for (let n = 1; n <= 20; n += 1)
    await one.store.commit(makeRecord(n), [add('k', { n: 1n }), put('i', n, 'intent'), put('name', { org: 'a' }, 'attributed_name')]);
  t.equal(one.pools.attempts > 0 && one.store.health.backlog.records, 20, 'no call has waited for the database');
  t.strictSame(await texts(two.store, { limit: 100 }), [], 'another node sees it when it is carried');
  t.strictSame(await one.store.counter('c', 'k'), { n: 20n }, 'its own node at once');
  t.strictSame(one.store.health.backlog, { records: 0, seconds: 0 });
  t.equal((await texts(two.store, { limit: 100 })).length, 20);
  t.strictSame(await two.store.get('attributed_name', 'name'), { org: 'a' }, 'what is carried is shared');
  t.equal(await two.store.get('intent', 'i'), undefined, 'what is one node alone is not');
  t.equal(await one.store.get('intent', 'i'), 20);
});

await t.test('what nodes share is written at once, and judged there', async (t) => {
  const db = await database.clear();
  const [one, two] = [await new NodeRig(t, db, 'one').open(), await new NodeRig(t, db, 'two').open()];
  await one.store.commit(undefined, [put('a', 1)]);
  const found = await two.store.entity('e', 'a');
  t.equal(found?.value, 1);
  const expect = [{ space: 'e', key: 'a', version: found?.version }];
  await two.store.commit(undefined, [put('a', 2)], expect);
  t.match(await rejection(one.store.commit(undefined, [put('a', 3)], expect)), { code: 'conflict' });
  t.equal(await one.store.get('e', 'a'), 2);
  const mixed = one.store.commit(undefined, [put('a', 3)], [{ space: 'intent', key: 'x', version: undefined }]);
  t.match(await rejection(mixed), { name: 'TypeError' }, 'nothing could judge both at once');
});

await t.test('a commit to the database does what it has to do here, also when its process dies in between', async (t) => {
  const db = await database.clear();
  const rig = new NodeRig(t, db);
  let opened = await rig.open();
  await opened.store.commit(undefined, [put('1', 'event', 'outbox')]);
  await opened.store.commit(makeRecord(1), [put('a', 1), put('2', 'event', 'outbox'), { op: 'delete', space: 'outbox', key: '1' }]);
  t.strictSame(await opened.store.list('outbox'), [{ key: '2', value: 'event' }]);
  await until(async () => (await opened.shared.list('node_errand')).length === 0);

  // The database has the commit, and the node dies before it does its own part.
  rig.local.files.room = 0;
  await opened.store.commit(makeRecord(2), [put('a', 2), put('3', 'event', 'outbox')]);
  t.strictSame(await opened.store.list('outbox'), [{ key: '2', value: 'event' }]);
  rig.die(opened);
  await db.quiet();
  rig.local.files.room = Number.POSITIVE_INFINITY;
  // That of a container, which the next one has not.
  opened = await rig.open('here:one', 'another-name');
  t.equal(await opened.store.get('e', 'a'), 2);
  t.strictSame(
    await opened.store.list('outbox'),
    [2, 3].map((key) => ({ key: `${key}`, value: 'event' })),
  );
  t.strictSame(await opened.shared.list('node_errand'), []);
});

await t.test('while the database is away calls go on, and what they leave is carried when it is back', async (t) => {
  const db = await database.clear();
  const rig = new NodeRig(t, db);
  const { store, pools, shared } = await rig.open();
  pools.around = () => Promise.reject(new Error('Connection terminated unexpectedly'));
  for (let n = 1; n <= 5; n += 1) await store.commit(makeRecord(n), [add('k', { n: 1n })]);
  t.ok(store.writable);
  t.ok(isUnavailable(await rejection(store.counter('c', 'k'))));
  t.ok(isUnavailable(await rejection(store.commit(undefined, [put('a', 1)]))), 'what people change has to wait');
  t.equal((await store.recordById(makeRecord(3).record_id))?.text, makeRecord(3).text, 'the node shows its own records');
  t.match(store.health, { isAway: true, backlog: { records: 5 } });
  pools.around = undefined;
  await until(() => {
    rig.clock.advance(1_000);
    return !store.health.isAway && shared.writable;
  });
  t.strictSame(await store.counter('c', 'k'), { n: 5n });
  t.strictSame(store.health, { isAway: false, backlog: { records: 0, seconds: 0 } });
});

await t.test('a data folder stands behind one node at a time', async (t) => {
  const db = await database.clear();
  const rig = new NodeRig(t, db);
  const first = await rig.open();
  await first.store.commit(makeRecord(1), []);
  await first.store.close();
  const copy = rig.local.snapshot('copy');

  await t.test('a folder that was copied is refused once the first went on', async (t) => {
    const { store } = await rig.open();
    const copied = new NodeRig(t, db);
    copied.folder = copy;
    t.match(await rejection(copied.open('elsewhere:one')), { name: 'OpeningRefused', message: /by another data folder/ });
    await store.close();
  });

  await t.test('one that runs elsewhere is not taken from there', async (t) => {
    const opened = await rig.open();
    const moved = new NodeRig(t, db);
    moved.folder = rig.local.snapshot('moved');
    t.match(await rejection(moved.open('elsewhere:one')), { name: 'OpeningRefused', message: /runs elsewhere, at here:one/ });
    await opened.store.close();
  });

  await t.test('it keeps its row when it gets another name, and takes no other', async (t) => {
    const { store, shared } = await rig.open('here:one', 'renamed');
    t.strictSame(
      (await shared.nodes()).map(({ node }) => node),
      ['renamed'],
    );
    const other = new NodeRig(t, db, 'renamed');
    t.match(await rejection(other.open()), { message: /by another data folder/ });
    await store.close();
  });

  await t.test('a start at the same place takes over, and the one before stops', async (t) => {
    const before = await rig.open();
    const again = new NodeRig(t, db);
    again.folder = rig.local.snapshot('again');
    const { store } = await again.open();
    await until(() => {
      rig.clock.advance(2_000);
      return !before.store.writable;
    });
    t.ok(isUnavailable(await rejection(before.store.commit(makeRecord(9), []))));
    await store.commit(makeRecord(10), []);
    t.equal((await texts(store, { limit: 9 })).length, 2);
  });
});

await t.test('a folder that has something of its own is not mixed in', async (t) => {
  const rig = new NodeRig(t, await database.clear());
  const local = await rig.local.open();
  await local.commit(makeRecord(1), []);
  await local.close();
  t.match(await rejection(rig.open()), { name: 'OpeningRefused', message: /"gw storage move"/ });
});

await t.test('what is carried and old enough leaves the journal, and nothing else does', async (t) => {
  const rig = new NodeRig(t, await database.clear());
  const { store } = await rig.open();
  const local = rig.local;
  for (let n = 1; n <= 60; n += 1) await store.commit(makeRecord(n, { pad: 400 }), []);
  await store.counter('c', 'k');
  const carried = (await store.records({ limit: 100 })).length;
  rig.clock.advance(3 * 86_400_000);
  local.clock.advance(3 * 86_400_000);
  await until(() => local.lines.some(({ message }) => message.startsWith('Records past their retention')));
  t.equal(carried, 60);
  t.equal((await store.records({ limit: 100 })).length, 60, 'the database keeps them');
});

await t.test('each space that is not shared is one that some service has', async (t) => {
  const services = join(packageRoot(), 'src', 'services');
  const files = readdirSync(services, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const text = files.map((name) => readFileSync(join(services, name), 'utf8')).join('\n');
  for (const space of UNSHARED_SPACES) t.ok(text.includes(` = '${space}';`), space);
  t.equal(new Set(UNSHARED_SPACES).size, UNSHARED_SPACES.length);
});
