import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { parseYaml } from '../../../src/base/lib/yaml.ts';
import { MAX_AT_ONCE, READ_LIMIT_MS, readYaml } from '../../../src/base/lib/yaml-thread.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { tempDir } from '../../support/temp-dir.ts';

/** A sound text of `length` characters. */
const textOf = (length: number): string => `a: &x {b: [1, .inf, "c"]}\nd: *x\n#${'-'.repeat(length)}`.slice(0, length);
const LARGE = textOf(MAX_AT_ONCE + 1);

/** A thread of a test's own making. */
function worker(t: Test, source: string): URL {
  const path = join(tempDir(t), 'worker.mjs');
  writeFileSync(path, `import { parentPort } from 'node:worker_threads';\n${source}`);
  return pathToFileURL(path);
}

t.test('a thread reads what the parser reads at once, and each mistake with its place', async (t) => {
  const texts = [
    { file: 'sound.yaml', text: LARGE },
    { file: 'broken.yaml', text: 'a: 1\nb: [\n' },
    { file: 'twice.yaml', text: 'a: 1\na: .nan\n' },
    { file: 'empty.yaml', text: '' },
  ];
  t.same(
    await readYaml(texts),
    texts.map(({ text, file }) => parseYaml(text, file)),
  );
});

t.test('small texts are read at once, and a thread begins where all of them together are large', async (t) => {
  const nothing = worker(t, "parentPort.once('message', (texts) => texts.forEach(({ file }) => parentPort.postMessage({ from: file })));");
  const half = MAX_AT_ONCE / 2;
  const texts = [
    { file: 'a', text: textOf(half) },
    { file: 'b', text: textOf(half) },
  ];
  t.same(
    await readYaml(texts, { worker: nothing }),
    texts.map(({ text, file }) => parseYaml(text, file)),
  );
  t.same(await readYaml([], { worker: nothing }), []);
  const c = { file: 'c', text: '#' };
  t.same(await readYaml([...texts, c], { worker: nothing }), [{ from: 'a' }, { from: 'b' }, { from: 'c' }]);
});

t.test('a thread gets no environment', async (t) => {
  const looking = worker(t, 'parentPort.postMessage(Object.keys(process.env));');
  t.same(await readYaml([{ file: 'a', text: LARGE }], { worker: looking }), [[]]);
});

t.test('a thread that hangs is ended, and who waits is told for which text', async (t) => {
  const clock = fakeClock();
  const hanging = worker(t, 'for (;;);');
  const read = readYaml([{ file: 'a.yaml', text: LARGE }], { clock, worker: hanging });
  clock.advance(READ_LIMIT_MS - 1);
  t.equal(clock.pending, 1);
  clock.advance(1);
  t.match(await read, [
    { errors: [{ code: 'unreadable', file: 'a.yaml', message: /: reading it took more than 120 seconds$/, hint: /./ }] },
  ]);
  t.equal(clock.pending, 0);
});

t.test('a thread that dies takes nothing with it that was read before', async (t) => {
  const clock = fakeClock();
  const texts = ['a', 'b', 'c'].map((file) => ({ file, text: LARGE }));
  const first = 'parentPort.postMessage({ root: 1, errors: [] });';
  for (const [death, why] of [
    ['process.exit(3);', 'the thread that read it ended (3)'],
    ['throw new Error("no");', 'no'],
    ['', 'the thread that read it ended (0)'],
    ['const all = []; for (;;) all.push(new Array(100_000).fill({}));', 'memory'],
  ] as const) {
    const small = { clock, worker: worker(t, first + death), maxMemoryMb: 32 };
    const [a, b, c, ...more] = await readYaml(texts, small);
    t.same(a, { root: 1, errors: [] });
    t.match(b?.errors, [{ code: 'unreadable', file: 'b', message: `the text could not be read: ` }]);
    t.ok(b?.errors[0]?.message.includes(why), `${b?.errors[0]?.message}`);
    t.match(c?.errors, [{ code: 'unreadable', file: 'c', message: 'the text could not be read: b ended the reading' }]);
    t.same(more, []);
  }
  t.match(await readYaml(texts, { clock, worker: new URL('file:///nowhere/worker.mjs') }), [{ errors: [{ message: /nowhere/ }] }, {}, {}]);
  t.equal(clock.pending, 0);
});
