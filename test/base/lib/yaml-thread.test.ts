import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { parseYaml } from '../../../src/base/lib/yaml.ts';
import { packYaml, unpackYaml } from '../../../src/base/lib/yaml-packed.ts';
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
  const nothing = worker(
    t,
    "parentPort.once('message', (texts) => texts.forEach(({ file }) => parentPort.postMessage({ errors: [{ from: file }] })));",
  );
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
  t.match(await readYaml([...texts, c], { worker: nothing }), [
    { errors: [{ from: 'a' }] },
    { errors: [{ from: 'b' }] },
    { errors: [{ from: 'c' }] },
  ]);
});

t.test('a thread gets no environment', async (t) => {
  const looking = worker(t, 'parentPort.postMessage({ errors: [Object.keys(process.env)] });');
  t.same((await readYaml([{ file: 'a', text: LARGE }], { worker: looking }))[0]?.errors, [[]]);
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
  const first = 'parentPort.postMessage({ errors: [{ message: "first" }] });';
  for (const [death, why] of [
    ['process.exit(3);', 'the thread that read it ended (3)'],
    ['throw new Error("no");', 'no'],
    ['', 'the thread that read it ended (0)'],
    ['const all = []; for (;;) all.push(new Array(100_000).fill({}));', 'memory'],
  ] as const) {
    const small = { clock, worker: worker(t, first + death), maxMemoryMb: 32 };
    const [a, b, c, ...more] = await readYaml(texts, small);
    t.same(a?.errors, [{ message: 'first' }]);
    t.match(b?.errors, [{ code: 'unreadable', file: 'b', message: `the text could not be read: ` }]);
    t.ok(b?.errors[0]?.message.includes(why), `${b?.errors[0]?.message}`);
    t.match(c?.errors, [{ code: 'unreadable', file: 'c', message: 'the text could not be read: b ended the reading' }]);
    t.same(more, []);
  }
  t.match(await readYaml(texts, { clock, worker: new URL('file:///nowhere/worker.mjs') }), [{ errors: [{ message: /nowhere/ }] }, {}, {}]);
  t.equal(clock.pending, 0);
});

t.test('texts that are large are read one after the other, so that many of them take the memory of one', async (t) => {
  const clock = fakeClock();
  // Answers when it is ended only: whoever else began would have his time counted too.
  const hanging = worker(t, 'for (;;);');
  const answering = worker(t, "parentPort.once('message', () => parentPort.postMessage({ errors: [{ message: 'read' }] }));");
  const first = readYaml([{ file: 'a', text: LARGE }], { clock, worker: hanging });
  const second = readYaml([{ file: 'b', text: LARGE }], { clock, worker: answering });
  t.equal(clock.pending, 1, 'the second waits');
  clock.advance(READ_LIMIT_MS);
  t.match((await first)[0]?.errors, [{ code: 'unreadable' }]);
  t.same((await second)[0]?.errors, [{ message: 'read' }]);
  t.equal(clock.pending, 0);
});

t.test('any sound tree comes out of a thread as it is', async (t) => {
  const padding = `#${'-'.repeat(MAX_AT_ONCE)}`;
  for (const text of [
    'a: []\nb: {}\nc: [[], {}, [{}]]\nd: {e: {f: [1, {g: [2]}]}}',
    'quoted: "a\\nb"\nblock: |\n  a\n  b\nnumbers: [0x10, 1.10, -.inf, 1e3, .nan]\nwords: [true, FALSE, null, ~, "null", no]',
    'long: &l [1, 2]\nagain: [*l, *l]\n"": ""\nnothing:',
    '[]',
    '{}',
    'just a text',
    '',
  ]) {
    const whole = `${text}\n${padding}`;
    t.same(await readYaml([{ file: 'f', text: whole }]), [parseYaml(whole, 'f')], text);
  }
});

t.test('a text that is wrong everywhere tells fifty mistakes and how many more there are, and nothing of it is received', async (t) => {
  const [tree] = await readYaml([{ file: 'f', text: ': a\n'.repeat(10_000) }]);
  t.equal(tree?.errors.length, 51);
  t.match(tree?.errors.at(-1), { message: 'and 9949 more' });
  t.match(tree?.root, { kind: 'scalar', value: null });
});

t.test('a tree is made in slices', (t) => {
  const { root } = parseYaml('- 1\n'.repeat(5_000), 'f');
  const work = unpackYaml(packYaml(root));
  let pauses = 0;
  let next = work.next();
  for (; next.done !== true; next = work.next()) pauses++;
  t.same(next.value, root);
  t.ok(pauses > 15, `${pauses} pauses`);
  t.end();
});
