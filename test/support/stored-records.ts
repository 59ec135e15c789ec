import { join } from 'node:path';
import { silentLogger } from '../../src/base/lib/log.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { runningClock } from './fake-clock.ts';

/** Every record below a data folder that no gateway has any more, in order of commit; a thousand at most. */
export async function storedRecords(dataDir: string): Promise<readonly Record<string, unknown>[]> {
  const store = await openEmbeddedStore({ dir: join(dataDir, 'store'), fsync: 'off', clock: runningClock, log: silentLogger });
  try {
    return (await store.records({ limit: 1_000 })).map(({ text }) => JSON.parse(text) as Record<string, unknown>);
  } finally {
    await store.close();
  }
}
