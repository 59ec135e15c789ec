import { connect as connectTls } from 'node:tls';
import t from 'tap';
import { ALLOW_ALL, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { codeIn, type Manage, managedOf } from '../support/managed.ts';
import { connectPlain, connectThrough, h1Request, h2Request, h2Session, openTunnel } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { startPlainUpstream } from '../support/tls-upstream.ts';

/* What an org adds changes no other org's traffic (decision 3.8). */

const HOST = 'code.example.org';
const CLAIM = { name: 'Mine', base_url: `https://${HOST}/v1`, auth_mode: 'none' };
const JSON_TYPE = ['Content-Type', 'application/json'];
const of = (org: string) => ['X-GW-Org-ID', org, ...JSON_TYPE];
const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

interface Scene extends Governed {
  readonly acme: Manage;
  readonly other: Manage;
  /** Who is seen as the issuer of the certificate in a tunnel: the gateway, or whoever stands behind it. */
  opened(headers?: Readonly<Record<string, string>>): Promise<boolean>;
  /** A request in a tunnel that the gateway has opened. */
  inTunnel(
    connect: Readonly<Record<string, string>>,
    headers: readonly string[],
    alpn?: 'h2' | 'http/1.1',
  ): Promise<Record<string, string>>;
}

async function scene(t: HasTeardown, env: Record<string, string> = {}): Promise<Scene> {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, hosts: [HOST], env });
  const { gw } = governed;
  const { manage, keyOf, with: withKey } = await managedOf(gw);
  const call = (headers: readonly string[]) => ({ method: 'POST', path: '/v1/chat/completions', headers, body: JSON.stringify(CHAT) });
  return {
    ...governed,
    acme: manage,
    other: env['GW_ORG_ID'] === undefined ? withKey((await keyOf('other')).key) : manage,
    opened: async (headers = {}) => {
      const socket = await openTunnel(gw.port, `${HOST}:443`, { headers });
      const tls = connectTls({ socket, servername: HOST, ca: gw.caPem });
      t.teardown(() => tls.destroy());
      return new Promise((resolve) => {
        tls.once('secureConnect', () => resolve(true));
        tls.once('error', () => resolve(false));
      });
    },
    inTunnel: async (headers, inner, alpn = 'http/1.1') => {
      const tls = await connectThrough(gw.port, `${HOST}:443`, gw.caPem, { headers, alpn: [alpn] });
      t.teardown(() => tls.destroy());
      if (alpn === 'http/1.1') {
        const { status, headers: told } = await h1Request(tls, HOST, call(inner));
        return { ...told, status: String(status) };
      }
      const session = h2Session(tls, HOST);
      t.teardown(() => session.destroy());
      const lower = inner.map((text, at) => (at % 2 === 0 ? text.toLowerCase() : text));
      const { status, headers: told } = await h2Request(session, call(lower));
      return { ...told, status: String(status) };
    },
  };
}

async function claim(manage: Manage, body: object = CLAIM): Promise<string> {
  const made = await manage('POST', 'connectors', body);
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  return (made.body as { id: string }).id;
}

async function apiKey({ gw }: Governed, org: string): Promise<string> {
  const made = await gw.admin('POST', '/v1/admin/api-keys', { org_id: org, name: 'k' });
  return (made.body as { key: string }).key;
}

// Holds: orgs-change-no-others-traffic
t.test('a CONNECT to a host that another org has claimed passes as before; the callers of that org have it opened', async (t) => {
  const one = await scene(t);
  t.equal(await one.opened(), false, 'before anybody claims it');
  await claim(one.acme);
  const keys = { acme: await apiKey(one, 'acme'), other: await apiKey(one, 'other') };
  const robot = { workload_id: 'robot', org_id: 'acme' };
  t.equal((await one.gw.admin('PUT', '/v1/admin/workloads', robot)).status, 200);
  const rows: readonly (readonly [string, Record<string, string>, boolean])[] = [
    ['nobody says who he is', {}, false],
    ['another org by name', { 'X-GW-Org-ID': 'other' }, false],
    ['a made-up org', { 'X-GW-Org-ID': 'acme2' }, false],
    ['a key of another org', { 'Proxy-Authorization': basic('x', keys.other) }, false],
    ['a key of another org that names this one', { 'Proxy-Authorization': basic('x', keys.other), 'X-GW-Org-ID': 'acme' }, false],
    ['this org by name', { 'X-GW-Org-ID': 'acme' }, true],
    ['a workload of this org', { 'Proxy-Authorization': basic('robot', '') }, true],
    ['a key of this org', { 'Proxy-Authorization': basic('x', keys.acme) }, true],
    ['a key in its own header', { 'X-GW-API-Key': keys.acme }, true],
    ['a key of this org that names another', { 'X-GW-API-Key': keys.acme, 'X-GW-Org-ID': 'other' }, true],
  ];
  for (const [who, headers, opened] of rows) t.equal(await one.opened(headers), opened, who);
});

t.test('the token of a workload says of which org it is, whatever ids of workloads another org takes', async (t) => {
  const one = await scene(t);
  await claim(one.acme);
  const put = (orgId: string) => one.gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci', org_id: orgId });
  t.equal((await put('acme')).status, 200);
  const made = await one.gw.admin('POST', '/v1/admin/workloads/ci/token?org_id=acme');
  const { token } = made.body as { token: string };
  const ways = [basic('ci', token), basic(token, ''), basic('', token)];
  for (const shown of ways) t.equal(await one.opened({ 'Proxy-Authorization': shown }), true);
  t.equal((await put('other')).status, 200);
  for (const shown of ways) t.equal(await one.opened({ 'Proxy-Authorization': shown }), true, 'as before');
  t.equal(await one.opened({ 'Proxy-Authorization': basic('ci', '') }), false, 'the id alone is that of two');
  const inside = await one.inTunnel({ 'Proxy-Authorization': basic('ci', token) }, JSON_TYPE);
  t.match(await one.gw.record(inside['x-gw-record-id'] ?? ''), { org_id: 'acme', workload_id: 'ci' });
});

// Holds: orgs-change-no-others-traffic
t.test('inside a tunnel of the org its calls are its own, and those of another org are none', async (t) => {
  const one = await scene(t);
  const id = await claim(one.acme);
  const otherKey = await apiKey(one, 'other');
  const acme = { 'X-GW-Org-ID': 'acme' };
  for (const alpn of ['http/1.1', 'h2'] as const) {
    const own = await one.inTunnel(acme, JSON_TYPE, alpn);
    t.match(await one.gw.record(own['x-gw-record-id'] ?? ''), { org_id: 'acme', connector_id: `custom:${id}` }, `${alpn}: by its tunnel`);
    for (const theirs of [of('other'), of('nobody-knows'), ['X-GW-API-Key', otherKey, ...JSON_TYPE]]) {
      const passed = await one.inTunnel(acme, theirs, alpn);
      t.match(passed, { status: '200' });
      t.equal(passed['x-gw-record-id'], undefined, `${alpn}: ${theirs[0]} of another org is not decided`);
    }
  }
  t.equal((await one.inTunnel(acme, ['X-GW-API-Key', 'gwk_wrong', ...JSON_TYPE]))['status'], '401', 'a wrong key is told so');
  const byKey = { 'X-GW-API-Key': await apiKey(one, 'acme') };
  for (const theirs of [of('other'), ['X-GW-API-Key', otherKey, ...JSON_TYPE]])
    t.equal((await one.inTunnel(byKey, theirs))['status'], '403', 'who has shown a key for a tunnel is of its org in there');
  const theirs = await claim(one.other);
  const decided = await one.inTunnel(acme, ['X-GW-API-Key', otherKey, ...JSON_TYPE]);
  t.match(await one.gw.record(decided['x-gw-record-id'] ?? ''), { org_id: 'other', connector_id: `custom:${theirs}` });
});

t.test('whatever GW_PROXY_NON_AI says of other hosts it says of this one for other orgs', async (t) => {
  const inspect = await scene(t, { GW_PROXY_NON_AI: 'inspect' });
  const id = await claim(inspect.acme);
  const passed = await inspect.inTunnel({}, JSON_TYPE);
  t.match(passed, { status: '200' });
  t.equal(passed['x-gw-record-id'], undefined);
  const shown = await inspect.inTunnel({}, of('acme'));
  t.match(await inspect.gw.record(shown['x-gw-record-id'] ?? ''), { org_id: 'acme', connector_id: `custom:${id}` }, 'who says so inside');
  const govern = await scene(t, { GW_PROXY_NON_AI: 'govern' });
  await claim(govern.acme);
  const decided = await govern.inTunnel({}, of('other'));
  t.match(await govern.gw.record(decided['x-gw-record-id'] ?? ''), { org_id: 'other', connector_id: 'generic_http' });
  const own = await scene(t, { GW_ORG_ID: 'acme' });
  await claim(own.acme);
  t.equal(await own.opened(), true, 'all callers of a gateway with an org are of it');
  t.equal(await own.opened({ 'X-GW-Org-ID': 'other' }), true);
});

t.test('plain requests with a whole URL, server names and structured calls of another org are as before', async (t) => {
  const plain = await startPlainUpstream();
  t.teardown(() => plain.close());
  const one = await scene(t, { GW_EGRESS_ALLOW: '127.0.0.1' });
  const ask = async (headers: readonly string[]) => {
    const socket = await connectPlain(one.gw.port);
    t.teardown(() => socket.destroy());
    return h1Request(socket, `127.0.0.1:${plain.port}`, { path: `http://127.0.0.1:${plain.port}/v1/a//b`, headers });
  };
  t.equal((await ask([])).headers['x-gw-record-id'], undefined);
  const id = await claim(one.acme, { name: 'Local', base_url: `http://127.0.0.1:${plain.port}`, auth_mode: 'none' });
  for (const headers of [[], of('other'), ['X-GW-API-Key', await apiKey(one, 'other')]]) {
    const passed = await ask(headers);
    t.equal(passed.status, 200);
    t.equal(passed.headers['x-gw-record-id'], undefined);
    t.equal(plain.requests.at(-1)?.url, '/v1/a//b', 'and its path is its own affair');
  }
  t.equal((await ask(of('acme'))).status, 400, 'at an AI host no path has two readings');
  const socket = await connectPlain(one.gw.port);
  t.teardown(() => socket.destroy());
  const own = await h1Request(socket, `127.0.0.1:${plain.port}`, { path: `http://127.0.0.1:${plain.port}/v1/models`, headers: of('acme') });
  t.match(await one.recordOf(own), { connector_id: `custom:${id}` });
  t.equal((await one.gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'robot', org_id: 'acme' })).status, 200);
  const robot = await h1Request(socket, `127.0.0.1:${plain.port}`, {
    path: `http://127.0.0.1:${plain.port}/v1/models`,
    headers: ['Proxy-Authorization', basic('robot', '')],
  });
  t.match(await one.recordOf(robot), { org_id: 'acme', workload_id: 'robot', connector_id: `custom:${id}` }, 'as in a tunnel');
  for (const shown of [id, `custom:${id}`, '0197a0c0-0000-7000-8000-000000000004'])
    for (const headers of [[], of('other')]) {
      const prefixed = await one.send({ path: `/proxy/${shown}/models`, headers });
      t.match(
        [prefixed.status, prefixed.body.toString()],
        [400, new RegExp(`no connector ${shown} for callers of this org: .*X-GW-Org-ID`)],
        shown,
      );
    }

  await claim(one.acme);
  const named = async (headers: Record<string, string>) => {
    const tunnel = await openTunnel(one.gw.port, 'www.example.com:443', { headers });
    const tls = connectTls({ socket: tunnel, servername: HOST, rejectUnauthorized: false });
    t.teardown(() => tls.destroy());
    return new Promise((resolve) => {
      tls.once('secureConnect', () => resolve('passed'));
      tls.once('error', () => resolve('ended'));
    });
  };
  t.equal(await named({}), 'passed', 'a server name is an AI host’s for its own org alone');
  t.equal(await named({ 'X-GW-Org-ID': 'acme' }), 'ended');
  const action = { type: 'http.request', target_host: HOST, target_path: '/a//b' };
  t.not((await one.execute({ org_id: 'other', credential_hint: undefined }, action)).status, 400);
  t.equal((await one.execute({ org_id: 'acme', credential_hint: undefined }, action)).status, 400);
  const pac = await fetch(`${one.gw.url}/proxy.pac`);
  t.notOk((await pac.text()).includes(HOST), 'the file that all clients get names no host of an org');
});

t.test('hosts of GW_CONNECTOR_HOSTS_DENY and the gateway’s own names are nobody’s, and what was made before is not used', async (t) => {
  const before = await scene(t);
  const id = await claim(before.acme);
  await before.gw.gateway.stop();
  const env = { GW_DATA_DIR: before.gw.dataDir, GW_CONNECTOR_HOSTS_DENY: `${HOST},*.bank.example`, GW_PUBLIC_NAMES: 'gateway.example' };
  const one = await scene(t, env);
  for (const url of [`https://${HOST}`, `https://${HOST.toUpperCase()}:8443/x`, 'https://www.bank.example', 'https://gateway.example/v1']) {
    for (const enabled of [true, false]) {
      const refused = await one.acme('POST', 'connectors', { ...CLAIM, base_url: url, enabled });
      t.equal(refused.status, 400, url);
      t.equal(codeIn(refused), 'invalid_request');
      t.match(JSON.stringify(refused.body), /"path":"base_url","message":"[^"]*GW_CONNECTOR_HOSTS_DENY/);
    }
  }
  const free = await claim(one.acme, { ...CLAIM, base_url: 'https://bank.example' });
  t.equal((await one.acme('PUT', `connectors/${free}`, { base_url: `https://${HOST}` })).status, 400);
  t.equal((await one.acme('PUT', `connectors/${free}`, { base_url: `https://${HOST}`, enabled: false })).status, 400);
  t.match((await one.acme('GET', `connectors/${id}`)).body, { enabled: true, not_used: /GW_CONNECTOR_HOSTS_DENY/ });
  const health = (await (await fetch(`${one.gw.url}/healthz`)).json()) as { warnings: readonly { code: string; message: string }[] };
  t.match(health.warnings, [{ code: 'custom_connector_not_used', message: /^1 custom connectors/ }]);
  t.notOk(JSON.stringify(health).includes(HOST), 'health, which everybody may read, names none');
  t.equal(await one.opened({ 'X-GW-Org-ID': 'acme' }), false, 'nor is its host opened for its own org');
  t.equal((await one.acme('POST', `connectors/${id}/enable`)).status, 400);
  t.match((await one.acme('POST', `connectors/${id}/disable`)).body, { enabled: false, not_used: undefined });
  t.equal((await one.acme('DELETE', `connectors/${id}`)).status, 200);
});
