// Traffic to hosts that no connector has, in each mode of GW_PROXY_NON_AI, and the discovery that it feeds (decisions 3.8 to 3.11, 7.3).
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf } from '../support/governed.ts';
import { connectPlain, connectThrough, h1Request } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { startPlainUpstream, startTlsUpstream, type TestUpstream, type TlsUpstreamOptions } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const HOSTS = ['www.example.com', 'chat.deepseek.com', 'api.openai.com', 'other.example'];

type Env = Readonly<Record<string, string>>;

interface Scene {
  readonly gw: TestGateway;
  /** Record ids of the log, in order. */
  readonly recorded: () => readonly string[];
}

async function gatewayFor(t: HasTeardown, upstream: TestUpstream, env: Env, bundle?: string): Promise<Scene> {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const gw = await startTestGateway(t, {
    log,
    env: { ...towards(t, upstream, HOSTS), ...env },
    ...(bundle === undefined ? {} : { bundle }),
  });
  return { gw, recorded: () => lines.flatMap((line) => /"record_id":"([^"]+)"/.exec(line)?.[1] ?? []) };
}

async function scene(t: HasTeardown, env: Env, { bundle, ...options }: TlsUpstreamOptions & { bundle?: string } = {}) {
  const upstream = await startTlsUpstream({ hosts: HOSTS, ...options });
  t.teardown(() => upstream.close());
  return { upstream, ...(await gatewayFor(t, upstream, env, bundle)) };
}

async function get(t: HasTeardown, gw: TestGateway, host: string, caPem: string) {
  const socket = await connectThrough(gw.port, `${host}:443`, caPem);
  t.teardown(() => socket.destroy());
  return h1Request(socket, host);
}

async function domains(gw: TestGateway, query = ''): Promise<readonly Record<string, unknown>[]> {
  const { body } = await gw.admin('GET', `/v1/admin/discovery/domains${query}`);
  return (body as { domains: Record<string, unknown>[] }).domains;
}

t.test('pass: tunnels are counted and leave no record', async (t) => {
  const { gw, upstream, recorded } = await scene(t, {});
  t.equal((await get(t, gw, 'www.example.com', upstream.caPem)).status, 200);
  t.equal((await get(t, gw, 'www.example.com', upstream.caPem)).status, 200);
  t.same(recorded(), []);
  t.match(await domains(gw), [{ domain: 'www.example.com', connections: 2, requests: 0, managed: false }]);
});

t.test('govern-ai: a CONNECT to a known AI domain is decided by its host, every other one passes', async (t) => {
  const bundle = bundleOf(
    '  targets:\n    - {id: chats, when: {field: action.target_host, equals: chat.deepseek.com}, effect: {decision: deny, reason: not approved}}\n    - {id: all, effect: {decision: allow}}\n',
  );
  const { gw, upstream, recorded } = await scene(t, { GW_PROXY_NON_AI: 'govern-ai' }, { bundle });
  await t.rejects(connectThrough(gw.port, 'chat.deepseek.com:443', upstream.caPem), /403/);
  t.equal((await get(t, gw, 'www.example.com', upstream.caPem)).status, 200);
  t.equal(recorded().length, 1);
  t.match(await gw.record(recorded()[0] ?? ''), {
    decision: 'deny',
    record_tier: 'connection',
    action_type: 'http.request',
    action_method: 'CONNECT',
    connector_id: 'generic_http',
    target_host: 'chat.deepseek.com',
  });
  t.equal(upstream.connections, 1, 'the denied one was not dialled');
  t.match(await domains(gw, '?managed=false'), [
    { domain: 'www.example.com', connections: 1 },
    { domain: 'chat.deepseek.com', connections: 1, vendor: 'DeepSeek' },
  ]);
});

t.test('govern-ai: what policy lets through is a tunnel with a record of the connection, and plain HTTP is governed', async (t) => {
  const plain = await startPlainUpstream();
  t.teardown(() => plain.close());
  const { gw, upstream, recorded } = await scene(t, { GW_PROXY_NON_AI: 'govern-ai' }, { bundle: ALLOW_ALL });
  t.equal((await get(t, gw, 'chat.deepseek.com', upstream.caPem)).status, 200);
  t.match(await gw.record(recorded()[0] ?? ''), { decision: 'allow', record_tier: 'connection', target_host: 'chat.deepseek.com' });
  const scheme = await gatewayFor(
    t,
    upstream,
    {
      GW_PROXY_NON_AI: 'govern-ai',
      GW_UPSTREAM_CONNECT_TO: `chat.deepseek.com:80=127.0.0.1:${plain.port},www.example.com:80=127.0.0.1:${plain.port}`,
    },
    ALLOW_ALL,
  );
  for (const host of ['chat.deepseek.com', 'www.example.com']) {
    const socket = await connectPlain(scheme.gw.port);
    t.teardown(() => socket.destroy());
    t.equal((await h1Request(socket, host, { path: `http://${host}/page?q=secret` })).status, 200);
  }
  t.equal(scheme.recorded().length, 1);
  const record = await scheme.gw.record(scheme.recorded()[0] ?? '');
  t.match(record, { record_tier: 'action', connector_id: 'generic_http', target_host: 'chat.deepseek.com', target_path: '/page?q' });
  t.notMatch(JSON.stringify(record), 'secret');
});

t.test('the discovery list shows what is managed, can be reset, and can be switched off', async (t) => {
  const { gw, upstream } = await scene(t, {});
  await get(t, gw, 'api.openai.com', gw.caPem);
  await get(t, gw, 'www.example.com', upstream.caPem);
  t.match(await domains(gw, '?managed=true'), [{ domain: 'api.openai.com', connections: 1, requests: 1, connector_id: 'openai' }]);
  t.match(await domains(gw, '?managed=false'), [{ domain: 'www.example.com' }]);
  t.match(await gw.admin('GET', '/v1/admin/discovery/domains?managed=perhaps'), {
    status: 400,
    body: { error: { code: 'invalid_request', details: [{ path: 'managed' }] } },
  });
  t.match((await gw.admin('GET', '/metrics')).text, /^gw_discovered_domains 2$/m);
  t.match(await gw.admin('DELETE', '/v1/admin/discovery/domains'), { status: 204, text: '' });
  t.same(await domains(gw), []);
  t.equal((await fetch(`${gw.url}/v1/admin/discovery/domains`)).status, 401);

  const off = await gatewayFor(t, upstream, { GW_DISCOVERY_ENABLED: 'false' });
  await get(t, off.gw, 'www.example.com', upstream.caPem);
  for (const method of ['GET', 'DELETE'])
    t.match(await off.gw.admin(method, '/v1/admin/discovery/domains'), {
      status: 404,
      body: { error: { code: 'not_found', message: /GW_DISCOVERY_ENABLED/ } },
    });
});
