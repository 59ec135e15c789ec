import { createLogger } from '../../src/base/lib/log.ts';
import { startTestGateway, type TestGateway } from './gateway.ts';
import { connectThrough, h1Request, h2Session } from './raw-clients.ts';
import type { HasTeardown } from './temp-dir.ts';
import { startTlsUpstream, type TestUpstream, type TlsUpstreamOptions } from './tls-upstream.ts';
import { towards } from './upstreams.ts';

/** One known AI domain without a connector among them, and one AI host. */
export const HOSTS = ['www.example.com', 'chat.deepseek.com', 'api.openai.com', 'other.example'];

export type Env = Readonly<Record<string, string>>;

export interface Scene {
  readonly gw: TestGateway;
  /** Record ids of the log, in order. */
  readonly recorded: () => readonly string[];
  /** The whole log so far. */
  readonly said: () => string;
}

export async function gatewayFor(
  t: HasTeardown,
  upstream: Pick<TestUpstream, 'port' | 'caPem'>,
  env: Env,
  bundle?: string,
): Promise<Scene> {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const gw = await startTestGateway(t, {
    log,
    env: { ...towards(t, upstream, HOSTS), ...env },
    ...(bundle === undefined ? {} : { bundle }),
  });
  return { gw, recorded: () => lines.flatMap((line) => /"record_id":"([^"]+)"/.exec(line)?.[1] ?? []), said: () => lines.join('') };
}

export async function scene(t: HasTeardown, env: Env, { bundle, ...options }: TlsUpstreamOptions & { bundle?: string } = {}) {
  const upstream = await startTlsUpstream({ hosts: HOSTS, ...options });
  t.teardown(() => upstream.close());
  return { upstream, ...(await gatewayFor(t, upstream, env, bundle)) };
}

export async function get(t: HasTeardown, gw: TestGateway, host: string, caPem: string) {
  const socket = await connectThrough(gw.port, `${host}:443`, caPem);
  t.teardown(() => socket.destroy());
  return h1Request(socket, host);
}

export async function domains(gw: TestGateway, query = ''): Promise<readonly Record<string, unknown>[]> {
  const { body } = await gw.admin('GET', `/v1/admin/discovery/domains${query}`);
  return (body as { domains: Record<string, unknown>[] }).domains;
}

/** A TLS connection through the gateway that offers these protocols. */
export async function through(t: HasTeardown, gw: TestGateway, host: string, protocols: readonly string[]) {
  const socket = await connectThrough(gw.port, `${host}:443`, gw.caPem, { alpn: protocols });
  t.teardown(() => socket.destroy());
  return socket;
}

export async function h2Through(t: HasTeardown, gw: TestGateway, host = 'www.example.com') {
  const session = h2Session(await through(t, gw, host, ['h2']), host);
  t.teardown(() => session.destroy());
  return session;
}
