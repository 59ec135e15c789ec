import { type ChildProcess, spawn } from 'node:child_process';
import type { HasTeardown } from './temp-dir.ts';

/**
 * How a child ended, with everything that it said. A program that could not be started has the reason in `stderr` and
 * no code.
 */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Child {
  readonly pid: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** Never rejects. */
  readonly ended: Promise<Ended>;
  kill(signal: NodeJS.Signals): void;
}

export interface ChildOptions {
  /** The whole environment; nothing is inherited but {@link bareEnvironment}. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly input?: string;
  /** A child that still runs then is killed. Default ten minutes. */
  readonly timeoutMs?: number;
}

/**
 * Where a program finds others and keeps temporary files, and by which clock it lives: `npm run dates` moves that of
 * every process.
 */
const PASSED_ON = ['TMPDIR', 'TZ', 'LD_PRELOAD', 'FAKETIME', 'FAKETIME_SHARED', 'FAKETIME_DONT_FAKE_MONOTONIC'];

/** What a program needs to start, and nothing that tells it about proxies, certificates or gateways. */
export function bareEnvironment(): Record<string, string> {
  const { PATH = '/usr/bin:/bin' } = process.env;
  const passedOn = PASSED_ON.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]] as const]));
  return { PATH, LANG: 'C.UTF-8', ...Object.fromEntries(passedOn) };
}

/** Starts a program that is killed with the test, if it still runs then. */
export function launch(t: HasTeardown, command: string, args: readonly string[], options: ChildOptions = {}): Child {
  const child = spawn(command, args, { env: { ...bareEnvironment(), ...options.env }, cwd: options.cwd, stdio: 'pipe' });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.input ?? '');
  const timer = setTimeout(() => child.kill('SIGKILL'), options.timeoutMs ?? 600_000);
  const ended = endOf(child).then(({ code, signal, error }) => {
    clearTimeout(timer);
    if (error !== undefined) stderr += `${error}\n`;
    return { code, signal, stdout, stderr };
  });
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await ended;
  });
  return {
    pid: child.pid,
    get stdout() {
      return stdout;
    },
    get stderr() {
      return stderr;
    },
    ended,
    kill: (signal) => void child.kill(signal),
  };
}

/** Runs a program to its end. */
export function run(t: HasTeardown, command: string, args: readonly string[], options: ChildOptions = {}): Promise<Ended> {
  return launch(t, command, args, options).ended;
}

function endOf(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null; error?: string }> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve({ code: null, signal: null, error: error.message }));
    child.once('close', (code, signal) => resolve({ code, signal }));
  });
}

/**
 * How long a test waits for what must come: no judgement of speed, which nobody can tell on a machine that is busy with
 * something else.
 */
const PATIENCE_MS = 240_000;

/**
 * Looks again and again until there is something.
 * @throws Error when there is nothing within the limit
 */
export async function eventually<T>(what: string, look: () => T | undefined | Promise<T | undefined>, limitMs = PATIENCE_MS): Promise<T> {
  const until = performance.now() + limitMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() > until) throw new Error(`${what}: not within ${limitMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Lets at most `limit` of the given tasks run at a time. */
export function atMost(limit: number): <T>(task: () => Promise<T>) => Promise<T> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (task) => {
    if (running >= limit) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}
