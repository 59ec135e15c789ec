// What a whole gateway does about the name in the ClientHello of a passed tunnel (decisions 3.9, 7.3).
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { isVerified } from '../support/is-verified.ts';
import { connectThrough, h1Request } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { startTlsUpstream, type TestUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const HOSTS = ['www.example.com', 'api.openai.com', 'api.anthropic.com', 'my-res.openai.azure.com'];

interface Scene {
  readonly upstream: TestUpstream;
  readonly gw: TestGateway;
  /** Record ids of the log, in order. */
  readonly recorded: () => readonly string[];
}

async function scene(t: HasTeardown, env: Readonly<Record<string, string>> = {}): Promise<Scene> {
  const upstream = await startTlsUpstream({ hosts: HOSTS });
  t.teardown(() => upstream.close());
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const gw = await startTestGateway(t, { log, env: { ...towards(t, upstream, HOSTS), ...env } });
  const recorded = (): readonly string[] => lines.flatMap((line) => /"record_id":"([^"]+)"/.exec(line)?.[1] ?? []);
  return { upstream, gw, recorded };
}

const MISMATCH = /unrecognized name|UNRECOGNIZED_NAME/i;

// Holds: no-second-way-to-a-provider, connect-chooses-the-destination
t.test('an AI host in the ClientHello of a tunnel to another host ends it, with a record of the connection', async (t) => {
  const { upstream, gw, recorded } = await scene(t);
  for (const servername of ['api.openai.com', 'API.Anthropic.COM', 'my-res.openai.azure.com'])
    await t.rejects(connectThrough(gw.port, 'www.example.com:443', upstream.caPem, { servername }), MISMATCH, servername);
  t.equal(upstream.connections, 0);
  t.equal(recorded().length, 3);
  const record = await gw.record(recorded()[1] ?? '');
  t.match(record, {
    decision: 'deny',
    reason_codes: ['sni_mismatch'],
    reason: 'The ClientHello names api.anthropic.com, the CONNECT www.example.com.',
    record_tier: 'connection',
    target_host: 'www.example.com',
    action_type: 'http.request',
    action_method: 'CONNECT',
    connection_type: 'connect_proxy',
    traffic_class: 'developer',
    org_id: 'default',
    workload_id: 'default',
  });
  t.ok(isVerified(record));
  t.match((await gw.admin('GET', '/metrics')).text, /gw_policy_deny_total\{org_id="default",reason_code="sni_mismatch"\} 3/);
});

t.test('the record says who opened the tunnel, and leaves out what is not legible', async (t) => {
  const { upstream, gw, recorded } = await scene(t);
  const send = (headers: Readonly<Record<string, string>>, port = gw.port): Promise<unknown> =>
    connectThrough(port, 'www.example.com:443', upstream.caPem, { servername: 'api.openai.com', headers });
  const user = `Basic ${Buffer.from('ci-runner:x').toString('base64')}`;
  await t.rejects(send({ 'Proxy-Authorization': user, 'X-GW-Org-ID': 'acme', 'X-GW-Project-ID': 'apollo' }, gw.ambientPort), MISMATCH);
  t.match(await gw.record(recorded()[0] ?? ''), {
    workload_id: 'ci-runner',
    org_id: 'acme',
    project_id: 'apollo',
    traffic_class: 'ambient',
    reason_codes: ['sni_mismatch'],
  });
  await t.rejects(send({ 'X-GW-Org-ID': 'not an id!' }), MISMATCH);
  t.match(await gw.record(recorded()[1] ?? ''), { org_id: 'default', workload_id: 'default', reason_codes: ['sni_mismatch'] });
});

t.test('other names pass: its own host, a host that is no AI host, a bypassed host in its own tunnel', async (t) => {
  const { upstream, gw, recorded } = await scene(t, { GW_PROXY_BYPASS: 'api.openai.com' });
  const cases = [
    ['www.example.com:443', 'WWW.example.com'],
    ['api.openai.com:443', 'api.openai.com'],
  ] as const;
  for (const [authority, servername] of cases) {
    const socket = await connectThrough(gw.port, authority, upstream.caPem, { servername });
    t.teardown(() => socket.destroy());
    t.equal((await h1Request(socket, 'www.example.com')).status, 200);
  }
  await t.rejects(
    connectThrough(gw.port, 'api.openai.com:443', upstream.caPem, { servername: 'www.example.org' }),
    /altnames/,
    'judged by the client',
  );
  await t.rejects(connectThrough(gw.port, 'www.example.com:443', upstream.caPem, { servername: 'api.openai.com' }), MISMATCH);
  t.equal(recorded().length, 1, 'a bypassed host is bypassed by its own name only');
});

t.test('without interception the host that a CONNECT was decided for is the only AI host it leads to', async (t) => {
  const { upstream, gw, recorded } = await scene(t, { GW_PROXY_MITM_ENABLED: 'false' });
  await t.rejects(connectThrough(gw.port, 'api.openai.com:443', upstream.caPem, { servername: 'api.anthropic.com' }), MISMATCH);
  const records = await Promise.all(recorded().map((id) => gw.record(id)));
  t.match(records, [
    { decision: 'allow', record_tier: 'connection', target_host: 'api.openai.com' },
    { decision: 'deny', record_tier: 'connection', target_host: 'api.openai.com', reason_codes: ['sni_mismatch'] },
  ]);
  const socket = await connectThrough(gw.port, 'api.openai.com:443', upstream.caPem);
  t.teardown(() => socket.destroy());
  t.equal((await h1Request(socket, 'api.openai.com')).status, 200);
});
