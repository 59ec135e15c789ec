// A list that is not small is read beside the calls, and what becomes of the thread is said of the list.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { judgeList } from '../../../src/base/catalogue/price-list/judge-list.ts';
import { JUDGE_LIMIT_MS, judgeInThread } from '../../../src/base/catalogue/price-list/list-thread.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { listOf } from '../../support/price-lists.ts';
import { tempDir } from '../../support/temp-dir.ts';

const many = (rate: number): string =>
  listOf(
    Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`m-${at}`, { input_mtok: rate, output_mtok: at === 7 ? rate * 100 : 8 }])),
  );

function worker(t: Test, source: string): URL {
  const path = join(tempDir(t), 'worker.mjs');
  writeFileSync(path, `import { parentPort } from 'node:worker_threads';\n${source}`);
  return new URL(`file://${path}`);
}

t.test('a thread says of a list what is said of it at once, and the event loop turns meanwhile', async (t) => {
  const clock = fakeClock();
  const before = judgeList({ text: many(1), file: 'a' }).providers;
  const list = { text: many(0.01), file: 'b', before };
  let turns = 0;
  let over = false;
  const turn = (): void => {
    turns++;
    if (!over) setImmediate(turn);
  };
  turn();
  const judged = await judgeInThread(list, { clock });
  over = true;
  t.same(judged, judgeList(list));
  t.equal(judged.held.length, 301);
  t.ok(turns > 10, `${turns} turns`);
  t.equal(clock.pending, 0, 'nothing waits behind it');
});

t.test('a small list is judged without one', async (t) => {
  const nobody = { clock: fakeClock(), worker: new URL('file:///nowhere/worker.mjs') };
  const text = listOf({ m: { input_mtok: 1 } });
  t.same((await judgeInThread({ text, file: 'a' }, nobody)).problems, []);
  const before = judgeList({ text: many(1), file: 'a' }).providers;
  t.match((await judgeInThread({ text, file: 'a', before }, nobody)).problems, [{ message: /nowhere/ }], 'it is compared with many');
});

t.test('a thread that dies, hangs or says nothing is what is wrong with the list', async (t) => {
  const list = { text: many(1), file: 'a.json' };
  for (const [source, why] of [
    ['throw new Error("no luck");', /^cannot be read: no luck/],
    ['process.exit(3);', /^cannot be read: the thread that read it ended \(3\)/],
    ['', /^cannot be read: the thread that read it ended \(0\)/],
    ['const all = []; for (;;) all.push(new Array(100_000).fill(1.5));', /^cannot be read: .*memory/],
  ] as const) {
    const judged = await judgeInThread(list, { clock: fakeClock(), worker: worker(t, source), maxMemoryMb: 32 });
    t.match(judged, { problems: [{ file: 'a.json', message: why }], providers: [], inForce: [], held: [] }, source);
  }
  const clock = fakeClock();
  const hanging = judgeInThread(list, { clock, worker: worker(t, 'for (;;);') });
  clock.advance(JUDGE_LIMIT_MS);
  t.match((await hanging).problems, [{ message: 'cannot be read: reading it took more than 60 seconds' }]);
});
