import t from 'tap';
import type { TestGateway } from '../support/gateway.ts';
import { bundleOf, type Governed, startGoverned } from '../support/governed.ts';
import { connectPlain, h1Request, type RawResponse } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const ALLOW_AI = `  connectors:\n    - {id: allow.ai, when: {field: context.connector.id, in: [openai, anthropic, gemini, azure_openai, mistral]}, effect: {decision: allow}}\n`;

const governed = (t: HasTeardown, rules: string): Promise<Governed> => startGoverned(t, { bundle: bundleOf(rules) });

async function post(t: HasTeardown, gw: TestGateway, path: string, body: unknown, headers: readonly string[] = []): Promise<RawResponse> {
  const socket = await connectPlain(gw.port);
  t.teardown(() => socket.destroy());
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return h1Request(socket, `127.0.0.1:${gw.port}`, {
    method: 'POST',
    path,
    headers: ['Authorization', 'Bearer k', ...headers],
    body: text,
  });
}

const recordOf = (gw: TestGateway, answer: RawResponse) => gw.record(answer.headers['x-gw-record-id'] ?? '');
const CHAT = { model: 'gpt-4', messages: [{ role: 'user', content: 'hi' }] };

// Holds: bodies-stay-as-they-are
t.test('a downgrade rewrites the model where the dialect keeps it, and everything else stays byte for byte', async (t) => {
  const { gw, upstream, execute } = await governed(
    t,
    `${ALLOW_AI}  transforms:\n    - {id: cheaper, when: {field: context.action.params.model, in: [gpt-4, gemini-2.5-pro]}, effect: {decision: downgrade, mutations: [{key: action.params.model, value: small}]}}\n`,
  );
  await t.test('in a JSON body', async (t) => {
    const text = '{ "seed": 12345678901234567890, "model" : "gpt-4", "messages":[{"role":"user","content":"h\\u0069"}] }';
    const answer = await post(t, gw, '/proxy/openai/v1/chat/completions', text);
    t.equal(upstream.requests.at(-1)?.body.toString(), text.replace('"gpt-4"', '"small"'));
    t.equal(answer.headers['x-gw-decision'], 'downgrade');
    t.match(await recordOf(gw, answer), {
      decision: 'downgrade',
      model: 'small',
      policy_trace: { bundle_id: 'test', version: '7', matched_rule_ids: ['allow.ai', 'cheaper'] },
    });
  });
  await t.test('in the path', async (t) => {
    await post(t, gw, '/proxy/gemini/v1beta/models/gemini-2.5-pro:generateContent', { contents: [] });
    t.equal(upstream.requests.at(-1)?.url, '/v1beta/models/small:generateContent');
  });
  await t.test('on the structured API the trace names both models', async (t) => {
    t.match((await execute({}, { params: CHAT })).body, {
      decision: 'downgrade',
      decision_trace: { attributes: { original_model: 'gpt-4', substituted_model: 'small' } },
    });
    t.match(upstream.requests.at(-1), { url: '/v1/chat/completions' });
  });
  await t.test('a model that is not named stays as it is, and the decision is allow', async (t) => {
    const answer = await post(t, gw, '/proxy/openai/v1/chat/completions', { ...CHAT, model: 'gpt-4o-mini' });
    t.equal(answer.headers['x-gw-decision'], 'allow');
  });
});

t.test('a mutated host is checked again', async (t) => {
  const { gw, upstream } = await governed(
    t,
    `${ALLOW_AI}  targets:\n    - {id: no.mistral, when: {field: action.target_host, equals: api.mistral.ai}, effect: {decision: deny, reason: not there}}\n  transforms:\n    - {id: move, when: {field: context.action.params.model, equals: moved}, effect: {mutations: [{key: action.target_host, value: api.mistral.ai}]}}\n`,
  );
  const answer = await post(t, gw, '/proxy/openai/v1/chat/completions', { ...CHAT, model: 'moved' });
  t.equal(answer.status, 403);
  t.match(await recordOf(gw, answer), { decision: 'deny', target_host: 'api.mistral.ai', reason: 'not there' });
  t.equal(upstream.requests.length, 0);
});

t.test('a downgrade is not refused by its own layer for what it made of the call', async (t) => {
  for (const layer of ['connectors', 'credentials', 'targets']) {
    const own = `  ${layer}:
    - {id: smaller, when: {field: context.action.params.model, equals: large}, effect: {decision: downgrade, mutations: [{key: action.params.model, value: small}]}}
`;
    const { gw, upstream } = await governed(t, layer === 'connectors' ? own : `${ALLOW_AI}${own}`);
    const answer = await post(t, gw, '/proxy/openai/v1/chat/completions', { ...CHAT, model: 'large' });
    t.equal(answer.status, 200, layer);
    t.match(JSON.parse(upstream.requests.at(-1)?.body.toString() ?? ''), { model: 'small' });
    t.match(await recordOf(gw, answer), { decision: 'downgrade', model: 'small', policy_trace: { matched_rule_ids: /smaller/ } });
    const other = await post(t, gw, '/proxy/openai/v1/chat/completions', { ...CHAT, model: 'other' });
    t.equal(other.status, 403, 'the layer is an allow-list as ever');
  }
});

t.test('a key goes to no host but the one of the connector that its caller meant', async (t) => {
  const { gw, upstream } = await governed(
    t,
    `${ALLOW_AI}  transforms:\n    - {id: elsewhere, when: {field: context.action.params.model, equals: moved}, effect: {mutations: [{key: action.target_host, value: api.mistral.ai}]}}\n    - {id: selected, when: {field: context.action.params.model, equals: selected}, effect: {select_connector: mistral}}\n`,
  );
  for (const model of ['moved', 'selected']) {
    const answer = await post(t, gw, '/proxy/openai/v1/chat/completions', { ...CHAT, model });
    t.equal(answer.status, 403);
    t.match(await recordOf(gw, answer), { decision: 'deny', reason_codes: ['no_credential_candidate'], target_host: 'api.mistral.ai' });
  }
  t.equal(upstream.requests.length, 0);
});

t.test('attribution is filled, restricted and enforced', async (t) => {
  const { gw } = await governed(
    t,
    `${ALLOW_AI}  budgets:\n    - {id: need.project, effect: {decision: require_attribution, enforce_attribution: {require: [project_id], allow_overrides: [project_id]}, default_attribution: {customer_id: c-rule}}}\n`,
  );
  const denied = await post(t, gw, '/proxy/openai/v1/chat/completions', CHAT);
  t.equal(denied.status, 403);
  t.match(JSON.parse(denied.body.toString()), {
    decision: 'require_attribution',
    reason_codes: ['missing:project_id'],
    error: { message: /project_id/ },
  });
  const allowed = await post(t, gw, '/proxy/openai/v1/chat/completions', CHAT, ['X-GW-Project-ID', 'apollo', 'X-GW-Account-ID', 'mine']);
  const record = await recordOf(gw, allowed);
  t.match(record, { decision: 'allow', project_id: 'apollo', customer_id: 'c-rule' });
  t.notOk('account_id' in record, 'an override that is not allowed is dropped');
});

t.test('labels that a caller may not set are dropped, and a default comes in their place', async (t) => {
  const { gw, execute } = await governed(
    t,
    `${ALLOW_AI}  budgets:\n    - {id: shared, effect: {enforce_attribution: {require: [project_id], allow_overrides: [labels.team]}, default_attribution: {project_id: shared, labels.env: prod}}}\n`,
  );
  const attribution = { project_id: 'not-mine', labels: { team: 'blue', env: 'test', other: 'x' } };
  const { body } = await execute({ attribution }, { params: CHAT });
  const record = await gw.record(String(body['record_id']));
  t.match(record, { decision: 'allow', project_id: 'shared' });
  t.same(record['labels'], { team: 'blue', env: 'prod' });
});

t.test('decisions whose service does not exist are refused, on every door with 403', async (t) => {
  const { gw, upstream } = await governed(
    t,
    `${ALLOW_AI}  risk:\n    - {id: hold, when: {field: context.action.params.model, equals: held}, effect: {decision: require_approval, reason: ask first}}\n    - {id: lock, when: {field: context.action.params.model, equals: locked}, effect: {decision: quarantine}}\n`,
  );
  for (const [model, decision] of [
    ['held', 'require_approval'],
    ['locked', 'quarantine'],
  ] as const) {
    const answer = await post(t, gw, '/proxy/openai/v1/chat/completions', { ...CHAT, model });
    t.equal(answer.status, 403);
    t.match(JSON.parse(answer.body.toString()), { decision });
    t.notOk(answer.headers['retry-after']);
  }
  t.equal(upstream.requests.length, 0);
});

t.test('what nobody has stored or registered is refused', async (t) => {
  const { execute } = await governed(t, ALLOW_AI);
  t.match(await execute({ delegation_token: 'e30=' }), { status: 403, body: { reason_codes: ['delegation_unknown_key'] } });
  t.match(await execute({ credential_hint: 'cred-1' }), { status: 403, body: { reason_codes: ['credential_not_found'] } });
  t.match(await execute({ credential_hint: undefined }), { status: 403, body: { reason_codes: ['no_credential_candidate'] } });
  t.match(await execute({ connector_hint: 'nowhere' }), { status: 400, body: { error: { details: [{ path: 'connector_hint' }] } } });
  t.match(await execute({ connector_hint: 'provider_b' }), {
    status: 200,
    body: { decision_trace: { selected_connector_id: 'anthropic', attributes: { target_host: 'api.anthropic.com' } } },
  });
});

t.test('the structured API takes each dialect’s form', async (t) => {
  const { execute, upstream } = await governed(t, ALLOW_AI);
  const direct = async (host: string, params: object, action: object = {}) => {
    const { status } = await execute({ credential_hint: 'the-key' }, { target_host: host, params, ...action });
    return { status, seen: upstream.requests.at(-1) };
  };
  await t.test('Gemini streams by its path', async (t) => {
    const { seen } = await direct('generativelanguage.googleapis.com', { model: 'gemini-2.5-flash', contents: [], stream: true });
    t.match(seen?.url, '/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse');
    t.same(JSON.parse(seen?.body.toString() ?? ''), { contents: [] });
    t.equal(seen?.headers['x-goog-api-key'], 'the-key');
  });
  await t.test('Anthropic has its version header and its key header', async (t) => {
    const { seen } = await direct('api.anthropic.com', { model: 'claude-3-5-haiku-20241022', max_tokens: 5, messages: [] });
    t.match(seen, {
      url: '/v1/messages',
      headers: { 'x-api-key': 'the-key', 'anthropic-version': '2023-06-01', 'content-type': 'application/json' },
    });
  });
  await t.test('a GET without params sends no body', async (t) => {
    const { seen } = await direct('api.openai.com', {}, { type: 'http.request', method: 'GET', target_path: '/v1/models' });
    t.match(seen, { method: 'GET', url: '/v1/models' });
    t.equal(seen?.headers['content-length'], undefined);
  });
  await t.test('a type that contradicts the path is refused', async (t) => {
    t.equal((await direct('api.openai.com', CHAT, { type: 'http.request', target_path: '/v1/chat/completions' })).status, 400);
  });
});

t.test('a workload with a token must present it', async (t) => {
  const { gw } = await governed(t, ALLOW_AI);
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const { token } = (await gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
  t.match(token, /^gwt_/);
  const call = (headers: readonly string[]) =>
    post(t, gw, '/proxy/openai/v1/chat/completions', CHAT, ['X-GW-Workload-ID', 'ci', ...headers]);
  t.equal((await call([])).status, 401);
  t.equal((await call(['X-GW-Workload-Token', 'gwt_wrong'])).status, 401);
  const good = await call(['X-GW-Workload-Token', token]);
  t.equal(good.status, 200);
  t.match(await recordOf(gw, good), { workload_id: 'ci' });
  t.match((await gw.admin('GET', '/metrics')).text, /gw_auth_failures_total\{reason="missing_header",org_id="default"\} 1/);
  t.equal((await gw.admin('DELETE', '/v1/admin/workloads/ci/token')).status, 200);
  t.equal((await call([])).status, 200);
});
