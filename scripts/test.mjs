/*
 * `npm test [-- pattern ...]`: sets the clone up, runs every compiled test file (those whose path contains a pattern, if any) in a process of its
 * own, and ends with the line `N passed, N failed`. Plain processes instead of `tap run`: the files use tap's API all the same, and
 * start five times faster.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { forTests } from './child-environment.mjs';
import { filesBelow, projectRoot, setUp } from './setup.mjs';
import { TapCounter } from './tap-count.mjs';
import { failuresIn } from './tap-failures.mjs';

/**
 * tap ends a file after the first and names the test that hangs; a file that does not even end then is killed after the second. Far more than any file needs
 * on a machine that is its own: a busy one is no reason to fail.
 */
const TAP_TIMEOUT_S = 240;
const KILL_AFTER_S = 300;
/** What a test's own child processes may take to go after the test has ended. */
const LEFTOVER_GRACE_MS = 3000;
const OUTPUT_SHOWN = 30_000;

const timesFile = join(projectRoot, 'build', '.test-times.json');
const running = new Set();

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    for (const child of running) killGroup(child, 'SIGKILL');
    process.exit(130);
  });
}

try {
  await setUp();
  process.exitCode = await runAll(process.argv.slice(2));
} catch (error) {
  process.stdout.write(`${error.message}\n0 passed, 1 failed\n`);
  process.exitCode = 1;
}

async function runAll(patterns) {
  const root = join(projectRoot, 'build', 'test');
  const files = filesBelow(root)
    .filter((file) => file.endsWith('.test.js'))
    .filter(
      (file) => patterns.length === 0 || patterns.some((pattern) => relative(projectRoot, file).includes(pattern.replace(/\.ts$/, '.js'))),
    );
  const times = readTimes();
  // The slowest first, so that none of them runs alone at the end; unknown ones count as slow.
  files.sort((a, b) => (times[nameOf(b)] ?? Number.MAX_VALUE) - (times[nameOf(a)] ?? Number.MAX_VALUE) || a.localeCompare(b));

  const total = { passed: 0, failed: 0, skipped: 0, optional: 0 };
  const failures = [];
  const queue = [...files];
  const worker = async () => {
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
      const result = await runFile(file);
      for (const key of Object.keys(total)) total[key] += result[key];
      times[nameOf(file)] = result.ms;
      report(file, result);
      if (result.failed > 0) failures.push(nameOf(file));
    }
  };
  await Promise.all(Array.from({ length: Math.min(files.length, jobs()) }, worker));
  writeTimes(times);

  const skipsFail = process.env.CI === 'true' && total.skipped > 0;
  if (skipsFail) total.failed += total.skipped;
  if (failures.length > 0) process.stdout.write(`\nfailed: ${failures.sort().join(', ')}\n`);
  if (skipsFail) process.stdout.write('\nskipped tests are failures when CI=true: npm run peers installs what they need\n');
  if (files.length === 0) process.stdout.write('no test file matches\n');
  if (total.optional > 0) process.stdout.write(`\n${total.optional} left out: they need a peer that not every machine can have\n`);
  process.stdout.write(`${total.passed} passed, ${total.failed} failed${total.skipped > 0 ? `, ${total.skipped} skipped` : ''}\n`);
  return total.failed > 0 || total.passed === 0 ? 1 : 0;
}

function jobs() {
  const wanted = Number(process.env.TEST_JOBS);
  return Number.isInteger(wanted) && wanted > 0 ? wanted : availableParallelism();
}

async function runFile(file) {
  const started = performance.now();
  const counter = new TapCounter();
  const output = [];
  const child = spawn(process.execPath, ['--enable-source-maps', file], {
    cwd: projectRoot,
    env: { ...forTests(process.env), TAP_TIMEOUT: String(TAP_TIMEOUT_S) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: process.platform !== 'win32',
  });
  running.add(child);
  child.stdout.setEncoding('utf8').on('data', (text) => {
    counter.write(text);
    output.push(text);
  });
  child.stderr.setEncoding('utf8').on('data', (text) => output.push(text));
  let hungIn;
  const timer = setTimeout(() => {
    hungIn = counter.current || 'the time after its last test';
    killGroup(child, 'SIGKILL');
  }, KILL_AFTER_S * 1000);

  const { code, signal } = await new Promise((resolve) => {
    child.on('error', (error) => resolve({ code: 1, signal: error.message }));
    child.on('exit', (exitCode, exitSignal) => resolve({ code: exitCode, signal: exitSignal }));
  });
  clearTimeout(timer);
  const leftovers = hungIn === undefined && (await leftProcessesBehind(child));
  await closed(child);
  running.delete(child);

  const reasons = [];
  if (hungIn !== undefined) reasons.push(`killed after ${KILL_AFTER_S} s, it hung in: ${hungIn}`);
  const own = counter.end(code === 0);
  if (own !== undefined && hungIn === undefined) reasons.push(code === 0 ? own : `${own} (${signal ?? `exit code ${code}`})`);
  if (leftovers) reasons.push('it left processes running, they were killed');
  if (leftovers && counter.failed === 0) counter.failed = 1;
  const { passed, failed, skipped, optional } = counter;
  return { passed, failed, skipped, optional, reasons, output: output.join(''), ms: Math.round(performance.now() - started) };
}

function report(file, { passed, failed, skipped, optional, reasons, output, ms }) {
  const counts = [`${passed} passed`, ...counted(failed, 'failed'), ...counted(skipped, 'skipped'), ...counted(optional, 'left out')].join(
    ', ',
  );
  let text = `${failed > 0 ? 'FAILED' : 'ok    '} ${nameOf(file)}: ${counts}, ${(ms / 1000).toFixed(1)} s\n`;
  for (const reason of reasons) text += `       ${nameOf(file)}: ${reason}\n`;
  if (failed > 0) {
    for (const line of failuresIn(output)) text += `       ${line}\n`;
    text += `all that it said:\n${output.length > OUTPUT_SHOWN ? `[...]${output.slice(-OUTPUT_SHOWN)}` : output}\n`;
  }
  process.stdout.write(text);
}

function counted(count, what) {
  return count > 0 ? [`${count} ${what}`] : [];
}

/** The source's path, as a person would look for it. */
function nameOf(file) {
  return relative(join(projectRoot, 'build'), file).replaceAll('\\', '/').replace(/\.js$/, '.ts');
}

/** True when processes of the file's group outlive it; they are killed. */
async function leftProcessesBehind(child) {
  if (process.platform === 'win32') return false;
  for (let waited = 0; waited < LEFTOVER_GRACE_MS; waited += 50) {
    if (!groupAlive(child)) return false;
    await sleep(50);
  }
  killGroup(child, 'SIGKILL');
  return true;
}

function groupAlive(child) {
  try {
    process.kill(-child.pid, 0);
    return true;
  } catch {
    return false;
  }
}

function killGroup(child, signal) {
  try {
    if (process.platform === 'win32') child.kill(signal);
    else process.kill(-child.pid, signal);
  } catch {
    // It has ended meanwhile.
  }
}

/** Waits for the last output; a process outside of the group may hold the pipe for ever. */
async function closed(child) {
  if (child.stdout.closed && child.stderr.closed) return;
  const ended = Promise.all([child.stdout, child.stderr].map((stream) => new Promise((resolve) => stream.once('close', resolve))));
  await Promise.race([ended, sleep(2000, undefined, { ref: false })]);
  child.stdout.destroy();
  child.stderr.destroy();
}

function readTimes() {
  try {
    return JSON.parse(readFileSync(timesFile, 'utf8'));
  } catch {
    return {};
  }
}

function writeTimes(times) {
  mkdirSync(dirname(timesFile), { recursive: true });
  writeFileSync(timesFile, JSON.stringify(times));
}
