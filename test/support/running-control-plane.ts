import { join } from 'node:path';
import { silentLogger } from '../../src/base/lib/log.ts';
import { type ControlPlane, startControlPlane } from '../../src/control-plane/app/control-plane.ts';
import { fakeClock } from './fake-clock.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

/** Of the org acme. */
export const PLANE_BUNDLE = `schema: gw.policy_bundle.v1
bundle_id: acme
version: "1"
inline_rules:
  connectors:
    - id: acme.openai
      when: { field: context.connector.id, equals: openai }
      effect: { decision: allow }
`;
export const PLANE_TOKEN = 'admin-token-of-the-control-plane';

export interface PlaneAnswer {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
  /** Empty where the answer is none. */
  readonly json: Readonly<Record<string, unknown>>;
}

export interface AskedPlane {
  readonly headers?: Readonly<Record<string, string>>;
  /** A text is sent as it is. */
  readonly body?: unknown;
}

/** A control plane in this process. */
export interface RunningPlane {
  readonly plane: ControlPlane;
  readonly url: string;
  readonly clock: ReturnType<typeof fakeClock>;
  /** With its token. */
  readonly ask: (method: string, path: string, body?: unknown) => Promise<PlaneAnswer>;
  /** With what is given alone. */
  readonly bare: (method: string, path: string, asked?: AskedPlane) => Promise<PlaneAnswer>;
  /** For the commands. */
  readonly env: Readonly<Record<string, string>>;
}

/** Starts a control plane on free ports and in a temporary folder. */
export async function startPlane(t: HasTeardown, settings: { readonly metricsToken?: string } = {}): Promise<RunningPlane> {
  const clock = fakeClock(Date.UTC(2026, 10, 24, 12));
  const plane = await startControlPlane(
    {
      host: '127.0.0.1',
      grpcPort: 0,
      httpPort: 0,
      dataDir: join(tempDir(t), 'control-plane'),
      adminToken: PLANE_TOKEN,
      secretsKey: undefined,
      metricsToken: settings.metricsToken,
      names: ['localhost', '127.0.0.1'],
      drainTimeout: 0,
    },
    { clock, log: silentLogger },
  );
  t.teardown(() => plane.stop());
  const url = `http://127.0.0.1:${plane.httpPort}`;
  const bare = (method: string, path: string, asked: AskedPlane = {}) => askAt(url + path, method, asked);
  return {
    plane,
    url,
    clock,
    bare,
    ask: (method, path, body) => bare(method, path, { headers: { 'CP-Admin-Token': PLANE_TOKEN }, body }),
    env: { CP_ADMIN_TOKEN: PLANE_TOKEN, CP_HTTP_PORT: String(plane.httpPort), CP_GRPC_PORT: String(plane.grpcPort) },
  };
}

async function askAt(url: string, method: string, { headers = {}, body }: AskedPlane): Promise<PlaneAnswer> {
  const isText = typeof body === 'string';
  const sent = isText || body === undefined ? body : JSON.stringify(body);
  const response = await fetch(url, {
    method,
    headers: { ...(sent === undefined || isText ? {} : { 'Content-Type': 'application/json' }), ...headers },
    ...(sent === undefined ? {} : { body: sent }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') === true;
  const json = isJson ? (JSON.parse(text) as Record<string, unknown>) : {};
  return { status: response.status, text, headers: response.headers, json };
}
