// WebSockets to AI hosts: every call on them is judged, metered and recorded (decision 3.12).
import { once } from 'node:events';
import t from 'tap';
import type { WebSocket } from 'ws';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import { exactly } from '../support/exactly.ts';
import { startTestGateway } from '../support/gateway.ts';
import { bundleOf } from '../support/governed.ts';
import { HOST, REALTIME, RESPONSES, scene, talk } from '../support/metered-sockets.ts';
import { openAiSocket } from '../support/openai-sockets.ts';
import { connectPlain, connectThrough } from '../support/raw-clients.ts';
import { towards } from '../support/upstreams.ts';
import { closing, opened, refused, startSocketUpstream, webSocketOn } from '../support/websockets.ts';

t.test('a response on a responses socket is a call with a record of its own, stored before its end is told', async (t) => {
  const { upstream, open, records, gw } = await scene(t);
  const client = await open(RESPONSES, { protocols: ['one', 'two'], perMessageDeflate: true });
  t.match(client.headers, { 'sec-websocket-protocol': 'two', 'x-gw-decision': 'allow', 'x-gw-record-id': /.+/, 'x-gw-record-hash': /.+/ });
  t.equal(client.headers['sec-websocket-extensions'], undefined);
  t.notOk(upstream.handshakes[0]?.headers['sec-websocket-extensions'], 'no compression is offered');
  t.match(upstream.handshakes[0]?.headers, { authorization: 'Bearer sk-client', via: /gw-/ });
  for (const input of ['a secret', 'another']) {
    t.match(await client.say({ type: 'response.create', model: 'gpt-4o-mini', input }, 'response.completed'), {
      response: { status: 'completed' },
    });
  }
  const [handshake, first, second, ...more] = await records();
  t.same(more, []);
  t.match(handshake, {
    record_tier: 'connection',
    decision: 'allow',
    action_type: 'ai.infer',
    action_method: 'GET',
    target_path: RESPONSES,
    status_code: 101,
    upstream_status: 101,
  });
  t.notOk(handshake?.['metering']);
  for (const record of [first, second]) {
    t.match(record, {
      record_tier: 'action',
      decision: 'allow',
      action_type: 'ai.infer',
      model: 'gpt-4o-mini',
      stream: true,
      stream_outcome: 'complete',
      connection_type: 'connect_proxy',
      metering: {
        tokens_in: 36,
        tokens_out: 87,
        cached_tokens_in: 4,
        reasoning_tokens_out: 9,
        model: 'gpt-4o-mini-2024-07-18',
        usage_reported: true,
        // 36 × 0.15 + 87 × 0.60 USD per million
        cost_usd: exactly('0.0000573'),
      },
      request_sha256: /^[0-9a-f]{64}$/,
      response_sha256: /^[0-9a-f]{64}$/,
    });
  }
  t.notMatch(JSON.stringify(await records()), /secret|Hello/);
  const metrics = (await gw.admin('GET', '/metrics')).text;
  t.match(metrics, /gw_websockets_open\{kind="metered"\} 1/);
  t.match(metrics, /gw_websocket_messages_total\{direction="up"\} 2\n/);
  t.match(metrics, /gw_websocket_messages_total\{direction="down"\} 6\n/);
  t.equal((await gw.admin('GET', `/v1/verify/${String(first?.['record_hash'])}`)).status, 200);
});

t.test('a response of a realtime session is metered by the model of its session', async (t) => {
  const { open, records } = await scene(t);
  const client = await open(REALTIME);
  const done = await client.say({ type: 'response.create', response: { instructions: 'be brief' } }, 'response.done');
  t.match(done, { response: { id: 'resp_1' } });
  t.match((await records())[1], {
    record_tier: 'action',
    model: 'gpt-4o-mini',
    target_path: '/v1/realtime?model',
    stream_outcome: 'complete',
    metering: { tokens_in: 100, tokens_out: 30, cached_tokens_in: 20, cost_usd: exactly('0.0000315'), usage_reported: true },
  });
  t.same(
    client.events.map(({ type }) => type),
    ['session.created', 'response.created', 'response.output_text.delta', 'response.done'],
  );
});

const DENY_MODEL = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no-gpt-4, when: {field: action.params.model, equals: gpt-4}, effect: {decision: deny, reason: "gpt-4 is not for you"}}
`);

t.test('the shipped policy lets both kinds of socket through', async (t) => {
  const upstream = await startSocketUpstream(t, { hosts: [HOST], onSocket: openAiSocket });
  const gw = await startTestGateway(t, { env: towards(t, upstream, [HOST]) });
  for (const [path, until] of [
    [REALTIME, 'response.done'],
    [RESPONSES, 'response.completed'],
  ] as const) {
    const socket = webSocketOn(t, await connectThrough(gw.port, `${HOST}:443`, gw.caPem), HOST, path);
    const client = talk(socket);
    await opened(socket);
    await client.say({ type: 'response.create', model: 'gpt-4o-mini', input: 'x' }, until);
    t.notOk(client.events.some(({ type }) => type === 'error'));
  }
});

t.test('a response that policy refuses is told as an error event and never forwarded', async (t) => {
  const { open, records, upstream } = await scene(t, { bundle: DENY_MODEL });
  const client = await open(RESPONSES);
  const seen: string[] = [];
  upstream.sockets[0]?.on('message', (data: Buffer) => seen.push(data.toString()));
  const error = await client.say({ type: 'response.create', model: 'gpt-4', input: 'x', event_id: 'mine', stream_id: 's' }, 'error');
  t.match(error, {
    status: 403,
    stream_id: 's',
    error: { message: /gpt-4 is not for you/, type: 'gateway_deny', event_id: 'mine' },
    decision: 'deny',
    record_id: /.+/,
  });
  t.same(seen, []);
  t.match((await records())[1], { record_id: error['record_id'], decision: 'deny', model: 'gpt-4', record_tier: 'action' });
  await client.say({ type: 'response.create', model: 'gpt-4o-mini', input: 'x' }, 'response.completed');
  t.equal(seen.length, 1, 'the socket goes on');
});

t.test('a handshake that policy or identity refuses never reaches the upstream', async (t) => {
  const { gw, records, upstream } = await scene(t, { bundle: DENY_MODEL });
  const ask = async (path: string, headers: Record<string, string> = {}) =>
    refused(webSocketOn(t, await connectThrough(gw.port, `${HOST}:443`, gw.caPem), HOST, path, { headers }));
  t.match(await ask('/v1/realtime?model=gpt-4'), { status: 403, body: /gpt-4 is not for you/ });
  t.match(await ask(REALTIME, { 'X-GW-Workload-ID': 'stranger' }), { status: 403, body: /workload_not_registered/ });
  t.match(await ask('/v1/live/sessions'), { status: 426, headers: { upgrade: /HTTP/ } });
  t.match(await ask('/v1/chat/completions'), { status: 426 });
  const misdirected = webSocketOn(t, await connectThrough(gw.port, `${HOST}:443`, gw.caPem), 'api.mistral.ai', REALTIME);
  t.match(await refused(misdirected), { status: 421 });
  t.equal(upstream.handshakes.length, 0);
  t.match(await records(), [
    { decision: 'deny', record_tier: 'action' },
    { decision: 'deny', reason_codes: ['workload_not_registered'] },
    { decision: 'deny', reason_codes: ['misdirected_request'] },
  ]);
  t.equal((await records()).length, 3, 'each of them once');
});

t.test('a refusal of the upstream is passed on and recorded', async (t) => {
  const { gw, records } = await scene(
    t,
    {},
    {
      refuse: (_request, connection) => {
        connection.end('HTTP/1.1 401 x\r\nContent-Type: application/json\r\nContent-Length: 23\r\n\r\n{"error":{"code":"no"}}');
        return true;
      },
    },
  );
  const answer = await refused(webSocketOn(t, await connectThrough(gw.port, `${HOST}:443`, gw.caPem), HOST, REALTIME));
  t.match(answer, { status: 401, headers: { 'x-gw-decision': 'allow' } });
  t.match((await records())[0], { upstream_status: 401, status_code: 401, record_tier: 'connection' });
});

const DOWNGRADE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: cheaper, when: {field: action.params.model, equals: gpt-4}, effect: {decision: downgrade, mutations: [{key: action.params.model, value: gpt-4o-mini}]}}
`);

t.test('a downgrade rewrites the event, the address of the session and its settings, and nothing else', async (t) => {
  const { open, records, upstream } = await scene(t, { bundle: DOWNGRADE });
  const client = await open(RESPONSES);
  const seen: string[] = [];
  upstream.sockets[0]?.on('message', (data: Buffer) => seen.push(data.toString()));
  await client.say('{"type":"response.create", "model":"gpt-4", "input":"x", "big":12345678901234567890}', 'response.completed');
  t.same(seen, ['{"type":"response.create", "model":"gpt-4o-mini", "input":"x", "big":12345678901234567890}']);
  t.match((await records())[1], { decision: 'downgrade', model: 'gpt-4o-mini', metering: { model: 'gpt-4o-mini-2024-07-18' } });

  await client.say(`\ufeff{"type":"response.create", "model":"gpt-4o-mini", "input":"x"}`, 'response.completed');
  t.equal(seen.at(-1), '{"type":"response.create", "model":"gpt-4o-mini", "input":"x"}', 'a byte order mark is read over and not sent on');
  const count = (await records()).length;

  const session = await open('/v1/realtime?model=gpt-4');
  t.equal(upstream.handshakes[1]?.url, REALTIME);
  await session.say({ type: 'response.create' }, 'response.done');
  t.match(await session.say({ type: 'session.update', session: { model: 'gpt-4' } }, 'session.updated'), {
    session: { model: 'gpt-4o-mini' },
  });
  const all = await records();
  t.match(all.slice(count), [
    { decision: 'downgrade', record_tier: 'connection' },
    { decision: 'allow', model: 'gpt-4o-mini' },
  ]);
});

t.test('what policy changes and an event cannot say is refused', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: header, when: {field: action.params.max_output_tokens, equals: 7}, effect: {mutations: [{key: action.headers.x-team, value: a}]}}
`);
  const { open } = await scene(t, { bundle });
  const client = await open(RESPONSES);
  t.match(await client.say({ type: 'response.create', model: 'gpt-4o-mini', input: 'x', max_output_tokens: 7 }, 'error'), {
    error: { message: /mutation_not_applicable/ },
  });
});

t.test('a change of the session to a refused model, or of its transcription, is not forwarded', async (t) => {
  const { open, records } = await scene(t, { bundle: DENY_MODEL });
  const client = await open(REALTIME);
  t.match(await client.say({ type: 'session.update', session: { model: 'gpt-4' } }, 'error'), { decision: 'deny' });
  t.match(await client.say({ type: 'session.update', session: { audio: { input: { transcription: { model: 'gpt-4' } } } } }, 'error'), {
    decision: 'deny',
  });
  await client.say({ type: 'session.update', session: { instructions: 'x' } }, 'session.updated');
  t.match(await records(), [{}, { decision: 'deny', model: 'gpt-4' }, { decision: 'deny', model: 'gpt-4' }]);
  t.equal((await records()).length, 3, 'each of them once');
});

t.test('changes of the settings that the server does not answer are held within a bound', async (t) => {
  const { open } = await scene(t);
  const client = await open(REALTIME);
  const change = (at: number) => ({
    type: 'session.update',
    session: { [`name_${at}`]: 1, instructions: `unanswered ${'x'.repeat(500_000)}` },
  });
  client.socket.send(JSON.stringify(change(1)));
  client.socket.send(JSON.stringify(change(2)));
  t.match(await client.say(change(3), 'error'), { error: { code: 'overloaded' } });
  await client.say({ type: 'session.update', session: { instructions: 'short' } }, 'session.updated');
  await client.say({ type: 'response.create' }, 'response.done');
});

t.test('what the server begins by itself is judged, and cancelled when it is refused', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no-waiting, when: {field: action.params.instructions, equals: wait}, effect: {decision: deny, reason: "not while waiting"}}
`);
  const { open, records, gw } = await scene(t, { bundle });
  await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '1' });
  const client = await open(REALTIME);
  await client.say({ type: 'input_audio_buffer.commit' }, 'response.done');
  await client.say({ type: 'session.update', session: { instructions: 'wait' } }, 'session.updated');
  const before = client.events.length;
  t.match(await client.say({ type: 'input_audio_buffer.commit' }, 'error'), { error: { message: /not while waiting/ } });
  t.same(
    client.events.slice(before).map(({ type }) => type),
    ['error'],
    'nothing of it reaches the client',
  );
  t.match((await records()).slice(1), [
    { decision: 'allow', metering: { tokens_in: 100 } },
    { decision: 'deny', metering: { tokens_in: 100, tokens_out: 30, cost_usd: exactly('0.0000315') }, stream_outcome: 'aborted' },
  ]);
  const spent = (await gw.admin('GET', '/v1/admin/budgets/limits')).body;
  t.match(spent, { limits: [{ spent_usd: exactly('0.000063'), reserved_usd: exactly('0') }] }, 'what a refused one cost is spent, too');
});

function costOf({ metering }: Record<string, unknown>): unknown {
  return (metering as Record<string, unknown> | undefined)?.['cost_usd'];
}

t.test('what a refused turn cost is spent, whatever refuses it', async (t) => {
  const refusals = ['decision: quarantine, reason: "held"', 'decision: require_approval', 'decision: deny'];
  for (const effect of refusals) {
    const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: refuses, when: {field: action.params.instructions, equals: wait}, effect: {${effect}}}
`);
    const { open, records, gw } = await scene(t, { bundle });
    await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '1' });
    const client = await open(REALTIME);
    await client.say({ type: 'session.update', session: { instructions: 'wait' } }, 'session.updated');
    await client.say({ type: 'input_audio_buffer.commit' }, 'error');
    // A line about an entry or a question names its record once more.
    const all = [...new Map((await records()).map((record) => [record['record_id'], record])).values()];
    t.ok(
      all.some((record) => record['decision'] !== 'allow' && costOf(record) !== undefined),
      `${effect}: a refused turn has cost something`,
    );
    const cost = all.reduce((sum, record) => sum + picoFromUsd(String(costOf(record) ?? '0')), 0n);
    const spent = (await gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: Record<string, unknown>[] };
    t.same([spent.limits[0]?.['spent_usd'], spent.limits[0]?.['reserved_usd']], [usdFromPico(cost), '0'], effect);
  }
});

t.test('transcription beside a session is a call of its model', async (t) => {
  const { open, records } = await scene(t);
  const client = await open(REALTIME);
  const session = { audio: { input: { transcription: { model: 'gpt-4o-mini-transcribe' } } } };
  await client.say({ type: 'session.update', session }, 'session.updated');
  await client.say({ type: 'conversation.item.create', item: {} }, 'conversation.item.input_audio_transcription.completed');
  const all = await records();
  t.equal(all.length, 2);
  t.match(all[1], { model: 'gpt-4o-mini-transcribe', metering: { tokens_in: 14, tokens_out: 5 }, decision: 'allow' });
  t.notMatch(JSON.stringify(all), /secret words/);
});

t.test('an event that two readers could take differently is refused and recorded', async (t) => {
  const { open, records, upstream } = await scene(t);
  const client = await open(RESPONSES);
  const seen: string[] = [];
  upstream.sockets[0]?.on('message', (data: Buffer) => seen.push(data.toString()));
  const events = [
    '{"type":"x","type":"response.create"}',
    '{"Type":"response.create","type":"x"}',
    '{"type":"response.create","model":"a","Model":"b"}',
    'not json',
    '[]',
    '{"model":"a"}',
  ];
  for (const event of events) t.match(await client.say(event, 'error'), { error: { message: /ambiguous_body/ }, status: 400 }, event);
  t.same(seen, []);
  const all = await records();
  t.equal(all.length, 1 + events.length);
  for (const record of all.slice(1)) t.match(record, { decision: 'deny', reason_codes: ['ambiguous_body'] });
});

t.test('an error of the server ends the call that caused it', async (t) => {
  const { open, records } = await scene(t);
  const client = await open(RESPONSES);
  await client.say({ type: 'response.create', model: 'gpt-4o-mini', input: 'bad' }, 'error');
  await client.say({ type: 'response.create', model: 'gpt-4o-mini', input: 'good' }, 'response.completed');
  const session = await open(REALTIME);
  t.match(await session.say({ type: 'response.create', response: { conversation: 'bad' } }, 'error'), { error: { event_id: /^gw_/ } });
  await session.say({ type: 'response.create' }, 'response.done');
  t.match(await records(), [
    { record_tier: 'connection' },
    { stream_outcome: 'error', metering: { usage_reported: false } },
    { stream_outcome: 'complete' },
    { record_tier: 'connection' },
    { stream_outcome: 'error' },
    { stream_outcome: 'complete' },
  ]);
  t.equal((await records()).length, 6, 'each of them once');
});

t.test('a socket that dies leaves aborted records, whichever side it was', async (t) => {
  const { open, records, recorded, upstream } = await scene(t);
  const first = await open(RESPONSES);
  const told = closing(first.socket);
  first.socket.send(JSON.stringify({ type: 'response.create', model: 'gpt-4o-mini', input: 'die' }));
  t.match(await told, { code: 1006 });
  const second = await open(RESPONSES);
  const gone = closing(upstream.sockets[1] as WebSocket);
  await second.say({ type: 'response.create', model: 'gpt-4o-mini', input: 'hang' }, 'response.created');
  second.socket.terminate();
  await gone;
  while (recorded().length < 4) await new Promise((resolve) => setImmediate(resolve));
  t.match(
    (await records()).filter(({ record_tier }) => record_tier === 'action'),
    [
      { stream_outcome: 'aborted', error: { code: 'upstream_unreachable' } },
      { stream_outcome: 'aborted', error: { code: 'client_gone' } },
    ],
  );
});

t.test('pings and close codes pass, broken frames and large messages end the socket', async (t) => {
  const { open, upstream, gw } = await scene(t, { env: { GW_MAX_BODY_BYTES: '100000' } });
  const client = await open(RESPONSES);
  client.socket.ping('x');
  t.match(await once(client.socket, 'pong'), [Buffer.from('x')]);
  const server = upstream.sockets[0] as WebSocket;
  server.ping('y');
  t.match(await once(server, 'pong'), [Buffer.from('y')]);
  const seen = closing(server);
  client.socket.close(4001, 'bye');
  t.same(await seen, { code: 4001, reason: 'bye' });
  t.notMatch((await gw.admin('GET', '/metrics')).text, /^gw_websocket_messages_total\S* [1-9]/m, 'they are no messages');
  const large = await open(RESPONSES);
  const told = closing(large.socket);
  large.socket.send(JSON.stringify({ type: 'response.create', model: 'gpt-4o-mini', input: 'x'.repeat(200_000) }));
  t.match(await told, { code: 1009 });
});

t.test('messages in pieces are read whole, up to the limit of bodies', async (t) => {
  const { open, records } = await scene(t);
  const client = await open(RESPONSES);
  const text = JSON.stringify({ type: 'response.create', model: 'gpt-4o-mini', input: 'x'.repeat(3_000_000) });
  const done = client.until('response.completed');
  client.socket.send(text.slice(0, 10), { fin: false });
  client.socket.send(text.slice(10, 70_000), { fin: false });
  client.socket.send(text.slice(70_000), { fin: true });
  await done;
  t.match((await records())[1], { request_bytes: text.length });
});

t.test('a client that does not read holds the upstream back, and loses nothing', async (t) => {
  const { open, upstream } = await scene(t);
  const client = await open(RESPONSES);
  const other = await open(RESPONSES);
  client.socket.pause();
  const piece = JSON.stringify({ type: 'response.output_text.delta', delta: 'x'.repeat(64 * 1024) });
  const server = upstream.sockets[0] as WebSocket;
  for (let i = 0; i < 1000; i++) server.send(piece);
  for (let i = 0; i < 100; i++) await other.say({ type: 'response.create', model: 'gpt-4o-mini', input: 'x' }, 'response.completed');
  t.ok(server.bufferedAmount > 30_000_000, 'most of it waits at the upstream, while others are served');
  const told = closing(client.socket);
  client.socket.resume();
  server.close(1000);
  t.match(await told, { code: 1000 });
  t.equal(client.events.length, 1000);
});

t.test('redirect mode, and the key of a browser in the subprotocol', async (t) => {
  const { gw, upstream, records } = await scene(t);
  const path = `/proxy/openai${REALTIME}`;
  const protocols = ['realtime', 'openai-insecure-api-key.sk-browser'];
  const socket = webSocketOn(t, await connectPlain(gw.port), `127.0.0.1:${gw.port}`, path, { protocols });
  const client = talk(socket);
  await opened(socket);
  await client.say({ type: 'response.create' }, 'response.done');
  t.equal(upstream.handshakes[0]?.headers['sec-websocket-protocol'], 'realtime,openai-insecure-api-key.sk-browser');
  t.match((await records())[1], { connection_type: 'sdk_redirect', metering: { tokens_in: 100 } });
  t.notMatch(JSON.stringify(await records()), /sk-browser/);
  const own = webSocketOn(t, await connectPlain(gw.port), `127.0.0.1:${gw.port}`, path, { protocols: ['openai-insecure-api-key.gwt_abc'] });
  await once(own, 'close').catch(() => undefined);
  t.notOk(upstream.handshakes[1]?.headers['sec-websocket-protocol'], 'a token of the gateway never leaves');
});

t.test('a stop waits for the answer that is under way and then says that it goes away', async (t) => {
  const { gw, open, upstream } = await scene(t, { env: { GW_DRAIN_TIMEOUT: '30s' } });
  const client = await open(RESPONSES);
  await client.say({ type: 'response.create', model: 'gpt-4o-mini', input: 'hang' }, 'response.created');
  const stopped = gw.gateway.stop();
  const told = closing(client.socket);
  const done = client.until('response.completed');
  upstream.sockets[0]?.send(JSON.stringify({ type: 'response.completed', response: { id: 'resp_1', status: 'completed' } }));
  await done;
  t.match(await told, { code: 1001 });
  await stopped;
});
