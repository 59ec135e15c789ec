import { join } from 'node:path';
import { type Child, eventually, launch, run } from './child.ts';
import { MAIN } from './gateway-process.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

export const CP_ADMIN_TOKEN = 'test-control-plane-token-0123456789';

/** What the admin API has answered. */
export interface ControlPlaneAnswer {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly text: string;
}

/** A reference control plane that has said where it is. */
export interface ControlPlaneProcess {
  readonly child: Child;
  /** Of 127.0.0.1, for gateways. */
  readonly grpcPort: number;
  /** `http://127.0.0.1:PORT` of its admin API. */
  readonly url: string;
  /** Folders and settings, to start another one on them. */
  readonly env: Readonly<Record<string, string>>;
  admin(method: string, path: string, body?: unknown): Promise<ControlPlaneAnswer>;
  /** As {@link admin}. @throws Error unless the answer is 2xx */
  does(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
}

/** Settings for a control plane on free ports and in a temporary folder (decision 13.5). */
export function controlPlaneEnvironment(t: HasTeardown, env: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {
    CP_HOST: '127.0.0.1',
    CP_GRPC_PORT: '0',
    CP_HTTP_PORT: '0',
    CP_DATA_DIR: join(tempDir(t), 'control-plane-data'),
    CP_ADMIN_TOKEN,
    ...env,
  };
}

/**
 * Starts `gw control-plane start`; returns as soon as it says where it is.
 * @throws Error with everything that it said when it does not start
 */
export async function startControlPlaneProcess(
  t: HasTeardown,
  env: Readonly<Record<string, string>>,
  timeoutMs = 3_600_000,
): Promise<ControlPlaneProcess> {
  const child = launch(t, process.execPath, ['--enable-source-maps', MAIN, 'control-plane', 'start'], { env, timeoutMs });
  let over = false;
  void child.ended.then(() => {
    over = true;
  });
  const { grpcPort, httpPort } = await eventually('the start of the control plane', () => {
    if (over) throw new Error(`the control plane ended: ${child.stdout}${child.stderr}`);
    return announcedPorts(child.stdout);
  });
  const url = `http://127.0.0.1:${httpPort}`;
  const admin = (method: string, path: string, body?: unknown) => askControlPlane(url, method, path, body);
  return {
    child,
    grpcPort,
    url,
    env,
    admin,
    does: async (method, path, body) => {
      const { status, text, body: answer } = await admin(method, path, body);
      if (status < 200 || status > 299) throw new Error(`${method} ${path} is answered ${status}: ${text}`);
      return answer;
    },
  };
}

/** `gw control-plane …` against a control plane, to its end. */
export function controlPlaneCommand(t: HasTeardown, env: Readonly<Record<string, string>>, args: readonly string[]) {
  return run(t, process.execPath, [MAIN, 'control-plane', ...args], { env });
}

/** Of its announcement: the port for gateways, and that of the admin API. */
function announcedPorts(said: string): { readonly grpcPort: number; readonly httpPort: number } | undefined {
  const grpc = /^ {2}gateways +(?:https?:\/\/)?127\.0\.0\.1:(\d+)\b/m.exec(said)?.[1];
  const http = /^ {2}admin API +https?:\/\/127\.0\.0\.1:(\d+)\b/m.exec(said)?.[1];
  return grpc === undefined || http === undefined ? undefined : { grpcPort: Number(grpc), httpPort: Number(http) };
}

async function askControlPlane(url: string, method: string, path: string, body: unknown): Promise<ControlPlaneAnswer> {
  const response = await fetch(url + path, {
    method,
    headers: { 'CP-Admin-Token': CP_ADMIN_TOKEN, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const json = response.headers.get('content-type')?.includes('json') === true;
  return { status: response.status, text, body: json ? (JSON.parse(text) as Record<string, unknown>) : {} };
}
