/*
 * Runs compiled test files, each in a process of its own. Plain processes instead of `tap run`: the files use tap's API
 * all the same, and start five times faster.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { forTests, forTestsWithoutPeers } from './child-environment.mjs';
import { projectRoot } from './setup.mjs';
import { TapCounter } from './tap-count.mjs';
import { failuresIn } from './tap-failures.mjs';

/**
 * tap ends a file after the first and names the test that hangs; a file that does not even end then is killed after the
 * second. Far more than any file needs on a machine that is its own: a busy one is no reason to fail.
 */
const TAP_TIMEOUT_S = 900;
const KILL_AFTER_S = 960;
/** What a test's own child processes may take to go after the test has ended. */
const LEFTOVER_GRACE_MS = 3000;
const OUTPUT_SHOWN = 30_000;
/**
 * When more files than these failed, it was not their company, and running all of them again one by one would only take
 * long.
 */
const MOST_AGAIN = 10;

const running = new Set();

/** What a table of this folder holds: `test-times.json`, `real-clock.json`, `needs-peers.json`. */
export function tableOf(name) {
  return JSON.parse(readFileSync(join(projectRoot, 'scripts', name), 'utf8'));
}

/**
 * Runs a script that runs files: its exit code is what `main` returns, and an error closes it as a failure. A run that
 * is broken off ends every file.
 */
export async function asProgram(main) {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      for (const child of running) killGroup(child, 'SIGKILL');
      process.exit(130);
    });
  }
  try {
    process.exitCode = await main();
  } catch (error) {
    process.stdout.write(`${error.message}\n0 passed, 1 failed\n`);
    process.exitCode = 1;
  }
}

/**
 * Runs the files and writes their outcome, last the line `N passed, N failed`. A file that failed is run once more,
 * alone, when all others are done: one that passes then counts as passed and is named in a line `flaky: FILE`, since
 * nothing but the company it ran in has changed.
 * @param files paths; or `{ file, at, moved, peers }`. One that runs by another clock has `at`, which its name is
 * followed by, and `moved`, a function that returns `{ before, environment }` when it is about to start: the command
 * that starts it, and more of its environment. `peers: 'none'`: it runs as on a machine that has nothing but Node, and
 * fails when a test of it misses a peer; `'missing'`: it runs so, and fails when none does
 * @param root the folder that the names shown are relative to
 * @param times milliseconds that each file took, by its name; read for the order, and updated
 * @param table what the project knows of slow files (scripts/test-times.json)
 * @param skipsFail skipped tests count as failures
 * @param keepOutput keeps all that a file said that failed, and returns where; absent: that is written here
 * @returns the exit code
 */
export async function runFiles(files, { root, jobs, times, table, skipsFail, keepOutput, write }) {
  const name = ({ file, at }) => (at === undefined ? nameOf(file, root) : `${nameOf(file, root)}, ${at}`);
  const expected = expectedMs(times, table);
  // The slowest first, so that none of them runs alone at the end.
  const queue = files
    .map((file) => (typeof file === 'string' ? { file } : file))
    .map((one) => ({ ...one, expected: expected(name(one), nameOf(one.file, root)) }))
    .sort((a, b) => b.expected - a.expected || name(a).localeCompare(name(b)));
  const total = { passed: 0, failed: 0, skipped: 0, optional: 0 };
  const add = (result) => {
    for (const key of Object.keys(total)) total[key] += result[key];
  };
  const failed = [];
  const skipping = [];
  const worker = async () => {
    for (let one = queue.shift(); one !== undefined; one = queue.shift()) {
      const result = await runFile(one);
      times[name(one)] = result.ms;
      if (result.skipped > 0) skipping.push(name(one));
      write(reported(name(one), result, keepOutput));
      if (result.failed > 0) failed.push({ one, result });
      else add(result);
    }
  };
  const runAgain = async (one) => {
    write(`again, alone: ${name(one)}\n`);
    const result = await runFile(one);
    write(reported(name(one), result, keepOutput));
    return result;
  };
  await Promise.all(Array.from({ length: Math.min(files.length, jobs) }, worker));
  const failures = [];
  const flaky = [];
  for (const { one, result } of failed) {
    const last = failed.length > MOST_AGAIN ? result : await runAgain(one);
    add(last);
    (last.failed > 0 ? failures : flaky).push(name(one));
  }

  const isEmpty = files.length === 0;
  return closeRun({ total, failures, flaky, skipping, skipsFail, isEmpty, write });
}

/**
 * How long a file is thought to take, milliseconds: as long as it took here or as the table says, whichever is longer,
 * for a run here may have skipped what needs a peer. In a fresh clone the table alone is known, and what it lacks is
 * quick; where other files have run, a file that has not is new, and counts as slow.
 */
function expectedMs(times, { leastSeconds = 0, seconds = {} } = {}) {
  const isFresh = Object.keys(times).length === 0;
  return (name, file) => {
    const told = seconds[file] === undefined ? undefined : seconds[file] * 1000;
    const took = times[name];
    if (told === undefined && took === undefined) return isFresh ? leastSeconds * 1000 : Number.MAX_VALUE;
    return Math.max(told ?? 0, took ?? 0);
  };
}

/**
 * The table with what these files took, milliseconds, in the place of what it had of them: the slowest first, and none
 * that takes less than its least.
 */
export function withTimes({ leastSeconds, seconds }, times) {
  const taken = Object.entries(times).map(([name, ms]) => [name, Math.round(ms / 1000)]);
  const all = Object.entries({ ...seconds, ...Object.fromEntries(taken) });
  const slow = all.filter(([, took]) => took >= leastSeconds).sort(([a, x], [b, y]) => y - x || a.localeCompare(b));
  return { leastSeconds, seconds: Object.fromEntries(slow) };
}

/** Writes what became of all files, last the line that is counted. @returns the exit code */
function closeRun({ total, failures, flaky, skipping, skipsFail, isEmpty, write }) {
  const skipped = skipsFail && total.skipped > 0;
  if (skipped) total.failed += total.skipped;
  write('\n');
  for (const file of flaky.sort()) write(`flaky: ${file}\n`);
  if (failures.length > 0) write(`failed: ${failures.sort().join(', ')}\n`);
  if (skipping.length > 0) write(`skipped in: ${skipping.sort().join(', ')}\n`);
  if (skipped) write('skipped tests are failures when CI=true: npm run peers installs what they need\n');
  if (isEmpty) write('no test file matches\n');
  if (total.optional > 0) write(`${total.optional} left out: they need a peer that not every machine can have\n`);
  write(`${total.passed} passed, ${total.failed} failed${total.skipped > 0 ? `, ${total.skipped} skipped` : ''}\n`);
  return total.failed > 0 || total.passed === 0 ? 1 : 0;
}

async function runFile({ file, moved = asItIs, peers }) {
  const started = performance.now();
  const counter = new TapCounter();
  const output = [];
  const { before, environment } = moved();
  const [program, ...args] = [...before, process.execPath, '--enable-source-maps', file];
  const child = spawn(program, args, {
    cwd: projectRoot,
    env: { ...(peers === undefined ? forTests : forTestsWithoutPeers)(process.env), TAP_TIMEOUT: String(TAP_TIMEOUT_S), ...environment },
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
  const amiss = [leftovers ? 'it left processes running, they were killed' : undefined, peersAmiss(peers, counter)].filter(Boolean);
  reasons.push(...amiss);
  if (amiss.length > 0 && counter.failed === 0) counter.failed = 1;
  const { passed, failed, skipped, optional } = counter;
  return { passed, failed, skipped, optional, reasons, output: output.join(''), ms: Math.round(performance.now() - started) };
}

/** What a file says about peers that scripts/needs-peers.json does not. */
function peersAmiss(peers, { withoutPeer, failed }) {
  if (peers === 'none' && withoutPeer > 0) return 'a test of it needs a peer: list the file in scripts/needs-peers.json';
  if (peers === 'missing' && withoutPeer === 0 && failed === 0)
    return 'no test of it needs a peer: take the file out of scripts/needs-peers.json';
  return undefined;
}

function asItIs() {
  return { before: [], environment: {} };
}

function reported(name, { passed, failed, skipped, optional, reasons, output, ms }, keepOutput) {
  const counts = [`${passed} passed`, ...counted(failed, 'failed'), ...counted(skipped, 'skipped'), ...counted(optional, 'left out')].join(
    ', ',
  );
  let text = `${failed > 0 ? 'FAILED' : 'ok    '} ${name}: ${counts}, ${(ms / 1000).toFixed(1)} s\n`;
  for (const reason of reasons) text += `       ${name}: ${reason}\n`;
  if (failed > 0) {
    for (const line of failuresIn(output)) text += `       ${line}\n`;
    text += `all that it said:${keepOutput === undefined ? shown(output) : ` ${keepOutput(name, output)}`}\n`;
  }
  return text;
}

function shown(output) {
  return `\n${output.length > OUTPUT_SHOWN ? `[...]${output.slice(-OUTPUT_SHOWN)}` : output}`;
}

function counted(count, what) {
  return count > 0 ? [`${count} ${what}`] : [];
}

/** The source's path, as a person would look for it. */
function nameOf(file, root) {
  return relative(root, file).replaceAll('\\', '/').replace(/\.js$/, '.ts');
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
