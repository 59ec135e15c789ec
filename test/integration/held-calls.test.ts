// Calls that wait for a person on their open connections: on each door what a yes, a no, the end of the time and a
// client that leaves come to, who has to say yes, and how a program hears of it.
import t from 'tap';
import { MOCK_TEXT } from '../support/aimock.ts';
import { fakeClock } from '../support/fake-clock.ts';
import type { TestGateway } from '../support/gateway.ts';
import { bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { REALTIME, scene } from '../support/metered-sockets.ts';
import { connectPlain, connectThrough, h2Request, h2Session, openTunnel, type RawResponse } from '../support/raw-clients.ts';
import { each, startSdkPlace } from '../support/sdk-place.ts';

type Json = Record<string, unknown>;

const asking = (approval: string): string => `  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: large
      when: {field: context.action.params.user, equals: ask}
      effect: {decision: require_approval, reason: ask first, approval: ${approval}}
`;
const HELD = bundleOf(asking('{hold: 2m}'));
const ASK = { ...CHAT, user: 'ask' };
const OPENAI = 'api.openai.com:443';
const INNER = '/v1/chat/completions';
const HOLD_MS = 120_000;

const list = async (gw: TestGateway, query = ''): Promise<readonly Json[]> =>
  ((await gw.admin('GET', `/v1/admin/approvals${query}`)).body as { items: Json[] }).items;

const show = async (gw: TestGateway, id: string): Promise<Json> => (await gw.admin('GET', `/v1/admin/approvals/${id}`)).body as Json;

/** The one that waits, once it is like that. */
async function waiting(gw: TestGateway, is: (approval: Json) => boolean = ({ held }) => held !== undefined): Promise<Json> {
  for (;;) {
    const [only] = await list(gw, '?status=pending');
    if (only !== undefined && is(only)) return only;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Once it is like that. */
async function until(gw: TestGateway, id: unknown, is: (approval: Json) => boolean): Promise<Json> {
  for (;;) {
    const approval = await show(gw, String(id));
    if (is(approval)) return approval;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const decide = (gw: TestGateway, id: unknown, verb: 'approve' | 'deny', body?: object) =>
  gw.admin('POST', `/v1/admin/approvals/${String(id)}/${verb}`, body);

interface Answered {
  readonly status: number;
  readonly text: string;
  readonly headers: Readonly<Record<string, unknown>>;
}

const answered = ({ status, body, headers }: RawResponse): Answered => ({ status, text: body.toString(), headers });

/** The doors by which a call with an answer of its own can come. */
const DOORS: readonly (readonly [name: string, call: (governed: Governed, body: object) => Promise<Answered>])[] = [
  [
    'structured',
    async ({ execute }, params) => {
      const { status, text, headers } = await execute({}, { params });
      return { status, text, headers: Object.fromEntries(headers) };
    },
  ],
  ['redirect', async ({ send }, body) => answered(await send(chat([], undefined, body)))],
  ['tunnel', async ({ through }, body) => answered(await through(OPENAI, chat([], INNER, body)))],
  [
    'tunnel, h2',
    async ({ gw }, body) => {
      const h2 = h2Session(await connectThrough(gw.port, OPENAI, gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
      const answer = await h2Request(h2, chat([], INNER, body));
      h2.destroy();
      return answered(answer);
    },
  ],
];

t.test('on every door a held call is sent at once when it is approved, and answered as before when it is denied', async (t) => {
  const governed = await startGoverned(t, { bundle: HELD });
  const { gw, upstream } = governed;
  for (const [at, [name, call]] of DOORS.entries()) {
    const first = call(governed, { ...ASK, seed: at });
    const { approval_id: id, held, record_id: recordId, on_approval: yes } = await waiting(gw);
    t.match([held, yes], [{ calls: 1, until: /^\d{4}-/ }, 'sends the waiting request now'], name);
    t.match((await gw.admin('GET', '/metrics')).text, /gw_approvals_held 1\n/);
    t.equal(upstream.requests.length, at, `${name}: nothing was sent`);
    await decide(gw, id, 'approve');
    t.match(await first, { status: 200 }, name);
    t.match(await gw.record(String(recordId)), { decision: 'allow', approval_id: id, status_code: 200 }, 'one call, one record');
    t.match(await show(gw, String(id)), { status: 'approved', executed_record_id: recordId, held: undefined });
    const second = call(governed, { ...ASK, seed: at });
    await decide(gw, (await waiting(gw))['approval_id'], 'deny', { reason: 'not today' });
    t.match(await second, { status: 403, text: /approval_denied.*not today/ }, name);
  }
  t.equal(upstream.requests.length, DOORS.length);
  t.match((await gw.admin('GET', '/metrics')).text, /gw_approvals_held 0\n/);
});

t.test('a stream that was held begins when it is approved', async (t) => {
  const event = 'data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: [DONE]\n\n';
  const { gw, execute, send } = await startGoverned(t, {
    bundle: HELD,
    handler: (_request, response, body) => void body.then(() => response.setHeader('content-type', 'text/event-stream').end(event)),
  });
  const direct = execute({}, { params: { ...ASK, stream: true } });
  await decide(gw, (await waiting(gw))['approval_id'], 'approve');
  t.match(await direct, { status: 200, text: event });
  const proxied = send(chat([], undefined, { ...ASK, stream: true }));
  await decide(gw, (await waiting(gw))['approval_id'], 'approve');
  t.match(answered(await proxied), { status: 200, text: event });
});

t.test('when its time is over it is answered that it waits, with where to ask, and waits on; it comes again and runs', async (t) => {
  const clock = fakeClock();
  const governed = await startGoverned(t, { bundle: HELD, clock });
  const { gw } = governed;
  for (const [at, [name, call]] of DOORS.entries()) {
    const first = call(governed, { ...ASK, seed: at });
    const { approval_id: id } = await waiting(gw);
    clock.advance(HOLD_MS);
    const { status, text, headers } = await first;
    const { next } = JSON.parse(text) as { next: Json };
    t.equal(status, name === 'structured' ? 202 : 403, name);
    t.match(headers, { 'retry-after': '30' }, name);
    t.match(next, { wait_url: new RegExp(`^http://.*/v1/approvals/${String(id)}/wait$`), retry_after: 30, request: 'repeat' }, name);
    t.match(await show(gw, String(id)), { status: 'pending' });
    const again = call(governed, { ...ASK, seed: at });
    t.equal((await waiting(gw))['approval_id'], id, 'the same one');
    await decide(gw, id, 'approve');
    t.match(await again, { status: 200 }, name);
  }
});

t.test('a client that leaves withdraws its approval; one that somebody was promised stays', async (t) => {
  const clock = fakeClock();
  const governed = await startGoverned(t, { bundle: HELD, clock });
  const { gw, execute, upstream } = governed;
  const leave = async (body: object): Promise<Json> => {
    const socket = await connectPlain(gw.port);
    const json = JSON.stringify(body);
    socket.write(
      `POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:${gw.port}\r\nContent-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n${json}`,
    );
    const approval = await waiting(gw);
    socket.destroy();
    return approval;
  };
  const left = await leave({ ...ASK, seed: 1 });
  const withdrawn = await until(gw, left['approval_id'], ({ status }) => status !== 'pending');
  t.match(withdrawn, { status: 'withdrawn', withdrawn_at: String, decided_by: null });
  t.match(await decide(gw, left['approval_id'], 'approve'), {
    status: 409,
    body: { error: { message: /was withdrawn at .*its caller left/ } },
  });
  t.match(await gw.record(String(left['record_id'])), { decision: 'error', reason_codes: ['client_gone'] });
  t.match((await gw.admin('GET', '/metrics')).text, /gw_approvals_total\{org_id="default",status="withdrawn"\} 1\n/);
  const anew = await leave({ ...ASK, seed: 1 });
  t.not(anew['approval_id'], left['approval_id'], 'asked about anew');
  await until(gw, anew['approval_id'], ({ status }) => status === 'withdrawn');
  const promised = execute({}, { params: { ...ASK, seed: 2 } });
  const { approval_id: id } = await waiting(gw);
  clock.advance(HOLD_MS);
  t.equal((await promised).status, 202);
  const socket = await connectPlain(gw.port);
  t.teardown(() => socket.destroy());
  const comesBack = execute({}, { params: { ...ASK, seed: 2 } });
  await waiting(gw);
  t.match(await decide(gw, id, 'approve'), { status: 200 });
  t.equal((await comesBack).status, 200);
  t.equal(upstream.requests.length, 1);
});

t.test('a CONNECT that stays closed waits for a person on its connection, and one whose client leaves is withdrawn', async (t) => {
  const bundle = bundleOf('  targets:\n    - {id: ask, effect: {decision: require_approval, reason: new host, approval: {hold: 1m}}}\n');
  const { gw } = await startGoverned(t, { bundle, env: { GW_PROXY_MITM_ENABLED: 'false' } });
  const connected = openTunnel(gw.port, OPENAI);
  await decide(gw, (await waiting(gw))['approval_id'], 'approve');
  const socket = await connected;
  t.ok(socket.writable, 'open');
  socket.destroy();
  const leaves = await connectPlain(gw.port);
  leaves.write(`CONNECT ${OPENAI} HTTP/1.1\r\nHost: ${OPENAI}\r\n\r\n`);
  const { approval_id: id } = await waiting(gw);
  leaves.end();
  await until(gw, id, ({ status }) => status === 'withdrawn');
  t.pass('withdrawn');
});

t.test('a call on a WebSocket waits before its event goes on; what comes behind it waits, and a client that leaves is seen', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: ask
      when: {field: context.action.params.instructions, equals: big}
      effect: {decision: require_approval, reason: ask first, approval: {hold: 1m}}
`);
  const { gw, open, upstream } = await scene(t, { bundle });
  const talk = await open(REALTIME);
  const seen: string[] = [];
  upstream.sockets[0]?.on('message', (data: Buffer) => seen.push(data.toString()));
  const big = { type: 'response.create', response: { instructions: 'big' } };
  const done = talk.say(big, 'response.done');
  const { approval_id: id } = await waiting(gw);
  const pong = new Promise((resolve) => talk.socket.once('pong', resolve));
  talk.socket.ping();
  await pong;
  talk.socket.send(JSON.stringify({ type: 'input_audio_buffer.append', audio: 'AAAA' }));
  t.same(seen, [], 'a ping is answered, and no event has gone on');
  await decide(gw, id, 'approve');
  t.match(await done, { type: 'response.done' });
  while (seen.length < 2) await new Promise((resolve) => setImmediate(resolve));
  t.match(seen, [/response\.create/, /input_audio_buffer\.append/], 'in order');
  talk.socket.send(JSON.stringify(big));
  const { approval_id: second } = await waiting(gw);
  talk.socket.close();
  t.match(await until(gw, second, ({ status }) => status !== 'pending'), { status: 'withdrawn' });
});

t.test('several persons: each says yes once, of the group that is asked; a first no ends it', async (t) => {
  const governed = await startGoverned(t, { bundle: bundleOf(asking('{hold: 2m, required: 2, group: finance}')) });
  const { gw, execute } = governed;
  const keyOf = async (name: string, groups?: readonly string[]): Promise<string> => {
    const body = { name, kind: 'management', scopes: ['approve'], ...(groups && { groups }) };
    return String(((await gw.admin('POST', '/v1/admin/mgmt-keys', body)).body as Json)['key']);
  };
  const [olga, otto, paula] = [await keyOf('olga', ['finance']), await keyOf('otto', ['finance', 'law']), await keyOf('paula', ['law'])];
  const say = async (key: string, id: unknown, verb: 'approve' | 'deny', body: object = {}): Promise<{ status: number; body: Json }> => {
    const init = { method: 'POST', headers: { Authorization: `Bearer ${key}` }, body: JSON.stringify(body) };
    const response = await fetch(`${gw.url}/mgmt/v1/approvals/${String(id)}/${verb}`, init);
    return { status: response.status, body: (await response.json()) as Json };
  };
  const first = execute({}, { params: ASK });
  const { approval_id: id, needs, on_approval: yes } = await waiting(gw);
  t.match([needs, yes], [[{ required: 2, group: 'finance' }], /^counts as 1 of 2/]);
  t.match(await say(paula, id, 'approve'), { status: 403, body: { error: { code: 'not_in_group', message: /group "finance"/ } } });
  t.match(await say(olga, id, 'approve', { reason: 'fine' }), {
    status: 200,
    body: {
      status: 'pending',
      decisions: [{ decided_by: 'olga', status: 'approved', groups: ['finance'], reason: 'fine' }],
      held: { calls: 1 },
    },
  });
  t.match(await say(olga, id, 'approve'), { status: 409, body: { error: { message: /olga.* has approved this approval already/ } } });
  t.match(await say(otto, id, 'approve'), {
    status: 200,
    body: { status: 'approved', decided_by: 'otto', decisions: [{}, { decided_by: 'otto' }] },
  });
  t.equal((await first).status, 200);
  const second = execute({}, { params: ASK });
  const { approval_id: other } = await waiting(gw);
  await say(olga, other, 'approve');
  t.match(await decide(gw, other, 'deny', { decided_by: 'the boss' }), { body: { status: 'denied', decided_by: 'the boss' } });
  t.match((await second).body, { reason_codes: ['approval_denied'] });
  const audit = (await gw.admin('GET', '/v1/admin/audit?limit=50')).body as { items: Json[] };
  t.equal(audit.items.filter(({ operation }) => String(operation).includes('approvals.')).length, 4, 'each that was said is one entry');
});

t.test('a key and those that it has made are one person, and it makes none of a group that is not its own', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: bundleOf(asking('{hold: 2m, required: 2}')) });
  const made = async (path: string, headers: object, body: object): Promise<{ status: number; body: Json }> => {
    const response = await fetch(`${gw.url}${path}`, { method: 'POST', headers: { ...headers }, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as Json };
  };
  const asKey = (key: unknown): object => ({ Authorization: `Bearer ${String(key)}` });
  const management = { kind: 'management', name: 'k' };
  const { body: writer } = await gw.admin('POST', '/v1/admin/mgmt-keys', { ...management, scopes: ['read', 'write'], groups: ['finance'] });
  const own = asKey((writer as Json)['key']);
  const second = await made('/mgmt/v1/keys', own, { ...management, scopes: ['approve'], groups: ['finance'] });
  t.match(second, { status: 201, body: { groups: ['finance'], made_by: undefined } });
  t.match(await made('/mgmt/v1/keys', own, { ...management, scopes: ['approve'], groups: ['law'] }), {
    status: 403,
    body: { error: { code: 'not_in_group' } },
  });
  const call = execute({}, { params: ASK });
  const { approval_id: id } = await waiting(gw);
  const approve = `/mgmt/v1/approvals/${String(id)}/approve`;
  t.match(await made(approve, own, {}), { status: 200, body: { status: 'pending' } });
  t.match(await made(approve, asKey(second.body['key']), {}), { status: 409, body: { error: { message: /are one person/ } } });
  t.match(await decide(gw, id, 'approve'), { status: 200, body: { status: 'approved' } });
  t.equal((await call).status, 200);
});

t.test('a program hears of the decision: with the credential of its call, and no other', async (t) => {
  const clock = fakeClock();
  const { gw, execute } = await startGoverned(t, { bundle: bundleOf(asking('{hold: 0s}')), clock });
  const key = String(((await gw.admin('POST', '/v1/admin/api-keys', { name: 'ci' })).body as Json)['key']);
  const other = String(((await gw.admin('POST', '/v1/admin/api-keys', { name: 'other' })).body as Json)['key']);
  const waits = await execute({}, { params: ASK }, { 'X-GW-API-Key': key });
  const { approval_id: id, next } = waits.body as { approval_id: string; next: Json };
  t.match([waits.status, next], [202, { wait_url: `${gw.url}/v1/approvals/${id}/wait`, request: 'repeat' }]);
  t.equal(waits.headers.get('retry-after'), null, 'it has not waited');
  const ask = async (headers: Record<string, string>, query = ''): Promise<{ status: number; body: Json }> => {
    const response = await fetch(`${String(next['wait_url'])}${query}`, { headers });
    return { status: response.status, body: (await response.json()) as Json };
  };
  const own = { Authorization: `Bearer ${key}` };
  t.match(await ask({ Authorization: `Bearer ${other}` }), { status: 404 });
  t.match(await ask({}), { status: 404 }, 'nor who shows nothing');
  t.match(await ask(own, '?timeout=0s'), { status: 200, body: { status: 'pending', next: { request: 'repeat', retry_after: 30 } } });
  t.match(await ask(own, '?timeout=6m'), {
    status: 400,
    body: { error: { message: /.*/, details: [{ path: 'timeout', message: /0s to 5m/ }] } },
  });
  const heard = ask(own, '?timeout=60');
  await decide(gw, id, 'deny', { reason: 'too large' });
  t.match(await heard, { status: 200, body: { status: 'denied', decision_reason: 'too large', next: { request: 'change' } } });
  const open = await execute({}, { params: { ...ASK, seed: 1 } });
  const unheard = fetch(`${gw.url}/v1/approvals/${String(open.body['approval_id'])}/wait?timeout=1m`);
  t.match(await (await fetch(`${gw.url}/v1/approvals/${String(open.body['approval_id'])}/wait?timeout=0`)).json(), { status: 'pending' });
  await decide(gw, open.body['approval_id'], 'approve');
  t.match(await (await unheard).json(), { status: 'approved', next: { request: 'repeat' } }, 'a call that showed nothing needs nothing');
});

t.test('what is held when the gateway stops is answered that it waits', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: HELD });
  const call = execute({}, { params: ASK });
  await waiting(gw);
  const stopped = gw.gateway.stop();
  t.match(await call, { status: 202, body: { next: { request: 'repeat' } } });
  await stopped;
});

t.test('a caller who is put into quarantine is refused, and a policy that has changed is the one that counts', async (t) => {
  const { gw, execute, upstream } = await startGoverned(t, { bundle: HELD, env: { GW_QUARANTINE_RUNNING: 'end' } });
  const call = execute({}, { params: ASK });
  const { approval_id: id } = await waiting(gw);
  const deny = bundleOf('  targets:\n    - {id: all, effect: {decision: deny, reason: closed for today}}\n');
  t.match(await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: deny }), { status: 200 });
  await decide(gw, id, 'approve');
  t.match((await call).body, { decision: 'deny', reason: 'closed for today' });
  t.equal(upstream.requests.length, 0);
  t.match(await show(gw, String(id)), { status: 'approved', executed_at: undefined }, 'what was given is not spent');
});

t.test('a stop ends calls that are held, with its reason', async (t) => {
  const { gw, execute, upstream } = await startGoverned(t, { bundle: HELD });
  const call = execute({}, { params: ASK });
  await waiting(gw);
  const stop = { scope: { provider: 'openai' }, reason: 'the provider leaks', confirm: 'stop' };
  t.match(await gw.admin('POST', '/v1/admin/stop', stop), { status: 201 });
  t.match(await call, { status: 403, body: { reason_codes: ['stopped'], reason: /the provider leaks/ } });
  t.equal(upstream.requests.length, 0);
});

t.test('the official SDKs see nothing but a slow answer, by each door, whole and streamed', async (t) => {
  const bundle = bundleOf('  targets:\n    - {id: all, effect: {decision: require_approval, reason: ask first, approval: {hold: 2m}}}\n');
  const place = await startSdkPlace(t, { bundle });
  await each(t, place, {}, async (t, sdk, door, name) => {
    for (const way of ['plain', 'stream'] as const) {
      const asked = sdk[way]();
      const { approval_id: id } = await waiting(place.gw);
      await decide(place.gw, id, 'approve');
      t.equal((await asked).text, MOCK_TEXT, `${name} ${door} ${way}`);
      t.match(await show(place.gw, String(id)), { executed_record_id: String });
    }
  });
  t.same(await list(place.gw, '?status=pending'), [], 'none was asked about twice');
});

t.test('a model is told how to behave, which rules may stop its calls, and what waits of its own', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: bundleOf(asking('{hold: 0s}')) });
  const keyOf = async (name: string): Promise<string> =>
    String(((await gw.admin('POST', '/v1/admin/api-keys', { name })).body as Json)['key']);
  const [own, other] = [await keyOf('own'), await keyOf('other')];
  const waits = await execute({}, { params: ASK }, { 'X-GW-API-Key': own });
  const read = async (headers: Record<string, string>): Promise<string> => (await fetch(`${gw.url}/v1/agent.md`, { headers })).text();
  const mine = await read({ Authorization: `Bearer ${own}` });
  t.match(mine, /- require_approval \(risk\/large\): ask first/);
  t.match(mine, `Wait at /v1/approvals/${String(waits.body['approval_id'])}/wait`);
  for (const headers of [{ Authorization: `Bearer ${other}` }, {}]) t.notMatch(await read(headers), String(waits.body['approval_id']));
  const llms = await fetch(`${gw.url}/llms.txt`);
  t.match([llms.headers.get('content-type'), await llms.text()], [/^text\/markdown/, /\/v1\/agent\.md/]);
  t.equal((await fetch(`${gw.url}/v1/agent.md`, { headers: { Authorization: 'Bearer gwk_nobody' } })).status, 401);
});

t.test('a model is told of the rules that may hold for its caller, in 40 lines', async (t) => {
  const rules = `  identity:
    - {id: all, effect: {decision: allow}}
    - {id: theirs, when: {field: context.workload.id, equals: batch}, effect: {decision: deny, reason: batch only}}
    - {id: ours, when: {field: context.workload.id, equals: app}, effect: {decision: deny, reason: not for app}}
    - {id: of-globex, when: {field: context.org_id, equals: globex}, effect: {decision: quarantine}}
    - {id: named, effect: {enforce_attribution: {require: [project_id, labels.team]}}}
  budgets:
    - {id: cap, effect: {decision: allow, budget: {usd_max: "0.5", monthly_usd_max: "20"}}}
    - {id: slow, effect: {rate_limit: {requests_per_minute: 30}}}
${Array.from({ length: 20 }, (_, i) => `    - {id: more${i}, when: {field: context.action.params.model, equals: m${i}}, effect: {decision: deny}}\n`).join('')}`;
  const { gw } = await startGoverned(t, { bundle: bundleOf(rules) });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'app' });
  const { token } = (await gw.admin('POST', '/v1/admin/workloads/app/token')).body as { token: string };
  const text = await (await fetch(`${gw.url}/v1/agent.md`, { headers: { Authorization: `Bearer ${token}` } })).text();
  t.match(text, '- deny (identity/ours): not for app');
  t.match(text, '- name project_id, labels.team (identity/named)');
  t.match(text, '- at most 0.5 USD a call, at most 20 USD a month (budgets/cap)');
  t.match(text, '- at most 30 calls a minute (budgets/slow)');
  t.match(text, /^- and \d+ more$/m);
  t.notMatch(text, /theirs|of-globex|identity\/all/, 'what can hold for none of its calls');
  t.ok(text.trimEnd().split('\n').length <= 40, `${text.split('\n').length} lines`);
  const anyones = await (await fetch(`${gw.url}/v1/agent.md`)).text();
  t.match(anyones, /theirs/, 'of who has shown no workload, every rule of the org may hold');
  t.notMatch(anyones, /of-globex/, 'but those of another org');
});
