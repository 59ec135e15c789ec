// What somebody is told whose database does not open: one line that says what is wrong and what to do.
import { once } from 'node:events';
import { createServer } from 'node:net';
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { StoreError } from '../../../src/storage/contract/store.ts';
import { openStore } from '../../../src/storage/drivers/open-store.ts';
import { makeRecord, put, rejection, type Tap, until } from '../../contract/store-under-test.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { skipWithout } from '../../support/peers.ts';
import { closeServer, listenOnFreePort, trackSockets } from '../../support/tls-upstream.ts';
import { CHECKED_USER, PostgresServer } from './server.ts';

const skip = skipWithout(['postgresql']);
const PASSWORD = 'secret-word';

const open = (url: string, clock = fakeClock()) => openStore(url, { fsync: 'off', clock, log: silentLogger });

/** The message of an opening that is refused; it is one line and holds no secret. */
async function refusal(t: Tap, url: string): Promise<string> {
  const error = await rejection(open(url));
  t.ok(error instanceof Error, 'it is refused');
  const { message } = error as Error;
  t.notMatch(message, PASSWORD);
  t.notMatch(message, /\n|\bat .*\.js/);
  t.ok(message.length < 300, message);
  return message;
}

async function freePort(): Promise<number> {
  const server = createServer();
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  await closeServer(server, sockets);
  return port;
}

await t.test('a URL that is none, or that leads nowhere, says so', async (t) => {
  t.match(await refusal(t, `postgres://user:${PASSWORD}%@127.0.0.1/db`), /^the URL of the database cannot be read: .*%XX/);
  t.match(await refusal(t, `postgres://user:${PASSWORD}@[1/db`), /^the URL of the database cannot be read/);
  t.match(await refusal(t, `postgresql://user:${PASSWORD}@127.0.0.1`), /^the URL of the database names no database/);
  const port = await freePort();
  t.match(
    await refusal(t, `postgres://user:${PASSWORD}@127.0.0.1:${port}/db`),
    `nothing listens at 127.0.0.1 port ${port}: start PostgreSQL there`,
  );
  t.match(await refusal(t, `POSTGRES://user:${PASSWORD}@nowhere.invalid/db`), /the (host|address of the host) nowhere\.invalid/);
});

await t.test('a server that accepts and says nothing is given up after a time', async (t) => {
  const server = createServer();
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  t.teardown(() => closeServer(server, sockets));
  const clock = fakeClock();
  const accepted = once(server, 'connection');
  const opening = rejection(open(`postgres://user:${PASSWORD}@127.0.0.1:${port}/db`, clock));
  await accepted;
  clock.advance(20_000);
  t.match(await opening, { message: `PostgreSQL at 127.0.0.1 port ${port} is too slow or locked: it was not open after 20 s` });
});

await t.test('what a server says to who may not open its store', { skip }, async (t) => {
  const server = await PostgresServer.start(t);
  await server.sql(`CREATE USER ${CHECKED_USER} PASSWORD 'right'; CREATE USER poor`);
  const database = await server.createDatabase();
  const url = (user: string, name = database) => `postgres://${user}@127.0.0.1:${server.port}/${name}`;

  await t.test('a wrong password, an unknown user, an unknown database', async (t) => {
    t.match(await refusal(t, url(`${CHECKED_USER}:${PASSWORD}`)), /^PostgreSQL at 127\.0\.0\.1 refuses the password of checked: correct/);
    t.match(await refusal(t, url(`stranger:${PASSWORD}`)), /does not let stranger in \(.*\): allow it in pg_hba\.conf$/);
    t.match(await refusal(t, url('postgres', 'nothing')), /^PostgreSQL at 127\.0\.0\.1 has no database nothing: create it/);
  });

  await t.test('a privilege that is missing, and a database that takes no writes', async (t) => {
    t.match(
      await refusal(t, url('poor')),
      /^the user poor lacks a privilege in the database test_\d+ \(permission denied for schema public\): GRANT/,
    );
    const still = await server.createDatabase();
    await server.sql(`ALTER DATABASE ${still} SET default_transaction_read_only = on`);
    t.match(await refusal(t, url('postgres', still)), /takes no writes: name the primary, not a standby$/);
    const bare = await server.createDatabase();
    await server.sql('DROP SCHEMA public', bare);
    t.match(await refusal(t, url('postgres', bare)), /^the database test_\d+ has no schema on the search path/);
  });

  await t.test('an encoding that has not all characters', async (t) => {
    const latin = await server.createDatabase(`ENCODING 'LATIN1'`);
    t.match(
      await refusal(t, url('postgres', latin)),
      /^the database test_\d+ has the encoding LATIN1: create one with createdb --encoding UTF8/,
    );
  });

  await t.test('a schema of a newer version, which stays as it is', async (t) => {
    const newer = await server.createDatabase();
    await server.sql('CREATE TABLE gw_schema (version integer); INSERT INTO gw_schema VALUES (99)', newer);
    const error = await rejection(open(url('postgres', newer)));
    t.ok(error instanceof StoreError);
    t.match(error, { code: 'newer_format', message: /^the database has schema version 99, this program knows up to \d+: run the newer/ });
    t.strictSame(await server.sql(`SELECT count(*)::int AS n FROM pg_class WHERE relname LIKE 'gw_%'`, newer), [{ n: 1 }]);
  });

  await t.test('a store that is opened is shared, and has what was stored when it is opened again', async (t) => {
    const name = await server.createDatabase();
    const opened = await Promise.all([open(url('postgres', name)), open(url('postgres', name).replace('postgres:', 'postgresql:'))]);
    for (const [n, { store, isShared, sync }] of opened.entries()) {
      t.equal(isShared, true);
      const commit = store.commit(makeRecord(n), [put(`k${n}`, n)]);
      await sync();
      await commit;
    }
    for (const { store } of opened) {
      t.equal((await store.list('e')).length, 2);
      await store.close();
    }
    t.strictSame(await server.sql('SELECT count(*)::int AS n FROM gw_writers', name), [{ n: 0 }], 'a writer that is closed is forgotten');
    await until(async () => (await server.sql(`SELECT 1 AS n FROM pg_stat_activity WHERE datname = '${name}'`)).length === 0);
  });
});
