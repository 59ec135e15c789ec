import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { makeRecord, type Tap } from '../../contract/store-under-test.ts';
import { StoreRig } from './store-rig.ts';

const CHILD = fileURLToPath(new URL('./committing-child.js', import.meta.url));
/** `npm run proof` asks for 50. */
const KILLS = Number(process.env['PROOF_KILLS'] ?? 5);
const TIMEOUT_MS = 900_000 + KILLS * 20_000;

t.setTimeout(TIMEOUT_MS);

/** Lets a child commit, kills it after so many acknowledgements, and returns their numbers. */
async function commitUntilKilled(
  t: Tap,
  dir: string,
  first: number,
  acknowledgements: number,
  options: readonly string[],
): Promise<number[]> {
  const child = spawn(process.execPath, [CHILD, dir, String(first), ...options], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  let output = '';
  let lines = 0;
  child.stdout.setEncoding('latin1').on('data', (text: string) => {
    output += text;
    lines += text.split('\n').length - 1;
    if (lines >= acknowledgements) child.kill('SIGKILL');
  });
  await new Promise((resolve) => child.on('close', resolve));
  return output
    .slice(0, output.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map(Number);
}

await t.test(
  `after SIGKILL in the middle of committing, ${KILLS} times, every acknowledged commit is there, once`,
  { timeout: TIMEOUT_MS },
  async (t) => {
    const rig = new StoreRig(t);
    let first = 1;
    for (let kill = 0; kill < KILLS; kill += 1) {
      const concurrency = ['1', '16', '64'][kill % 3] ?? '1';
      const fsync = ['off', '20', 'always'][Math.floor(kill / 3) % 3] ?? 'off';
      const acknowledged = await commitUntilKilled(t, rig.dir, first, 150 + ((kill * 377) % 900), [concurrency, fsync]);
      t.ok(acknowledged.length >= 150);
      const store = await rig.open();
      for (const n of acknowledged) {
        const expected = makeRecord(n, { pad: (n * 31) % 700 });
        if ((await store.recordById(expected.record_id))?.text !== expected.text) t.fail(`record ${n} is lost`);
      }
      let count = 0;
      let after: string | undefined;
      for (;;) {
        const page = await store.records({ limit: 1_000, ...(after === undefined ? {} : { after }) });
        count += page.length;
        after = page.at(-1)?.position;
        if (page.length < 1_000) break;
      }
      t.strictSame(await store.counter('c', 'total'), { n: BigInt(count) }, 'counters and records agree');
      const last = (await store.list('e')).map((row) => Number(row.value));
      first = Math.max(...last) + 1;
      t.ok(first > Math.max(...acknowledged), 'entities are those of the last commits');
      await store.close();
    }
  },
);
