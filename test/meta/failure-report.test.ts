// What `npm test` prints first of a file that fails: the cause, in few lines.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';

const { failuresIn } = (await import(pathToFileURL(join(packageRoot(), 'scripts', 'tap-failures.mjs')).href)) as {
  failuresIn(output: string): string[];
};

/** What a file of this text prints. */
function outputOf(text: string): string {
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', `import t from 'tap';\n${text}`], {
    cwd: packageRoot(),
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], TAP_TIMEOUT: '1' },
  });
  return stdout + stderr;
}

t.test('an assertion that failed comes with the tests around it and its difference, not with those around it that fail for it', (t) => {
  const lines = failuresIn(
    outputOf(`
      t.test('fine', (t) => { t.pass('yes'); t.end(); });
      t.test('outer', async (t) => {
        await t.test('inner', (t) => { t.ok(true, 'first'); t.equal(1, 2, 'second'); t.skip('later'); t.end(); });
      });`),
  );
  t.equal(lines[0], 'not ok: outer > inner > second');
  t.match(lines[1], 'the last that was ok before: first');
  const text = lines.join('\n');
  t.match(text, /-2\n +\+1/);
  t.equal(text.match(/not ok/g)?.length, 1);
  t.ok(lines.length < 40, `${lines.length} lines`);
  t.end();
});

t.test('a test that hangs is named with the last that went well, a crash with its trace', (t) => {
  const hanging = failuresIn(
    outputOf(`
      setInterval(() => undefined, 1000);
      t.test('outer', async (t) => {
        await t.test('inner', async (t) => { t.ok(true, 'begun'); await new Promise(() => undefined); });
      });
      t.teardown(() => process.exit());`),
  );
  t.match(hanging[0], /^not ok: outer > inner > timeout!/);
  t.match(hanging[1], /begun/);
  t.notMatch(hanging.join('\n'), 'handles');
  const killed = outputOf(`
    t.test('one', async (t) => {
      t.pass('begun');
      console.error('Error: why');
      setImmediate(() => process.stdout.write('', () => process.kill(process.pid, 'SIGKILL')));
      await new Promise(() => undefined);
    });`);
  t.match(failuresIn(killed), ['under way at the end: one', 'beside TAP it said:', /Error: why/]);
  t.end();
});

t.test('hundreds of thousands of lines, and one line of millions of characters, are told by their beginning', (t) => {
  const lines = failuresIn(`${'a line\n'.repeat(300_000)}not ok 1 - it holds\n`);
  t.match(lines, ['not ok: it holds', 'beside TAP it said:']);
  t.match(lines.at(-1), /^ +\[\.\.\. 299988 more lines\]$/);
  const [, , long = ''] = failuresIn(`not ok 1 - it holds\n${'x'.repeat(2_000_000)}\n`);
  t.match(long, /^ +x{500}\[\.\.\. 1999500 more characters\]$/);
  t.end();
});
