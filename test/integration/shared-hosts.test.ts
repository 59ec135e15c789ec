// Hosts that carry a product and much else beside calls (decision 3.8): which requests are decided there, what a plan
// pays for (decision 6.3), and what passes unseen.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { exactly } from '../support/exactly.ts';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, chat, type Governed, startGoverned } from '../support/governed.ts';
import { talk } from '../support/metered-sockets.ts';
import { domains } from '../support/non-ai.ts';
import { openAiSocket } from '../support/openai-sockets.ts';
import { connectThrough, h2Request, h2Session, type RequestOptions } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';
import { opened, startSocketUpstream, webSocketOn } from '../support/websockets.ts';

const CHATGPT = 'chatgpt.com';
const CODE_ASSIST = 'cloudcode-pa.googleapis.com';
const KIMI = 'api.kimi.com';
const COPILOT = 'api.githubcopilot.com';
const OPENCODE = 'opencode.ai';
const ZAI = 'api.z.ai';
const HOSTS = [CHATGPT, 'gov.chatgpt.com', CODE_ASSIST, KIMI, COPILOT, OPENCODE, ZAI, 'chat.deepseek.com'];
const RESPONSES = '/backend-api/codex/responses';
const ASKED = { model: 'gpt-5.2-codex', input: 'hello', stream: true, store: false };
const NEVER = '  targets:\n    - {id: never, effect: {decision: deny, reason: never}}\n';
const MODELS = `  connectors:\n    - {id: all, effect: {decision: allow}}\n  targets:
    - {id: models, when: {field: context.action.params.model, equals: evil}, effect: {decision: deny}}\n`;
const CAPPED = '  budgets:\n    - {id: cap, effect: {decision: allow, budget: {usd_max: "0.000001", monthly_usd_max: "0.000001"}}}\n';

const sse = (...events: readonly { type: string }[]): string =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
const COMPLETED = {
  type: 'response.completed',
  response: {
    model: 'gpt-5.2-codex-2026-01-01',
    service_tier: 'priority',
    output: [{ type: 'web_search_call' }],
    usage: { input_tokens: 1000, input_tokens_details: { cached_tokens: 400 }, output_tokens: 50 },
  },
};
const GEMINI = {
  response: {
    candidates: [{ content: { parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 8, candidatesTokenCount: 2, thoughtsTokenCount: 3, cachedContentTokenCount: 4 },
    modelVersion: 'gemini-2.5-pro',
  },
  traceId: 'x',
};

/** What the providers answer, and a page to everything else. */
const handler: UpstreamHandler = (request, response, body) =>
  void body.then(() => {
    const url = request.url ?? '';
    const json = (value: object) => response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
    if (url.endsWith('/codex/responses') && request.method === 'POST')
      response.setHeader('content-type', 'text/event-stream').end(sse({ type: 'response.created' }, COMPLETED));
    else if (url.includes(':streamGenerateContent'))
      response.setHeader('content-type', 'text/event-stream').end(`data: ${JSON.stringify(GEMINI)}\n\n`);
    else if (url.includes(':generateContent')) json(GEMINI);
    else if (/\/messages$/.test(url)) json({ model: 'kimi-k3', usage: { input_tokens: 5, output_tokens: 3 } });
    else if (/completions$/.test(url)) json({ usage: { prompt_tokens: 5, completion_tokens: 3 } });
    else json({ page: 'a page' });
  });

interface Scene extends Governed {
  /** Record ids of the log, in order. */
  readonly recorded: () => readonly string[];
}

async function scene(
  t: Test,
  { bundle = ALLOW_ALL, env = {} }: { readonly bundle?: string; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<Scene> {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const governed = await startGoverned(t, { hosts: HOSTS, handler, bundle, env, log });
  return { ...governed, recorded: () => lines.flatMap((line) => /"record_id":"([^"]+)"/.exec(line)?.[1] ?? []) };
}

const post = (path: string, body: unknown = ASKED): RequestOptions => chat([], path, body);
const get = (path: string): RequestOptions => ({
  method: 'GET',
  path,
  headers: ['Authorization', 'Bearer eyJ.plan.token', 'Cookie', 'session=1'],
});

/** What is no call, by host. */
const REST: readonly (readonly [string, RequestOptions])[] = [
  [CHATGPT, get('/')],
  [CHATGPT, get('/backend-api/codex/models?client_version=0.169.0')],
  [CHATGPT, get('/cdn-cgi/image/width=64/https://files.example/a.png')],
  [CHATGPT, post('/backend-api/conversation', { model: 'gpt-5', messages: [] })],
  [CHATGPT, post('/backend-api/codex/analytics-events/events', { events: [] })],
  [CHATGPT, post('/backend-api/wham/tasks', {})],
  [CHATGPT, post('/ces/v1/t', 'not json {{{')],
  ['gov.chatgpt.com', get('/backend-api/me')],
  [CODE_ASSIST, post('/v1internal:loadCodeAssist', {})],
  [CODE_ASSIST, post('/v1internal:countTokens', { request: { model: 'models/gemini-2.5-pro' } })],
  [CODE_ASSIST, post('/v1internal:recordCodeAssistMetrics', {})],
  [CODE_ASSIST, get('/v1internal/operations/1')],
  [KIMI, get('/coding/v1/models')],
  [KIMI, get('/coding/v1/usages')],
  [KIMI, post('/apiv2/kimi.gateway/Chat', 'x')],
  [COPILOT, get('/models')],
  [COPILOT, post('/mcp/readonly', { jsonrpc: '2.0' })],
  [COPILOT, post('/telemetry', {})],
  [OPENCODE, get('/docs//zen')],
  [OPENCODE, get('/zen/go/v1/models')],
];

/** Calls, and what their records say. */
const CALLS: readonly (readonly [string, RequestOptions, object])[] = [
  [
    CHATGPT,
    post(RESPONSES),
    {
      provider: 'chatgpt',
      model: 'gpt-5.2-codex',
      action_type: 'ai.infer',
      stream: true,
      stream_outcome: 'complete',
      metering: {
        billing: 'plan',
        cost_usd: exactly('0'),
        rate_in: exactly('0'),
        rate_out: exactly('0'),
        rate_source: 'catalogue',
        usage_reported: true,
        tokens_in: 1000,
        cached_tokens_in: 400,
        tokens_out: 50,
        model: 'gpt-5.2-codex-2026-01-01',
      },
    },
  ],
  [CHATGPT, post(`${RESPONSES}/compact`), { provider: 'chatgpt', action_type: 'ai.infer', metering: { billing: 'plan' } }],
  [
    CHATGPT,
    post('/backend-api/codex/brand/new'),
    { provider: 'chatgpt', action_type: 'ai.infer', metering: { billing: 'plan', cost_usd: exactly('0') } },
  ],
  [
    CODE_ASSIST,
    post('/v1internal:streamGenerateContent?alt=sse', {
      model: 'gemini-2.5-pro',
      project: 'p',
      request: { contents: [{ parts: [{ text: 'hello' }] }] },
    }),
    {
      provider: 'gemini_code_assist',
      model: 'gemini-2.5-pro',
      stream: true,
      stream_outcome: 'complete',
      metering: { billing: 'plan', cost_usd: exactly('0'), tokens_in: 8, tokens_out: 5, cached_tokens_in: 4, usage_reported: true },
    },
  ],
  [
    CODE_ASSIST,
    post('/v1internal:generateContent', { model: 'models/gemini-2.5-pro', request: { contents: [] } }),
    { model: 'gemini-2.5-pro', stream: false, metering: { billing: 'plan', tokens_in: 8, tokens_out: 5 } },
  ],
  [
    KIMI,
    post('/coding/v1/chat/completions', { model: 'kimi-for-coding', messages: [] }),
    { provider: 'kimi_code', metering: { billing: 'plan', cost_usd: exactly('0'), tokens_in: 5, tokens_out: 3 } },
  ],
  [
    KIMI,
    post('/coding/v1/messages', { model: 'kimi-for-coding', max_tokens: 9, messages: [] }),
    { provider: 'kimi_code', metering: { billing: 'plan', cost_usd: exactly('0'), tokens_in: 5, tokens_out: 3 } },
  ],
  [
    COPILOT,
    post('/v1/engines/gpt-41-copilot/completions', { prompt: 'x' }),
    { provider: 'github_copilot', model: 'gpt-41-copilot', metering: { billing: 'plan', cost_usd: exactly('0'), tokens_in: 5 } },
  ],
  [
    COPILOT,
    post('/chat/completions', { model: 'claude-haiku-4.5', messages: [] }),
    { provider: 'github_copilot', metering: { billing: undefined, cost_usd: exactly('0.00002'), tokens_in: 5 } },
  ],
  [
    OPENCODE,
    post('/zen/go/v1/chat/completions', { model: 'glm-5', messages: [] }),
    { metering: { billing: 'plan', cost_usd: exactly('0') } },
  ],
  [
    OPENCODE,
    post('/zen/v1/chat/completions', { model: 'gpt-4o-mini', messages: [] }),
    { metering: { billing: undefined, cost_usd: exactly('0.00000255') } },
  ],
  [
    ZAI,
    post('/api/coding/paas/v4/chat/completions', { model: 'glm-5', messages: [] }),
    { provider: 'zai', metering: { billing: 'plan', cost_usd: exactly('0') } },
  ],
];

t.test('calls are decided and counted, and cost nothing where a plan pays', async (t) => {
  const { through, recordOf, upstream } = await scene(t);
  for (const [host, request, want] of CALLS) {
    const answer = await through(`${host}:443`, request);
    t.equal(answer.status, 200, `${host}${request.path}`);
    t.match(await recordOf(answer), { decision: 'allow', target_host: host, ...want }, `${host}${request.path}`);
    t.match(upstream.requests.at(-1)?.headers, { authorization: 'Bearer sk-client' }, 'the plan’s own token goes on');
  }
});

t.test('the rest of such a host passes uninspected, whatever policy says, in each mode that lets other hosts pass', async (t) => {
  for (const mode of ['pass', 'inspect']) {
    const { gw, through, upstream, recorded } = await scene(t, { bundle: bundleOf(NEVER), env: { GW_PROXY_NON_AI: mode } });
    for (const [host, request] of REST) {
      const what = `${mode}: ${request.method} ${host}${request.path}`;
      const answer = await through(`${host}:443`, request);
      t.equal(answer.status, 200, what);
      t.equal(answer.headers['x-gw-record-id'], undefined, what);
      t.match(upstream.requests.at(-1), { url: request.path, method: request.method }, what);
      t.equal(upstream.requests.at(-1)?.body.toString(), request.body ?? '', what);
    }
    t.same(recorded(), [], 'nothing of it is on record');
    t.match(
      (await domains(gw)).find(({ domain }) => domain === CHATGPT),
      { connections: 7, requests: 7, managed: true, connector_id: 'chatgpt' },
      'discovery counts it',
    );
    const call = await through(`${CHATGPT}:443`, post(RESPONSES));
    t.equal(call.status, 403);
    t.equal(recorded().length, 1, 'a call is decided all the same');
  }
});

// Holds: no-second-way-to-a-provider
t.test('no other way to write the path of a call is the rest of the host', async (t) => {
  const { through, upstream, recorded } = await scene(t, { bundle: bundleOf(NEVER) });
  const ways = [
    [CHATGPT, '/backend-api/codex/responses/'],
    [CHATGPT, '/backend-api/codex/responses?x=1'],
    [CHATGPT, '/backend-api//codex/responses'],
    [CHATGPT, '/backend-api/./codex/responses'],
    [CHATGPT, '/x/../backend-api/codex/responses'],
    [CHATGPT, '/backend-api/x/%2e%2e/codex/responses'],
    [CHATGPT, '/backend-api/codex%2Fresponses'],
    [CHATGPT, '/backend-api/codex%252Fresponses'],
    [CHATGPT, '/backend-api%%32%46codex/responses'],
    [CHATGPT, '/backend-api\\codex\\responses'],
    [CHATGPT, '/Backend-API/Codex/Responses'],
    [CHATGPT, '/backend-api/codex;x/responses;y=1'],
    [CHATGPT, '/backend-api/codex/models/../responses'],
    [CHATGPT, '/backend-api/codex/analytics-events/%2e%2e/responses'],
    [CHATGPT, '/%62ackend-api/codex/responses'],
    [CHATGPT, '/backend-api//../codex/responses'],
    [CHATGPT, '/backend-api/;x/../codex/responses'],
    [CHATGPT, '/backend-api/x%2fy/../codex/responses'],
    [CHATGPT, '/backend-api/%2e%2e/../codex/responses'],
    [CHATGPT, '/%3Fx/../backend-api/codex/responses'],
    [CHATGPT, '/%23/..;a=b/backend-api/codex/responses'],
    [CHATGPT, '//chatgpt.com/backend-api/codex/responses'],
    [CHATGPT, `https://${CHATGPT}/backend-api//../codex/responses`],
    [COPILOT, '/chat/completions%20'],
    [COPILOT, '/chat/completions.'],
    [COPILOT, '/chat/x//../../completions'],
    [CODE_ASSIST, '/google.internal.cloud.code.v1internal.PredictionService/GenerateContent'],
    [CODE_ASSIST, '/$rpc/google.internal.cloud.code.v1internal.PredictionService/StreamGenerateContent'],
    [CODE_ASSIST, '/v1internal%3AgenerateContent'],
    [CODE_ASSIST, '/v1internal%253AgenerateContent'],
    [CODE_ASSIST, '/v1internal:generateContent#x'],
    [CODE_ASSIST, '/v1internal:generateContent;x'],
    [CODE_ASSIST, '/v1internal:GenerateContent'],
    [CODE_ASSIST, '/v1internal:loadCodeAssist/../v1internal:generateContent'],
    [CODE_ASSIST, `/${'x/../'.repeat(300)}v1internal:generateContent`],
  ] as const;
  for (const [host, path] of ways) {
    const before = recorded().length;
    const { status } = await through(`${host}:443`, post(path));
    t.ok(status === 403 || status === 400, `${path.slice(0, 80)} is refused: ${status}`);
    if (status === 403) t.equal(recorded().length, before + 1, `${path} is on record`);
  }
  for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
    const { status } = await through(`${CHATGPT}:443`, { ...get(RESPONSES), method });
    t.equal(status, 403, `${method} of the path of a call is decided`);
  }
  t.equal(upstream.requests.length, 0);
});

t.test('h2 inside of the tunnel, and plain requests to the proxy', async (t) => {
  const { gw, recorded } = await scene(t);
  const socket = await connectThrough(gw.port, `${CHATGPT}:443`, gw.caPem, { alpn: ['h2'] });
  const session = h2Session(socket, CHATGPT);
  t.teardown(() => session.destroy());
  t.equal((await h2Request(session, { path: '/backend-api/me' })).status, 200);
  t.same(recorded(), []);
  const call = await h2Request(session, {
    method: 'POST',
    path: RESPONSES,
    headers: ['content-type', 'application/json'],
    body: JSON.stringify(ASKED),
  });
  t.equal(call.status, 200);
  t.equal(recorded().length, 1);
});

t.test('a whole URL to the proxy is told apart as inside of a tunnel', async (t) => {
  const { send, recorded } = await scene(t, { bundle: bundleOf(NEVER) });
  t.equal((await send({ ...get(`https://${CHATGPT}/backend-api/me`), host: CHATGPT })).status, 200);
  t.same(recorded(), []);
  t.equal((await send({ ...post(`https://${CHATGPT}${RESPONSES}`), host: CHATGPT })).status, 403);
  t.equal(recorded().length, 1);
});

t.test('by base URL everything is decided; what is no call is no inference, and none of its paths is a fault', async (t) => {
  const { send, recordOf, upstream } = await scene(t);
  const call = await send(post(`/proxy/chatgpt${RESPONSES}`));
  t.match(await recordOf(call), { provider: 'chatgpt', connection_type: 'sdk_redirect', metering: { billing: 'plan', tokens_in: 1000 } });
  t.match(upstream.requests.at(-1), { url: RESPONSES, headers: { authorization: 'Bearer sk-client' } });
  for (const [path, connector] of [
    ['/backend-api/conversation', 'generic_http'],
    ['/backend-api/codex/analytics-events/events', 'chatgpt'],
    ['/cdn/x//y', 'generic_http'],
  ] as const) {
    const rest = await send({ ...post(path), headers: ['X-GW-Target-Host', CHATGPT, 'Content-Type', 'application/json'] });
    t.equal(rest.status, 200, path);
    t.match(await recordOf(rest), { action_type: 'http.request', connector_id: connector, target_host: CHATGPT, target_path: path }, path);
  }
});

t.test('a structured call goes to the path of calls, and is paid for by the plan', async (t) => {
  const { execute, gw, upstream } = await scene(t);
  const called = await execute({}, { target_host: CHATGPT, params: { model: 'gpt-5.2-codex', input: 'hello' } });
  t.equal(called.status, 200, called.text);
  t.match(upstream.requests.at(-1), { url: RESPONSES, headers: { authorization: 'Bearer sk-caller' } });
  t.match(await gw.record(called.headers.get('x-gw-record-id') ?? ''), {
    provider: 'chatgpt',
    metering: { billing: 'plan', cost_usd: exactly('0') },
  });
  const page = { type: 'http.request', method: 'GET', target_host: CHATGPT, target_path: '/backend-api/me', params: {} };
  const rest = await execute({}, page);
  t.equal(rest.status, 200, rest.text);
  t.match(await gw.record(rest.headers.get('x-gw-record-id') ?? ''), { action_type: 'http.request', target_host: CHATGPT });
});

t.test('govern decides the rest too, as what goes to any other host, and so does govern-ai on a known AI domain', async (t) => {
  const connectors = `  connectors:\n    - {id: known, when: {field: context.connector.id, in: [chatgpt, kimi_code]}, effect: {decision: allow}}\n`;
  for (const mode of ['govern', 'govern-ai']) {
    const { through, recordOf, send, recorded } = await scene(t, { bundle: bundleOf(connectors), env: { GW_PROXY_NON_AI: mode } });
    const page = await through(`${CHATGPT}:443`, post('/backend-api/conversation', {}));
    const want = {
      decision: 'deny',
      action_type: 'http.request',
      connector_id: 'generic_http',
      provider: undefined,
      record_tier: 'action',
    };
    t.match(await recordOf(page), { ...want, target_path: '/backend-api/conversation' }, mode);
    t.match(await recordOf(await send({ ...get(`https://${CHATGPT}/backend-api/me`), host: CHATGPT })), want, mode);
    const models = await through(`${CHATGPT}:443`, get('/backend-api/codex/models'));
    t.match(await recordOf(models), { decision: 'allow', action_type: 'http.request', connector_id: 'chatgpt' }, 'a row names it');
    t.match(await recordOf(await through(`${CHATGPT}:443`, post(RESPONSES))), { decision: 'allow', metering: { billing: 'plan' } }, mode);
    t.equal(recorded().length, 4);
  }
});

t.test('only limits of requests hold what a plan pays for', async (t) => {
  const capped = await scene(t, { bundle: bundleOf(CAPPED) });
  const other = await capped.execute({}, { params: { model: 'gpt-4o', messages: [], max_tokens: 100 } });
  t.equal(other.status, 403, 'a call that costs something is above the cap');
  const limited = { scope: 'org', limit_usd: '0.000001', actions: ['cap'] };
  t.equal((await capped.gw.admin('POST', '/v1/admin/budgets/limits', limited)).status, 201);
  for (const path of [RESPONSES, '/backend-api/codex/brand/new']) {
    const call = await capped.through(`${CHATGPT}:443`, post(path, { ...ASKED, max_output_tokens: 100_000 }));
    t.equal(call.status, 200, `${path}: no dollars, no cap of dollars`);
    t.match(await capped.recordOf(call), { metering: { billing: 'plan', cost_usd: exactly('0') } });
  }

  const monthly = await scene(t, { env: { GW_MONTHLY_REQUEST_LIMIT: '2' } });
  const statuses: number[] = [];
  for (let i = 0; i < 3; i++) statuses.push((await monthly.through(`${CHATGPT}:443`, post(RESPONSES))).status);
  t.same(statuses.slice(0, 2), [200, 200]);
  t.equal(statuses[2], 403, 'the monthly limit counts them');
  t.equal((await monthly.through(`${CHATGPT}:443`, get('/backend-api/me'))).status, 200, 'and not what is no call');

  const slow = await scene(t, {
    bundle: bundleOf('  targets:\n    - {id: slow, effect: {decision: allow, rate_limit: {requests_per_minute: 1}}}\n'),
  });
  t.equal((await slow.through(`${CHATGPT}:443`, post(RESPONSES))).status, 200);
  const second = await slow.through(`${CHATGPT}:443`, post(RESPONSES));
  t.match(await slow.recordOf(second), { decision: 'rate_limit', status_code: 403 });
});

t.test('models are judged as everywhere, and what is not understood is refused by a rule about them', async (t) => {
  const { through } = await scene(t, { bundle: bundleOf(MODELS) });
  t.equal((await through(`${CHATGPT}:443`, post(RESPONSES))).status, 200);
  t.equal((await through(`${CHATGPT}:443`, post(RESPONSES, { ...ASKED, model: 'evil' }))).status, 403);
  t.equal((await through(`${CHATGPT}:443`, post('/backend-api/codex/brand/new'))).status, 403, 'fails towards inspection');
  t.equal((await through(`${CODE_ASSIST}:443`, post('/v1internal:generateContent', { model: 'evil', request: {} }))).status, 403);
  t.equal((await through(`${CODE_ASSIST}:443`, post('/v1internal:generateChat', { model: 'good' }))).status, 403);
  for (const [host, request] of REST) t.equal((await through(`${host}:443`, request)).status, 200, `${host}${request.path}`);
});

t.test('rates of the operator hold where they name the provider, and not those for any', async (t) => {
  const pricing = join(tempDir(t), 'pricing.yaml');
  writeFileSync(pricing, 'rates:\n  - {provider: kimi_code, model: "*", in: 2, out: 10}\n  - {model: "*", in: 7, out: 7}\n');
  const { through, recordOf } = await scene(t, { env: { GW_PRICING_FILE: pricing } });
  const kimi = await through(`${KIMI}:443`, post('/coding/v1/chat/completions', { model: 'k', messages: [] }));
  t.match(await recordOf(kimi), { metering: { billing: undefined, cost_usd: exactly('0.00004'), rate_source: 'override' } });
  const codex = await through(`${CHATGPT}:443`, post(RESPONSES));
  t.match(await recordOf(codex), { metering: { billing: 'plan', cost_usd: exactly('0'), rate_source: 'catalogue' } });
});

t.test('a stored credential takes the place of the plan’s token only where a rule says so', async (t) => {
  const { gw, through, upstream } = await scene(t);
  await gw.admin('POST', '/v1/admin/credentials', {
    schema: 'gw.credential.v1',
    credential_id: 'cred-plan',
    org_id: 'default',
    connector_id: 'chatgpt',
    secret_ref: 'stored-secret',
    enabled: true,
  });
  await through(`${CHATGPT}:443`, post(RESPONSES));
  t.match(upstream.requests.at(-1)?.headers, { authorization: 'Bearer sk-client' });
  await through(`${CHATGPT}:443`, get('/backend-api/me'));
  t.match(upstream.requests.at(-1)?.headers, { authorization: 'Bearer eyJ.plan.token', cookie: 'session=1' });
});

t.test('sockets of calls are metered one by one, all others are relayed', async (t) => {
  const upstream = await startSocketUpstream(t, {
    hosts: [CHATGPT],
    onSocket: (socket, request) => {
      if (request.url === RESPONSES) openAiSocket(socket, request);
      else socket.on('message', (data: Buffer) => socket.send(`echo ${data.toString()}`));
    },
  });
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const gw = await startTestGateway(t, { bundle: ALLOW_ALL, log, env: towards(t, upstream, [CHATGPT]) });
  const recorded = () => lines.flatMap((line) => /"record_id":"([^"]+)"/.exec(line)?.[1] ?? []);
  const open = async (path: string) => {
    const socket = webSocketOn(t, await connectThrough(gw.port, `${CHATGPT}:443`, gw.caPem), CHATGPT, path);
    await opened(socket);
    return socket;
  };
  const other = await open('/ws/user/1');
  const echoed = new Promise<string>((resolve) => other.once('message', (data: Buffer) => resolve(data.toString())));
  other.send('response.create');
  t.equal(await echoed, 'echo response.create');
  t.same(recorded(), [], 'relayed unseen');
  const codex = talk(await open(RESPONSES));
  await codex.say({ type: 'response.create', model: 'gpt-5.2-codex', input: 'hello' }, 'response.completed');
  const found = (await Promise.all(recorded().map((id) => gw.record(id)))).find((record) => 'metering' in record);
  t.match(found, { provider: 'chatgpt', metering: { billing: 'plan', cost_usd: exactly('0'), tokens_in: 36, tokens_out: 87 } });
});
