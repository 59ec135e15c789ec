import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Gateway, startGateway } from '../../src/app/gateway.ts';
import type { Replacements } from '../../src/app/resources.ts';
import { loadConfig } from '../../src/base/config/config.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { certificateClock as machineClock } from './certificate-clock.ts';
import { runningClock } from './fake-clock.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

export const ADMIN_TOKEN = 'test-admin-token-0123456789';

export interface TestGateway {
  readonly gateway: Gateway;
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly port: number;
  readonly ambientPort: number;
  readonly caPem: string;
  readonly caFile: string;
  readonly dataDir: string;
  /** Calls one of the gateway's own routes with the admin token; the body is parsed when it is JSON. */
  admin(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown; text: string }>;
  /** The stored record. */
  record(id: string): Promise<Record<string, unknown>>;
}

export interface TestGatewayOptions extends Replacements {
  readonly env?: Readonly<Record<string, string>>;
  /** YAML of a bundle in the place of the shipped one. */
  readonly bundle?: string;
}

/**
 * A whole gateway on free ports and temporary folders, closed at the end of the test. Its day is that of {@link
 * runningClock}, unless `clock` says otherwise; but the certificates that it makes are of today, since the TLS
 * libraries of its clients ask the machine. A test that moves them on with its own clock names that as
 * `certificateClock` too.
 */
export async function startTestGateway(t: HasTeardown, options: TestGatewayOptions = {}): Promise<TestGateway> {
  const dir = tempDir(t);
  const policiesDir = options.bundle === undefined ? join(packageRoot(), 'policies') : join(dir, 'policies');
  if (options.bundle !== undefined) {
    await mkdir(policiesDir);
    await writeFile(join(policiesDir, 'bundle.yaml'), options.bundle);
  }
  const dataDir = join(dir, 'data');
  const { config } = loadConfig(
    {
      GW_PORT: '0',
      GW_AMBIENT_PORT: '0',
      GW_DATA_DIR: dataDir,
      GW_CA_DIR: join(dir, 'ca'),
      GW_POLICIES_DIR: policiesDir,
      GW_ADMIN_TOKEN: ADMIN_TOKEN,
      GW_HEALTHZ_STARTUP_GRACE: '0s',
      GW_DRAIN_TIMEOUT: '2s',
      ...options.env,
    },
    false,
  );
  const { clock = runningClock, certificateClock = machineClock, log = silentLogger } = options;
  const gateway = await startGateway(config, { ...options, clock, certificateClock, log });
  t.teardown(() => gateway.stop());
  const url = `http://127.0.0.1:${gateway.port}`;
  const admin = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(url + path, {
      method,
      headers: { 'GW-Admin-Token': ADMIN_TOKEN, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const json = response.headers.get('content-type')?.includes('json') === true;
    return { status: response.status, text, body: json ? (JSON.parse(text) as unknown) : text };
  };
  return {
    gateway,
    url,
    port: gateway.port,
    ambientPort: gateway.ambientPort,
    caPem: gateway.caFile === undefined ? '' : readFileSync(gateway.caFile, 'utf8'),
    caFile: gateway.caFile ?? '',
    dataDir,
    admin,
    record: async (id) => (await admin('GET', `/v1/records/${id}`)).body as Record<string, unknown>,
  };
}
