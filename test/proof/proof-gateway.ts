import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import type { Child, Ended } from '../support/child.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { launchGateway } from '../support/gateway-process.ts';
import { type CleanUp, sleep } from './checks.ts';
import { cpuMs, residentMb, waitedForCoreMs } from './process-state.ts';

/** A gateway that still runs after a day is killed. */
const LIMIT_MS = 86_400_000;
/** Options of Node that let a collection be asked for from outside; the product itself is started as it is. */
export const COLLECT_ON_SIGNAL = ['--expose-gc', '--import', "data:text/javascript,process.on('SIGUSR2',()=>gc())"];
const MOST_COLLECTIONS = 30;

/**
 * Lets a process that was started with {@link COLLECT_ON_SIGNAL} collect its garbage until that frees nothing more. One
 * that has no core has not heard of it yet: it is waited for until it has worked.
 */
export async function collectGarbage(pid: number): Promise<void> {
  let last = Number.POSITIVE_INFINITY;
  for (let same = 0, times = 0; same < 2 && times < MOST_COLLECTIONS; times += 1) {
    const worked = cpuMs(pid);
    process.kill(pid, 'SIGUSR2');
    await sleep(300);
    for (let waits = 0; cpuMs(pid) === worked && waits < 30; waits += 1) await sleep(100);
    const now = residentMb(pid);
    same = Math.abs(now - last) < 1 ? same + 1 : 0;
    last = now;
  }
}

/**
 * Folders of one proof. `work`, `home` and `temporary` are where a program writes that does not keep to its own
 * folders.
 */
export interface Folders {
  readonly root: string;
  readonly data: string;
  readonly ca: string;
  readonly work: string;
  readonly home: string;
  readonly temporary: string;
}

export function proofFolders(cleanUp: CleanUp): Folders {
  const root = mkdtempSync(join(tmpdir(), 'gw-proof-'));
  cleanUp.teardown(() => rmSync(root, { recursive: true, force: true, maxRetries: 3 }));
  const below = (name: string) => join(root, name);
  const folders = { root, data: below('data'), ca: below('ca'), work: below('work'), home: below('home'), temporary: below('tmp') };
  for (const folder of [folders.work, folders.home, folders.temporary]) mkdirSync(folder);
  return folders;
}

/** The settings of a gateway in these folders, on free ports, in front of an upstream of ours. */
export function proofEnvironment(
  folders: Folders,
  upstream: { readonly caPem: string; env(caFile: string): Record<string, string> },
): Record<string, string> {
  const caFile = join(folders.root, 'upstream-ca.pem');
  writeFileSync(caFile, upstream.caPem);
  return {
    HOME: folders.home,
    // All that it writes is to be in the folders of its own.
    GW_CONFIG_DIR: 'none',
    TMPDIR: folders.temporary,
    UV_THREADPOOL_SIZE: '16',
    GW_PORT: '0',
    GW_AMBIENT_PORT: '0',
    GW_DATA_DIR: folders.data,
    GW_CA_DIR: folders.ca,
    GW_POLICIES_DIR: join(packageRoot(), 'policies'),
    GW_ADMIN_TOKEN: ADMIN_TOKEN,
    GW_LOG_LEVEL: 'warn',
    // Each refusal is to have its record, which is then asked for.
    GW_STRANGER_RECORDS: '100000',
    ...upstream.env(caFile),
  };
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** On a connection of its own that is gone afterwards: an idle one of ours would look like a leak of the gateway. */
function ask(port: number, method: string, path: string, body?: unknown, key?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const shown = key === undefined ? { 'GW-Admin-Token': ADMIN_TOKEN } : { Authorization: `Bearer ${key}` };
    const headers = { ...shown, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) };
    const call = request({ port, host: '127.0.0.1', method, path, agent: false, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.on('error', reject);
    });
    call.on('error', reject);
    call.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** A gateway as a process of its own. */
export class ProofGateway {
  readonly child: Child;
  readonly pid: number;
  readonly port: number;
  readonly caPem: string;
  /** From the start of the process to the first answer of /healthz, less the time for which it waited for a core. */
  readonly startMs: number;

  private constructor(child: Child, pid: number, port: number, caPem: string, startMs: number) {
    this.child = child;
    this.pid = pid;
    this.port = port;
    this.caPem = caPem;
    this.startMs = startMs;
  }

  /** @throws Error with everything that the gateway said when it does not start */
  static async start(cleanUp: CleanUp, env: Readonly<Record<string, string>>, cwd: string): Promise<ProofGateway> {
    const started = performance.now();
    const { child, port, caFile } = await launchGateway(cleanUp, env, { nodeOptions: COLLECT_ON_SIGNAL, cwd, timeoutMs: LIMIT_MS });
    if (child.pid === undefined) throw new Error('the gateway has no process');
    const { status } = await ask(port, 'GET', '/healthz');
    if (status !== 200) throw new Error(`/healthz answers ${status}`);
    const startMs = performance.now() - started - waitedForCoreMs(child.pid);
    return new ProofGateway(child, child.pid, port, readFileSync(caFile, 'utf8'), startMs);
  }

  /** For those that connect to it. */
  get address(): { readonly port: number; readonly caPem: string } {
    return { port: this.port, caPem: this.caPem };
  }

  get(path: string): Promise<Answer> {
    return this.ask('GET', path);
  }

  /** With the admin's token. */
  ask(method: string, path: string, body?: unknown): Promise<Answer> {
    return ask(this.port, method, path, body);
  }

  /** A new management key of an org, that reads. */
  async managementKey(org: string): Promise<string> {
    const body = { org_id: org, name: 'proof', kind: 'management', scopes: ['read'] };
    const { status, text } = await ask(this.port, 'POST', '/v1/admin/mgmt-keys', body);
    if (status !== 201) throw new Error(`a management key is refused with ${status}: ${text}`);
    return (JSON.parse(text) as { key: string }).key;
  }

  /** With a management key. @throws Error when it is not answered 200 */
  async managed(key: string, path: string): Promise<unknown> {
    const { status, text } = await ask(this.port, 'GET', `/mgmt/v1/${path}`, undefined, key);
    if (status !== 200) throw new Error(`${path} answers ${status}: ${text}`);
    return JSON.parse(text) as unknown;
  }

  /** Values of `/metrics` that have no labels. Reading starts a new period of `nodejs_eventloop_lag_*`. */
  async metrics(): Promise<Readonly<Record<string, number>>> {
    const { text } = await this.get('/metrics');
    return Object.fromEntries([...text.matchAll(/^(\w+) (\S+)$/gm)].map(([, name, value]) => [name, Number(value)]));
  }

  /** Lines of its log that report an error, and whatever is no log line. */
  complaints(): string[] {
    const lines = this.child.stdout.split('\n').filter((line) => line.startsWith('{'));
    const errors = lines.filter((line) => Number((JSON.parse(line) as { level?: number }).level ?? 0) >= 50);
    return [...errors, ...this.child.stderr.split('\n').filter((line) => line !== '')];
  }

  async kill(): Promise<Ended> {
    this.child.kill('SIGKILL');
    return this.child.ended;
  }

  /** The orderly end. */
  async stop(): Promise<Ended> {
    this.child.kill('SIGTERM');
    return this.child.ended;
  }
}
