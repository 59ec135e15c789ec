// What `npm test` makes of files that fail: once more alone, then by that outcome.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

interface TimesTable {
  readonly leastSeconds: number;
  readonly seconds: Readonly<Record<string, number>>;
}

interface Options {
  readonly root: string;
  readonly jobs: number;
  readonly times: Record<string, number>;
  readonly table?: TimesTable;
  readonly skipsFail: boolean;
  keepOutput?(name: string, output: string): string;
  write(text: string): void;
}

const { runFiles, withTimes } = (await import(pathToFileURL(join(packageRoot(), 'scripts', 'test-files.mjs')).href)) as {
  runFiles(files: readonly (string | { readonly file: string; readonly peers: string })[], options: Options): Promise<number>;
  withTimes(table: TimesTable, times: Readonly<Record<string, number>>): TimesTable;
};

const PASSES = "console.log('TAP version 14\\nok 1 - it holds\\n1..1');";
const FAILS = "console.log('TAP version 14\\nnot ok 1 - it holds\\n1..1'); process.exitCode = 1;";

interface Outcome {
  readonly code: number;
  readonly text: string;
}

/**
 * Runs files of these texts, by name; each may use `mark`, the path of a file that its first run can leave for its
 * second.
 */
async function run(
  t: HasTeardown,
  texts: Readonly<Record<string, string>>,
  { peers, ...options }: Partial<Options> & { readonly peers?: string } = {},
): Promise<Outcome> {
  const root = tempDir(t);
  const marks = join(root, 'marks');
  mkdirSync(marks);
  const files = Object.entries(texts).map(([name, text]) => {
    const file = join(root, `${name}.test.mjs`);
    writeFileSync(
      file,
      `import { existsSync, writeFileSync } from 'node:fs';\nconst mark = ${JSON.stringify(join(marks, name))};\n${text}`,
    );
    return peers === undefined ? file : { file, peers };
  });
  let text = '';
  const code = await runFiles(files, {
    root,
    jobs: 2,
    times: {},
    skipsFail: false,
    ...options,
    write: (more) => (text += more),
  });
  return { code, text };
}

t.test('a file that fails and then passes alone counts as passed and is named as flaky', async (t) => {
  const { code, text } = await run(t, {
    fine: PASSES,
    shaky: `if (existsSync(mark)) { ${PASSES} } else { writeFileSync(mark, ''); ${FAILS} }`,
  });
  t.equal(code, 0);
  t.match(text, /^flaky: shaky\.test\.mjs$/m);
  t.match(text, /^2 passed, 0 failed\n$/m);
  t.notMatch(text, /^failed:/m);
});

t.test('a file that fails twice has failed, once, and is named', async (t) => {
  const { code, text } = await run(t, { broken: FAILS, fine: PASSES });
  t.equal(code, 1);
  t.match(text, /^failed: broken\.test\.mjs$/m);
  t.match(text, /^1 passed, 1 failed\n$/m);
  t.notMatch(text, /^flaky:/m);
});

t.test('nothing runs again before all others are done', async (t) => {
  const { code, text } = await run(t, {
    first: `if (existsSync(mark)) { ${PASSES} } else { writeFileSync(mark, ''); ${FAILS} }`,
    second: `const other = mark.replace(/second$/, 'first');
      while (!existsSync(other)) await new Promise(setImmediate);
      ${PASSES}`,
  });
  t.equal(code, 0);
  t.match(text, /^ok +second[\s\S]*^again, alone: first[\s\S]*^ok +first/m);
});

t.test('when more than ten files fail none is run again', async (t) => {
  const { code, text } = await run(t, Object.fromEntries(Array.from({ length: 11 }, (_, at) => [`file-${at}`, FAILS])));
  t.equal(code, 1);
  t.match(text, /^0 passed, 11 failed\n$/m);
  t.notMatch(text, 'again, alone');
});

const skips = (reason: string): string => `console.log('TAP version 14\\nok 1 - it holds # SKIP ${reason}\\n1..1');`;

t.test('a file that is not listed as one that needs a peer runs without any, and fails when a test of it is skipped for one', async (t) => {
  const asks = "if (process.env.TEST_NO_PEERS !== '1') throw new Error('with peers');";
  const { code, text } = await run(
    t,
    {
      fine: `${asks}\n${PASSES}`,
      other: skips('no /dev/full'),
      asking: skips('java not found, npm run peers installs it if it can (optional)'),
    },
    { peers: 'none' },
  );
  t.equal(code, 1);
  t.match(text, /^failed: asking\.test\.mjs$/m);
  t.match(text, /asking\.test\.mjs: a test of it needs a peer: list the file/);
});

t.test('a listed file fails where no test of it misses a peer', async (t) => {
  const { code, text } = await run(t, { fine: PASSES, asking: skips('curl not found, npm run peers installs it') }, { peers: 'missing' });
  t.equal(code, 1);
  t.match(text, /^failed: fine\.test\.mjs$/m);
  t.match(text, /fine\.test\.mjs: no test of it needs a peer: take the file out/);
});

t.test('a failure that says very much ends the run like any other', async (t) => {
  const much =
    "for (let at = 0; at < 300; at += 1) process.stdout.write('x'.repeat(65_536));\nfor (let at = 0; at < 200_000; at += 1) process.stdout.write('line\\n');\n";
  const { code, text } = await run(t, { much: `${much}${FAILS}` });
  t.equal(code, 1);
  t.match(text, /^0 passed, 1 failed$/m);
});

t.test('all that a file said that failed is shown, or kept where its name leads to', async (t) => {
  const { text } = await run(t, { broken: FAILS });
  t.match(text, /^all that it said:\nTAP version 14\nnot ok 1 - it holds\n/m);
  const kept = new Map<string, string>();
  const keepOutput = (name: string, output: string): string => {
    kept.set(name, output);
    return `folder/${name}.tap`;
  };
  const { text: short } = await run(t, { broken: FAILS, fine: PASSES }, { keepOutput });
  t.match(short, /^ +not ok: it holds$/m, 'which assertion failed stays');
  t.match(short, /^all that it said: folder\/broken\.test\.mjs\.tap$/m);
  t.notMatch(short, 'TAP version 14');
  t.strictSame([...kept.keys()], ['broken.test.mjs']);
  t.match(kept.get('broken.test.mjs'), /^TAP version 14\nnot ok 1 - it holds\n/);
});

const TABLE: TimesTable = { leastSeconds: 10, seconds: { 'slow.test.mjs': 90, 'slower.test.mjs': 120 } };

/** Names of files in the order in which they are run, one after the other. */
async function orderOf(t: HasTeardown, names: readonly string[], times: Record<string, number>): Promise<readonly string[]> {
  const texts = Object.fromEntries(names.map((name) => [name, PASSES]));
  const { text } = await run(t, texts, { jobs: 1, times: { ...times }, table: TABLE });
  return [...text.matchAll(/^ok +(\S+)\.test\.mjs:/gm)].map(([, name = '']) => name);
}

t.test('the slow files are begun first: in a fresh clone by the table, and later by what they took here too', async (t) => {
  const names = ['any', 'many', 'slow', 'slower'];
  t.strictSame(await orderOf(t, names, {}), ['slower', 'slow', 'any', 'many']);
  const took = { 'any.test.mjs': 1_000, 'many.test.mjs': 100_000, 'slow.test.mjs': 95_000, 'slower.test.mjs': 300 };
  t.strictSame(
    await orderOf(t, names, took),
    ['slower', 'many', 'slow', 'any'],
    'what ended at once since a peer was missing is slow all the same',
  );
  const { 'any.test.mjs': _new, ...others } = took;
  t.strictSame(await orderOf(t, names, others), ['any', 'slower', 'many', 'slow'], 'one that is new may be slow');
});

t.test('the table takes in what files took, and loses those that have become quick', async (t) => {
  const taken = withTimes(TABLE, { 'slower.test.mjs': 9_000, 'new.test.mjs': 130_400 });
  t.strictSame(Object.entries(taken.seconds), [
    ['new.test.mjs', 130],
    ['slow.test.mjs', 90],
  ]);
  t.equal(taken.leastSeconds, 10);
});

t.test('the table of slow files has files that are there', async (t) => {
  const table = JSON.parse(readFileSync(join(packageRoot(), 'scripts', 'test-times.json'), 'utf8')) as TimesTable;
  const names = Object.keys(table.seconds);
  t.ok(names.length > 20);
  t.strictSame(
    names.filter((name) => !existsSync(join(packageRoot(), name))),
    [],
  );
  t.strictSame(Object.entries(withTimes(table, {}).seconds), Object.entries(table.seconds), 'the slowest first, none below the least');
});
