// Traffic to hosts that no connector has, in each mode of GW_PROXY_NON_AI, and the discovery that it feeds (decisions
// 3.8 to 3.11, 7.3).
import { once } from 'node:events';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf } from '../support/governed.ts';
import { domains, gatewayFor, get, h2Through, scene, through } from '../support/non-ai.ts';
import { connectPlain, connectThrough, h1Request, h2Request, h2Session, openTunnel } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startPlainUpstream } from '../support/tls-upstream.ts';

// Holds: no-second-way-to-a-provider
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

t.test(
  'govern, with the shipped rules and the preset block-ambient-uploads: AI web applications may be read, and get nothing',
  async (t) => {
    const dir = tempDir(t);
    const shipped = join(packageRoot(), 'policies');
    for (const name of ['rules', 'presets']) cpSync(join(shipped, name), join(dir, name), { recursive: true });
    const files = ['rules/registered-providers.yaml', 'rules/other-sites.yaml', 'presets/block-ambient-uploads.yaml'];
    writeFileSync(join(dir, 'bundle.yaml'), `schema: gw.policy_bundle.v1\nfiles: [${files.join(', ')}]\n`);
    const { gw } = await scene(t, { GW_PROXY_NON_AI: 'govern', GW_POLICIES_DIR: dir });
    const ask = async (port: number, host: string, method: string) => {
      const socket = await connectThrough(port, `${host}:443`, gw.caPem);
      t.teardown(() => socket.destroy());
      const { status, body } = await h1Request(socket, host, { method, ...(method === 'POST' ? { body: 'secret' } : {}) });
      return status === 200 ? 200 : `${status} ${/unmanaged_ai_upload/.exec(body.toString())?.[0]}`;
    };
    t.equal(await ask(gw.ambientPort, 'chat.deepseek.com', 'GET'), 200);
    t.equal(await ask(gw.ambientPort, 'chat.deepseek.com', 'POST'), '403 unmanaged_ai_upload');
    t.equal(await ask(gw.ambientPort, 'www.example.com', 'POST'), 200, 'other hosts are not touched');
    t.equal(await ask(gw.port, 'chat.deepseek.com', 'POST'), 200, 'nor is the traffic of developers');
  },
);

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

for (const mode of ['inspect', 'govern']) {
  t.test(`${mode}: a fault of the origin's certificate is shown inside of the tunnel`, async (t) => {
    const { gw, recorded } = await scene(t, { GW_PROXY_NON_AI: mode }, { certificate: 'expired', h2: true, bundle: ALLOW_ALL });
    for (const protocols of [['h2', 'http/1.1'], ['http/1.1']]) {
      const answer = await h1Request(await through(t, gw, 'www.example.com', protocols), 'www.example.com');
      t.match(answer, { status: 502, body: /has expired/ });
      t.match(answer.headers, { connection: 'close' });
    }
    const h2Only = await h2Request(await h2Through(t, gw));
    t.match(h2Only, { status: 502, body: /has expired/ });
    const unreachable = await gatewayFor(t, { port: 9, caPem: gw.caPem }, { GW_PROXY_NON_AI: mode }, ALLOW_ALL);
    t.match(await get(t, unreachable.gw, 'www.example.com', unreachable.gw.caPem), { status: 502, body: /refused the connection/ });
    const private_ = await startTestGateway(t, { bundle: ALLOW_ALL, env: { GW_PROXY_NON_AI: mode } });
    t.match(await get(t, private_, '192.168.0.1', private_.caPem), { status: 403, body: /egress|private/i });
    t.equal(recorded().length, mode === 'govern' ? 3 : 0);
    if (mode === 'govern') t.match(await gw.record(recorded()[0] ?? ''), { decision: 'error', error: { code: 'upstream_tls' } });
  });

  for (const maxVersion of ['TLSv1.2', undefined] as const) {
    for (const h2 of [true, false]) {
      t.test(
        `${mode}: an origin that wants a client certificate is named and listed (${maxVersion ?? 'TLSv1.3'}, ${h2 ? 'h2' : 'h1'})`,
        async (t) => {
          const options = { clientCertificate: true as const, h2, bundle: ALLOW_ALL, ...(maxVersion ? { maxVersion } : {}) };
          const { gw, upstream } = await scene(t, { GW_PROXY_NON_AI: mode }, options);
          const socket = await through(t, gw, 'www.example.com', h2 ? ['h2', 'http/1.1'] : ['http/1.1']);
          const answer =
            socket.alpnProtocol === 'h2'
              ? await h2Request(h2Session(socket, 'www.example.com'))
              : await h1Request(socket, 'www.example.com');
          t.match(answer, { status: 502, body: /asks for a client certificate/ });
          t.equal(upstream.requests.length, 0);
          t.match(await domains(gw), [{ domain: 'www.example.com', wants_client_certificate: true, pinned: false }]);
          t.match((await gw.admin('GET', '/metrics')).text, /^gw_client_certificate_wanted_total 1$/m);
        },
      );
    }
  }

  t.test(`${mode}: plain HTTP inside of a tunnel stays plain`, async (t) => {
    const plain = await startPlainUpstream();
    t.teardown(() => plain.close());
    const { gw } = await gatewayFor(
      t,
      plain,
      {
        GW_PROXY_NON_AI: mode,
        GW_CONNECT_PORTS: '443,80,8080',
        GW_UPSTREAM_CA_FILE: '',
        GW_UPSTREAM_CONNECT_TO: `www.example.com:80=127.0.0.1:${plain.port},www.example.com:8080=127.0.0.1:${plain.port}`,
      },
      ALLOW_ALL,
    );
    for (const port of [80, 8080]) {
      const socket = await openTunnel(gw.port, `www.example.com:${port}`);
      t.teardown(() => socket.destroy());
      t.equal((await h1Request(socket, port === 80 ? 'www.example.com' : 'www.example.com:8080')).status, 200);
    }
  });

  t.test(`${mode}: a Host that is not the CONNECT's is refused with a record`, async (t) => {
    const { gw, recorded } = await scene(t, { GW_PROXY_NON_AI: mode }, { bundle: ALLOW_ALL });
    const socket = await through(t, gw, 'www.example.com', ['http/1.1']);
    t.equal((await h1Request(socket, 'api.openai.com')).status, 421);
    t.match(await gw.record(recorded()[0] ?? ''), {
      decision: 'deny',
      reason_codes: ['misdirected_request'],
      target_host: 'www.example.com',
    });
  });
}

t.test('govern: policy decides each request by its path, in words that a person can read', async (t) => {
  const bundle = bundleOf(
    '  targets:\n    - {id: no.admin, when: {field: action.target_path, glob: "/admin/*"}, effect: {decision: deny, reason: admins only}}\n    - {id: all, effect: {decision: allow}}\n',
  );
  const { gw, upstream, recorded } = await scene(t, { GW_PROXY_NON_AI: 'govern' }, { h2: true, bundle });
  const session = await h2Through(t, gw);
  t.equal((await h2Request(session, { path: '/public?token=hidden' })).status, 200);
  t.match(await h2Request(session, { path: '/admin/users', method: 'POST', body: 'x' }), { status: 403, body: /admins only/ });
  t.equal(upstream.requests.length, 1);
  const [allowed, denied] = await Promise.all(recorded().map((id) => gw.record(id)));
  t.match(allowed, {
    decision: 'allow',
    connector_id: 'generic_http',
    target_path: '/public?token',
    status_code: 200,
    record_tier: 'action',
  });
  t.match(denied, { decision: 'deny', matched_rule_ids: undefined, reason: 'admins only', target_path: '/admin/users', status_code: 403 });
  t.notMatch(JSON.stringify([allowed, denied]), 'hidden');
});

t.test('govern: an answer without a length is passed on as it comes, its end after its record', async (t) => {
  let more: () => void = () => undefined;
  const { gw, recorded } = await scene(
    t,
    { GW_PROXY_NON_AI: 'govern' },
    {
      bundle: ALLOW_ALL,
      handler(_request, response) {
        response.write('first\n');
        more = () => response.end('last\n');
      },
    },
  );
  const socket = await through(t, gw, 'www.example.com', ['http/1.1']);
  socket.write('GET /log HTTP/1.1\r\nHost: www.example.com\r\n\r\n');
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString();
    if (text.includes('first')) more();
  });
  while (!text.endsWith('0\r\n\r\n')) await once(socket, 'data');
  t.match(text, /first\n(?:.|\s)*last\n/);
  t.equal(recorded().length, 1);
});

t.test('hosts of GW_PROXY_BYPASS stay tunnels in every mode, and without interception nothing is opened', async (t) => {
  for (const mode of ['inspect', 'govern']) {
    const { gw, upstream, recorded } = await scene(t, { GW_PROXY_NON_AI: mode, GW_PROXY_BYPASS: 'other.example' });
    t.equal((await get(t, gw, 'other.example', upstream.caPem)).status, 200, mode);
    t.same(recorded(), []);
  }
  const inspect = await scene(t, { GW_PROXY_NON_AI: 'inspect', GW_PROXY_MITM_ENABLED: 'false' });
  t.equal((await get(t, inspect.gw, 'www.example.com', inspect.upstream.caPem)).status, 200);
  t.same(inspect.recorded(), []);
  const govern = await scene(t, { GW_PROXY_NON_AI: 'govern', GW_PROXY_MITM_ENABLED: 'false' }, { bundle: ALLOW_ALL });
  t.equal((await get(t, govern.gw, 'www.example.com', govern.upstream.caPem)).status, 200);
  t.match(await govern.gw.record(govern.recorded()[0] ?? ''), { record_tier: 'connection', decision: 'allow', action_method: 'CONNECT' });
});
