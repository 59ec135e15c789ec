// What an approval is good for: the call to the place that was shown, with its headers, for its project, under its
// delegation, for the rules that asked, and once.
import { createServer } from 'node:net';
import t from 'tap';
import { DELEGATED_AT, everydayToken, Issuer } from '../decide/delegation/delegation-tokens.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { managedAs } from '../support/managed.ts';
import { REALTIME, scene } from '../support/metered-sockets.ts';
import { closeServer, listenOnFreePort, trackSockets, type UpstreamHandler } from '../support/tls-upstream.ts';

const ALLOW = '  targets:\n    - {id: all, effect: {decision: allow}}\n';
const asking = (id: string, layer = 'risk', more = ''): string =>
  `  ${layer}:\n    - {id: ${id}, when: {field: context.action.params.user, equals: ask}, effect: {decision: require_approval, reason: ${id} asks${more}}}\n`;
const BUNDLE = bundleOf(ALLOW + asking('large'));
const ASK = { ...CHAT, user: 'ask' };

type Json = Record<string, unknown>;

const list = async (gw: TestGateway, query = '?status=pending'): Promise<readonly Json[]> =>
  ((await gw.admin('GET', `/v1/admin/approvals${query}`)).body as { items: Json[] }).items;

async function approveOnly(gw: TestGateway): Promise<Json> {
  const waiting = await list(gw);
  const [only] = waiting;
  if (only === undefined || waiting.length !== 1) throw new Error(`${waiting.length} requests wait`);
  await gw.admin('POST', `/v1/admin/approvals/${String(only['approval_id'])}/approve`);
  return only;
}

async function storeKey(gw: TestGateway, provider: string): Promise<void> {
  const credential = { credential_id: `of-${provider}`, connector_id: provider, mode: 'alias', secret_ref: `sk-${provider}` };
  const stored = await gw.admin('PUT', '/v1/admin/credentials', credential);
  if (stored.status !== 200) throw new Error(stored.text);
}

const put = (gw: TestGateway, rules: string) => gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: bundleOf(rules) });
const hostsOf = ({ upstream }: Governed) => upstream.requests.map(({ headers }) => headers['host']);

t.test('a hint that comes with the approved call leads nowhere that was not approved, and the approver sees where it would', async (t) => {
  const governed = await startGoverned(t, { bundle: BUNDLE });
  const { gw, execute } = governed;
  await execute({}, { params: ASK });
  const shown = await approveOnly(gw);
  t.match(shown, {
    action: { connector_id: 'openai', target_host: 'api.openai.com', target_path: '/v1/chat/completions' },
    action_hash: /^[0-9a-f]{64}$/,
    on_approval: /^allows one identical request until \d{4}-/,
  });
  const moved = await execute({ connector_hint: 'mistral' }, { params: ASK });
  t.equal(moved.status, 202);
  t.match(await list(gw), [{ action: { connector_id: 'mistral', target_host: 'api.mistral.ai' } }]);
  t.equal((await execute({}, { params: ASK, target_path: '/v1/responses' })).status, 202, 'another path');
  t.equal((await execute({}, { params: ASK, target: 'https://api.openai.com:8443/v1/chat/completions' })).status, 202, 'another port');
  t.match(await list(gw), [{ action: { target_host: 'api.openai.com', target_origin: 'https://api.openai.com:8443' } }]);
  t.equal(governed.upstream.requests.length, 0);
  const named = await execute({ connector_hint: 'openai' }, { params: ASK });
  t.equal(named.status, 200, 'a hint that leads to the same place is the same request');
  t.same(hostsOf(governed), ['api.openai.com']);
});

t.test('what policy makes of the call is what is shown and approved, also by rules that were not asked yet', async (t) => {
  const moving = (host: string) =>
    `${ALLOW}${asking('large')}  transforms:\n    - {id: move, effect: {mutations: [{key: action.target_host, value: ${host}}]}}\n`;
  const governed = await startGoverned(t, { bundle: bundleOf(moving('api.mistral.ai')) });
  const { gw } = governed;
  for (const provider of ['mistral', 'ollama']) await storeKey(gw, provider);
  const execute: Governed['execute'] = (extra, action) => governed.execute({ credential_hint: undefined, ...extra }, action);
  t.equal((await execute({}, { params: ASK })).status, 202);
  const shown = await approveOnly(gw);
  t.match(shown, { action: { connector_id: 'mistral', target_host: 'api.mistral.ai' }, request_hash: String });
  await put(gw, moving('ollama.com'));
  t.equal((await execute({}, { params: ASK })).status, 202, 'a mutation that changed since sends it nowhere');
  t.match(await list(gw), [{ action: { target_host: 'ollama.com' } }]);
  await put(gw, moving('api.mistral.ai'));
  t.equal((await execute({}, { params: ASK })).status, 200);
  t.same(hostsOf(governed), ['api.mistral.ai']);
});

t.test('where only the final choice needs an approval it waits too, and nobody is asked where that would be refused', async (t) => {
  const rules = (decision: string) => `  connectors:
    - {id: cheaper, when: {field: context.connector.id, equals: openai}, effect: {decision: allow, select_connector: mistral}}
    - {id: ours, when: {field: context.connector.id, equals: mistral}, effect: {decision: require_approval, reason: mistral asks}}
  targets:
    - {id: all, effect: {decision: allow}}
    - {id: never, priority: 9, when: {field: action.target_host, equals: api.mistral.ai}, effect: {decision: ${decision}}}
`;
  const governed = await startGoverned(t, { bundle: bundleOf(rules('allow')), env: { GW_DISCOVERY_ENABLED: 'false' } });
  const { gw, execute } = governed;
  await storeKey(gw, 'mistral');
  const call = () => execute({ credential_hint: undefined });
  t.match(await call(), { status: 202, body: { reason: 'mistral asks' } });
  t.match(await approveOnly(gw), { rule_ids: ['connectors/ours'], action: { connector_id: 'mistral' } });
  t.equal((await call()).status, 200);
  t.same(hostsOf(governed), ['api.mistral.ai']);
  const twice = await governed.send(
    chat([], undefined, '{"model":"gpt-4o-mini","messages":[{"role":"user","content":"a","content":"b"}]}'),
  );
  t.equal(twice.status, 403);
  t.match(
    JSON.parse(twice.body.toString()),
    { reason_codes: ['approval_required', 'approval_not_possible'] },
    'what could be read in two ways',
  );
  await put(gw, rules('deny'));
  t.match(await call(), { status: 403, body: { decision: 'deny' } });
  t.same(await list(gw), []);
});

t.test(
  'headers are bound: those of the structured API all, of other doors the caller’s own words, and no trace of another try',
  async (t) => {
    const governed = await startGoverned(t, { bundle: BUNDLE });
    const { gw, execute, send } = governed;
    await execute({}, { params: ASK, headers: { 'OpenAI-Organization': 'org-a' } });
    await approveOnly(gw);
    t.equal((await execute({}, { params: ASK, headers: { 'OpenAI-Organization': 'org-b' } })).status, 202);
    t.equal((await execute({}, { params: ASK })).status, 202);
    t.equal((await execute({}, { params: ASK, headers: { 'openai-organization': 'org-a' } })).status, 200, 'names have no case');
    const first = ['OpenAI-Project', 'p', 'User-Agent', 'OpenAI/JS 4', 'x-stainless-retry-count', '0', 'X-GW-Label-Team', 'blue'];
    const retry = [
      ...['OpenAI-Project', 'p', 'User-Agent', 'OpenAI/JS 5', 'x-stainless-retry-count', '2', 'Date', 'Thu, 26 Nov 2026 08:00:00 GMT'],
      ...['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'Idempotency-Key', 'k', 'Cookie', 'a=b'],
      ...['x-request-id', 'r', 'Connection', 'keep-alive, X-Hop', 'X-Hop', '1', 'Accept-Encoding', 'gzip'],
    ];
    const ask = { ...ASK, seed: 7 };
    await send(chat(first, undefined, ask));
    const before = (await list(gw)).length;
    const [mine] = await list(gw);
    await gw.admin('POST', `/v1/admin/approvals/${String(mine?.['approval_id'])}/approve`);
    t.equal((await send(chat([...first.slice(2), 'OpenAI-Project', 'q'], undefined, ask))).status, 403);
    t.equal((await list(gw)).length, before, 'another project of the provider is asked about');
    t.equal((await send(chat(retry, undefined, ask))).status, 200);
  },
);

t.test('a body that another reader could take for something else is not what was approved, so that it cannot wait', async (t) => {
  const { gw, send, through, upstream } = await startGoverned(t, { bundle: BUNDLE });
  const of = (message: string, more = '') => `{"model":"gpt-4o-mini","user":"ask",${more}"messages":[{"role":"user",${message}}]}`;
  const good = of('"content":"nice"', '"seed":9007199254740991,');
  const bad: readonly (readonly [what: string, body: string])[] = [
    ['a name that stands twice', of('"content":"evil","content":"nice"', '"seed":9007199254740991,')],
    ['once with an escape', of('"c\\u006fntent":"evil","content":"nice"', '"seed":9007199254740991,')],
    ['deep in a value of any form', of('"content":"nice"', '"metadata":{"a":[{"b":{"c":1,"c":2}}]},')],
    ['an integer that loses digits', of('"content":"nice"', '"seed":9007199254740993,')],
  ];
  const doors = [
    (body: string) => send(chat([], undefined, body)),
    (body: string) => through('api.openai.com:443', chat([], '/v1/chat/completions', body)),
  ];
  for (const call of doors) {
    t.equal((await call(good)).status, 403);
    await approveOnly(gw);
    for (const [what, body] of bad) {
      const answer = await call(body);
      t.equal(answer.status, 403, what);
      t.match(JSON.parse(answer.body.toString()), { reason_codes: ['approval_required', 'approval_not_possible'] }, what);
    }
    t.same(await list(gw), [], 'nobody is asked');
    t.equal((await call(good)).status, 200);
  }
  t.equal(upstream.requests.length, doors.length);
});

t.test('another project or delegation asks again, and the entry names them', async (t) => {
  const issuer = new Issuer('ci');
  const clock = fakeClock(DELEGATED_AT);
  const env = { GW_DELEGATION_VERIFY_KEY: `ci=${issuer.publicKey}` };
  const governed = await startGoverned(t, { bundle: BUNDLE, clock, env });
  const { gw, execute } = governed;
  const token = (delegation: string, principal: string) =>
    issuer.text(everydayToken({ delegation_id: delegation, principal_id: principal }));
  const call = (project: string | undefined, delegated?: string) =>
    execute(
      { ...(project === undefined ? {} : { attribution: { project_id: project } }), ...(delegated ? { delegation_token: delegated } : {}) },
      { params: ASK },
    );
  await call('apollo', token('d-1', 'agent-7'));
  t.match(await approveOnly(gw), { attribution: { project_id: 'apollo' }, delegation_id: 'd-1', principal_id: 'agent-7' });
  for (const [why, project, delegated] of [
    ['another project', 'gemini', token('d-1', 'agent-7')],
    ['no project', undefined, token('d-1', 'agent-7')],
    ['another delegation', 'apollo', token('d-2', 'agent-7')],
    ['for another principal', 'apollo', token('d-1', 'agent-8')],
    ['none', 'apollo', undefined],
  ] as const)
    t.equal((await call(project, delegated)).status, 202, why);
  t.equal((await list(gw)).length, 5);
  t.equal((await call('apollo', token('d-1', 'agent-7'))).status, 200);
  t.equal(governed.upstream.requests.length, 1);
  const show = await gw.admin('GET', '/mgmt/v1/approvals');
  t.equal(show.status, 401, 'by a management key alone');
});

t.test('it is for the rules that asked, by id and content: another rule asks anew, and one that comes behind asks beside', async (t) => {
  const governed = await startGoverned(t, { bundle: BUNDLE });
  const { gw, execute, upstream } = governed;
  const ask = () => execute({}, { params: ASK });
  await ask();
  const first = await approveOnly(gw);
  t.match(first, { rule_ids: ['risk/large'], rule_hashes: [/^[0-9a-f]{64}$/] });
  await put(gw, ALLOW + asking('other'));
  t.match([(await ask()).status, (await list(gw))[0]?.['rule_ids']], [202, ['risk/other']], 'another rule');
  await put(gw, ALLOW + asking('large', 'risk', ', budget: {usd_max: "5"}'));
  t.equal((await ask()).status, 202, 'another content');
  t.equal((await list(gw)).length, 2);
  await put(gw, ALLOW + asking('large') + asking('behind', 'transforms'));
  const behind = await ask();
  t.match(behind, { status: 202, body: { reason: 'behind asks' } });
  t.match((await list(gw))[0], { approval_id: behind.body['approval_id'], rule_ids: ['transforms/behind'] });
  t.equal((await ask()).body['approval_id'], behind.body['approval_id'], 'it waits, and is not asked about twice');
  await gw.admin('POST', `/v1/admin/approvals/${String(behind.body['approval_id'])}/approve`);
  const ran = await ask();
  t.match([ran.status, upstream.requests.length], [200, 1]);
  for (const id of [first['approval_id'], behind.body['approval_id']])
    t.match(
      (await gw.admin('GET', `/v1/admin/approvals/${String(id)}`)).body,
      { executed_record_id: ran.body['record_id'] },
      'both are spent',
    );
  t.match(await gw.record(String(ran.body['record_id'])), { approval_id: behind.body['approval_id'] });
});

t.test(
  'nobody is asked about what would be refused anyway: rates, limits, budgets of delegations, projects, egress; and asking takes nothing',
  async (t) => {
    const issuer = new Issuer('ci');
    const clock = fakeClock(DELEGATED_AT);
    const env = {
      GW_DELEGATION_VERIFY_KEY: `ci=${issuer.publicKey}`,
      GW_RATELIMIT_MAX_TOKENS: '1',
      GW_RATELIMIT_REFILL_RATE: '1',
    };
    const bundle = bundleOf(`${ALLOW}  risk:
    - {id: large, when: {field: context.action.params.user, equals: ask}, effect: {decision: require_approval, reason: ask first}}
    - {id: slow, when: {field: context.purpose, equals: slow}, effect: {rate_limit: {requests_per_minute: 1}}}
`);
    const governed = await startGoverned(t, { bundle, clock, env });
    const { gw, execute } = governed;
    const ask = (extra: object = {}, action: object = {}) => execute(extra, { params: ASK, ...action });
    for (let times = 0; times < 3; times += 1) t.equal((await ask()).status, 202, 'who waits takes no token');
    await approveOnly(gw);
    t.equal((await ask()).status, 200);
    t.match(await ask(), { status: 429, body: { decision: 'rate_limit' } }, 'an empty bucket');
    clock.advance(60_000);
    const { manage } = await managedAs(gw, 'default');
    await manage('POST', 'projects', { project_id: 'old' });
    await manage('PUT', 'projects/old', { status: 'archived' });
    t.match((await ask({ attribution: { project_id: 'old' } })).body, { reason_codes: ['project_archived'] });
    const poor = issuer.text(everydayToken({ budget: { usd_max: '0.000000001' } }));
    t.match((await ask({ delegation_token: poor })).body, { reason_codes: ['delegation_budget_exceeded'] });
    t.match((await ask({ credential_hint: undefined }, { type: 'http.request', target_host: '10.0.0.1', target_path: '/x' })).body, {
      error: { code: 'egress_denied' },
    });
    t.equal((await ask()).status, 202);
    await approveOnly(gw);
    const limit = await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '0.00000001', actions: ['cap'] });
    t.equal(limit.status, 201, limit.text);
    t.match((await ask({}, { params: { ...ASK, seed: 1 } })).body, { reason_codes: ['budget_limit_exceeded'] });
    const limits = ((await gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: Json[] }).limits;
    t.same(
      limits.map(({ reserved_usd: reserved }) => reserved ?? '0'),
      ['0'],
      'nothing stays set aside',
    );
    t.same(await list(gw), []);
  },
);

/** Answers with the status that the call asks for, whole or as a stream. */
const failing: UpstreamHandler = (_request, response, body) =>
  void body.then((bytes) => {
    const { metadata = {} } = JSON.parse(bytes.toString()) as { metadata?: { status?: string } };
    const status = Number(metadata.status ?? 200);
    response.writeHead(status, { 'content-type': status === 200 ? 'text/event-stream' : 'application/json' });
    response.end(status === 200 ? 'data: [DONE]\n\n' : '{"error":{"message":"no"}}');
  });

t.test(
  'an execution that the provider answered with 429, or with 500 and more, gives it back; one that it answered otherwise has used it',
  async (t) => {
    const governed = await startGoverned(t, { bundle: BUNDLE, handler: failing });
    const { gw, execute, send, through } = governed;
    const doors: Readonly<Record<string, (body: object) => Promise<number>>> = {
      direct: async (params) => {
        const answer = await execute({}, { params });
        return answer.status === 200 ? Number((answer.body['result'] as Json | undefined)?.['status_code'] ?? 200) : answer.status;
      },
      redirect: async (body) => (await send(chat([], undefined, body))).status,
      tunnel: async (body) => (await through('api.openai.com:443', chat([], '/v1/chat/completions', body))).status,
    };
    for (const [door, call] of Object.entries(doors)) {
      for (const stream of [false, true]) {
        for (const status of ['429', '500', '503', '529', '400', '404']) {
          const body = { ...ASK, stream, metadata: { status, door } };
          await call(body);
          const { approval_id: id } = await approveOnly(gw);
          t.equal(await call(body), Number(status), `${door} ${stream} ${status}`);
          const { executed_at: at } = (await gw.admin('GET', `/v1/admin/approvals/${String(id)}`)).body as Json;
          t.equal(at === undefined, status === '429' || Number(status) >= 500, `${door} ${stream} ${status}`);
        }
      }
    }
  },
);

t.test('a custom connector that takes over the host of the approved call is another place', async (t) => {
  const host = 'llm.corp.example';
  const governed = await startGoverned(t, { bundle: BUNDLE, hosts: [host] });
  const { gw, execute, upstream } = governed;
  const call = () =>
    execute({ credential_hint: undefined }, { type: 'http.request', target_host: host, target_path: '/v1/chat/completions', params: ASK });
  t.equal((await call()).status, 202);
  t.match(await approveOnly(gw), { action: { connector_id: 'generic_http', target_host: host } });
  const { manage } = await managedAs(gw, 'default');
  const made = await manage('POST', 'connectors', { name: 'Ours', base_url: `https://${host}/v1`, dialect: 'openai', auth_mode: 'none' });
  t.equal(made.status, 201, JSON.stringify(made.body));
  await call();
  await execute({ credential_hint: undefined }, { target_host: host, params: ASK });
  t.equal(upstream.requests.length, 0);
});

t.test('a client that leaves before its approved call was sent has not used it', async (t) => {
  // It takes connections and says nothing, so that no handshake ends.
  const mute = createServer();
  const port = await listenOnFreePort(mute);
  const sockets = trackSockets(mute);
  t.teardown(() => closeServer(mute, sockets));
  const gw = await startTestGateway(t, { bundle: BUNDLE, env: { GW_UPSTREAM_CONNECT_TO: `api.openai.com:443=127.0.0.1:${port}` } });
  const leaving = new AbortController();
  const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: ASK };
  const body = JSON.stringify({ schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'k', action });
  const ask = (signal?: AbortSignal) => fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', body, ...(signal ? { signal } : {}) });
  await ask();
  const { approval_id: id } = await approveOnly(gw);
  const entry = (): Promise<Json> => gw.admin('GET', `/v1/admin/approvals/${String(id)}`).then(({ body: shown }) => shown as Json);
  const left = ask(leaving.signal).catch(() => undefined);
  while ((await entry())['executed_at'] === undefined) await new Promise((resolve) => setImmediate(resolve));
  leaving.abort();
  await left;
  while ((await entry())['executed_at'] !== undefined) await new Promise((resolve) => setImmediate(resolve));
  t.match(await entry(), { status: 'approved' });
});

t.test('a call on a WebSocket that its provider refuses gives it back', async (t) => {
  const bundle = bundleOf(`${ALLOW}  risk:
    - {id: ask, when: {field: context.action.params.instructions, equals: big}, effect: {decision: require_approval, reason: ask first}}
`);
  const { gw, open } = await scene(t, { bundle });
  const talk = await open(REALTIME);
  const create = { type: 'response.create', event_id: 'e-1', response: { instructions: 'big', conversation: 'bad' } };
  t.match(await talk.say(create, 'error'), { error: { message: /ask first/ } });
  const { approval_id: id } = await approveOnly(gw);
  t.match(await talk.say(create, 'error'), { error: { message: 'no' } });
  const entry = (): Promise<Json> => gw.admin('GET', `/v1/admin/approvals/${String(id)}`).then(({ body }) => body as Json);
  while ((await entry())['executed_at'] !== undefined) await new Promise((resolve) => setImmediate(resolve));
  t.match(await entry(), { status: 'approved' });
});

t.test('an event on a WebSocket that another reader could take for something else cannot wait', async (t) => {
  const bundle = bundleOf(`${ALLOW}  risk:
    - {id: ask, when: {field: context.action.params.instructions, equals: big}, effect: {decision: require_approval, reason: ask first}}
`);
  const { gw, open } = await scene(t, { bundle });
  const talk = await open(REALTIME);
  const twice = '{"type":"response.create","event_id":"e-1","response":{"instructions":"big","metadata":{"a":1,"a":2}}}';
  t.match(await talk.say(twice, 'error'), { error: { message: /read in two ways/ } });
  t.same(await list(gw), []);
});
