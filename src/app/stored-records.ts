import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../base/lib/clock.ts';
import { silentLogger } from '../base/lib/log.ts';
import { openEmbeddedStore } from '../storage/embedded/open-embedded-store.ts';

const PAGE = 500;

/**
 * The texts of all records in a data folder, newest first. For commands: no gateway may have the folder open.
 * @throws StoreError when one has, or when the store is damaged; Error when there is no store
 */
export async function* storedRecords(dataDir: string): AsyncGenerator<string> {
  const dir = join(dataDir, 'store');
  // Opening makes a store where there is none, and a wrong path is no reason for that.
  await stat(join(dir, 'format')).catch((cause: unknown) => {
    throw new Error('there is no store of a gateway in this folder', { cause });
  });
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock: systemClock, log: silentLogger });
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
