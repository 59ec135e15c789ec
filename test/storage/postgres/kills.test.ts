// Processes, servers and connections that die in the middle of commits: what was acknowledged is there, once, and what
// was refused never appears.
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openPostgresStore } from '../../../src/storage/postgres/open-postgres-store.ts';
import { add, isUnavailable, makeRecord, put, rejection, type Tap, until } from '../../contract/store-under-test.ts';
import { type Child, launch } from '../../support/child.ts';
import { CuttableLink } from '../../support/cuttable-link.ts';
import { runningClock } from '../../support/fake-clock.ts';
import { skipWithout } from '../../support/peers.ts';
import { PgRig } from './pg-rig.ts';
import { PostgresServer } from './server.ts';

const CHILD = fileURLToPath(new URL('./writing-child.js', import.meta.url));
const skip = skipWithout(['postgresql']);

/** Numbers that a child has printed, those of refused commits apart. */
function printed({ stdout }: Child): { readonly stored: readonly number[]; readonly refused: readonly number[] } {
  const lines = stdout.slice(0, stdout.lastIndexOf('\n') + 1).split('\n');
  return {
    stored: lines.filter((line) => /^\d+$/.test(line)).map(Number),
    refused: lines.flatMap((line) => /^refused (\d+)$/.exec(line)?.[1] ?? []).map(Number),
  };
}

/** Everything that is acknowledged is there, nothing that was refused is, and each commit is whole. */
async function agree(t: Tap, store: Store, stored: readonly number[], refused: readonly number[]): Promise<void> {
  const there = new Set((await store.list('e')).map(({ value }) => value as number));
  t.strictSame(
    stored.filter((n) => !there.has(n)),
    [],
    'no acknowledged commit is lost',
  );
  t.strictSame(
    refused.filter((n) => there.has(n)),
    [],
    'no refused commit is there',
  );
  const ids = new Set<string>();
  for (let after: string | undefined; ; ) {
    const page = await store.records({ limit: 1_000, ...(after === undefined ? {} : { after }) });
    for (const { text } of page) ids.add((JSON.parse(text) as { record_id: string }).record_id);
    after = page.at(-1)?.position;
    if (page.length < 1_000) break;
  }
  t.strictSame(ids, new Set([...there].map((n) => makeRecord(n).record_id)));
  t.strictSame(await store.counter('c', 'total'), { n: BigInt(there.size) });
}

t.setTimeout(300_000);

await t.test('what dies in the middle of commits', { skip, timeout: 300_000 }, async (t) => {
  const server = await PostgresServer.start(t);
  const openOn = async (t: Tap, url: string): Promise<Store> => {
    const store = await openPostgresStore({ url, clock: runningClock, log: silentLogger });
    t.teardown(() => store.close());
    return store;
  };

  await t.test('a process that is killed leaves whole commits, and all that it was told of', async (t) => {
    const database = await server.database();
    const url = server.url(database.name);
    const all: number[] = [];
    for (const [kill, concurrency] of ['1', '16', '64'].entries()) {
      const child = launch(t, process.execPath, [CHILD, url, `${kill * 100_000 + 1}`, concurrency]);
      await until(() => printed(child).stored.length >= 150);
      child.kill('SIGKILL');
      await child.ended;
      await database.quiet();
      all.push(...printed(child).stored);
      const store = await openOn(t, url);
      await agree(t, store, all, []);
      await store.close();
    }
  });

  await t.test('a server that is killed and starts again, with two processes that commit', async (t) => {
    const database = await server.database();
    const url = server.url(database.name);
    const children = [1, 2].map((n) => launch(t, process.execPath, [CHILD, url, `${n * 100_000}`, '16']));
    for (const signal of ['SIGKILL', 'SIGINT', 'SIGKILL'] as const) {
      const before = children.map((child) => printed(child).stored.length);
      await until(() => children.every((child, n) => printed(child).stored.length >= (before[n] ?? 0) + 100));
      await server.stop(signal);
      await server.run();
    }
    const before = children.map((child) => printed(child).stored.length);
    await until(() => children.every((child, n) => printed(child).stored.length >= (before[n] ?? 0) + 100));
    for (const child of children) child.kill('SIGKILL');
    await Promise.all(children.map(({ ended }) => ended));
    await database.quiet();
    const outcomes = children.map(printed);
    t.ok(outcomes.some(({ refused }) => refused.length > 0));
    const all = (of: 'stored' | 'refused') => outcomes.flatMap((one) => one[of]);
    await agree(t, await openOn(t, url), all('stored'), all('refused'));
  });

  await t.test('a commit whose answer is lost resolves when it is stored, and rejects when it is not', async (t) => {
    const rig = new PgRig(t, await server.database());
    const { store, pools } = await rig.open();
    const lose = (sends: boolean) => {
      let left = 1;
      pools.around = async (text, send) => {
        if (text !== 'COMMIT' || left-- <= 0) return send();
        if (sends) await send();
        throw new Error('Connection terminated unexpectedly');
      };
    };
    lose(true);
    await store.commit(makeRecord(1), [put('a', 1)]);
    t.equal(await store.get('e', 'a'), 1);
    lose(false);
    const refused = [store.commit(makeRecord(2), [put('a', 2)]), store.commit(makeRecord(3), [put('a', 3)])];
    for (const commit of refused) t.ok(isUnavailable(await rejection(commit)));
    t.equal(await store.get('e', 'a'), 1);
    t.equal(store.writable, false);
    rig.clock.advance(500);
    await until(() => store.writable);
    await store.commit(makeRecord(2), []);
    t.equal((await store.records({ limit: 9 })).length, 2);
  });

  await t.test('nobody is told what is not known: a commit waits until its database can be asked', async (t) => {
    const rig = new PgRig(t, await server.database());
    const { store, pools } = await rig.open();
    let isAway = false;
    pools.around = async (text, send) => {
      if (text === 'COMMIT') {
        await send();
        isAway = true;
      }
      if (isAway) throw new Error('Connection terminated unexpectedly');
      return send();
    };
    let settled = false;
    const commit = store.commit(makeRecord(1), [put('a', 1)]).finally(() => {
      settled = true;
    });
    await until(() => isAway && !store.writable);
    t.ok(isUnavailable(await rejection(store.commit(makeRecord(2), []))));
    const read = rejection(store.get('e', 'a'));
    for (let tries = 0; tries < 10; tries += 1) {
      rig.clock.advance(500);
      await until(() => rig.clock.pending > 0);
    }
    t.match(await read, { code: 'record_store_unavailable' });
    t.equal(settled, false);
    pools.around = undefined;
    await until(() => {
      rig.clock.advance(500);
      return settled;
    });
    await commit;
    t.equal(await store.get('e', 'a'), 1);
    t.equal(store.writable, true);
  });

  await t.test('links that break again and again in the middle of commits', async (t) => {
    const database = await server.database();
    const link = await CuttableLink.start(t, server.port);
    const store = await openOn(t, server.url(database.name, 'postgres', link.port));
    const [stored, refused]: [number[], number[]] = [[], []];
    let over = false;
    let next = 0;
    const work = async (): Promise<void> => {
      while (!over) {
        const n = next++;
        const error = await rejection(store.commit(makeRecord(n), [add('total', { n: 1n }), put(`k${n}`, n)]));
        (error === undefined ? stored : refused).push(n);
        await until(() => store.writable || over);
      }
    };
    const working = Promise.all(Array.from({ length: 8 }, work));
    for (let cut = 0; cut < 8; cut += 1) {
      const before = stored.length;
      await until(() => stored.length >= before + 20 + cut * 7);
      link.cut();
      link.resume();
    }
    over = true;
    await working;
    t.ok(refused.length > 0);
    await until(() => store.writable);
    await agree(t, store, stored, refused);
  });
});
