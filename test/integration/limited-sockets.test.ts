// What holds on a WebSocket beside policy: money, rates and the month of its responses, and each way in.
import { once } from 'node:events';
import t from 'tap';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { bundleOf } from '../support/governed.ts';
import { HOST, REALTIME, RESPONSES, scene, talk } from '../support/metered-sockets.ts';
import { openAiSocket } from '../support/openai-sockets.ts';
import { connectPlain, connectThrough, openTunnel } from '../support/raw-clients.ts';
import { towards } from '../support/upstreams.ts';
import { closing, opened, startSocketUpstream, webSocketOn } from '../support/websockets.ts';

/** Output of gpt-4o costs 15 USD per million tokens. */
const create = (maxTokens: number, input = 'x') => ({
  type: 'response.create',
  model: 'gpt-4o-2024-05-13',
  input,
  max_output_tokens: maxTokens,
});

t.test('the cap of one request refuses a response, and the socket goes on', async (t) => {
  const bundle = bundleOf('  budgets:\n    - {id: cap, effect: {decision: allow, budget: {usd_max: "0.015"}}}\n');
  const { open, records, upstream } = await scene(t, { bundle });
  const client = await open(RESPONSES);
  const seen: string[] = [];
  upstream.sockets[0]?.on('message', (data: Buffer) => seen.push(data.toString()));
  const error = await client.say(create(1001), 'error');
  t.match(error, { status: 403, error: { message: /budget_usd_max_exceeded/ }, decision: 'deny', budget: { kind: 'request' } });
  t.same(seen, []);
  await client.say(create(500), 'response.completed');
  t.match((await records()).slice(1), [
    { record_id: error['record_id'], decision: 'deny', reason: 'budget_exceeded' },
    { decision: 'allow', stream_outcome: 'complete' },
  ]);
});

t.test('a budget limit sets each response aside while it runs, and is charged what it cost', async (t) => {
  const { open, gw, upstream, recorded } = await scene(t);
  await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '0.04', actions: ['cap'] });
  const limit = async () => ((await gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: object[] }).limits[0];
  const [first, second] = [await open(RESPONSES), await open(RESPONSES)];
  t.match(await limit(), { spent_usd: exactly('0'), reserved_usd: exactly('0') }, 'an open socket costs nothing');
  await first.say(create(2000, 'hang'), 'response.created');
  t.match(await limit(), { spent_usd: exactly('0'), reserved_usd: /^0\.03/ });
  t.match(await second.say(create(2000), 'error'), {
    status: 403,
    error: { message: /budget_limit_exceeded/ },
    budget: { kind: 'limit', scope: 'org' },
  });
  t.match(await limit(), { spent_usd: exactly('0'), reserved_usd: /^0\.03/ }, 'what was refused sets nothing aside');
  const usage = { input_tokens: 0, output_tokens: 1000 };
  const done = first.until('response.completed');
  upstream.sockets[0]?.send(JSON.stringify({ type: 'response.completed', response: { id: 'resp_1', status: 'completed', usage } }));
  await done;
  t.match(await limit(), { spent_usd: exactly('0.015'), reserved_usd: exactly('0') }, 'settled before the end is told');
  await second.say(create(500, 'hang'), 'response.created');
  t.match(await limit(), { spent_usd: exactly('0.015'), reserved_usd: /^0\.0075/ });
  const before = recorded().length;
  second.socket.terminate();
  while (recorded().length === before) await new Promise((resolve) => setImmediate(resolve));
  t.match(await limit(), { reserved_usd: exactly('0') }, 'a socket that dies holds nothing back');
  t.match(await first.say(create(500, 'bad'), 'error'), { error: { code: 'bad' } });
  t.match(await limit(), { reserved_usd: exactly('0') }, 'nor does a call that the server refuses');
});

t.test('a response whose end reports no usage is charged what was seen of it, or what was set aside', async (t) => {
  const { open, gw, upstream, records } = await scene(t);
  const send = (event: object) => upstream.sockets[0]?.send(JSON.stringify(event));
  const client = await open(RESPONSES);
  const cost = async (said: readonly object[]) => {
    await client.say(create(500, 'hang'), 'response.created');
    const done = client.until('response.completed');
    const id = (client.events.at(-1) as { response: { id: string } }).response.id;
    for (const event of said) send(event);
    send({ type: 'response.completed', response: { id, status: 'completed' } });
    await done;
    return ((await records()).at(-1) as { metering: object }).metering;
  };
  t.match(await cost([]), { cost_usd: exactly('0'), usage_reported: false }, 'nothing watches');
  await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '1', actions: ['cap'] });
  t.match(await cost([]), { tokens_in: 1, tokens_out: 500, cost_usd: exactly('0.007505'), usage_reported: false });
  const delta = { type: 'response.output_text.delta', delta: 'Once upon a time' };
  t.match(await cost([delta]), { tokens_in: 1, tokens_out: 4, cost_usd: exactly('0.000065'), usage_reported: false });
});

t.test('the rate of a workload and the requests of a month count responses, not sockets', async (t) => {
  const clock = fakeClock();
  const env = { GW_RATELIMIT_REFILL_RATE: '6', GW_RATELIMIT_MAX_TOKENS: '2', GW_RATELIMIT_WINDOW: '1m', GW_MONTHLY_REQUEST_LIMIT: '4' };
  const { open, records, gw } = await scene(t, { clock, env });
  const client = await open(RESPONSES);
  for (let at = 0; at < 2; at++) await client.say(create(10), 'response.completed');
  const refused = await client.say(create(10), 'error');
  t.match(refused, { decision: 'rate_limit', error: { message: /rate_limited/ } });
  clock.advance(10_000);
  await client.say(create(10), 'response.completed');
  t.match(await client.say(create(10), 'error'), { decision: 'deny', error: { message: /monthly_request_limit_exceeded/ } });
  t.match((await gw.admin('GET', '/metrics')).text, /gw_rate_limit_hits\{org_id="default"\} 1/);
  t.match(await records(), [
    { record_tier: 'connection' },
    { decision: 'allow' },
    { decision: 'allow' },
    { record_id: refused['record_id'], decision: 'rate_limit', reason_codes: ['rate_limited'] },
    { decision: 'allow' },
    { decision: 'deny', reason: 'monthly_request_limit_exceeded' },
  ]);
  t.equal((await records()).length, 6, 'each of them once');
});

t.test('without TLS, in absolute form and inside of a CONNECT, a socket to an AI host is metered as well', async (t) => {
  const upstream = await startSocketUpstream(t, { onSocket: openAiSocket });
  const { gw, records } = await scene(t, { env: { GW_UPSTREAM_CONNECT_TO: `${HOST}:80=127.0.0.1:${upstream.port}` } });
  const absolute = async () => webSocketOn(t, await connectPlain(gw.port), HOST, REALTIME, { target: `ws://${HOST}${REALTIME}` });
  const inner = async () => webSocketOn(t, await openTunnel(gw.port, `${HOST}:80`), HOST, REALTIME);
  for (const connect of [absolute, inner]) {
    const socket = await connect();
    const client = talk(socket);
    await opened(socket);
    await client.say({ type: 'response.create' }, 'response.done');
  }
  t.equal(upstream.handshakes.length, 2);
  const metered = { record_tier: 'action', model: 'gpt-4o-mini', target: /^http:\/\//, metering: { tokens_in: 100, tokens_out: 30 } };
  t.match(await records(), [{ record_tier: 'connection' }, metered, { record_tier: 'connection' }, metered]);
  t.equal((await records()).length, 4, 'each of them once');
});

t.test('what the server of a responses socket begins and policy refuses ends the socket with 1008', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no-gpt-4, when: {field: action.params.model, equals: gpt-4}, effect: {decision: deny}}
`);
  const { open, upstream, records, recorded } = await scene(t, { bundle });
  const client = await open(RESPONSES);
  const [told, heard] = [closing(client.socket), closing(upstream.sockets[0] as Parameters<typeof closing>[0])];
  const send = (event: object) => upstream.sockets[0]?.send(JSON.stringify(event));
  send({ type: 'response.created', response: { id: 'resp_own', model: 'gpt-4', status: 'in_progress' } });
  send({ type: 'response.output_text.delta', delta: 'never to be seen' });
  t.match(await told, { code: 1008 });
  t.match(await heard, { code: 1008 });
  t.same(client.events, [], 'nothing of it reached the client');
  while (recorded().length < 2) await new Promise((resolve) => setImmediate(resolve));
  t.match((await records())[1], { decision: 'deny', model: 'gpt-4', record_tier: 'action' });
});

t.test('WebSockets inside of tunnels to hosts that are no AI hosts: relayed, after policy where it decides', async (t) => {
  const host = 'chat.example.com';
  const upstream = await startSocketUpstream(t, {
    hosts: [host],
    onSocket: (socket) => void socket.on('message', (data: Buffer, binary) => socket.send(data, { binary })),
  });
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no-admin, when: {field: action.target_path, equals: /admin}, effect: {decision: deny}}
`);
  for (const mode of ['inspect', 'govern']) {
    const { gw, records } = await scene(t, { bundle, env: { ...towards(t, upstream, [host]), GW_PROXY_NON_AI: mode } });
    const socket = async (path: string) => webSocketOn(t, await connectThrough(gw.port, `${host}:443`, gw.caPem), host, path);
    const client = await socket('/room');
    const headers = await opened(client);
    client.send('hello');
    t.match(await once(client, 'message'), [Buffer.from('hello')], mode);
    const admin = await socket('/admin');
    if (mode === 'inspect') {
      await opened(admin);
      t.same(await records(), []);
    } else {
      await t.rejects(opened(admin), /403/);
      t.ok(headers['x-gw-record-id']);
      t.match(await records(), [
        { decision: 'allow', target_path: '/room', status_code: 101, action_type: 'http.request' },
        { decision: 'deny', target_path: '/admin' },
      ]);
      t.equal((await records()).length, 2, 'each of them once');
    }
    t.match((await gw.admin('GET', '/metrics')).text, new RegExp(`gw_websockets_total\\{kind="relayed"\\} ${mode === 'inspect' ? 2 : 1}`));
  }
});
