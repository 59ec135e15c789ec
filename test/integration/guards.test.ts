import t from 'tap';
import { via } from '../../src/outbound/net/header-filter.ts';
import { startTestGateway } from '../support/gateway.ts';
import { bundleOf, CHAT, chat, startGoverned } from '../support/governed.ts';
import { connectPlain, connectThrough, h1Request, h2Request, h2Session, openTunnel, readResponse } from '../support/raw-clients.ts';
import { startRawUpstream } from '../support/raw-upstream.ts';
import { towards } from '../support/upstreams.ts';

t.test('a forwarded request carries Via, and one that already does is refused on every door', async (t) => {
  const { gw, send, through, execute, upstream } = await startGoverned(t, { env: { GW_NODE_ID: 'n1' } });
  await send(chat());
  t.equal(upstream.requests.at(-1)?.headers['via'], '1.1 gw-n1');
  const own = via('n1');
  const looped = [
    await send(chat(['Via', own])),
    await send(chat(['Via', `1.0 other, ${own}`], 'http://api.openai.com/v1/chat/completions')),
    await through('api.openai.com:443', chat(['Via', own], '/v1/chat/completions')),
  ];
  for (const answer of looped) {
    t.equal(answer.status, 508);
    t.match(JSON.parse(answer.body.toString()), { error: { code: 'loop_detected' } });
    t.notOk(answer.headers['x-gw-record-id']);
  }
  t.equal((await execute({}, {}, { via: own })).status, 508);
  await t.rejects(openTunnel(gw.port, 'api.openai.com:443', { headers: { Via: own } }), /508/);
  t.equal(upstream.requests.length, 1);
});

t.test('web pages are kept off the structured API and off redirect mode before anything is done', async (t) => {
  const { gw, send, through, execute, upstream } = await startGoverned(t);
  t.match(await execute({}, {}, { origin: 'https://evil.example' }), { status: 403, body: { error: { code: 'origin_not_allowed' } } });
  t.equal((await send(chat(['Origin', 'null']))).status, 403);
  t.equal((await send(chat(['Sec-Fetch-Site', 'cross-site']))).status, 403);
  t.equal((await send({ ...chat(), host: 'rebound.example' })).status, 421);
  t.equal((await send({ ...chat([], '/v1/chat/completions'), host: 'api.openai.com' })).status, 200, 'a provider’s name is a door');
  t.equal(
    (await send(chat(['Origin', 'https://evil.example'], 'http://api.openai.com/v1/chat/completions'))).status,
    502,
    'no browser sends absolute-form, plain HTTP has no upstream here',
  );
  const page = ['Origin', 'https://app.example', 'Sec-Fetch-Site', 'cross-site'];
  t.equal((await through('api.openai.com:443', chat(page, '/v1/chat/completions'))).status, 200, 'nor can a page open a tunnel');
  t.equal(upstream.requests.length, 2);
  t.notMatch((await gw.admin('GET', '/metrics')).text, /gw_requests_total\{[^}]*\} [3-9]/);
});

t.test('a Host that names a provider is never the gateway’s own route, on either port', async (t) => {
  const { gw, send } = await startGoverned(t);
  const off = await startGoverned(t, { env: { GW_PROXY_ENABLED: 'false' } });
  const health = { path: '/healthz', host: 'api.openai.com' };
  t.notMatch((await send(health)).body.toString(), 'node_id');
  t.equal((await send({ ...health, port: gw.ambientPort })).status, 404);
  t.equal((await off.send(health)).status, 404);
  t.equal((await off.send({ path: '/healthz' })).status, 200);
  t.equal((await off.send(chat())).status, 404);
  await t.rejects(openTunnel(off.gw.port, 'api.openai.com:443'), /403/);
});

t.test('early refusal: a stranger’s body is neither asked for nor read', async (t) => {
  const { gw, upstream } = await startGoverned(t);
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  await gw.admin('POST', '/v1/admin/workloads/ci/token');
  const open = {
    redirect: async () => ({ socket: await connectPlain(gw.port), target: '/proxy/openai/v1/chat/completions', host: '127.0.0.1' }),
    absolute: async () => ({
      socket: await connectPlain(gw.port),
      target: 'http://api.openai.com/v1/chat/completions',
      host: 'api.openai.com',
    }),
    tunnel: async () => ({
      socket: await connectThrough(gw.port, 'api.openai.com:443', gw.caPem),
      target: '/v1/chat/completions',
      host: 'api.openai.com',
    }),
  };
  const expected = { redirect: { nobody: 403, ci: 401 }, absolute: { nobody: 403, ci: 407 }, tunnel: { nobody: 403, ci: 403 } };
  for (const door of ['redirect', 'absolute', 'tunnel'] as const) {
    for (const workload of ['nobody', 'ci'] as const) {
      const { socket, target, host } = await open[door]();
      t.teardown(() => socket.destroy());
      socket.write(
        `POST ${target} HTTP/1.1\r\nHost: ${host}\r\nX-GW-Workload-ID: ${workload}\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n`,
      );
      const answer = await readResponse(socket, 'POST');
      t.equal(answer.status, expected[door][workload], `${door} ${workload}`);
      t.same(answer.infos, [], `${door} ${workload}: no 100`);
    }
  }
  t.equal(upstream.requests.length, 0);
  const { socket, target, host } = await open.redirect();
  t.teardown(() => socket.destroy());
  const body = JSON.stringify(CHAT);
  socket.write(`POST ${target} HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`);
  setImmediate(() => socket.write(body));
  const welcome = await readResponse(socket, 'POST');
  t.match(welcome, { status: 200, infos: [100] });
});

t.test('one path: what is odd is refused, what is merely encoded is decoded for policy and upstream alike', async (t) => {
  const { send, recordOf, upstream } = await startGoverned(t);
  for (const path of [
    '/v1//chat/completions',
    '/v1/../v1/chat/completions',
    '/v1/%2e%2e/chat/completions',
    '/v1\\chat',
    '/v1/chat/completions#x',
    '/v1/%zz',
  ]) {
    const answer = await send(chat([], `/proxy/openai${path}`));
    t.equal(answer.status, 400, path);
    t.notOk(answer.headers['x-gw-record-id'], path);
  }
  t.equal(upstream.requests.length, 0);
  const answer = await send(chat([], '/proxy/openai/v1/%63hat/completions'));
  t.equal(upstream.requests.at(-1)?.url, '/v1/chat/completions');
  t.match(await recordOf(answer), { target_path: '/v1/chat/completions', action_type: 'ai.infer' });
});

t.test('headers of the gateway, of hops and of its secrets never leave; answers carry none either', async (t) => {
  const { send, upstream, gw } = await startGoverned(t, {
    handler: (_request, response) =>
      response.writeHead(200, { 'X-GW-Decision': 'deny', 'Alt-Svc': 'h3', 'Proxy-Authenticate': 'x', 'X-Own': 'kept' }).end('{}'),
  });
  const hidden = [
    'GW-Admin-Token',
    'test-admin-token-0123456789',
    'X-Secret',
    'gwt_abc',
    'X-Http-Method-Override',
    'DELETE',
    'Proxy-Connection',
    'x',
    'Connection',
    'X-Hop',
    'X-Hop',
    '1',
    'TE',
    'trailers',
    'Accept-Encoding',
    'gzip',
  ];
  const answer = await send({ ...chat([...hidden, 'X-Kept', 'yes']) });
  const seen = upstream.requests.at(-1)?.headers ?? {};
  t.match(seen, { 'x-kept': 'yes', 'accept-encoding': 'identity', authorization: 'Bearer sk-client', host: 'api.openai.com' });
  for (const name of ['gw-admin-token', 'x-secret', 'x-http-method-override', 'proxy-connection', 'x-hop', 'te'])
    t.notOk(name in seen, name);
  t.match(answer.headers, { 'x-own': 'kept', 'x-gw-decision': 'allow' });
  t.notOk('alt-svc' in answer.headers || 'proxy-authenticate' in answer.headers);
  for (const method of ['TRACE', 'CONNECT']) {
    const response = await fetch(`${gw.url}/v1/actions:execute`, {
      method: 'POST',
      body: JSON.stringify({
        schema: 'gw.action_request.v2',
        org_id: 'o',
        workload_id: 'default',
        action: { type: 'ai.infer', method, target_host: 'api.openai.com', params: {}, headers: { Host: 'x', 'X-GW-Org-ID': 'y' } },
      }),
    });
    t.match(await response.json(), {
      error: { details: [{ path: 'action.method' }, { path: 'action.headers.Host' }, { path: 'action.headers.X-GW-Org-ID' }] },
    });
  }
});

// Holds: upstreams-speak-in-their-own-name
t.test('trailers of an answer pass, but none that speaks in the name of the gateway', async (t) => {
  const { send } = await startGoverned(t, {
    handler: (_request, response) => {
      response.setHeader('Trailer', 'X-Sum, X-GW-Record-Hash');
      response.write('{}');
      response.addTrailers({ 'X-Sum': '1', 'X-GW-Record-Hash': 'forged', 'Alt-Svc': 'h3' });
      response.end();
    },
  });
  t.same((await send(chat())).trailers, ['X-Sum', '1']);
});

// Holds: upstreams-end-their-own-call
t.test('an answer that cannot be written is 502 with a record on both protocols, and the gateway lives', async (t) => {
  const upstream = await startRawUpstream(
    (socket, text) => {
      const type = text.includes('/stream') ? 'text/event-stream' : 'application/json';
      socket.write(`HTTP/1.1 999 What\r\nContent-Type: ${type}\r\nContent-Length: 6\r\n\r\ndata:\n`);
    },
    ['api.openai.com'],
  );
  t.teardown(() => upstream.close());
  const gw = await startTestGateway(t, { env: towards(t, upstream, ['api.openai.com']) });
  const tunnel = (alpn: string) => connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: [alpn] });
  const session = h2Session(await tunnel('h2'), 'api.openai.com');
  t.teardown(() => session.destroy());
  const socket = await tunnel('http/1.1');
  t.teardown(() => socket.destroy());
  for (const path of ['/v1/models', '/v1/models/stream']) {
    for (const answer of [await h2Request(session, { path }), await h1Request(socket, 'api.openai.com', { path })]) {
      t.equal(answer.status, 502, path);
      t.match(await gw.record(answer.headers['x-gw-record-id'] ?? ''), { decision: 'error', reason_codes: ['upstream_protocol'] }, path);
    }
  }
});

t.test('a method is one method, however h2 spells it: for policy, in the record and upstream', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no-delete, priority: 9, when: {field: action.method, equals: DELETE}, effect: {decision: deny}}
`);
  const { gw, upstream, recordOf } = await startGoverned(t, { bundle });
  const session = h2Session(await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
  t.teardown(() => session.destroy());
  const refused = await h2Request(session, { method: 'delete', path: '/v1/files/f' });
  t.equal(refused.status, 403);
  t.match(await recordOf(refused), { decision: 'deny', action_method: 'DELETE' });
  const passed = await h2Request(session, { method: 'get', path: '/v1/models' });
  t.equal(passed.status, 200);
  t.equal(upstream.requests.at(-1)?.method, 'GET');
  t.match(await recordOf(passed), { action_method: 'GET' });
});

t.test('TRACE is no method of a proxied call', async (t) => {
  const { send, through, upstream } = await startGoverned(t);
  t.equal((await send({ method: 'TRACE', path: '/proxy/openai/v1/models' })).status, 400);
  t.equal((await through('api.openai.com:443', { method: 'TRACE', path: '/v1/models' })).status, 400);
  t.equal(upstream.requests.length, 0);
});

// Holds: one-door-out
t.test('proxied calls reach public addresses only', async (t) => {
  const { send, execute, recordOf, gw } = await startGoverned(t, {
    bundle:
      'schema: gw.policy_bundle.v1\nbundle_id: b\nversion: "1"\ninline_rules:\n  targets:\n    - {id: all, effect: {decision: allow}}\n',
  });
  for (const host of ['127.0.0.1', '169.254.169.254', '10.0.0.1', 'localhost', '0x7f.1', '[::1]', '[::ffff:127.0.0.1]']) {
    const answer = await send(chat(['X-GW-Target-Host', host], '/x'));
    t.equal(answer.status, 403, host);
    t.match(await recordOf(answer), { decision: 'deny', reason_codes: ['egress_denied'] }, host);
    t.match(JSON.parse(answer.body.toString()), { reason_codes: ['egress_denied'], error: {} });
  }
  t.match(
    await execute(
      { credential_hint: undefined },
      { type: 'http.request', method: 'GET', target_host: '127.0.0.1', target_path: '/', params: {} },
    ),
    { status: 403, body: { decision: 'deny', reason_codes: ['egress_denied'] } },
  );
  t.equal((await send(chat(['X-GW-Target-Host', `127.0.0.1:${gw.port}`], '/x'))).status, 403);
});

t.test('a method that a path of ours does not have is answered with Allow', async (t) => {
  const { send } = await startGoverned(t);
  const answer = await send({ method: 'DELETE', path: '/v1/actions:execute' });
  t.match(answer, { status: 405, headers: { allow: 'POST', 'content-type': 'application/json' } });
  t.match(JSON.parse(answer.body.toString()), { error: { code: 'method_not_allowed', message: /POST/ } });
  t.match(await send({ method: 'PATCH', path: '/v1/admin/workloads' }), { status: 405, headers: { allow: 'GET, HEAD, PUT' } });
});

t.test('a path that leads nowhere is answered with what its caller probably meant', async (t) => {
  const { gw, send } = await startGoverned(t);
  const table = [
    ['/nowhere', 404, 'There is nothing at /nowhere. Base URLs begin with /proxy/{provider}, such as /proxy/openai/v1.'],
    ['/v1/chat/completions', 404, /^There is nothing at \/v1\/chat\/completions\. Base URLs begin with/],
    ['/v1/admin/polices', 404, 'There is nothing at /v1/admin/polices.'],
    ['/proxy/opnai/v1/x', 400, 'There is no provider "opnai"; did you mean /proxy/openai/? A host is named by X-GW-Target-Host.'],
    ['/proxy/nobody/x', 400, 'There is no provider "nobody". A host is named by X-GW-Target-Host.'],
  ] as const;
  for (const [path, status, message] of table) {
    const answer = await send({ path });
    t.equal(answer.status, status, path);
    t.match(JSON.parse(answer.body.toString()), { error: { code: status === 404 ? 'not_found' : 'no_target_host', message } }, path);
  }
  const elsewhere = await send({ path: '/metrics', port: gw.ambientPort });
  t.match(JSON.parse(elsewhere.body.toString()), { error: { code: 'not_found', message: '/metrics is served on GW_PORT only.' } });
});

t.test('plain HTTP through the proxy: absolute-form is governed as connect_proxy', async (t) => {
  const { send, recordOf } = await startGoverned(t);
  const answer = await send(chat(['X-GW-Workload-ID', 'nobody'], 'http://api.openai.com/v1/chat/completions'));
  t.match(await recordOf(answer), {
    connection_type: 'connect_proxy',
    target: 'http://api.openai.com/v1/chat/completions',
    decision: 'deny',
  });
});
