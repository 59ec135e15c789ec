import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(fileURLToPath(import.meta.url));

/** A process of the benchmark, and what the system's accounting says about it. */
export class Measured {
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
  }

  /**
   * CPU microseconds, user and system, of all its threads so far: to the nanosecond, where the ticks of
   * `/proc/PID/stat` are 10 ms long.
   */
  cpuMicros(): number {
    const tasks = `/proc/${this.#child.pid}/task`;
    const nanos = readdirSync(tasks).map((task) => Number(readFileSync(join(tasks, task, 'schedstat'), 'latin1').split(' ', 1)[0]));
    return nanos.reduce((sum, one) => sum + one, 0) / 1_000;
  }

  rssMb(): number {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${this.#child.pid}/status`, 'latin1'))?.[1] ?? 0) / 1024;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGTERM');
    await gone;
  }
}

/** Starts one of the benchmark's own servers; resolves with the JSON line that it prints. */
export async function startServer<T>(script: string, args: readonly string[]): Promise<Measured & { ready: T }> {
  const child = spawn(process.execPath, [join(HERE, script), ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ready = await new Promise<T>((resolve, reject) => {
    child.stdout?.once('data', (line: Buffer) => resolve(JSON.parse(line.toString()) as T));
    child.once('exit', (code) => reject(new Error(`${script} ended with ${code}`)));
  });
  return Object.assign(new Measured(child), { ready });
}

/**
 * Starts a gateway as a user does, its log written to a file, and reads its ports from the start-up text. `root`: of a
 * checkout that is built.
 */
export async function startGateway(dir: string, root: string, env: Readonly<Record<string, string>>): Promise<Measured & { port: number }> {
  const logFile = join(dir, 'gateway.log');
  const log = openSync(logFile, 'w');
  const child = spawn(process.execPath, [join(root, 'build', 'src', 'main.js'), 'start'], {
    env: {
      PATH: process.env['PATH'] ?? '',
      UV_THREADPOOL_SIZE: '16',
      GW_PORT: '0',
      GW_AMBIENT_PORT: '0',
      GW_DATA_DIR: join(dir, 'data'),
      GW_CA_DIR: join(dir, 'ca'),
      ...env,
    },
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  for (let tries = 0; tries < 200; tries += 1) {
    const port = /proxy +http:\/\/127\.0\.0\.1:(\d+)/.exec(readFileSync(logFile, 'utf8'))?.[1];
    if (port !== undefined) return Object.assign(new Measured(child), { port: Number(port) });
    if (child.exitCode !== null) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  child.kill('SIGKILL');
  throw new Error(`the gateway did not start:\n${readFileSync(logFile, 'utf8')}`);
}

export interface LoadResult {
  readonly requests: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
}

/** Runs the load generator in a process of its own. */
export async function runLoad(job: object): Promise<LoadResult> {
  const child = spawn(process.execPath, [join(HERE, 'load.js'), JSON.stringify(job)], { stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  const code = await new Promise((resolve) => child.once('close', resolve));
  if (code !== 0) throw new Error(`the load generator failed: ${err}`);
  return JSON.parse(out) as LoadResult;
}
