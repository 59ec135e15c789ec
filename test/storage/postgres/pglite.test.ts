// The contract on PostgreSQL in the process: on every machine, also where there is no server.
import t from 'tap';
import { storageContract } from '../../contract/storage.ts';
import { PgRig } from './pg-rig.ts';
import { PgliteDatabase } from './pglite-database.ts';

t.setTimeout(900_000);
const database = await PgliteDatabase.start(t);

await t.test('the PostgreSQL store keeps the contract on a database in the process', { timeout: 900_000 }, async (t) => {
  await storageContract(t, async (t) => new PgRig(t, await database.clear()).underTest());
});
