/*
 * A process that is killed: opens a store and commits without end, `concurrency` commits under way, printing the number
 * of each acknowledged one, and `refused N` for one that is not stored.
 *   node writing-child.js <url> <first number> <concurrency>
 */
import { writeSync } from 'node:fs';
import { systemClock } from '../../../src/base/lib/clock.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { openPostgresStore } from '../../../src/storage/postgres/open-postgres-store.ts';
import { makeRecord, put } from '../../contract/store-under-test.ts';

const [url = '', first = '1', concurrency = '1'] = process.argv.slice(2);
const store = await openPostgresStore({ url, clock: systemClock, log: silentLogger });
let next = Number(first);

async function work(): Promise<void> {
  for (;;) {
    const n = next++;
    const record = makeRecord(n, { pad: (n * 31) % 700 });
    await store.commit(record, [{ op: 'add', space: 'c', key: 'total', amounts: { n: 1n } }, put(`k${n}`, n)]).then(
      () => writeSync(1, `${n}\n`),
      async () => {
        writeSync(1, `refused ${n}\n`);
        while (!store.writable) await new Promise((resolve) => setTimeout(resolve, 20));
      },
    );
  }
}

// What it waits for keeps no process alive.
setInterval(() => undefined, 60_000);
await Promise.all(Array.from({ length: Number(concurrency) }, work));
