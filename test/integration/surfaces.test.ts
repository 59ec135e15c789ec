import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { startTestGateway } from '../support/gateway.ts';
import { connectPlain, connectThrough, h1Request, openTunnel } from '../support/raw-clients.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

t.test('health, trust material and the proxy configuration need no token and are on both ports', async (t) => {
  const gw = await startTestGateway(t);
  for (const port of [gw.port, gw.ambientPort]) {
    const url = `http://127.0.0.1:${port}`;
    const health = (await (await fetch(`${url}/healthz`)).json()) as Record<string, unknown>;
    t.match(health, {
      status: 'ok',
      node_id: /./,
      cp_status: 'unconfigured',
      bundle_id: 'default',
      connectors: [{ id: 'openai', healthy: true }],
    });
    const pem = await (await fetch(`${url}/v1/proxy/ca.crt`)).text();
    t.equal(pem, gw.caPem);
    const der = await (await fetch(`${url}/v1/proxy/ca.crt?format=der`)).arrayBuffer();
    t.equal(new X509Certificate(Buffer.from(der)).fingerprint256, new X509Certificate(pem).fingerprint256);
    const asked = await fetch(`${url}/v1/proxy/ca.crt`, { headers: { accept: 'application/pkix-cert' } });
    t.equal(asked.headers.get('content-type'), 'application/pkix-cert');
    const bundle = await (await fetch(`${url}/v1/proxy/ca-bundle.crt`)).text();
    t.ok(bundle.includes(pem.trim()) && (bundle.match(/BEGIN CERTIFICATE/g)?.length ?? 0) > 50);
    t.notMatch(pem + bundle, 'PRIVATE');
  }
  t.equal((await fetch(`http://127.0.0.1:${gw.ambientPort}/v1/admin/workloads`)).status, 404);
  t.equal((await fetch(`http://127.0.0.1:${gw.ambientPort}/metrics`)).status, 404);
});

t.test('the PAC file sends AI domains to the proxy and everything else direct', async (t) => {
  const gw = await startTestGateway(t);
  const find = async (query: string, host: string) => {
    const text = await (await fetch(`${gw.url}/proxy.pac${query}`)).text();
    const shExpMatch = (value: string, glob: string) => new RegExp(`^${glob.replace(/[.]/g, '\\.').replace(/[*]/g, '.*')}$`).test(value);
    return runInNewContext(`${text}; FindProxyForURL("https://${host}/", "${host}")`, { shExpMatch }) as string;
  };
  const proxy = `PROXY 127.0.0.1:${gw.port}`;
  t.equal(await find('', 'api.openai.com'), proxy);
  t.equal(await find('', 'my-res.openai.azure.com'), proxy);
  t.equal(await find('', 'chatgpt.com'), proxy);
  t.equal(await find('', 'EXAMPLE.org'), 'DIRECT');
  for (const all of ['true', 'TRUE']) t.equal(await find(`?all=${all}`, 'example.org'), proxy);
  t.equal(await find('?all=false', 'example.org'), 'DIRECT');
  for (const all of ['1', 'yes', ''])
    t.equal((await fetch(`${gw.url}/proxy.pac?all=${all}`)).status, 400, `${all}: not everything, and nobody would see it`);
});

t.test('without interception there is no certificate, and a CONNECT is decided and recorded by its host', async (t) => {
  const upstream = await startTlsUpstream({ hosts: ['api.openai.com'] });
  t.teardown(() => upstream.close());
  const env = { ...towards(t, upstream, ['api.openai.com']), GW_PROXY_MITM_ENABLED: 'false' };
  const gw = await startTestGateway(t, { env });
  t.equal((await fetch(`${gw.url}/v1/proxy/ca.crt`)).status, 404);
  const socket = await connectThrough(gw.port, 'api.openai.com:443', upstream.caPem);
  t.teardown(() => socket.destroy());
  const answer = await h1Request(socket, 'api.openai.com', { path: '/v1/models' });
  t.equal(answer.status, 200);
  t.notOk(answer.headers['x-gw-record-id'], 'nothing was opened');
  t.match((await gw.admin('GET', '/metrics')).text, /gw_requests_total\{action_type="http\.request",decision="allow",org_id="default"\} 1/);
  await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: 'schema: gw.policy_bundle.v1\nbundle_id: none\nversion: "1"\n' });
  await t.rejects(openTunnel(gw.port, 'api.openai.com:443'), /403/);
});

t.test('what is no AI host is tunnelled unopened and counted', async (t) => {
  const server = createServer((socket) => socket.on('error', () => undefined).end('hello from the other side'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const gw = await startTestGateway(t, { env: { GW_UPSTREAM_CONNECT_TO: `www.example.com:443=127.0.0.1:${port}` } });
  const socket = await openTunnel(gw.port, 'www.example.com:443');
  const [greeting] = (await once(socket, 'data')) as [Buffer];
  t.equal(greeting.toString(), 'hello from the other side');
  socket.destroy();
  await t.rejects(openTunnel(gw.port, '127.0.0.1:443'), /403/, 'loopback is no place to go');
  await t.rejects(openTunnel(gw.port, `localhost:${gw.port}`), /403/, 'nor is the gateway itself');
  await t.rejects(openTunnel(gw.port, 'www.example.com:22'), /403/, 'nor is port 22');
});

t.test('proxy authentication, when it is required', async (t) => {
  const upstream = await startTlsUpstream({ hosts: ['api.openai.com'] });
  t.teardown(() => upstream.close());
  const gw = await startTestGateway(t, { env: { ...towards(t, upstream, ['api.openai.com']), GW_PROXY_AUTH: 'required' } });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'other' });
  const { token } = (await gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
  await t.rejects(openTunnel(gw.port, 'api.openai.com:443'), /407/);
  const basic = (user: string, password: string) => ({
    'Proxy-Authorization': `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
  });
  await t.rejects(openTunnel(gw.port, 'api.openai.com:443', { headers: basic('ci', 'gwt_wrong') }), /407/);
  const socket = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { headers: basic('ci', token) });
  t.teardown(() => socket.destroy());
  const call = (headers: readonly string[]) => h1Request(socket, 'api.openai.com', { path: '/v1/models', headers });
  const good = await call([]);
  t.equal(good.status, 200);
  t.match(await gw.record(good.headers['x-gw-record-id'] ?? ''), { workload_id: 'ci' });
  const stolen = await call(['X-GW-Workload-ID', 'other']);
  t.equal(stolen.status, 403);
  t.match(JSON.parse(stolen.body.toString()), { reason_codes: ['workload_mismatch'] });
  t.notMatch(JSON.stringify(upstream.requests.map(({ rawHeaders }) => rawHeaders)), /gwt_|Proxy-Auth/i);
});

// Holds: connect-chooses-the-destination
t.test('Host must be the authority of the tunnel', async (t) => {
  const upstream = await startTlsUpstream({ hosts: ['api.openai.com'] });
  t.teardown(() => upstream.close());
  const gw = await startTestGateway(t, { env: towards(t, upstream, ['api.openai.com']) });
  const socket = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem);
  t.teardown(() => socket.destroy());
  const answer = await h1Request(socket, 'api.anthropic.com', { path: '/v1/models' });
  t.equal(answer.status, 421);
  t.match(await gw.record(answer.headers['x-gw-record-id'] ?? ''), {
    decision: 'deny',
    reason_codes: ['misdirected_request'],
    target_host: 'api.openai.com',
  });
  t.equal(upstream.requests.length, 0);
});

t.test('a WebSocket to an AI host whose calls cannot be metered is answered 426', async (t) => {
  const gw = await startTestGateway(t);
  const socket = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem);
  t.teardown(() => socket.destroy());
  const answer = await h1Request(socket, 'api.openai.com', {
    path: '/v1/live/sessions',
    headers: ['Connection', 'Upgrade', 'Upgrade', 'websocket'],
  });
  t.equal(answer.status, 426);
});

t.test('web pages of other origins and rebound names are kept out', async (t) => {
  const gw = await startTestGateway(t, { env: { GW_ALLOWED_ORIGINS: 'https://console.example' } });
  const ask = async (host: string, headers: readonly string[]) => {
    const socket = await connectPlain(gw.port);
    t.teardown(() => socket.destroy());
    return h1Request(socket, host, { path: '/healthz', headers });
  };
  const own = `127.0.0.1:${gw.port}`;
  t.match(await ask(own, ['Origin', 'https://evil.example']), { status: 403 });
  t.match(await ask(own, ['Sec-Fetch-Site', 'cross-site']), { status: 403 });
  t.match(await ask(`rebound.example:${gw.port}`, []), { status: 421 });
  t.match(await ask(own, ['Origin', 'https://console.example']), { status: 200 });
  t.match(await ask(own, ['Origin', `http://${own}`]), { status: 200 });
});

t.test('the admin surface checks its token and its bodies', async (t) => {
  const gw = await startTestGateway(t);
  t.equal((await fetch(`${gw.url}/v1/admin/workloads`)).status, 401);
  t.equal((await fetch(`${gw.url}/v1/admin/workloads`, { headers: { authorization: 'Bearer nope' } })).status, 401);
  t.equal((await fetch(`${gw.url}/v1/records/x`)).status, 401);
  t.match(await gw.admin('GET', '/v1/admin/workloads'), { status: 200, body: { workloads: [{ workload_id: 'default' }] } });
  const bad = await gw.admin('PUT', '/v1/admin/workloads', {
    workload_id: 'has space',
    allowed_connection_types: ['telepathy'],
    colour: 'red',
  });
  t.equal(bad.status, 400);
  const { details } = (bad.body as { error: { details: { path: string }[] } }).error;
  t.same(details.map(({ path }) => path).sort(), ['allowed_connection_types[0]', 'colour', 'workload_id']);
  t.equal((await gw.admin('DELETE', '/v1/admin/workloads/nobody')).status, 404);
  t.match(await gw.admin('PATCH', '/v1/admin/workloads'), { status: 405 });
  t.equal((await gw.admin('GET', '/v1/nowhere')).status, 404);
  t.equal((await gw.admin('GET', '/v1/records/00000000-0000-7000-8000-000000000000')).status, 404);
  const broken = await gw.admin('PUT', '/v1/admin/policies', {
    bundle_yaml:
      'schema: gw.policy_bundle.v1\nbundle_id: b\nversion: "1"\ninline_rules:\n  targets:\n    - {id: r, when: {field: action.target_hots, equals: x}, effect: {decision: allow}}\n',
  });
  t.match(broken, { status: 400, body: { error: { code: 'invalid_policy', details: [{ line: 6, rule_id: 'r', hint: /target_host/ }] } } });
  t.match((await gw.admin('GET', '/v1/admin/policies')).body, { bundle_id: 'default', source: 'file' });
});
