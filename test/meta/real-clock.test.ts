// Which test files read the real clock: what counts as reading, and that the list of them is held.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

type Readers = ReadonlyMap<string, readonly string[]>;
const { realClockReaders, flawsOfList } = (await import(pathToFileURL(join(packageRoot(), 'scripts', 'real-clock.mjs')).href)) as {
  realClockReaders(root: string): Readers;
  flawsOfList(readers: Readers, listed: readonly string[]): readonly string[];
};

const COMMON = {
  'src/base/lib/clock.ts': 'export const systemClock = { now: () => Date.now() };',
  'src/app/gateway.ts':
    "import { systemClock } from '../base/lib/clock.ts'; export const start = ({ clock = systemClock }) => clock.now();",
  'src/app/store.ts':
    "import { systemClock } from '../base/lib/clock.ts'; export function open(options) { return options.clock ?? systemClock; }",
  'src/cli/run.ts':
    "import { systemClock } from '../base/lib/clock.ts'; export function runCli() { return ask(); }\nfunction ask() { return systemClock; }",
  'test/support/child.ts':
    "import { spawn } from 'node:child_process'; export const run = () => spawn('true');\nexport const eventually = () => 1;",
  'test/support/all.ts': "export { run as begin } from './child.ts'; export * from './certificates.ts';",
  'test/support/certificates.ts': 'export function testCa() { return new Date(0); }\nexport function early() { return new Date(); }',
  'test/support/made.ts': "import { early } from './certificates.ts'; export const MADE = early();\nexport const other = () => 1;",
  'test/support/turns.ts':
    "import { turn } from './turn.ts'; export function turns() { return turn(); }\nexport const now = () => Date.now();",
  'test/support/turn.ts':
    "import { now, turns } from './turns.ts'; export function turn() { return turns() + now(); }\nexport const still = () => turns;",
};

/** The readers of a project that has one test file of each text. */
function readersOf(t: HasTeardown, texts: Readonly<Record<string, string>>): Readers {
  const root = tempDir(t);
  const tests = Object.entries(texts).map(([name, text]) => [`test/${name}.test.ts`, text] as const);
  for (const [path, text] of [...Object.entries(COMMON), ...tests]) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return realClockReaders(root);
}

t.test('a file reads the real clock by itself, by what it calls of others, and by the processes that it starts', async (t) => {
  const readers = readersOf(t, {
    now: 'const clock = fakeClock(Date.now());',
    passed: 'const clock = { now: Date.now };',
    date: 'const today = new Date().toISOString();',
    text: 'const today = Date();',
    system: "import { systemClock } from '../src/base/lib/clock.ts'; open({ clock: systemClock });",
    moment: "import { systemClock } from '../src/base/lib/clock.ts'; const from = systemClock.now();",
    process: "import { execFileSync } from 'node:child_process'; execFileSync('true');",
    namespace: "import * as children from 'node:child_process'; children.spawn('true');",
    child: "import { run } from './support/child.ts'; test(() => run());",
    renamed: "import { begin as start } from './support/all.ts'; start();",
    all: "import { early } from './support/all.ts'; early();",
    imported: "import { other } from './support/made.ts'; other();",
    later: "const { run } = await import('./support/child.ts');",
    circle: "import { turn } from './support/turn.ts'; turn();",
    outer: "import { still } from './support/turn.ts'; still();",
    made: 'start(t, { clock, certificateClock: clock });',
    'made-short': 'const certificateClock = fakeClock(); start(t, { certificateClock });',
    command: "import { runCli } from '../src/cli/run.ts'; await runCli();",
  });
  t.same(
    [...readers.keys()].map((file) => file.slice('test/'.length, -'.test.ts'.length)),
    [
      'all',
      'child',
      'circle',
      'command',
      'date',
      'imported',
      'later',
      'made-short',
      'made',
      'moment',
      'namespace',
      'now',
      'outer',
      'passed',
      'process',
      'renamed',
      'system',
      'text',
    ],
  );
  t.same(readers.get('test/child.test.ts'), ['run', 'spawn', 'a process'], 'with the way there');
});

t.test('a file does not, that gives another clock, reads none of the dates, or imports what it does not call', async (t) => {
  const readers = readersOf(t, {
    given:
      "import { start } from '../src/app/gateway.ts'; import { open } from '../src/app/store.ts'; open(start({ clock: fakeClock() }));",
    moment: "const at = new Date(2026, 1); const other = new Date('2026-01-01');",
    waits:
      "import { systemClock } from '../src/base/lib/clock.ts'; systemClock.after(1, () => systemClock.monotonic()); performance.now();",
    patient: "import { eventually } from './support/child.ts'; eventually();",
    type: "import type { spawn } from 'node:child_process'; import { type systemClock } from '../src/base/lib/clock.ts'; let one: spawn;",
    named: "t.equal(answer.Date, 1); const given = { systemClock: 1, run: 2 }; const text = 'Date.now()'; // new Date()",
    members:
      "import { run } from './support/child.ts'; class One { run() {} static run = 1; }\nconst { run: other } = { run() {}, get systemClock() { return 1; } }",
    certificate: "import { testCa } from './support/all.ts'; testCa();",
  });
  t.same([...readers], []);
});

t.test('a list is wrong by a file too few, one too many, and one twice', async (t) => {
  const readers = new Map([
    ['test/a.test.ts', ['Date.now']],
    ['test/b.test.ts', ['run', 'a process']],
  ]);
  t.same(flawsOfList(readers, ['test/a.test.ts', 'test/b.test.ts']), []);
  t.match(flawsOfList(readers, ['test/a.test.ts']), [/^test\/b\.test\.ts reads the real clock \(run > a process\): /]);
  t.match(flawsOfList(readers, ['test/a.test.ts', 'test/b.test.ts', 'test/c.test.ts']), [/^test\/c\.test\.ts is listed and does not /]);
  t.match(flawsOfList(readers, ['test/a.test.ts', 'test/b.test.ts', 'test/a.test.ts']), [/^test\/a\.test\.ts is listed twice$/]);
});
