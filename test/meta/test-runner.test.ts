// What `npm test` makes of files that fail: once more alone, then by that outcome.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

interface Options {
  readonly root: string;
  readonly jobs: number;
  readonly times: Record<string, number>;
  readonly skipsFail: boolean;
  noteSkipping(names: readonly string[]): void;
  keepOutput?(name: string, output: string): string;
  write(text: string): void;
}

const { runFiles } = (await import(pathToFileURL(join(packageRoot(), 'scripts', 'test-files.mjs')).href)) as {
  runFiles(files: readonly string[], options: Options): Promise<number>;
};

const PASSES = "console.log('TAP version 14\\nok 1 - it holds\\n1..1');";
const FAILS = "console.log('TAP version 14\\nnot ok 1 - it holds\\n1..1'); process.exitCode = 1;";

interface Outcome {
  readonly code: number;
  readonly text: string;
  readonly skipping: readonly string[];
}

/** Runs files of these texts, by name; each may use `mark`, the path of a file that its first run can leave for its second. */
async function run(t: HasTeardown, texts: Readonly<Record<string, string>>, keepOutput?: Options['keepOutput']): Promise<Outcome> {
  const root = tempDir(t);
  const marks = join(root, 'marks');
  mkdirSync(marks);
  const files = Object.entries(texts).map(([name, text]) => {
    const file = join(root, `${name}.test.mjs`);
    writeFileSync(
      file,
      `import { existsSync, writeFileSync } from 'node:fs';\nconst mark = ${JSON.stringify(join(marks, name))};\n${text}`,
    );
    return file;
  });
  let text = '';
  let skipping: readonly string[] = [];
  const code = await runFiles(files, {
    root,
    jobs: 2,
    times: {},
    skipsFail: false,
    noteSkipping: (names) => {
      skipping = names;
    },
    ...(keepOutput === undefined ? {} : { keepOutput }),
    write: (more) => (text += more),
  });
  return { code, text, skipping };
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

t.test('files in which a test was skipped or left out are noted, so that they can be run with what was missing', async (t) => {
  const skips = (reason: string): string => `console.log('TAP version 14\\nok 1 - it holds # SKIP ${reason}\\n1..1');`;
  const { skipping } = await run(t, { fine: PASSES, skips: skips('curl not found'), leavesOut: skips('java not found (optional)') });
  t.same(skipping, ['leavesOut.test.mjs', 'skips.test.mjs']);
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
  const { text: short } = await run(t, { broken: FAILS, fine: PASSES }, (name, output) => {
    kept.set(name, output);
    return `folder/${name}.tap`;
  });
  t.match(short, /^ +not ok: it holds$/m, 'which assertion failed stays');
  t.match(short, /^all that it said: folder\/broken\.test\.mjs\.tap$/m);
  t.notMatch(short, 'TAP version 14');
  t.strictSame([...kept.keys()], ['broken.test.mjs']);
  t.match(kept.get('broken.test.mjs'), /^TAP version 14\nnot ok 1 - it holds\n/);
});
