// Approvals through the doors: who waits for a person, what the person sees and decides, what runs then and how often,
// and what outlives the gateway.
import { createServer } from 'node:net';
import t from 'tap';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { REALTIME, scene } from '../support/metered-sockets.ts';
import { connectThrough, h2Request, h2Session, openTunnel, type RawResponse } from '../support/raw-clients.ts';
import { gw as runGw } from '../support/run-gw.ts';
import { listenOnFreePort } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const ASKS = `  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: large
      when: {field: context.action.params.user, equals: ask}
      effect: {decision: require_approval, reason: large jobs are agreed on first}
`;
const BUNDLE = bundleOf(ASKS);
const ASK = { ...CHAT, user: 'ask' };
const OPENAI = 'api.openai.com:443';
const INNER = '/v1/chat/completions';
const DAY_MS = 86_400_000;

type Json = Record<string, unknown>;

async function list(gw: TestGateway, query = ''): Promise<readonly Json[]> {
  return ((await gw.admin('GET', `/v1/admin/approvals${query}`)).body as { items: Json[] }).items;
}

async function only(gw: TestGateway): Promise<string> {
  const waiting = await list(gw, '?status=pending');
  if (waiting.length !== 1) throw new Error(`${waiting.length} requests wait`);
  return String(waiting[0]?.['approval_id']);
}

const decide = (gw: TestGateway, id: string, verb: 'approve' | 'deny', body?: object) =>
  gw.admin('POST', `/v1/admin/approvals/${id}/${verb}`, body);

/** The proxied doors by which a call can come. */
const DOORS: readonly (readonly [name: string, call: (governed: Governed, body: object) => Promise<RawResponse>])[] = [
  ['redirect', ({ send }, body) => send(chat([], undefined, body))],
  ['tunnel', ({ through }, body) => through(OPENAI, chat([], INNER, body))],
  [
    'tunnel, h2',
    async ({ gw }, body) => {
      const h2 = h2Session(await connectThrough(gw.port, OPENAI, gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
      const answer = await h2Request(h2, chat([], INNER, body));
      h2.destroy();
      return answer;
    },
  ],
];

t.test('on the structured API a request waits (202), is approved, runs once when it comes again, and then waits anew', async (t) => {
  const { gw, execute, upstream } = await startGoverned(t, { bundle: BUNDLE });
  const ask = () => execute({}, { params: ASK });
  const first = await ask();
  t.equal(first.status, 202);
  t.same(Object.keys(first.body).sort(), ['approval_id', 'decision', 'next', 'reason', 'record_hash', 'record_id']);
  t.match(first.body, { decision: 'require_approval', reason: 'large jobs are agreed on first' });
  const id = String(first.body['approval_id']);
  t.match(await gw.record(String(first.body['record_id'])), { decision: 'require_approval', approval_id: id, status_code: 202 });
  t.match((await ask()).body, { approval_id: id }, 'the same one waits');
  t.equal(upstream.requests.length, 0);
  t.match((await gw.admin('GET', '/metrics')).text, /gw_approvals_pending 1\n/);
  t.match((await gw.admin('GET', `/v1/admin/approvals/${id}`)).body, {
    approval_id: id,
    org_id: 'default',
    workload_id: 'default',
    caller_ip: '127.0.0.1',
    status: 'pending',
    reason: 'large jobs are agreed on first',
    rule_ids: ['risk/large'],
    connection_type: 'direct_api',
    action: {
      type: 'ai.infer',
      method: 'POST',
      target_host: 'api.openai.com',
      model: 'gpt-4o-mini',
      stream: false,
      param_sizes: { model: 13, user: 5 },
    },
    estimated_cost_usd: /^0\.0/,
    record_id: first.body['record_id'],
    decided_by: null,
    decided_at: null,
  });
  t.match(await decide(gw, id, 'approve', { decided_by: 'olga' }), {
    status: 200,
    body: { status: 'approved', decided_by: 'olga', decided_by_principal: { kind: 'admin', id: 'admin' }, decided_by_note: 'olga' },
  });
  t.match(await decide(gw, id, 'deny'), {
    status: 409,
    body: { error: { code: 'conflict', message: /was approved by olga \(with the admin token\) at \d{4}-/ } },
  });
  const other = await execute({}, { params: { ...ASK, messages: [{ role: 'user', content: 'another' }] } });
  t.match([other.status, other.body['approval_id'] !== id], [202, true], 'what was approved is what runs');
  const ran = await ask();
  t.match([ran.status, ran.body['decision']], [200, 'allow']);
  t.match(await gw.record(String(ran.body['record_id'])), { decision: 'allow', approval_id: id });
  t.match((await gw.admin('GET', `/v1/admin/approvals/${id}`)).body, {
    status: 'approved',
    executed_at: String,
    executed_record_id: ran.body['record_id'],
  });
  t.equal(upstream.requests.length, 1);
  const again = await ask();
  t.match([again.status, again.body['approval_id'] !== id], [202, true]);
});

t.test('on the proxied doors it is 403 that says what to do, and names no approval; what was approved runs once', async (t) => {
  const governed = await startGoverned(t, { bundle: BUNDLE });
  const { gw, upstream, recordOf } = governed;
  for (const [at, [name, call]] of DOORS.entries()) {
    const body = { ...ASK, seed: at };
    const waits = await call(governed, body);
    t.equal(waits.status, 403, name);
    t.match(
      waits.body.toString(),
      /large jobs are agreed on first\. It waits for an approval until \d{4}-[^"]*gw approvals, or at \/v1\/admin\/approvals; then send the same request again/,
    );
    t.notMatch(waits.body.toString(), 'approval_id');
    const id = await only(gw);
    t.match(await recordOf(waits), { decision: 'require_approval', approval_id: id, status_code: 403 });
    await decide(gw, id, 'approve');
    const ran = await call(governed, body);
    t.equal(ran.status, 200, name);
    t.match(await recordOf(ran), { decision: 'allow', approval_id: id });
    t.equal((await call(governed, body)).status, 403, `${name}, once`);
    await decide(gw, await only(gw), 'deny', { reason: 'not today' });
    const denied = await call(governed, body);
    t.match([denied.status, denied.body.toString()], [403, /approval_denied.*Denied by admin: not today/]);
    t.match(await recordOf(denied), { decision: 'deny', reason_codes: ['approval_denied'] });
  }
  t.equal(upstream.requests.length, DOORS.length);
});

t.test('a CONNECT that is not opened waits for a person too', async (t) => {
  const bundle = bundleOf('  targets:\n    - {id: ask, effect: {decision: require_approval, reason: new host}}\n');
  const { gw } = await startGoverned(t, { bundle, env: { GW_PROXY_MITM_ENABLED: 'false' } });
  const connect = () =>
    openTunnel(gw.port, OPENAI).then(
      (socket) => socket.destroy() && 'open',
      (refused: unknown) => refused,
    );
  t.match(await connect(), { status: 403, body: /new host/ });
  const id = await only(gw);
  await decide(gw, id, 'approve');
  t.equal(await connect(), 'open');
  t.match((await gw.admin('GET', `/v1/admin/approvals/${id}`)).body, { status: 'approved', executed_record_id: String });
  t.match(await connect(), { status: 403 }, 'once');
});

t.test('a CONNECT that was approved and cannot be opened gives the approval back', async (t) => {
  const bundle = bundleOf('  targets:\n    - {id: ask, effect: {decision: require_approval, reason: new host}}\n');
  const closed = createServer();
  const port = await listenOnFreePort(closed);
  await new Promise((resolve) => closed.close(resolve));
  const env = { GW_PROXY_MITM_ENABLED: 'false', GW_UPSTREAM_CONNECT_TO: `${OPENAI}=127.0.0.1:${port}` };
  const gw = await startTestGateway(t, { bundle, env });
  const connect = () => openTunnel(gw.port, OPENAI).catch((refused: unknown) => refused);
  t.match(await connect(), { status: 403, body: /new host/ });
  const id = await only(gw);
  await decide(gw, id, 'approve');
  t.match(await connect(), { status: 502 });
  const entry = async () => (await gw.admin('GET', `/v1/admin/approvals/${id}`)).body as Json;
  while ((await entry())['executed_at'] !== undefined) await new Promise((resolve) => setImmediate(resolve));
  t.match(await connect(), { status: 502 }, 'it can be used again');
});

t.test('a call on a WebSocket waits for a person too', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - {id: ask, when: {field: context.action.params.instructions, equals: big}, effect: {decision: require_approval, reason: ask first}}
`);
  const { gw, open } = await scene(t, { bundle });
  const talk = await open(REALTIME);
  const create = { type: 'response.create', response: { instructions: 'big' } };
  t.match(await talk.say(create, 'error'), { error: { message: /ask first.*waits for an approval/ } });
  await decide(gw, await only(gw), 'approve');
  t.match(await talk.say(create, 'response.done'), { type: 'response.done' });
  t.match(await talk.say(create, 'error'), { error: { message: /ask first/ } }, 'once');
});

// Holds: approved-once
t.test('of fifty that come again at once one is executed, and the others share one that waits', async (t) => {
  const { gw, execute, upstream } = await startGoverned(t, { bundle: BUNDLE });
  const ask = () => execute({}, { params: ASK });
  const opened = await Promise.all(Array.from({ length: 50 }, ask));
  t.equal(new Set(opened.map(({ body }) => body['approval_id'])).size, 1, 'and those that came first shared one');
  const id = await only(gw);
  await decide(gw, id, 'approve');
  const answers = await Promise.all(Array.from({ length: 50 }, ask));
  t.same(answers.map(({ status }) => status).sort(), [200, ...Array.from({ length: 49 }, () => 202)]);
  t.equal(new Set(answers.filter(({ status }) => status === 202).map(({ body }) => body['approval_id'])).size, 1);
  t.equal(upstream.requests.length, 1);
  t.not(await only(gw), id);
});

t.test('time: what nobody decides expires and rejects for a while, and what is approved can be used for a while', async (t) => {
  const clock = fakeClock();
  const { gw, execute } = await startGoverned(t, { bundle: BUNDLE, clock, env: { GW_APPROVAL_REJECT_FOR: '1h' } });
  const ask = () => execute({}, { params: ASK });
  await ask();
  const id = await only(gw);
  clock.advance(DAY_MS);
  const rejected = await ask();
  t.match([rejected.status, rejected.body], [403, { decision: 'deny', reason_codes: ['approval_expired'] }]);
  t.match(await decide(gw, id, 'approve'), { status: 409, body: { error: { message: /expired at/ } } });
  t.match(await list(gw, '?status=expired'), [{ approval_id: id }]);
  clock.advance(3_600_000);
  t.equal((await ask()).status, 202, 'anew');
  const second = await only(gw);
  await decide(gw, second, 'approve');
  clock.advance(DAY_MS - 1);
  t.match(await list(gw, '?status=approved'), [{ approval_id: second }]);
  clock.advance(1);
  t.match((await ask()).body, { reason_codes: ['approval_expired'] }, 'and was not used in time');
  const events = (await gw.admin('GET', '/metrics')).text;
  t.match(events, /gw_approvals_pending 0\n/);
  t.match(events, /gw_approvals_total\{org_id="default",status="expired"\} 1\n/);
});

t.test('a provider that cannot be reached gives the approval back; one that refuses the call has used it', async (t) => {
  let status = 500;
  const { gw, execute } = await startGoverned(t, {
    bundle: BUNDLE,
    handler: (_request, response, body) =>
      void body.then(() =>
        status === 0 ? response.socket?.destroy() : response.writeHead(status, { 'content-type': 'application/json' }).end('{}'),
      ),
  });
  const ask = () => execute({}, { params: ASK });
  await ask();
  const id = await only(gw);
  await decide(gw, id, 'approve');
  status = 0;
  const broken = await ask();
  t.match([broken.status, broken.body['decision']], [502, 'error']);
  t.match(await gw.record(String(broken.body['record_id'])), { approval_id: id });
  const { body } = await gw.admin('GET', `/v1/admin/approvals/${id}`);
  t.notOk((body as Json)['executed_at'], 'given back');
  status = 400;
  t.match((await ask()).body, { decision: 'allow', result: { status_code: 400 } });
  t.equal((await ask()).status, 202, 'spent');
});

t.test('nobody is asked about a call that would be refused anyhow', async (t) => {
  const cap = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: large
      when: {field: context.action.params.user, equals: ask}
      effect: {decision: require_approval, reason: ask first, budget: {usd_max: "0.0000001"}}
`);
  const capped = await startGoverned(t, { bundle: cap });
  t.match((await capped.execute({}, { params: ASK })).body, { decision: 'deny', reason_codes: ['budget_usd_max_exceeded'] });
  t.match((await capped.execute({ credential_hint: undefined }, { params: ASK })).body, {
    decision: 'deny',
    reason_codes: ['no_credential_candidate'],
  });
  t.same(await list(capped.gw), []);
});

t.test('a call whose body is not read whole cannot wait', async (t) => {
  const bundle = bundleOf('  targets:\n    - {id: ask, effect: {decision: require_approval, reason: ask first}}\n');
  const { gw, through } = await startGoverned(t, { bundle, env: { GW_PROXY_NON_AI: 'govern' } });
  const post = { method: 'POST', path: '/upload', headers: ['Content-Type', 'application/octet-stream'], body: 'bytes' };
  const answer = await through('www.example.com:443', post);
  t.match(
    [answer.status, JSON.parse(answer.body.toString())],
    [403, { decision: 'require_approval', reason_codes: ['approval_required', 'approval_not_possible'] }],
  );
  t.same(await list(gw), []);
  const lone = chat([], INNER, '{"model":"gpt-4o-mini","messages":[],"user":"\\ud800"}');
  t.match(JSON.parse((await through(OPENAI, lone)).body.toString()), { reason_codes: ['approval_required', 'approval_not_possible'] });
  t.same(await list(gw), [], 'nor one that has no canonical form');
  t.equal((await through('www.example.com:443', { method: 'GET', path: '/page', headers: [] })).status, 403);
  t.equal((await list(gw)).length, 1, 'one without a body can');
});

t.test('with approvals switched off it is a refusal', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: BUNDLE, env: { GW_APPROVAL_ENABLED: 'false' } });
  t.match(await execute({}, { params: ASK }), { status: 403, body: { decision: 'require_approval', approval_id: undefined } });
  t.same(await list(gw), []);
});

t.test('the content is kept where it is wanted, sealed, shown while it waits, and erased with the decision', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: BUNDLE, env: { GW_APPROVAL_KEEP_CONTENT: 'true' } });
  await execute({}, { params: ASK });
  const id = await only(gw);
  const shown = async () => ((await gw.admin('GET', `/v1/admin/approvals/${id}`)).body as { action: Json }).action['params'];
  t.same(await shown(), ASK);
  t.notOk((await list(gw))[0]?.['params']);
  await decide(gw, id, 'approve');
  t.equal(await shown(), undefined);
});

t.test('everything about approvals outlives the gateway, in each state', async (t) => {
  const { gw, execute, upstream } = await startGoverned(t, { bundle: BUNDLE });
  const bodies = [0, 1, 2].map((seed) => ({ ...ASK, seed }));
  const ids: string[] = [];
  for (const params of bodies) ids.push(String((await execute({}, { params })).body['approval_id']));
  const [, approved = '', denied = ''] = ids;
  await decide(gw, approved, 'approve');
  await decide(gw, denied, 'deny');
  await gw.gateway.stop();
  const again = await startTestGateway(t, {
    bundle: BUNDLE,
    env: { ...towards(t, upstream, ['api.openai.com']), GW_DATA_DIR: gw.dataDir },
  });
  const ask = async (params: object) => {
    const body = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'sk-caller' };
    const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params };
    const response = await fetch(`${again.url}/v1/actions:execute`, { method: 'POST', body: JSON.stringify({ ...body, action }) });
    return { status: response.status, body: (await response.json()) as Json };
  };
  t.match((await again.admin('GET', '/metrics')).text, /gw_approvals_pending 1\n/);
  t.match(await Promise.all(bodies.map(ask)), [
    { status: 202, body: { approval_id: ids[0] } },
    { status: 200 },
    { status: 403, body: { reason_codes: ['approval_denied'] } },
  ]);
  t.equal((await ask(bodies[1] ?? {})).status, 202, 'it was spent');
});

t.test('lists and bad input', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: BUNDLE });
  for (let seed = 0; seed < 25; seed += 1) await execute({}, { params: { ...ASK, seed } });
  const page = (await gw.admin('GET', '/v1/admin/approvals')).body as { items: Json[]; next_page_token: string };
  t.equal(page.items.length, 20);
  await execute({}, { params: { ...ASK, seed: 99 } });
  t.equal((await list(gw, `?page_token=${page.next_page_token}`)).length, 5, 'neither repeated nor skipped while another came');
  t.same(await list(gw, '?workload_id=other'), []);
  t.match(await gw.admin('GET', '/v1/admin/approvals?status=open&limit=501&x=1'), {
    status: 400,
    body: { error: { details: [{ path: 'x' }, { path: 'status' }, { path: 'limit' }] } },
  });
  const id = String(page.items[0]?.['approval_id']);
  t.match(await decide(gw, id, 'approve', { by: 'me', decided_by: '' }), {
    status: 400,
    body: { error: { details: [{ path: 'by' }, { path: 'decided_by' }] } },
  });
  t.match(await decide(gw, 'none', 'approve'), { status: 404 });
  t.match(await gw.admin('GET', '/v1/admin/approvals/none'), { status: 404 });
});

t.test('gw approvals lists, watches, shows, approves and denies', async (t) => {
  const { gw, execute, send } = await startGoverned(t, { bundle: BUNDLE });
  const options = { env: { GW_ADMIN_TOKEN: 'test-admin-token-0123456789' } };
  const cli = (...args: string[]) => runGw(['approvals', ...args, '--url', gw.url], options);
  const watched = cli('list', '--watch', '--limit', '2');
  await execute({ caller_id: 'eve' }, { params: ASK });
  await send(chat([], undefined, { ...ASK, seed: 1 }));
  const { out: stdout, code } = await watched;
  t.equal(code, 0);
  t.match(stdout.split('\n'), [
    /pending {2}default \(eve\) {2}POST api\.openai\.com gpt-4o-mini {2}0\.\d+ USD {2}large jobs/,
    /pending/,
    '',
  ]);
  const id = stdout.slice(0, 36);
  t.match(
    (await cli('show', id)).out,
    /^approval: +[-0-9a-f]{36}\nstatus: +pending\nasked by: +default\/default \(eve\)\n[\s\S]*params: +model 13 bytes, messages \d+ bytes, user 5 bytes\n/,
  );
  t.match(
    (await cli('approve', id, '--reason', 'agreed', '--by', 'olga')).out,
    /status: +approved[\s\S]*decided: +by olga \(with the admin token, gw for \S+\) at \d{4}-\S+: agreed\n/,
  );
  t.match(await cli('deny', id), { code: 1, err: /was approved by olga \(with the admin token, gw for \S+\)/ });
  t.match(JSON.parse((await cli('list', '--status', 'approved', '--json')).out), { approval_id: id });
  const [said] =
    (await runGw(['audit', 'list', '--operation', 'approvals.approve', '--object', id, '--url', gw.url], options)).out.match(
      /^ {2}by .*$/m,
    ) ?? [];
  t.match(said, /^ {2}by admin \(gw for \S+\) from /, 'who it was is told in the same words');
  t.match(await cli('show'), { code: 2, err: /named by its id/ });
});

t.test('a rule that lets everything pass asks nobody', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: ALLOW_ALL });
  t.equal((await execute({}, { params: ASK })).status, 200);
  t.same(await list(gw), []);
});
