// The contract on a real server, through the client library.
import t from 'tap';
import { storageContract } from '../../contract/storage.ts';
import { skipWithout } from '../../support/peers.ts';
import { PgRig } from './pg-rig.ts';
import { PostgresServer } from './server.ts';

t.setTimeout(900_000);

await t.test('the PostgreSQL store keeps the contract', { skip: skipWithout(['postgresql']), timeout: 900_000 }, async (t) => {
  const server = await PostgresServer.start(t);
  await storageContract(t, async (t) => new PgRig(t, await server.database()).underTest());
});
