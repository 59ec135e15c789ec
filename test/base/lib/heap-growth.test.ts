import { execFileSync } from 'node:child_process';
import t from 'tap';
import { watchHeapGrowth } from '../../../src/base/lib/heap-growth.ts';
import { fakeClock } from '../../support/fake-clock.ts';

const MB = 1024 * 1024;

t.test('the heap is kept small from the second on in which the process is large, until it is small again', (t) => {
  const clock = fakeClock();
  const set: number[] = [];
  let resident = 100 * MB;
  const end = watchHeapGrowth({ clock, resident: () => resident, setGrowth: (percent) => set.push(percent) });
  const after = (megabytes: number): number[] => {
    resident = megabytes * MB;
    clock.advance(1_000);
    return set.splice(0);
  };
  t.same(after(400), [], 'not yet large');
  t.same(after(401), [60]);
  t.same(after(900), [], 'once');
  t.same(after(300), [], 'what is left of it may come again');
  t.same(after(249), [0]);
  t.same(after(300), []);
  t.same(after(500), [60]);
  end();
  t.same(after(100), [], 'ended');
  t.equal(clock.pending, 0);
  t.end();
});

/** Megabytes of the heap at its largest while garbage is made beside what lives, before and after the growth is set. */
const LARGEST = `
const { watchHeapGrowth } = await import(process.argv[1]);
let look;
watchHeapGrowth({ clock: { after: (_, callback) => ((look = callback), () => undefined) }, resident: () => 1e9 });
const live = Array.from({ length: 300_000 }, (_, at) => ({ at, text: [at] }));
const old = [];
const run = () => {
  let largest = 0;
  for (let round = 0; round < 600; round += 1) {
    old.push(Array.from({ length: 20_000 }, (_, at) => ({ at })));
    if (old.length > 8) old.shift();
    // Until the heap was collected once, the growth counts from what was allowed before.
    if (round > 300) largest = Math.max(largest, process.memoryUsage().heapUsed);
  }
  return largest;
};
const before = run();
look();
console.log(run() / before, live.length);
`;

t.test('V8 takes the growth while it runs', (t) => {
  const module = new URL('../../../src/base/lib/heap-growth.js', import.meta.url).href;
  const share = parseFloat(execFileSync(process.execPath, ['--input-type=module', '-e', LARGEST, module], { encoding: 'utf8' }));
  t.ok(share < 0.8, `${share.toFixed(2)} of what it was`);
  t.end();
});
