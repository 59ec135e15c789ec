import { systemClock } from '../base/lib/clock.ts';
import { silentLogger } from '../base/lib/log.ts';
import { openStoreIn, requireStore } from './data-folder.ts';

const PAGE = 500;

/**
 * The texts of all records in a data folder, newest first. For commands: no gateway may have the folder open.
 * @throws StoreError when one has, or when the store is damaged; Error when there is no store
 */
export async function* storedRecords(dataDir: string): AsyncGenerator<string> {
  await requireStore(dataDir, '--data');
  const { store } = await openStoreIn(dataDir, { fsync: 'off', clock: systemClock, log: silentLogger }, '--data');
  try {
    let after: string | undefined;
    for (;;) {
      const page = await store.records({ limit: PAGE, newestFirst: true, ...(after === undefined ? {} : { after }) });
      for (const { text } of page) yield text;
      after = page.at(-1)?.position;
      if (after === undefined) return;
    }
  } finally {
    await store.close();
  }
}
