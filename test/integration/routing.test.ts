import t from 'tap';
import { exactly } from '../support/exactly.ts';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';

const MAPPED = { GW_ACTION_TYPE_CONNECTORS: 'acme.summarise=Claude, ai.moderate=provider_a,acme.tool = generic_http' };
/** Takes no key of the caller's. */
const NO_KEY = { credential_hint: undefined };

async function storeKeys({ gw }: Governed, ...connectors: readonly string[]): Promise<void> {
  for (const connector_id of connectors) {
    const body = { credential_id: `key-${connector_id}`, connector_id, mode: 'alias', secret_ref: `secret-${connector_id}` };
    t.equal((await gw.admin('PUT', '/v1/admin/credentials', body)).status, 200);
  }
}

interface ConnectorRow {
  readonly connector_id: string;
  readonly status: string;
  readonly action_types: readonly string[];
  readonly last_error?: { readonly at: string; readonly code: string };
}

async function connectorRow({ gw }: Governed, id: string): Promise<ConnectorRow | undefined> {
  const { connectors } = (await gw.admin('GET', '/v1/admin/connectors')).body as { connectors: readonly ConnectorRow[] };
  return connectors.find(({ connector_id }) => connector_id === id);
}

t.test('each step of the routing precedence, from the last to the first', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: to.mistral, when: {field: context.purpose, equals: selected}, effect: {select_connector: mistral}}
`;
  const governed = await startGoverned(t, { bundle: bundleOf(rules), env: MAPPED });
  const { execute, gw, upstream } = governed;
  await storeKeys(governed, 'openai', 'anthropic', 'mistral', 'cohere');
  const summarise = { type: 'acme.summarise' };
  const selected = { context: { purpose: 'selected' } };
  const steps = [
    [
      'generic_http takes what nobody else does',
      {},
      { type: 'acme.other', target_host: 'www.example.com' },
      'generic_http',
      'www.example.com',
    ],
    ['the connector of the target host', {}, { type: 'acme.other' }, 'openai', 'api.openai.com'],
    [
      'the mapping of the action type, whatever the host',
      {},
      { ...summarise, target_host: 'www.example.com' },
      'anthropic',
      'api.anthropic.com',
    ],
    [
      'the mapping goes before the connector of the host',
      {},
      { ...summarise, target_host: 'api.cohere.com' },
      'anthropic',
      'api.anthropic.com',
    ],
    ['a standard type is mapped, too', {}, { type: 'ai.moderate', target_host: 'api.mistral.ai' }, 'openai', 'api.openai.com'],
    [
      'a type is mapped to generic HTTP, which leaves the host',
      {},
      { type: 'acme.tool', target_host: 'www.example.com' },
      'generic_http',
      'www.example.com',
    ],
    ['policy goes before the mapping', selected, { ...summarise, target_host: 'www.example.com' }, 'mistral', 'api.mistral.ai'],
    [
      'the hint goes before all',
      { ...selected, connector_hint: 'provider_e' },
      { ...summarise, target_host: 'www.example.com' },
      'cohere',
      'api.cohere.com',
    ],
  ] as const;
  for (const [name, extra, action, connector, host] of steps) {
    const { status, body } = await execute({ ...NO_KEY, ...extra }, action);
    t.match(
      { status, body },
      {
        status: 200,
        body: { decision_trace: { selected_connector_id: connector, attributes: { connector_id: connector, target_host: host } } },
      },
      name,
    );
    t.equal(upstream.requests.at(-1)?.headers['host'], host, `${name}: sent there`);
  }
  const mapped = await execute(NO_KEY, { ...summarise, target_host: 'www.example.com' });
  t.match(upstream.requests.at(-1), { url: '/v1/messages', headers: { 'x-api-key': 'secret-anthropic', 'anthropic-version': /./ } });
  t.match(await gw.record(String(mapped.body['record_id'])), {
    action_type: 'acme.summarise',
    connector_id: 'anthropic',
    provider: 'anthropic',
    target: 'https://api.anthropic.com/v1/messages',
    metering: { rate_in: /./ },
  });
  t.match(await execute({ ...NO_KEY, connector_hint: 'nobody' }, summarise), {
    status: 400,
    body: { error: { code: 'invalid_request', details: [{ path: 'connector_hint', message: /"nobody" is not a registered connector/ }] } },
  });
  t.match((await gw.admin('GET', '/metrics')).text, /gw_requests_total\{action_type="acme\.summarise",decision="allow"/);
  t.match((await gw.admin('GET', '/metrics')).text, /gw_requests_total\{action_type="other",decision="allow"/);
});

t.test('mapped types stand beside their connectors; what cannot be mapped stops the start', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, env: MAPPED });
  t.match(await connectorRow(governed, 'anthropic'), { action_types: ['acme.summarise'] });
  t.match(await connectorRow(governed, 'openai'), { action_types: ['ai.moderate'] });
  t.match(await connectorRow(governed, 'generic_http'), { action_types: ['acme.tool'] });
  t.same((await connectorRow(governed, 'cohere'))?.action_types, []);
  for (const [text, message] of [
    ['acme.a=antropic', /^GW_ACTION_TYPE_CONNECTORS: "antropic" is no connector; did you mean anthropic\? it takes openai, /],
    ['acme.a=custom:mine', /"custom:mine" is no connector/],
    ['acme.a', /"acme\.a" is no TYPE=CONNECTOR/],
    ['acme.a=openai=x', /is no TYPE=CONNECTOR/],
    ['=openai', /"" is no action type/],
    ['Acme.A=openai', /"Acme\.A" is no action type/],
    ['infer=openai', /"infer" is no action type/],
    ['acme.a=openai,acme.a=cohere', /acme\.a stands there twice/],
  ] as const) {
    await t.rejects(startTestGateway(t, { env: { GW_ACTION_TYPE_CONNECTORS: text } }), { message }, text);
  }
});

t.test('the mapping is for structured calls: what a client sends to a provider stays with that provider', async (t) => {
  const { send, through, recordOf } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    env: { GW_ACTION_TYPE_CONNECTORS: 'ai.infer=anthropic' },
  });
  for (const answer of [await send(chat()), await through('api.openai.com:443', chat([], '/v1/chat/completions'))]) {
    t.match(await recordOf(answer), { status_code: 200, action_type: 'ai.infer', connector_id: 'openai', target_host: 'api.openai.com' });
  }
});

t.test('a key that the caller meant for one provider does not go to the one that its type is mapped to', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, env: MAPPED });
  const { execute, upstream } = governed;
  const moved = { status: 403, body: { reason_codes: ['no_credential_candidate'], reason: /moves this call to anthropic/ } };
  const summarise = { type: 'acme.summarise' };
  const inHeader = { ...summarise, headers: { Authorization: 'Bearer sk-openai' } };
  t.match(await execute({}, summarise), moved, 'as credential_hint');
  t.match(await execute(NO_KEY, inHeader), moved, 'as a header');
  t.match(await execute({}, { ...summarise, target_host: 'www.example.com' }), moved, 'a host that nobody knows means no provider either');
  t.equal(upstream.requests.length, 0);
  t.equal((await execute({}, { ...summarise, target_host: 'api.anthropic.com' })).status, 200, 'the caller names the host itself');
  t.match(upstream.requests.at(-1), { headers: { 'x-api-key': 'sk-caller' } });
  await storeKeys(governed, 'anthropic');
  t.equal(
    (await execute(NO_KEY, { ...inHeader, target_path: '/v1/messages?key=sk-google', target_host: 'generativelanguage.googleapis.com' }))
      .status,
    200,
  );
  t.match(upstream.requests.at(-1), { url: '/v1/messages', headers: { 'x-api-key': 'secret-anthropic' } });
  t.notOk(JSON.stringify(upstream.requests.at(-1)?.headers).includes('sk-openai'), 'the stored key stands in its place');
});

t.test('a POST that nobody describes is an AI call, whatever its caller says it is', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no.ai, when: {all: [{field: context.action.type, equals: ai.infer}, {field: context.purpose, equals: plain}]}, effect: {decision: deny}}
`;
  const { execute, gw, upstream } = await startGoverned(t, { bundle: bundleOf(rules) });
  const post = { type: 'http.request', target_path: '/v1/brand/new', params: { model: 'gpt-4o', max_tokens: 5 } };
  t.match(await execute({ context: { purpose: 'plain' } }, post), { status: 403, body: { decision: 'deny' } });
  t.equal(upstream.requests.length, 0);
  const { body } = await execute({}, post);
  t.match(await gw.record(String(body['record_id'])), {
    action_type: 'ai.infer',
    metering: { rate_source: 'default', usage_reported: true, tokens_in: 11, tokens_out: 7 },
  });
  const moderated = await execute({}, { ...post, type: 'ai.moderate' });
  t.match(await gw.record(String(moderated.body['record_id'])), { action_type: 'ai.infer' });
  const list = await execute({}, { type: 'acme.list', method: 'GET', target_path: '/v1/models', params: {} });
  t.equal(list.status, 200);
  t.notOk('metering' in (await gw.record(String(list.body['record_id']))), 'a type of its own makes no AI call of a list');
});

t.test('a call that names no path goes where calls of its type go', async (t) => {
  const { execute, upstream } = await startGoverned(t, { bundle: ALLOW_ALL });
  for (const [type, host, path] of [
    ['ai.infer', 'api.openai.com', '/v1/chat/completions'],
    ['acme.chat', 'api.openai.com', '/v1/chat/completions'],
    ['ai.embed', 'api.openai.com', '/v1/embeddings'],
    ['ai.moderate', 'api.openai.com', '/v1/moderations'],
    ['ai.embed', 'api.mistral.ai', '/v1/embeddings'],
    ['ai.embed', 'api.cohere.com', '/v2/embed'],
  ] as const) {
    t.equal((await execute({}, { type, target_host: host, params: { model: 'm', input: 'x' } })).status, 200, type);
    t.equal(upstream.requests.at(-1)?.url, path, `${type} of ${host}`);
  }
  for (const host of ['api.anthropic.com', 'generativelanguage.googleapis.com']) {
    const { status, body } = await execute({}, { type: 'ai.embed', target_host: host, params: { model: 'm' } });
    t.match(
      { status, body },
      { status: 400, body: { error: { details: [{ path: 'action.type' }] } } },
      `${host} has no such path in its own format`,
    );
  }
});

t.test('a type mapped to a connector of hosts per customer needs one of its hosts', async (t) => {
  const { execute, upstream } = await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_ACTION_TYPE_CONNECTORS: 'acme.chat=azure' } });
  const call = { type: 'acme.chat', params: { ...CHAT, model: 'my-gpt' } };
  t.match(await execute({}, call), {
    status: 400,
    body: { error: { details: [{ path: 'action.target_host', message: /azure_openai/ }] } },
  });
  t.equal((await execute({}, { ...call, target_host: 'res.openai.azure.com' })).status, 200);
  t.equal(upstream.requests.length, 1);
});

t.test('a host that policy writes is where the call goes, whatever the caller or its type asked for', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: to.mistral, effect: {mutations: [{key: action.target_host, value: api.mistral.ai}]}}
`;
  const governed = await startGoverned(t, { bundle: bundleOf(rules), env: MAPPED });
  const { execute, upstream } = governed;
  await storeKeys(governed, 'openai', 'mistral');
  for (const [name, extra, type] of [
    ['a hint', { connector_hint: 'openai' }, 'ai.infer'],
    ['a mapping', {}, 'ai.moderate'],
    ['the host', {}, 'ai.infer'],
  ] as const) {
    const path = type === 'ai.moderate' ? '/v1/moderations' : '/v1/chat/completions';
    const { status, body } = await execute({ ...NO_KEY, ...extra }, { type, target_path: path });
    t.match({ status, body }, { status: 200, body: { decision_trace: { selected_connector_id: 'mistral' } } }, name);
    t.match(upstream.requests.at(-1)?.headers, { host: 'api.mistral.ai', authorization: 'Bearer secret-mistral' }, name);
  }
});

// Holds: no-escape-from-a-price
t.test('generic HTTP adds nothing to a call to a provider, and takes nothing of its price away', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
  budgets:
    - {id: cap, when: {field: context.action.params.model, equals: gpt-4}, effect: {budget: {usd_max: "0.000001"}}}
`;
  const { execute, gw, upstream } = await startGoverned(t, { bundle: bundleOf(rules), env: MAPPED });
  const own = { headers: { Authorization: 'Bearer sk-own' }, target_path: '/v1/chat/completions' };
  for (const [name, extra, type] of [
    ['by a hint', { connector_hint: 'generic_http' }, 'ai.infer'],
    ['by a mapping', {}, 'acme.tool'],
  ] as const) {
    const plain = await execute({ ...NO_KEY, ...extra }, { ...own, type });
    t.match(upstream.requests.at(-1), { headers: { host: 'api.openai.com', authorization: 'Bearer sk-own' } }, name);
    t.match(
      await gw.record(String(plain.body['record_id'])),
      { connector_id: 'generic_http', provider: 'openai', metering: { tokens_in: 11, tokens_out: 7, cost_usd: exactly('0.00000585') } },
      name,
    );
    t.match(
      await execute({ ...NO_KEY, ...extra }, { ...own, type, params: { ...CHAT, model: 'gpt-4' } }),
      { status: 403, body: { reason_codes: ['budget_usd_max_exceeded'] } },
      `${name}: the cap holds`,
    );
    t.match(
      await execute({ ...NO_KEY, ...extra }, { ...own, type, params: { ...CHAT, stream: true } }),
      { status: 400, body: { error: { code: 'streaming_not_supported' } } },
      name,
    );
  }
  t.match(
    await execute({ ...NO_KEY, connector_hint: 'generic_http' }, { ...own, type: 'http.request' }),
    { status: 400, body: { error: { details: [{ path: 'action.type' }] } } },
    'an AI call is none less for being called an HTTP request',
  );
});

// Holds: no-escape-from-a-price
t.test('generic HTTP is no other name under which a provider can be reached', async (t) => {
  const rules = `  connectors:
    - {id: not.openai, when: {field: context.connector.id, equals: openai}, effect: {decision: deny, reason: not openai}}
  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: there, when: {field: context.purpose, equals: moved}, effect: {mutations: [{key: action.target_host, value: api.openai.com}]}}
    - {id: generic, when: {field: context.purpose, equals: selected}, effect: {select_connector: generic_http}}
`;
  const { execute, upstream } = await startGoverned(t, { bundle: bundleOf(rules), env: MAPPED });
  const post = { headers: { Authorization: 'Bearer sk-own' }, target_path: '/v1/chat/completions' };
  for (const [name, extra, action] of [
    ['by its host', {}, {}],
    ['by a hint', { connector_hint: 'generic_http' }, {}],
    ['by a mapping', {}, { type: 'acme.tool' }],
    ['by a mutation', { context: { purpose: 'moved' } }, { type: 'http.request', target_host: 'www.example.com' }],
  ] as const) {
    t.match(await execute({ ...NO_KEY, ...extra }, { ...post, ...action }), { status: 403, body: { reason: 'not openai' } }, name);
  }
  const other = await execute({ ...NO_KEY, connector_hint: 'generic_http' }, { ...post, target_host: 'api.mistral.ai' });
  t.equal(other.status, 200, 'a provider that no rule refuses');
  t.equal(
    (await execute({ ...NO_KEY, context: { purpose: 'selected' } }, { ...post, target_host: 'www.example.com', type: 'http.request' }))
      .status,
    200,
  );
  t.equal(upstream.requests.length, 2);
});

t.test('the status of a connector: its configuration, and how the last call ended', async (t) => {
  let answer: 'ok' | 'break' | 'half' | number = 'ok';
  const governed = await startGoverned(t, {
    bundle: ALLOW_ALL,
    handler: (request, response, body) =>
      void body.then(() => {
        if (answer === 'break') return request.socket.destroy();
        response.statusCode = typeof answer === 'number' ? answer : 200;
        response.setHeader('content-type', 'application/json');
        if (answer !== 'half') return response.end('{"usage":{"prompt_tokens":1,"completion_tokens":1}}');
        response.setHeader('content-length', '100000');
        return response.write('{"usage":', () => request.socket.destroy());
      }),
  });
  const { execute, send, gw } = governed;
  const status = async (id = 'openai') => (await connectorRow(governed, id))?.status;
  t.equal(await status(), 'no_credential', 'nobody stored a key');
  t.equal(await status('generic_http'), 'ok', 'needs none');
  delete process.env['GW_TEST_LATER'];
  const named = { credential_id: 'k', connector_id: 'openai', mode: 'alias', secret_ref: 'env:GW_TEST_LATER' };
  await gw.admin('PUT', '/v1/admin/credentials', named);
  t.equal(await status(), 'no_credential', 'the variable that holds the key is not set');
  await storeKeys(governed, 'openai');
  t.equal(await status(), 'ok');

  const calls = [
    ['break', 'error', 'upstream_unreachable'],
    ['ok', 'ok', undefined],
    [503, 'error', 'status_503'],
    [200, 'ok', undefined],
    [401, 'error', 'status_401'],
    [429, 'ok', undefined],
    ['half', 'error', 'upstream_unreachable'],
    [400, 'ok', undefined],
  ] as const;
  for (const [given, expected, code] of calls) {
    answer = given;
    await execute(NO_KEY);
    const row = await connectorRow(governed, 'openai');
    t.match([row?.status, row?.last_error?.code], [expected, code], String(given));
    const health = (await gw.admin('GET', '/healthz')).body as { connectors: { id: string; healthy: boolean }[] };
    t.equal(health.connectors.find(({ id }) => id === 'openai')?.healthy, expected === 'ok', `healthy after ${given}`);
  }
  await gw.admin('DELETE', '/v1/admin/credentials/key-openai');
  answer = 401;
  await send(chat());
  t.equal(await status(), 'no_credential', "a caller's own key that is refused says nothing of the connector");
  answer = 500;
  await send(chat());
  t.match(await connectorRow(governed, 'openai'), { status: 'error', last_error: { at: /^20.*Z$/, code: 'status_500' } });
  t.equal(await status('anthropic'), 'no_credential', 'one connector says nothing of another');
});
