// Several stores on one database: what one does, others are told, and none undoes what another has done.
import t from 'tap';
import type { EntityEvent, Store } from '../../../src/storage/contract/store.ts';
import { add, EPOCH, isUnavailable, makeRecord, put, rejection, type Tap, texts, turns, until } from '../../contract/store-under-test.ts';
import { skipWithout } from '../../support/peers.ts';
import { type OpenedRig, PgRig } from './pg-rig.ts';
import { PostgresServer } from './server.ts';

const skip = skipWithout(['postgresql']);

interface Place {
  readonly rig: PgRig;
  readonly one: OpenedRig;
  readonly other: OpenedRig;
  readonly sql: (text: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;
}

/** Notes what a watcher is told, as `key=value`, `key gone` and `lost`. */
async function told(store: Store, space = 'e'): Promise<{ readonly events: string[]; end(): void }> {
  const events: string[] = [];
  const end = await store.watch(space, (event: EntityEvent) => {
    if (event.lost) events.push('lost');
    else events.push(event.version === undefined ? `${event.key} gone` : `${event.key}=${JSON.stringify(event.value)}`);
  });
  return { events, end };
}

const gone = (key: string) => ({ op: 'delete', space: 'e', key }) as const;

await t.test('stores of one database', { skip }, async (t) => {
  const server = await PostgresServer.start(t);
  const place = async (t: Tap): Promise<Place> => {
    const database = await server.database();
    const rig = new PgRig(t, database);
    const [one, other] = await Promise.all([rig.open(), rig.open()]);
    return { rig, one, other, sql: (text) => server.sql(text, database.name) };
  };
  /** Lets the stores look until a watcher has been told so much. */
  const look = async (rig: PgRig, events: readonly string[], count: number): Promise<void> =>
    until(() => {
      rig.clock.advance(500);
      return events.length >= count;
    });

  await t.test('each is told what the other does, its own at once, and nothing twice', async (t) => {
    const { rig, one, other } = await place(t);
    await one.store.commit(undefined, [put('before', 1)]);
    const [ones, others] = [await told(one.store), await told(other.store)];
    const armed = rig.clock.pending;
    await one.store.commit(undefined, [put('a', 1), put('b', 1), put('a', 2, 'elsewhere')]);
    t.strictSame(ones.events, ['a=1', 'b=1']);
    t.strictSame(others.events, []);
    await look(rig, others.events, 2);
    await other.store.commit(undefined, [gone('b'), put('c', 1)]);
    await one.store.commit(undefined, [put('c', 2)]);
    await one.store.commit(undefined, [put('d', 1)]);
    await look(rig, ones.events, 5);
    await look(rig, others.events, 6);
    t.strictSame(ones.events, ['a=1', 'b=1', 'c=2', 'd=1', 'b gone']);
    t.strictSame(others.events, ['a=1', 'b=1', 'b gone', 'c=1', 'c=2', 'd=1']);
    // A look that is under way still would be the one that is counted.
    await until(() => rig.clock.pending >= armed);
    const asked = other.pools.sent.length;
    rig.clock.advance(500);
    await until(() => other.pools.sent.length > asked);
    await turns();
    t.equal(other.pools.sent.length, asked + 1, 'where nothing has happened the row of changes alone is read');
  });

  await t.test('nobody looks while nobody watches', async (t) => {
    const { rig, one } = await place(t);
    const idle = rig.clock.pending;
    const [first, second] = [await told(one.store), await told(one.store, 'elsewhere')];
    t.equal(rig.clock.pending, idle + 1, 'one look for all');
    first.end();
    t.equal(rig.clock.pending, idle + 1);
    second.end();
    t.equal(rig.clock.pending, idle);
  });

  await t.test('who is behind what is remembered of deletions is told that something is lost', async (t) => {
    const { rig, one, other, sql } = await place(t);
    await one.store.commit(undefined, [put('a', 1), put('b', 1)]);
    const { events } = await told(other.store);
    await one.store.commit(undefined, [gone('a')]);
    await sql(`UPDATE gw_deletions SET at = now() - interval '2 hours'`);
    rig.clock.advance(60_000);
    await until(async () => {
      await one.store.commit(undefined, [add('k', { n: 1n })]);
      return (await sql('SELECT 1 AS n FROM gw_deletions')).length === 0;
    });
    await until(() => {
      rig.clock.advance(500);
      return events.length > 0;
    });
    // It may have looked before the deletion was forgotten.
    t.ok(['lost', 'a gone'].includes(events[0] ?? ''), 'it is told of it, or that it has lost something');
    await sql(`UPDATE gw_state SET change = 1`);
    await look(rig, events, 2);
    t.equal(events[1], 'lost', 'a database that was set back');
  });

  await t.test('of those who expect the same in two stores one takes place', async (t) => {
    const { one, other } = await place(t);
    await one.store.commit(undefined, [put('chain', [])]);
    const decide = async (n: number): Promise<void> => {
      const { store } = n % 2 === 0 ? one : other;
      for (;;) {
        const chain = await store.entity('e', 'chain');
        const next = [...((chain?.value ?? []) as number[]), n];
        const error = await rejection(
          store.commit(undefined, [put('chain', next)], [{ space: 'e', key: 'chain', version: chain?.version }]),
        );
        if (error === undefined) return;
        t.match(error, { code: 'conflict' });
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, n) => decide(n)));
    t.equal(new Set((await other.store.get('e', 'chain')) as number[]).size, 20);
    const twice = [one, other].map(({ store }) => store.commit(makeRecord(1), [add('k', { n: 1n })]));
    t.strictSame((await Promise.allSettled(twice)).map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
    t.strictSame(await one.store.counter('c', 'k'), { n: 1n });
    await one.store.commit(makeRecord(3), []);
    await other.store.commit(makeRecord(2), []);
    t.match(await rejection(one.store.commit(makeRecord(2), [])), { code: 'conflict' });
  });

  await t.test('a transaction that a deadlock has ended is done once more', async (t) => {
    const { one, other } = await place(t);
    let failures = 3;
    one.pools.around = (text, send) => {
      if (!text.startsWith('WITH part0') || failures-- <= 0) return send();
      const code = failures === 1 ? '40001' : '40P01';
      return Promise.reject(Object.assign(new Error('deadlock detected'), { code, severity: 'ERROR' }));
    };
    await Promise.all([one.store.commit(makeRecord(1), [add('k', { n: 1n })]), one.store.commit(undefined, [add('k', { n: 2n })])]);
    t.strictSame(await other.store.counter('c', 'k'), { n: 3n });
    t.ok(failures < 0);
    t.equal(one.store.writable, true);
  });

  await t.test('what no database keeps is refused alone', async (t) => {
    const { one } = await place(t);
    const { store } = one;
    const ends = await Promise.allSettled([
      store.commit(makeRecord(1), [put('a', 1)]),
      store.commit(makeRecord(2), [add('k', { n: 10n ** 140_000n })]),
      store.commit(makeRecord(3), [put('b', 1)]),
    ]);
    t.strictSame(
      ends.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    t.ok(ends[1]?.status === 'rejected' && isUnavailable(ends[1].reason));
    t.strictSame(await texts(store, { limit: 9 }), [makeRecord(1).text, makeRecord(3).text]);
    t.equal(store.writable, true);
  });

  await t.test('months that are old enough are removed whole, and are there again when they are needed', async (t) => {
    const { one, other, sql } = await place(t);
    const months = [0, 1, 2, 3].map((n) => Date.UTC(2026, 5 + n, 30, 23, 59, 59));
    for (const [n, at] of months.entries()) {
      for (let more = 0; more < 3; more += 1) await one.store.commit(makeRecord(n * 10 + more, { committed_at: at + more * 500 }), []);
    }
    const partitions = async () =>
      (await sql(`SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'gw_records'::regclass ORDER BY 1`)).map(
        ({ name }) => name,
      );
    t.ok((await partitions()).includes('gw_records_2026_06'));
    await other.store.commit(makeRecord(500, { committed_at: Date.UTC(2026, 5, 1) }), []);
    t.equal(await one.store.removeRecordsBefore((months[2] ?? 0) + 500), 3 + 1 + 3 + 1);
    t.strictSame((await partitions()).slice(0, 2), ['gw_records_2026_08', 'gw_records_2026_09']);
    await other.store.commit(makeRecord(501, { committed_at: Date.UTC(2026, 5, 2) }), []);
    await one.store.commit(makeRecord(502, { committed_at: EPOCH }), []);
    t.equal((await other.store.records({ limit: 99 })).length, 12 - 7 + 2);
    t.equal(await one.store.removeRecordsBefore(Number.NaN), 0);
  });

  await t.test('who does not wait for a page any more is let go, and so is its connection', async (t) => {
    const { one, sql } = await place(t);
    await one.store.commit(makeRecord(1), []);
    const waiting = `SELECT 1 AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    const lock = sql('BEGIN; LOCK TABLE gw_records IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(2); COMMIT; SELECT 1 AS n');
    const waits = (count: number) => until(async () => (await sql(waiting)).length === count);
    const end = new AbortController();
    await until(
      async () =>
        (await sql(`SELECT 1 AS n FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = 'gw_records'::regclass`))
          .length > 0,
    );
    const page = rejection(one.store.records({ limit: 1, signal: end.signal }));
    await waits(1);
    end.abort(new Error('nobody waits'));
    t.match(await page, { message: 'nobody waits' });
    await waits(0);
    await lock;
    t.equal((await one.store.records({ limit: 1, signal: new AbortController().signal })).length, 1);
    t.match(await rejection(one.store.records({ limit: 1, signal: AbortSignal.abort(new Error('too late')) })), { message: 'too late' });
  });
});
