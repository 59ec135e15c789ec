import t from 'tap';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, chat, startGoverned } from '../support/governed.ts';
import { connectPlain, connectThrough, h1Request, h2Request, h2Session, openTunnel, readUntil } from '../support/raw-clients.ts';

const basic = (user: string, password = '') => ({
  'Proxy-Authorization': `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
});

const lower = (text: string, at: number) => (at % 2 === 0 ? text.toLowerCase() : text);

t.test('org: header, else GW_ORG_ID, else default; with GW_ORG_ID every other one is denied on every door', async (t) => {
  const free = await startGoverned(t);
  t.match(await free.recordOf(await free.send(chat())), { org_id: 'default' });
  t.match(await free.recordOf(await free.send(chat(['X-GW-Org-ID', 'acme']))), { org_id: 'acme' });
  t.match(await free.execute({ org_id: 'anything' }), { status: 200 });
  const bound = await startGoverned(t, { env: { GW_ORG_ID: 'acme' } });
  t.match(await bound.recordOf(await bound.send(chat())), { org_id: 'acme', decision: 'allow' });
  const denied = await bound.send(chat(['X-GW-Org-ID', 'other']));
  t.equal(denied.status, 403);
  t.match(await bound.recordOf(denied), { org_id: 'other', decision: 'deny', reason_codes: ['org_mismatch'] });
  const inside = await bound.through('api.openai.com:443', chat(['X-GW-Org-ID', 'other'], '/v1/chat/completions'));
  t.match(await bound.recordOf(inside), { decision: 'deny', reason_codes: ['org_mismatch'], connection_type: 'connect_proxy' });
  t.equal(bound.upstream.requests.length, 1);
});

t.test('an org that is suspended is refused on every door, and recorded, until it is active again; over a restart as well', async (t) => {
  const free = await startGoverned(t);
  for (const [method, path] of [
    ['GET', ''],
    ['POST', '/suspend'],
    ['POST', '/reactivate'],
  ] as const)
    t.equal((await free.gw.admin(method, `/v1/admin/org${path}`)).status, 404, 'a gateway for every org has none of its own');
  const env = { GW_ORG_ID: 'acme' };
  const { gw, send, through, execute, recordOf, upstream } = await startGoverned(t, { env });
  t.same(await gw.admin('GET', '/v1/admin/org').then(({ body }) => body), { org_id: 'acme', status: 'active' });
  t.equal((await gw.admin('POST', '/v1/admin/org/suspend', { reason: 7 })).status, 400);
  t.match(await gw.admin('POST', '/v1/admin/org/suspend', { reason: 'unpaid' }), { status: 200, body: { status: 'suspended' } });
  t.match(
    await gw.admin('POST', '/v1/admin/org/suspend'),
    { status: 200, body: { status: 'suspended', suspended_reason: undefined } },
    'a reason is optional',
  );
  t.match(await gw.admin('POST', '/v1/admin/org/suspend', { reason: 'unpaid' }), { status: 200 });

  const wanted = { error: 'org_suspended' };
  const direct = await execute({ org_id: 'acme' });
  t.match([direct.status, direct.body], [403, wanted]);
  const redirected = await send(chat());
  const tunnelled = await through('api.openai.com:443', chat([], '/v1/chat/completions'));
  for (const answer of [redirected, tunnelled]) {
    t.same([answer.status, JSON.parse(answer.body.toString())], [403, wanted]);
    t.match(await recordOf(answer), { org_id: 'acme', decision: 'deny', reason_codes: ['org_suspended'] });
  }
  t.match((await gw.admin('GET', '/metrics')).text, /gw_auth_failures_total\{reason="suspended",org_id="acme"\} 3/);
  t.equal((await gw.admin('GET', '/healthz')).status, 200);
  t.equal(upstream.requests.length, 0);

  await gw.gateway.stop();
  const again = await startTestGateway(t, { env: { ...env, GW_DATA_DIR: gw.dataDir } });
  t.same((await again.admin('GET', '/v1/admin/org')).body, { org_id: 'acme', status: 'suspended', suspended_reason: 'unpaid' });
  t.same((await again.admin('POST', '/v1/admin/org/reactivate')).body, { org_id: 'acme', status: 'active' });
  t.match((await again.admin('GET', '/v1/admin/org')).body, { status: 'active' });
});

t.test(
  'a suspended org is refused in tunnels that are open, its requests do not count, and when it is active again the month goes on',
  async (t) => {
    const env = { GW_ORG_ID: 'acme', GW_MONTHLY_REQUEST_LIMIT: '2' };
    const { gw, send, recordOf, upstream } = await startGoverned(t, { env });
    const tunnel = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem);
    t.teardown(() => tunnel.destroy());
    const inside = () => h1Request(tunnel, 'api.openai.com', chat([], '/v1/chat/completions'));
    t.equal((await inside()).status, 200);
    await gw.admin('POST', '/v1/admin/org/suspend');
    for (const call of [inside, inside, () => send(chat())]) t.equal((await call()).status, 403);
    await gw.admin('POST', '/v1/admin/org/reactivate');
    t.equal((await inside()).status, 200, 'the tunnel is still open');
    t.match(await recordOf(await inside()), { decision: 'deny', reason_codes: ['monthly_request_limit_exceeded'] });
    t.equal(upstream.requests.length, 2);
  },
);

t.test('a workload with an org counts for that org only; no list of connection types means all, an empty one none', async (t) => {
  const { gw, send, recordOf, execute } = await startGoverned(t);
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'theirs', org_id: 'acme' });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'nowhere', allowed_connection_types: [] });
  const as = (workload: string, org: string) => send(chat(['X-GW-Workload-ID', workload, 'X-GW-Org-ID', org]));
  t.match(await recordOf(await as('theirs', 'acme')), { decision: 'allow' });
  t.match(await recordOf(await as('theirs', 'other')), { reason_codes: ['workload_not_registered'] });
  t.match(await recordOf(await as('nowhere', 'acme')), { reason_codes: ['connection_type_not_allowed'] });
  t.match(await execute({ workload_id: 'nowhere' }), { status: 403, body: { reason_codes: ['connection_type_not_allowed'] } });
});

t.test(
  'workload of proxied traffic: header, else proxy user, else the default; attribution headers count inside a tunnel too',
  async (t) => {
    const { gw, through, recordOf } = await startGoverned(t);
    const defaults = { customer_id: 'c-default', project_id: 'p-default', labels: { team: 'blue' } };
    await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci', default_attribution: defaults });
    const call = async (headers: readonly string[], connect = {}) =>
      recordOf(await through('api.openai.com:443', chat(headers, '/v1/chat/completions'), connect));
    t.match(await call([]), { workload_id: 'default' });
    t.match(await call([], basic('ci')), {
      workload_id: 'ci',
      customer_id: 'c-default',
      project_id: 'p-default',
      labels: { team: 'blue' },
    });
    const named = await call(
      [
        'X-GW-Workload-ID',
        'ci',
        'X-GW-Project-ID',
        'apollo',
        'X-GW-Account-ID',
        'a1',
        'X-GW-Caller-ID',
        'alice',
        'X-GW-Delegation-ID',
        'd-1',
      ],
      basic('other'),
    );
    t.match(named, {
      workload_id: 'ci',
      project_id: 'apollo',
      account_id: 'a1',
      customer_id: 'c-default',
      caller_id: 'alice',
      delegation_id: 'd-1',
    });
    t.match(await call(['X-GW-Workload-ID', 'nobody']), {
      decision: 'deny',
      reason_codes: ['workload_not_registered'],
      workload_id: 'nobody',
    });
  },
);

t.test('addresses of headers are believed from trusted peers only, and never from the body', async (t) => {
  const forwarded = ['X-Forwarded-For', '203.0.113.9, 10.0.0.1', 'X-Real-IP', '203.0.113.10'];
  const trusting = await startGoverned(t);
  t.match(await trusting.recordOf(await trusting.send(chat(forwarded))), { caller_ip: '203.0.113.9' });
  t.match(await trusting.recordOf(await trusting.send(chat(forwarded.slice(2)))), { caller_ip: '203.0.113.10' });
  t.match(await trusting.recordOf(await trusting.send(chat())), { caller_ip: '127.0.0.1' });
  const wary = await startGoverned(t, { env: { GW_TRUSTED_PROXIES: '198.51.100.0/24' } });
  t.match(await wary.recordOf(await wary.send(chat(forwarded))), { caller_ip: '127.0.0.1' });
  const { body, status } = await wary.execute({ caller_ip: '203.0.113.9' });
  t.match({ status, body }, { status: 400, body: { error: { details: [{ path: 'caller_ip' }] } } });
});

t.test('of a tunnel the addresses on its CONNECT count, and those that stand inside never do', async (t) => {
  const { gw, recordOf, upstream } = await startGoverned(t, { env: { GW_PROXY_NON_AI: 'govern' }, bundle: ALLOW_ALL });
  const said = { 'X-Forwarded-For': '203.0.113.9', 'X-Real-IP': '203.0.113.9', Forwarded: 'for=203.0.113.9' };
  const written = Object.entries(said).flat();
  const connects: readonly (readonly [expected: string, headers: Readonly<Record<string, string>>])[] = [
    ['127.0.0.1', {}],
    ['198.51.100.7', { 'X-Forwarded-For': '198.51.100.7, 10.0.0.1' }],
    ['198.51.100.8', { 'X-Real-IP': '198.51.100.8' }],
  ];
  for (const [expected, headers] of connects) {
    for (const port of [gw.port, gw.ambientPort]) {
      const h1 = await connectThrough(port, 'api.openai.com:443', gw.caPem, { headers });
      t.teardown(() => h1.destroy());
      t.match(await recordOf(await h1Request(h1, 'api.openai.com', chat(written, '/v1/chat/completions'))), { caller_ip: expected });
      const absolute = chat(written, 'https://api.openai.com/v1/chat/completions');
      t.match(await recordOf(await h1Request(h1, 'api.openai.com', absolute)), { caller_ip: expected }, 'by absolute form');
      const h2 = h2Session(await connectThrough(port, 'api.openai.com:443', gw.caPem, { headers, alpn: ['h2'] }), 'api.openai.com');
      t.teardown(() => h2.destroy());
      const answer = await h2Request(h2, chat(written.map(lower), '/v1/chat/completions'));
      t.match(await recordOf(answer), { caller_ip: expected }, 'h2');
      const other = await connectThrough(port, 'www.example.com:443', gw.caPem, { headers });
      t.teardown(() => other.destroy());
      t.match(
        await recordOf(await h1Request(other, 'www.example.com', { headers: written })),
        { caller_ip: expected },
        'a host without a connector',
      );
    }
  }
  t.equal(upstream.requests[0]?.headers['x-forwarded-for'], '203.0.113.9', 'what the client wrote goes on as it is');
});

t.test('whom quarantine and policy know by his address is known in a tunnel by that of its CONNECT', async (t) => {
  const rules = `  identity:
    - {id: odd, when: {field: context.caller_ip, equals: 198.51.100.7}, effect: {decision: quarantine, reason: odd}}
  targets:
    - {id: all, effect: {decision: allow}}
`;
  const { gw, through, recordOf } = await startGoverned(t, { bundle: bundleOf(rules) });
  const call = async (address: string, headers: readonly string[] = []) =>
    await recordOf(await through('api.openai.com:443', chat(headers, '/v1/chat/completions'), { 'X-Forwarded-For': address }));
  t.match(
    await call('198.51.100.6', ['X-Forwarded-For', '198.51.100.7']),
    { decision: 'allow' },
    'nobody is put aside in the name of another',
  );
  t.match(await call('198.51.100.7'), { decision: 'quarantine', caller_ip: '198.51.100.7' });
  t.match(
    await call('198.51.100.7', ['X-Forwarded-For', '203.0.113.5']),
    { decision: 'quarantine' },
    'and nobody gets out of it by a name',
  );
  t.match((await gw.admin('GET', '/v1/admin/quarantine')).body, { items: [{ caller_ip: '198.51.100.7' }] });
});

t.test('a workload with a token: Bearer on the structured API, the proxy password on CONNECT, the header inside a tunnel', async (t) => {
  const { gw, execute, through, recordOf, upstream } = await startGoverned(t);
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const { token } = (await gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
  t.match(await execute({ workload_id: 'ci' }), { status: 401, body: { error: { code: 'unauthorized' } } });
  t.match(await execute({ workload_id: 'ci' }, {}, { authorization: 'Bearer gwt_wrong' }), { status: 401 });
  t.match(await execute({ workload_id: 'ci' }, {}, { authorization: `Bearer ${token}` }), { status: 200 });
  const refused = await openTunnel(gw.port, 'api.openai.com:443', { headers: basic('ci') }).catch((error: unknown) => error);
  t.match(refused, { status: 407, rawHead: /Proxy-Authenticate: Basic/i });
  const request = (headers: readonly string[] = []) => chat(headers, '/v1/chat/completions');
  t.match(await recordOf(await through('api.openai.com:443', request(), basic('ci', token))), { workload_id: 'ci', decision: 'allow' });
  const without = await through('api.openai.com:443', request(['X-GW-Workload-ID', 'ci']));
  t.equal(without.status, 403);
  t.match(await recordOf(without), { reason_codes: ['workload_token_required'] });
  t.match(await through('api.openai.com:443', request(['X-GW-Workload-ID', 'ci', 'X-GW-Workload-Token', token])), { status: 200 });
  await gw.admin('DELETE', '/v1/admin/workloads/ci');
  t.match(await execute({ workload_id: 'ci' }, {}, { authorization: `Bearer ${token}` }), {
    status: 403,
    body: { reason_codes: ['workload_not_registered'] },
  });
  t.notMatch(JSON.stringify(upstream.requests.map(({ rawHeaders, body }) => [rawHeaders, String(body)])), 'gwt_');
});

// Holds: revoked-is-revoked
t.test('a token that is replaced or removed counts at once, also inside a tunnel that it has opened', async (t) => {
  const { gw, recordOf } = await startGoverned(t);
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const issue = async () => ((await gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string }).token;
  const old = await issue();
  const tunnel = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { headers: basic('ci', old) });
  t.teardown(() => tunnel.destroy());
  const inside = (headers: readonly string[] = []) => h1Request(tunnel, 'api.openai.com', chat(headers, '/v1/chat/completions'));
  t.match(await recordOf(await inside()), { workload_id: 'ci', decision: 'allow' });
  t.match(await recordOf(await inside(['X-GW-Workload-Token', 'gwt_wrong'])), { decision: 'allow' }, 'nothing has to be shown again');
  t.match(await recordOf(await inside(['X-GW-Workload-ID', 'default'])), { decision: 'deny', reason_codes: ['workload_mismatch'] });
  await issue();
  t.match(await recordOf(await inside()), { workload_id: 'ci', decision: 'deny', reason_codes: ['workload_token_required'] });
  t.match((await gw.admin('GET', '/metrics')).text, /gw_auth_failures_total\{reason="invalid_key",org_id="default"\} 1\n/);
  await gw.admin('DELETE', '/v1/admin/workloads/ci/token');
  t.match(await recordOf(await inside()), { workload_id: 'ci', decision: 'allow' }, 'where none is needed any more');
});

t.test('with GW_PROXY_AUTH=required no byte of a structured call is taken from a stranger', async (t) => {
  const { gw, execute } = await startGoverned(t, { env: { GW_PROXY_AUTH: 'required' } });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const { token } = (await gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
  const ask = async (fields: string) => {
    const socket = await connectPlain(gw.port);
    t.teardown(() => socket.destroy());
    socket.write(
      `POST /v1/actions:execute HTTP/1.1\r\nHost: 127.0.0.1\r\n${fields}Expect: 100-continue\r\nContent-Length: 33554432\r\n\r\n`,
    );
    return readUntil(socket, '\r\n\r\n');
  };
  for (const fields of ['', 'Authorization: Basic Y2k6eA==\r\n', 'Authorization: Bearer gwt_wrong\r\n', 'Authorization: Bearer gwk_x\r\n'])
    t.match(await ask(fields), /^HTTP\/1.1 401 [\s\S]*WWW-Authenticate: Bearer/i, fields);
  t.match(await ask(`Authorization: Bearer ${token}\r\n`), /^HTTP\/1.1 100 /);
  t.match(await execute({ workload_id: 'ci' }), { status: 401, body: { error: { code: 'unauthorized' } } });
  t.match(await execute({ workload_id: 'ci' }, {}, { authorization: `Bearer ${token}` }), { status: 200 });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'other' });
  await gw.admin('POST', '/v1/admin/workloads/other/token');
  t.match(
    await execute({ workload_id: 'other' }, {}, { authorization: `Bearer ${token}` }),
    { status: 401 },
    'what the body says counts too',
  );
  const { text } = await gw.admin('GET', '/metrics');
  t.match(text, /gw_auth_failures_total\{reason="missing_header",org_id="default"\} 3\n/);
  t.match(text, /gw_auth_failures_total\{reason="invalid_key",org_id="default"\} 3\n/);
  await gw.admin('DELETE', '/v1/admin/workloads/ci/token');
  t.match(await execute({ workload_id: 'ci' }, {}, { authorization: `Bearer ${token}` }), { status: 401 }, 'a token that was removed');
});

t.test(
  'a workload token that is not that of the workload is marked in the record where none is needed, and refused where one is',
  async (t) => {
    const { gw, execute, send, through, recordOf } = await startGoverned(t);
    await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
    await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'free' });
    const { token } = (await gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
    const key = ((await gw.admin('POST', '/v1/admin/api-keys', { org_id: 'default', name: 'k' })).body as { key: string }).key;
    const inner = (headers: readonly string[] = []) => chat(headers, '/v1/chat/completions');
    const at = 'api.openai.com:443';
    const ignored = { decision: 'allow', reason_codes: ['workload_token_ignored'] };
    const unknown = 'gwt_nobody';
    for (const [what, answer, workload] of [
      ['a header', await send(chat(['X-GW-Workload-Token', unknown])), 'default'],
      ['the header of an API key, beside nothing', await send(chat(['X-GW-API-Key', unknown])), 'default'],
      ['beside a key that holds', await send(chat(['X-GW-API-Key', key, 'X-GW-Workload-Token', unknown])), 'default'],
      [
        'the header of the provider',
        await send({ ...chat(), headers: ['Content-Type', 'application/json', 'Authorization', `Bearer ${unknown}`] }),
        'default',
      ],
      ['the password of a proxy', await through(at, inner(), basic('', unknown)), 'default'],
      ['its user', await through(at, inner(), basic(unknown)), 'default'],
      ['with a workload that has none', await through(at, inner(), basic('free', unknown)), 'free'],
      ['that of another workload', await send(chat(['X-GW-Workload-ID', 'free', 'X-GW-Workload-Token', token])), 'free'],
    ] as const)
      t.match(await recordOf(answer), { ...ignored, workload_id: workload }, what);
    for (const shown of [unknown, token]) {
      const { body } = await execute({ workload_id: 'free' }, {}, { authorization: `Bearer ${shown}` });
      t.match((await gw.admin('GET', `/v1/records/${String(body['record_id'])}`)).body, { ...ignored, workload_id: 'free' });
    }
    for (const answer of [
      await send(chat()),
      await send(chat(['X-GW-Workload-Token', token])),
      await send(chat(['X-GW-API-Key', key])),
      await through(at, inner(), basic('ci', token)),
      await through(at, inner(), basic('free', 'x')),
    ])
      t.strictSame((await recordOf(answer))['reason_codes'], [], 'what holds, and what is no token of ours, has no mark');
    await gw.admin('DELETE', '/v1/admin/workloads/ci/token');
    t.match(
      await recordOf(await send(chat(['X-GW-Workload-Token', token]))),
      { ...ignored, workload_id: 'default' },
      'one that was removed',
    );
    const strict = await startGoverned(t, { env: { GW_PROXY_AUTH: 'required' } });
    t.match(await strict.send(chat(['X-GW-Workload-Token', unknown])), { status: 401 });
    t.match(await openTunnel(strict.gw.port, at, { headers: basic('', unknown) }).catch((error: unknown) => error), { status: 407 });
    t.match(await strict.execute({ workload_id: 'default' }, {}, { authorization: `Bearer ${unknown}` }), { status: 401 });
  },
);

t.test('an API key that nobody made is refused and counted', async (t) => {
  const { gw, execute, send } = await startGoverned(t);
  t.match(await execute({}, {}, { authorization: 'Bearer gwk_x' }), { status: 401 });
  t.match(await send(chat(['X-GW-API-Key', 'gwk_x'])), { status: 401, headers: { 'www-authenticate': 'Bearer' } });
  t.match((await gw.admin('GET', '/metrics')).text, /gw_auth_failures_total\{reason="invalid_key",org_id="default"\} 2/);
});

t.test('ids and texts that break their rule are named', async (t) => {
  const { send, execute } = await startGoverned(t);
  const long = 'x'.repeat(129);
  const proxied = await send(chat(['X-GW-Workload-ID', 'a b', 'X-GW-Org-ID', long, 'X-GW-Caller-ID', 'y'.repeat(257)]));
  t.equal(proxied.status, 400);
  t.same(
    (JSON.parse(proxied.body.toString()) as { error: { details: { path: string }[] } }).error.details.map(({ path }) => path),
    ['X-GW-Org-ID', 'X-GW-Workload-ID', 'X-GW-Caller-ID'],
  );
  const labels = Object.fromEntries(Array.from({ length: 33 }, (_, at) => [`l${at}`, 'x']));
  const direct = await execute({
    request_id: '',
    caller_id: 'y'.repeat(257),
    attribution: { labels },
    surprise: 1,
    context: { estimates: { tokens_in: -1 } },
  });
  t.same((direct.body['error'] as { details: { path: string }[] }).details.map(({ path }) => path).sort(), [
    'attribution.labels',
    'caller_id',
    'context.estimates.tokens_in',
    'request_id',
    'surprise',
  ]);
});

t.test('workloads and their tokens survive a restart, and what was removed stays removed', async (t) => {
  const first = await startGoverned(t);
  await first.gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci', name: 'CI', default_attribution: { labels: { team: 'blue' } } });
  const { token } = (await first.gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
  await first.gw.admin('DELETE', '/v1/admin/workloads/default');
  t.match(await first.recordOf(await first.send(chat())), { reason_codes: ['workload_not_registered'], workload_id: 'default' });
  await first.gw.gateway.stop();
  const second = await startGoverned(t, { env: { GW_DATA_DIR: first.gw.dataDir } });
  t.same((await second.gw.admin('GET', '/v1/admin/workloads')).body, {
    workloads: [{ workload_id: 'ci', name: 'CI', default_attribution: { labels: { team: 'blue' } } }],
  });
  t.match(await second.execute({ workload_id: 'ci' }), { status: 401 });
  t.match(await second.execute({ workload_id: 'ci' }, {}, { authorization: `Bearer ${token}` }), { status: 200 });
});

t.test('a CONNECT that fails to authenticate is counted', async (t) => {
  const { gw } = await startGoverned(t, { env: { GW_PROXY_AUTH: 'required', GW_ORG_ID: 'acme' } });
  await t.rejects(openTunnel(gw.port, 'api.openai.com:443'), /407/);
  await t.rejects(openTunnel(gw.port, 'www.example.com:443', { headers: basic('default', 'gwt_x') }), /407/);
  const { text } = await gw.admin('GET', '/metrics');
  t.match(text, /gw_auth_failures_total\{reason="missing_header",org_id="acme"\} 1/);
  t.match(text, /gw_auth_failures_total\{reason="invalid_key",org_id="acme"\} 1/);
});

t.test('workloads of two orgs with one id: the token of one opens nothing of the other, on no door', async (t) => {
  const { gw, send, execute, through, recordOf } = await startGoverned(t, { bundle: ALLOW_ALL });
  for (const org of ['acme', 'globex']) await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci', org_id: org, name: org });
  t.match(await gw.admin('POST', '/v1/admin/workloads/ci/token'), { status: 409, body: { error: { code: 'conflict' } } });
  const issue = async (org: string) =>
    ((await gw.admin('POST', `/v1/admin/workloads/ci/token?org_id=${org}`)).body as { token: string }).token;
  const [ours, theirs] = [await issue('acme'), await issue('globex')];
  const calls = (org: string, token: string) => [
    () => send(chat(['X-GW-Org-ID', org, 'X-GW-Workload-ID', 'ci', 'X-GW-Workload-Token', token])),
    () => execute({ org_id: org, workload_id: 'ci' }, {}, { Authorization: `Bearer ${token}` }),
    () => through('api.openai.com:443', chat(['X-GW-Org-ID', org], '/v1/chat/completions'), basic('ci', token)),
  ];
  for (const call of [...calls('acme', ours), ...calls('globex', theirs)]) t.equal((await call()).status, 200);
  for (const call of [...calls('acme', theirs), ...calls('globex', ours)]) t.match((await call()).status, /^40[13]$/);
  const lastOfOurs = await send(chat(['X-GW-Org-ID', 'acme', 'X-GW-Workload-Token', ours]));
  t.match(await recordOf(lastOfOurs), { org_id: 'acme', workload_id: 'ci', decision: 'allow' });
  t.equal((await gw.admin('DELETE', '/v1/admin/workloads/ci?org_id=acme')).status, 200);
  t.match((await calls('acme', ours)[0]?.())?.status, 403, 'it is gone, and that of the other org is no workload of this one');
  t.equal((await calls('globex', theirs)[0]?.())?.status, 200);
});
