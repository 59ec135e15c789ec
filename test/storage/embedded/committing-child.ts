/*
 * A process that is killed: opens a store and commits without end, `concurrency` commits under way, printing the number
 * of each acknowledged one. Prints `refused …` when the store does not open.
 *   node committing-child.js <dir> <first number> <concurrency> <fsync>
 */
import { writeSync } from 'node:fs';
import { systemClock } from '../../../src/base/lib/clock.ts';
import { StoreError } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { makeRecord } from '../../contract/store-under-test.ts';

const [dir = '', first = '1', concurrency = '1', fsync = 'off'] = process.argv.slice(2);
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };

try {
  const options = {
    dir,
    fsync: fsync === 'off' || fsync === 'always' ? fsync : Number(fsync),
    clock: systemClock,
    log,
    segmentBytes: 128 * 1024,
  } as const;
  const store = await openEmbeddedStore(options);
  let next = Number(first);
  const work = async (): Promise<void> => {
    for (;;) {
      const n = next++;
      await store.commit(makeRecord(n, { pad: (n * 31) % 700 }), [
        { op: 'add', space: 'c', key: 'total', amounts: { n: 1n } },
        { op: 'put', space: 'e', key: `last-${n % 10}`, value: n },
      ]);
      writeSync(1, `${n}\n`);
    }
  };
  await Promise.all(Array.from({ length: Number(concurrency) }, work));
} catch (error) {
  if (!(error instanceof StoreError)) throw error;
  writeSync(1, `refused ${error.message}\n`);
}
