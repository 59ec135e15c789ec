import t from 'tap';
import { storageContract } from '../../contract/storage.ts';
import { makeRecord, turns, until } from '../../contract/store-under-test.ts';
import { StoreRig } from './store-rig.ts';

for (const fsync of ['off', 1000, 'always'] as const) {
  await t.test(`the embedded store keeps the contract with fsync ${fsync}`, async (t) => {
    await storageContract(t, async (t) => {
      const rig = new StoreRig(t, { fsync });
      let store = await rig.open();
      let deaths = 0;
      return {
        store,
        async reopen() {
          await store.close();
          store = await rig.open();
          return store;
        },
        async reopenAfterDeath() {
          deaths += 1;
          return rig.open(rig.snapshot(`death-${deaths}`));
        },
        failWrites(failing) {
          rig.files.room = failing ? 100 : Number.POSITIVE_INFINITY;
        },
        async waitForProbe() {
          const before = rig.files.asynchronousWrites;
          rig.clock.advance(1_000);
          await until(() => rig.files.asynchronousWrites > before);
          await turns(200);
          if (rig.files.room === Number.POSITIVE_INFINITY) await until(() => store.writable);
        },
      };
    });
  });
}

await t.test('sync resolves with commits around it', async (t) => {
  const store = await new StoreRig(t, { fsync: 'off' }).open();
  const commit = store.commit(makeRecord(1), []);
  await store.sync();
  await commit;
  await store.sync();
  t.equal((await store.records({ limit: 5 })).length, 1);
});
