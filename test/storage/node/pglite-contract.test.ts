// The contract by a node that has its own journal and a database in the process: on every machine.
import t from 'tap';
import { storageContract } from '../../contract/storage.ts';
import { PgliteDatabase } from '../postgres/pglite-database.ts';
import { nodeUnderTest } from './node-rig.ts';

t.setTimeout(900_000);
const database = await PgliteDatabase.start(t);

await t.test('the store of a node keeps the contract', { timeout: 900_000 }, async (t) => {
  await storageContract(t, async (t) => nodeUnderTest(t, await database.clear()));
});
