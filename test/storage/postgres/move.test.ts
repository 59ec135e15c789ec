// An embedded store that is moved into a database: all of it is there, once, wherever the move breaks off.
import { hostname } from 'node:os';
import t from 'tap';
import { contentOf } from '../../../src/storage/drivers/store-copy.ts';
import { lookAtDatabase, nothingToMove } from '../../../src/storage/drivers/store-move.ts';
import { FolderClaims } from '../../../src/storage/node/folder-claims.ts';
import { isNodeSpace } from '../../../src/storage/node/node-spaces.ts';
import type { CarriedNode } from '../../../src/storage/postgres/journal-carrier.ts';
import { add, makeRecord, put, rejection, type Tap } from '../../contract/store-under-test.ts';
import { skipWithout } from '../../support/peers.ts';
import { tempDir } from '../../support/temp-dir.ts';
import { effectsOf, Mover, movedContent, spendOf, usedStore } from './moved-store.ts';
import { NAME, PgRig, type TestDatabase } from './pg-rig.ts';
import { PgliteDatabase } from './pglite-database.ts';
import { PostgresServer } from './server.ts';

t.setTimeout(900_000);

/** Moves a store whole, lets the node go on, and looks at both sides. */
async function wholeMove(t: Tap, database: TestDatabase): Promise<void> {
  const { local, dataDir } = await usedStore(t, 200);
  const mover = await Mover.open(database, dataDir);
  const outcome = await mover.move(local);
  t.match(outcome, { kind: 'moved', at: /^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$/ });
  t.equal(mover.told[0], 'begins');
  const content = await contentOf(local, isNodeSpace);
  t.ok(content.records > 50 && content.records < 160, 'some records are removed before');
  t.strictSame(outcome.kind === 'moved' && outcome.content, content);
  t.equal(mover.told.filter((line) => line === `records ${content.records}/${content.records}`).length, 1);

  const { store } = await new PgRig(t, database).open();
  t.strictSame(await movedContent(store), await movedContent(local));
  const [spent, wanted] = await spendOf(store, local);
  t.strictSame(spent, wanted, 'the spend by hour is made of the totals');
  t.ok((spent as unknown[]).length > 5);
  for (const space of ['intent', 'outbox']) {
    t.strictSame(await store.list(space), [], 'what concerns the node stays');
    t.equal((await local.list(space)).length, 1);
    t.equal(content.kept.get(space), 1);
  }
  const found = await store.records({ limit: 10, since: (await oldest(local)) + 1 });
  t.ok(found.length > 0, 'records are found by their time');

  const node = await nodeOf(dataDir);
  const place = `${hostname()}:${dataDir}`;
  await store.claim({ ...node, known: [node.incarnation], hasHistory: true, place, version: '1' });
  const carrier = await store.carrier(node);
  t.equal(await carrier.carryAll(local), 0, 'nothing is left to carry');
  await local.commit(makeRecord(900), effectsOf(900));
  t.equal(await carrier.carryAll(local), 1);
  t.strictSame(await movedContent(store), await movedContent(local), 'the node goes on from there');
  const openPools = async () => Object.assign(await database.openPools(), { name: NAME });
  t.match(await nothingToMove({ url: '', node: 'one', dataDir, openPools }), {
    kind: 'done',
    at: outcome.kind === 'moved' ? outcome.at : '',
  });
  t.match((await (await Mover.open(database, dataDir)).move(local)).kind, 'done');
  t.strictSame(await movedContent(store), await movedContent(local), 'a second move changes nothing');
}

/** The node as the database knows it behind a move. */
async function nodeOf(dataDir: string): Promise<CarriedNode> {
  const { known, hasHistory } = await FolderClaims.read(dataDir);
  t.ok(hasHistory, 'the folder is that of a node');
  return { node: 'one', incarnation: known[0] ?? '' };
}

async function oldest(store: Awaited<ReturnType<typeof usedStore>>['local']): Promise<number> {
  const { commits } = await store.journal(undefined, { commits: 10, bytes: 1_000_000 });
  return commits.find(({ record }) => record)?.record?.committed_at ?? 0;
}

const lite = await PgliteDatabase.start(t);

await t.test('a store is moved whole, and its node goes on', async (t) => wholeMove(t, await lite.clear()));

await t.test('an empty store is moved', async (t) => {
  const { local, dataDir } = await usedStore(t, 0);
  t.match(await (await Mover.open(await lite.clear(), dataDir)).move(local), { kind: 'moved', content: { records: 0 } });
});

await t.test('a move that dies at any statement goes on, and ends with the same', { timeout: 600_000 }, async (t) => {
  const { local } = await usedStore(t, 40);
  const wanted = await movedContent(local);
  let deaths = 0;
  for (;;) {
    const [database, dataDir] = [await lite.clear(), tempDir(t)];
    const became = await (await Mover.open(database, dataDir)).moveUntil(local, deaths + 1, true);
    if (became !== 'died') {
      t.match(became, { kind: 'moved' });
      break;
    }
    deaths += 1;
    await database.quiet();
    t.match((await (await Mover.open(database, dataDir)).move(local)).kind, /^(moved|done)$/);
    const { store } = await new PgRig(t, database).open();
    t.strictSame(...(await spendOf(store, local)));
    t.strictSame(await movedContent(store), wanted, `dead behind statement ${deaths}`);
    t.equal(await (await store.carrier(await nodeOf(dataDir))).carryAll(local), 0);
    await store.close();
  }
  t.ok(deaths > 60, `${deaths}`);
});

await t.test('a move that dies again and again ends', async (t) => {
  const { local, dataDir } = await usedStore(t, 40);
  const database = await lite.clear();
  const told: string[] = [];
  for (let n = 22; ; n += 1) {
    const mover = await Mover.open(database, dataDir);
    const became = await mover.moveUntil(local, n, n % 2 === 0);
    told.push(...mover.told);
    if (became !== 'died') break;
    await database.quiet();
  }
  t.ok(told.filter((line) => line === 'goes_on').length > 1, told.join());
  const { store } = await new PgRig(t, database).open();
  t.strictSame(await movedContent(store), await movedContent(local));
});

await t.test('a connection that breaks ends the move in one line, and the next one goes on', async (t) => {
  const { local, dataDir } = await usedStore(t, 40);
  const database = await lite.clear();
  const mover = await Mover.open(database, dataDir);
  let left = 45;
  mover.pools.around = async (_text, send) => {
    left -= 1;
    if (left < 0) throw new Error('Connection terminated unexpectedly');
    return send();
  };
  t.match(await rejection(mover.move(local)), {
    message: /^the move broke off: Connection terminated unexpectedly\. What is copied stays: run the same again/,
  });
  const next = await Mover.open(database, dataDir);
  t.match(await next.move(local), { kind: 'moved' });
  t.equal(next.told[0], 'goes_on');
});

await t.test('a gateway that ran between two tries: the move begins anew', async (t) => {
  const { local, dataDir } = await usedStore(t, 40);
  const database = await lite.clear();
  t.equal(await (await Mover.open(database, dataDir)).moveUntil(local, 40, true), 'died');
  await database.quiet();
  await local.commit(makeRecord(500), [add('k1', { n: 5n }, 'budget'), put('a1', 'other', 'api_key')]);
  await local.commit(undefined, [{ op: 'delete', space: 'api_key', key: 'a3' }]);
  const mover = await Mover.open(database, dataDir);
  t.match(await mover.move(local), { kind: 'moved' });
  t.equal(mover.told[0], 'starts_over');
  const { store } = await new PgRig(t, database).open();
  t.strictSame(await movedContent(store), await movedContent(local));
});

await t.test('a database that has something of others is refused', async (t) => {
  const { local, dataDir } = await usedStore(t, 20);
  const line = /^the database has .* already: a store is moved into one that has nothing else.*Name an empty database, or begin/;
  const effects = {
    records: [makeRecord(1), []],
    settings: [undefined, [put('a', 1)]],
    counters: [undefined, [add('k', { n: 1n })]],
  } as const;
  for (const [what, [record, others]] of Object.entries(effects)) {
    const database = await lite.clear();
    const { store } = await new PgRig(t, database).open();
    await store.commit(record, others);
    const error = await rejection((await Mover.open(database, dataDir)).move(local));
    t.match(error, { name: 'OpeningRefused', message: line });
    t.match(error, { message: `the database has ${what} already` });
    await store.close();
  }
  const database = await lite.clear();
  const { store } = await new PgRig(t, database).open();
  await store.carrier({ node: 'two', incarnation: 'folder-2' });
  t.match(await rejection((await Mover.open(database, dataDir)).move(local)), { message: 'the database has the node two already' });
  await store.close();

  const begun = await lite.clear();
  t.equal(await (await Mover.open(begun, dataDir)).moveUntil(local, 40, true), 'died');
  await begun.quiet();
  const other = { node: 'two', dataDir: tempDir(t) };
  t.match(await rejection((await Mover.open(begun, dataDir)).move(local, other)), { message: 'the database has the node one already' });
  const opened = await new PgRig(t, begun).open();
  const claim = { node: 'two', incarnation: 'folder-2', known: [], hasHistory: false, place: 'here', version: '1' };
  t.match(await rejection(opened.store.claim(claim)), {
    name: 'OpeningRefused',
    message: /^the store of the node one is being moved into/,
  });
  await opened.store.close();
});

await t.test('a folder that has been a node from the beginning has nothing to move', async (t) => {
  const { local, dataDir } = await usedStore(t, 20);
  const database = await lite.clear();
  const { store } = await new PgRig(t, database).open();
  const incarnation = '01999999-0000-7000-8000-000000000001';
  const claims = await FolderClaims.read(dataDir);
  await claims.claims(incarnation);
  await claims.claimed(incarnation);
  await (await store.carrier({ node: 'one', incarnation })).carryAll(local);
  const openPools = async () => Object.assign(await database.openPools(), { name: NAME });
  t.strictSame(await nothingToMove({ url: '', node: 'one', dataDir, openPools }), { kind: 'node' });
  const elsewhere = {
    url: '',
    node: 'one',
    dataDir,
    openPools: async () => Object.assign(await (await lite.clear()).openPools(), { name: NAME }),
  };
  t.strictSame(await (await Mover.open(database, dataDir)).move(local), { kind: 'node' });
  await store.close();
  t.match(await rejection(nothingToMove(elsewhere)), {
    message: /^this data folder is that of a node already, and this database does not/,
  });
});

await t.test('what is not the same on both sides is named, and nothing is moved', async (t) => {
  const { local, dataDir } = await usedStore(t, 20);
  const database = await lite.clear();
  const mover = await Mover.open(database, dataDir);
  mover.pools.around = async (text, send) => {
    const rows = await send();
    return text.includes('HAVING count(*)') ? rows.map((row) => ({ ...row, rows: `${Number(row['rows']) - 1}` })) : rows;
  };
  const { records } = await contentOf(local, isNodeSpace);
  t.match(await rejection(mover.move(local)), {
    message: `the database does not have what the data folder has: records: ${records} in the folder, ${records - 1} in the database. Nothing is moved`,
  });
  const { nodes, moves } = await lookAtDatabase({
    url: '',
    openPools: async () => Object.assign(await database.openPools(), { name: NAME }),
  });
  t.strictSame(nodes, []);
  t.match(moves, [{ node: 'one', stage: 'counting', finishedAt: undefined }]);
  t.equal((await FolderClaims.read(dataDir)).hasHistory, false);
});

await t.test('a key may be of any length, and what no database takes is named', async (t) => {
  const { local, dataDir } = await usedStore(t, 5);
  const long = 'x'.repeat(3_000);
  await local.commit(undefined, [put(long, 1, 'zz'), add(long, { n: 2n }, 'zz')]);
  const database = await lite.clear();
  t.match((await (await Mover.open(database, dataDir)).move(local)).kind, 'moved');
  const { store } = await new PgRig(t, database).open();
  t.equal(await store.get('zz', long), 1);
  t.strictSame(await store.counter('zz', long), { n: 2n });
  await store.close();

  await local.commit(undefined, [add(long, { [long]: 1n }, 'zz')]);
  t.match(await rejection((await Mover.open(await lite.clear(), tempDir(t))).move(local)), {
    message: /^the move broke off: what has the key x{100} in zz cannot be kept in a database: The name of an amount is at most 500 bytes/,
  });
});

await t.test('on a server', { skip: skipWithout(['postgresql']), timeout: 300_000 }, async (t) => {
  const server = await PostgresServer.start(t);
  await t.test('a store is moved whole', async (t) => wholeMove(t, await server.database()));

  await t.test('a process that dies leaves what goes on', async (t) => {
    const { local, dataDir } = await usedStore(t, 40);
    for (const n of [25, 40, 55]) {
      const database = await server.database();
      t.equal(await (await Mover.open(database, dataDir)).moveUntil(local, n, true), 'died');
      await database.quiet();
      t.match(await (await Mover.open(database, dataDir)).move(local), { kind: 'moved' });
      const { store } = await new PgRig(t, database).open();
      t.strictSame(await movedContent(store), await movedContent(local));
      await store.close();
    }
  });
});
