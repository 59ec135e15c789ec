import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { type Child, eventually, launch } from './child.ts';
import { ADMIN_TOKEN } from './gateway.ts';
import { programUnderTest } from './program-under-test.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

/** The compiled program, beside the compiled tests, or that of the package. */
export const MAIN = programUnderTest();

export interface GatewayProcess {
  readonly child: Child;
  readonly port: number;
  readonly ambientPort: number;
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly ambientUrl: string;
  /** The root alone, for variables that add to a trust store. */
  readonly caFile: string;
  /** The system's roots and ours, for variables that replace it. */
  readonly bundleFile: string;
  /** Folders and settings, to start another one on them. */
  readonly env: Readonly<Record<string, string>>;
  admin(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown; text: string }>;
  /** The stored record, as soon as there is one. */
  record(id: string | undefined): Promise<Record<string, unknown>>;
}

export interface GatewayProcessOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** YAML of a bundle in the place of the shipped one. */
  readonly bundle?: string;
}

/** Settings for a gateway on free ports and temporary folders. */
export function gatewayEnvironment(t: HasTeardown, options: GatewayProcessOptions = {}): Record<string, string> {
  const dir = tempDir(t);
  const policiesDir = options.bundle === undefined ? join(packageRoot(), 'policies') : join(dir, 'policies');
  if (options.bundle !== undefined) {
    mkdirSync(policiesDir);
    writeFileSync(join(policiesDir, 'bundle.yaml'), options.bundle);
  }
  return {
    UV_THREADPOOL_SIZE: '16',
    GW_PORT: '0',
    GW_AMBIENT_PORT: '0',
    GW_DATA_DIR: join(dir, 'data'),
    GW_CA_DIR: join(dir, 'ca'),
    GW_POLICIES_DIR: policiesDir,
    GW_ADMIN_TOKEN: ADMIN_TOKEN,
    GW_HEALTHZ_STARTUP_GRACE: '0s',
    ...options.env,
  };
}

/** A gateway as a process of its own, started as its launcher starts it; returns as soon as it says where it is. */
export async function startGatewayProcess(t: HasTeardown, options: GatewayProcessOptions = {}): Promise<GatewayProcess> {
  return startGatewayWith(t, gatewayEnvironment(t, options));
}

export interface LaunchOptions {
  /** Options of Node before the program. */
  readonly nodeOptions?: readonly string[];
  readonly cwd?: string;
  /** A gateway that still runs then is killed. */
  readonly timeoutMs?: number;
}

/** A gateway that has said where it is. */
export interface LaunchedGateway {
  readonly child: Child;
  readonly port: number;
  readonly ambientPort: number;
  readonly caFile: string;
}

/** @throws Error with everything that the gateway said when it does not start */
export async function launchGateway(
  t: HasTeardown,
  env: Readonly<Record<string, string>>,
  { nodeOptions = [], cwd, timeoutMs = 900_000 }: LaunchOptions = {},
): Promise<LaunchedGateway> {
  const options = { env, timeoutMs, ...(cwd === undefined ? {} : { cwd }) };
  const child = launch(t, process.execPath, [...nodeOptions, MAIN, 'start'], options);
  let over = false;
  void child.ended.then(() => {
    over = true;
  });
  return eventually('the start of the gateway', () => {
    if (over) throw new Error(`the gateway ended: ${child.stdout}${child.stderr}`);
    const port = /^ {2}proxy +https?:\/\/127\.0\.0\.1:(\d+)$/m.exec(child.stdout)?.[1];
    const ambient = /^ {2}ambient +https?:\/\/127\.0\.0\.1:(\d+)$/m.exec(child.stdout)?.[1];
    const caFile = /^ {2}ca +(\/.*)$/m.exec(child.stdout)?.[1];
    if (port === undefined || ambient === undefined || caFile === undefined) return undefined;
    return { child, port: Number(port), ambientPort: Number(ambient), caFile };
  });
}

/** The same on folders and settings that exist already. */
export async function startGatewayWith(t: HasTeardown, env: Readonly<Record<string, string>>): Promise<GatewayProcess> {
  const { child, port, ambientPort, caFile } = await launchGateway(t, env, { nodeOptions: ['--enable-source-maps'] });
  const url = `http://127.0.0.1:${port}`;
  const admin = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(url + path, {
      method,
      headers: { 'GW-Admin-Token': ADMIN_TOKEN, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const json = response.headers.get('content-type')?.includes('json') === true;
    return { status: response.status, text, body: json ? (JSON.parse(text) as unknown) : text };
  };
  return {
    child,
    port,
    ambientPort,
    url,
    ambientUrl: `http://127.0.0.1:${ambientPort}`,
    caFile,
    bundleFile: join(String(env['GW_CA_DIR']), 'ca-bundle.pem'),
    env,
    admin,
    record: async (id) => {
      if (id === undefined) throw new Error('the answer had no X-GW-Record-ID');
      return eventually(`the record ${id}`, async () => {
        const { status, body } = await admin('GET', `/v1/records/${id}`);
        return status === 200 ? (body as Record<string, unknown>) : undefined;
      });
    },
  };
}
