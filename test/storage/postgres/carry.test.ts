// The journal of a node is carried into a database once, whatever breaks on the way.
import t from 'tap';
import type { Effect, Store } from '../../../src/storage/contract/store.ts';
import { counterRows, entityRows } from '../../../src/storage/contract/store-pages.ts';
import type { EmbeddedStore } from '../../../src/storage/embedded/embedded-store.ts';
import { add, makeRecord, put, rejection, type Tap, texts } from '../../contract/store-under-test.ts';
import { skipWithout } from '../../support/peers.ts';
import { fc } from '../../support/properties.ts';
import { StoreRig } from '../embedded/store-rig.ts';
import { type OpenedRig, PgRig } from './pg-rig.ts';
import { PgliteDatabase } from './pglite-database.ts';
import { PostgresServer } from './server.ts';

const NODE = { node: 'one', incarnation: 'folder-1' };

/** All that a store holds and others can see. */
async function contentOf(store: Store): Promise<unknown> {
  const entities: unknown[] = [];
  for await (const row of entityRows(store, 'e')) entities.push(row);
  const counters: unknown[] = [];
  for await (const row of counterRows(store, 'c')) counters.push(row);
  return { records: await texts(store, { limit: 10_000 }), entities, counters };
}

async function commitSome(store: EmbeddedStore, from: number, count: number): Promise<void> {
  for (let n = from; n < from + count; n += 1)
    await store.commit(n % 3 === 0 ? undefined : makeRecord(n, { pad: 400 }), [
      add(`k${n % 4}`, { n: 1n, usd: BigInt(n) ** 12n }),
      n % 5 === 4 ? { op: 'delete', space: 'e', key: `a${n % 7}` } : put(`a${n % 7}`, { n }),
    ]);
}

const database = await PgliteDatabase.start(t);

async function place(t: Tap): Promise<{ readonly local: EmbeddedStore; readonly rig: PgRig }> {
  const rig = new PgRig(t, await database.clear());
  return { local: await new StoreRig(t).open(), rig };
}

await t.test('what a journal has is in the database, and what comes later follows', async (t) => {
  const { local, rig } = await place(t);
  const { store } = await rig.open();
  const carrier = await store.carrier(NODE);
  t.equal(await carrier.position(), undefined);
  t.equal(await carrier.carryAll(local), 0, 'of nothing');
  await commitSome(local, 1, 60);
  t.equal(await carrier.carryAll(local, { commits: 7, bytes: 1_000_000 }), 60);
  t.strictSame(await contentOf(store), await contentOf(local));
  t.equal(await carrier.carryAll(local), 0, 'nothing twice');
  await commitSome(local, 61, 10);
  t.equal(await (await store.carrier(NODE)).carryAll(local), 10);
  t.strictSame(await contentOf(store), await contentOf(local));
});

await t.test('each commit arrives once, whatever breaks and whoever dies', { timeout: 300_000 }, async (t) => {
  /** What becomes of a statement: it is refused, it is answered, its answer is lost, or the process dies behind it. */
  const fates = ['sent', 'sent', 'sent', 'refused', 'lost', 'dies'] as const;
  const step = fc.record({
    commits: fc.nat({ max: 12 }),
    pieces: fc.integer({ min: 1, max: 6 }),
    fates: fc.array(fc.constantFrom(...fates), { maxLength: 12 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 5 }), async (steps) => {
      const { local, rig } = await place(t);
      let done = 0;
      let opened = await rig.open();
      for (const { commits, pieces, fates: coming } of steps) {
        await commitSome(local, done + 1, commits);
        done += commits;
        const left = [...coming];
        await tryToCarry(local, opened, pieces, left);
        if (opened.pools.dead) {
          await database.quiet();
          opened = await rig.open();
        }
      }
      await (await opened.store.carrier(NODE)).carryAll(local);
      t.strictSame(await contentOf(opened.store), await contentOf(local));
      await opened.store.close();
      await local.close();
    }),
    { numRuns: Number(process.env['PROOF_CARRY_RUNS'] ?? 12) },
  );
});

/** Carries while statements meet these fates, until none is left or nothing goes on. */
async function tryToCarry(local: EmbeddedStore, { store, pools }: OpenedRig, pieces: number, fates: string[]): Promise<void> {
  const carrier = await store.carrier(NODE);
  let died = (): void => undefined;
  const dead = new Promise<void>((resolve) => (died = resolve));
  pools.around = async (_text, send) => {
    const fate = fates.shift();
    if (fate === 'refused') throw Object.assign(new Error('deadlock detected'), { code: '40P01', severity: 'ERROR' });
    const rows = await send();
    if (fate === 'lost') throw new Error('Connection terminated unexpectedly');
    if (fate === 'dies') {
      pools.die();
      died();
    }
    return rows;
  };
  while (fates.length > 0 && !pools.dead) {
    const carried = carrier.carryAll(local, { commits: pieces, bytes: 1_000_000 }).then(
      () => true,
      () => false,
    );
    // Who is dead hears no answer.
    if ((await Promise.race([carried, dead])) === true) break;
  }
  pools.around = undefined;
}

await t.test('a data folder that was copied is refused, until it takes the place of the other one', async (t) => {
  const { local, rig } = await place(t);
  const { store } = await rig.open();
  await commitSome(local, 1, 5);
  const carrier = await store.carrier(NODE);
  await carrier.carryAll(local);
  const copy = { ...NODE, incarnation: 'folder-2' };
  const refused = await rejection(store.carrier(copy));
  t.match(refused, { name: 'OpeningRefused', message: /^the database knows the node one by another data folder: this one was copied/ });

  const other = await new StoreRig(t).open();
  await commitSome(other, 100, 4);
  const adopted = await store.carrier(copy, true);
  t.equal(await adopted.position(), undefined, 'its journal is carried from its beginning');
  t.equal(await adopted.carryAll(other), 4);
  await commitSome(local, 6, 1);
  t.match(await rejection(carrier.carryAll(local)), { name: 'OpeningRefused' });
  t.equal((await texts(store, { limit: 100 })).length, 4 + 3, 'nothing of the first one is there twice, or behind its end');
});

await t.test('a record that is there by another way is left out and told of', async (t) => {
  const { local, rig } = await place(t);
  const { store } = await rig.open();
  const carrier = await store.carrier(NODE);
  await store.commit(makeRecord(2), [add('k', { n: 1n })]);
  const effects: readonly Effect[] = [add('k', { n: 1n })];
  const commits = [1, 2, 3].map((n) => ({ record: makeRecord(n), effects }));
  t.strictSame(await carrier.carry({ from: undefined, commits, next: '0000000100000100' }), {
    isStored: true,
    position: '0000000100000100',
    known: [makeRecord(2).record_id],
  });
  t.strictSame(await store.counter('c', 'k'), { n: 3n });
  t.strictSame(await carrier.carry({ from: undefined, commits, next: '0000000100000100' }), {
    isStored: false,
    position: '0000000100000100',
    known: [],
  });
  t.strictSame(await store.counter('c', 'k'), { n: 3n }, 'a piece that is there is not stored again');
  const many = Array.from({ length: 1_025 }, () => ({ record: undefined, effects }));
  t.match(await rejection(carrier.carry({ from: undefined, commits: many, next: '0000000100000200' })), { name: 'RangeError' });
  await local.close();
});

await t.test('on a server', { skip: skipWithout(['postgresql']) }, async (t) => {
  const server = await PostgresServer.start(t);

  await t.test('a database that was set back is fed again from where it stands', async (t) => {
    const local = await new StoreRig(t).open();
    const base = await server.database();
    const before = await new PgRig(t, base).open();
    await commitSome(local, 1, 30);
    await (await before.store.carrier(NODE)).carryAll(local);
    await before.store.close();
    // What a backup of now brings back later.
    await server.sql(`CREATE DATABASE restored TEMPLATE ${base.name}`);
    const rig = new PgRig(t, base);
    const { store } = await rig.open();
    await commitSome(local, 31, 30);
    await (await store.carrier(NODE)).carryAll(local);
    await commitSome(local, 61, 5);

    const restored = await new PgRig(t, server.named('restored')).open();
    t.equal(await (await restored.store.carrier(NODE)).carryAll(local), 35);
    t.strictSame(await contentOf(restored.store), await contentOf(local));
  });

  await t.test('of several that carry one journal at once each commit comes from one', async (t) => {
    const local = await new StoreRig(t).open();
    await commitSome(local, 1, 200);
    const rig = new PgRig(t, await server.database());
    const opened = await Promise.all([rig.open(), rig.open(), rig.open()]);
    const counts = await Promise.all(
      opened.map(async ({ store }, at) => (await store.carrier(NODE)).carryAll(local, { commits: 3 + at, bytes: 1_000_000 })),
    );
    t.equal(
      counts.reduce((all, one) => all + one, 0),
      200,
    );
    t.strictSame(await contentOf(opened[0].store), await contentOf(local));
  });
});
