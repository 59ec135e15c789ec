// Stops through the doors of real gateways: new calls are refused, what is under way ends with its reason, and both
// hold over a start and at another node.
import { once } from 'node:events';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { until } from '../contract/store-under-test.ts';
import { PostgresServer } from '../storage/postgres/server.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { REALTIME, RESPONSES, scene as socketScene } from '../support/metered-sockets.ts';
import { scene as passingScene } from '../support/non-ai.ts';
import { openaiStreamEvent } from '../support/openai-stream.ts';
import { overOf } from '../support/over-of.ts';
import { skipWithout } from '../support/peers.ts';
import { connectPlain, connectThrough, h1Request, h2Request, h2Session, openTunnel, type RawResponse } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';
import { closing } from '../support/websockets.ts';

const OPENAI = 'api.openai.com:443';
const INNER = '/v1/chat/completions';
const LEAK = 'a key has leaked';

type Json = Record<string, unknown>;

async function stop(gw: TestGateway, scope: object, more: object = {}): Promise<Json> {
  const answer = await gw.admin('POST', '/v1/admin/stop', { scope, reason: LEAK, confirm: 'stop', ...more });
  if (answer.status !== 201) throw new Error(`stop: ${answer.status} ${answer.text}`);
  return answer.body as Json;
}

const resume = (gw: TestGateway, which: object) => gw.admin('POST', '/v1/admin/resume', which);
const refusedTunnel = (gw: TestGateway) => openTunnel(gw.port, OPENAI).catch((reason: unknown) => reason);
const bodyOf = (answer: RawResponse): Json => JSON.parse(answer.body.toString()) as Json;

const DOORS: readonly (readonly [name: string, call: (governed: Governed) => Promise<RawResponse>])[] = [
  ['redirect', ({ send }) => send(chat())],
  ['tunnel', ({ through }) => through(OPENAI, chat([], INNER))],
  [
    'tunnel, h2',
    async ({ gw }) => {
      const h2 = h2Session(await connectThrough(gw.port, OPENAI, gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
      const answer = await h2Request(h2, chat([], INNER));
      h2.destroy();
      return answer;
    },
  ],
];

// Holds: stops-hold-at-once
t.test('on every door new calls that a stop holds are refused with its reason, on record, until it is ended', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  const { gw, execute, upstream, recordOf } = governed;
  for (const scope of [{}, { org: 'default' }, { workload: 'default' }, { provider: 'OpenAI' }, { model: 'openai/gpt-4o-mini' }]) {
    const made = await stop(gw, scope);
    for (const [name, call] of DOORS) {
      const answer = await call(governed);
      t.match(
        [answer.status, bodyOf(answer)],
        [403, { decision: 'deny', reason_codes: ['stopped'], reason: `Calls are stopped: ${LEAK}` }],
        name,
      );
      t.match(await recordOf(answer), { decision: 'deny', reason_codes: ['stopped'], error: { code: 'stopped' } });
    }
    t.match(await execute(), { status: 403, body: { reason_codes: ['stopped'], error: { code: 'stopped' } } });
    t.match((await gw.admin('GET', '/healthz')).body, { warnings: [{ code: 'calls_stopped' }] });
    t.match((await gw.admin('GET', '/metrics')).text, /\ngw_stops_active 1\n/);
    t.match(await resume(gw, { stop_id: made['stop_id'] }), { status: 200, body: { resumed: [{ reason: LEAK }] } });
  }
  t.equal(upstream.requests.length, 0, 'nothing was sent');
  t.match((await gw.admin('GET', '/metrics')).text, /gw_policy_deny_total\{org_id="default",reason_code="stopped"\} 20/);
  await stop(gw, { org: 'other' });
  await stop(gw, { model: 'gpt-4o' });
  await stop(gw, { workload: 'default', provider: 'mistral' });
  for (const [name, call] of DOORS) t.equal((await call(governed)).status, 200, name);
});

t.test('what is asked wrongly is refused, several stand at once, and the audit trail tells of each', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL });
  const bad = async (body: object, path: string) =>
    t.match(await gw.admin('POST', '/v1/admin/stop', body), { status: 400, body: { error: { details: [{ path }] } } }, path);
  const good = { scope: {}, reason: LEAK, confirm: 'stop' };
  await bad({ ...good, confirm: 'yes' }, 'confirm');
  await bad({ ...good, confirm: undefined }, 'confirm');
  await bad({ ...good, scope: undefined }, 'scope');
  await bad({ ...good, scope: { provider: 'nobody' } }, 'scope.provider');
  await bad({ ...good, scope: { team: 'red' } }, 'scope.team');
  await bad({ ...good, reason: '' }, 'reason');
  await bad({ ...good, until: '2001-01-01T00:00:00Z' }, 'until');
  const first = await stop(gw, { provider: 'openai' }, { until: '2099-01-01T00:00:00Z' });
  await stop(gw, { provider: 'openai' });
  t.match((await gw.admin('GET', '/v1/admin/stops')).body, {
    stops: [{ scope: { provider: 'openai' } }, { until: '2099-01-01T00:00:00Z' }],
  });
  t.match(await resume(gw, {}), { status: 400 });
  t.match(await resume(gw, { stop_id: first['stop_id'], scope: {} }), { status: 400 });
  t.match(await resume(gw, { scope: {} }), { status: 404 });
  t.equal(((await resume(gw, { scope: { provider: 'openai' } })).body as { resumed: Json[] }).resumed.length, 2);
  t.match(await resume(gw, { stop_id: first['stop_id'] }), { status: 404, body: { error: { code: 'not_found' } } });
  const { items } = (await gw.admin('GET', '/v1/admin/audit')).body as { items: Json[] };
  t.same(
    items.map(({ operation }) => operation).filter((one) => one === 'stop' || one === 'resume'),
    ['resume', 'resume', 'stop', 'stop'],
  );
});

t.test('a management key stops what is of its org, and ends what keys of its org have stopped', async (t) => {
  const { gw, send } = await startGoverned(t, { bundle: ALLOW_ALL });
  const made = await gw.admin('POST', '/v1/admin/mgmt-keys', {
    org_id: 'default',
    name: 'ops',
    kind: 'management',
    scopes: ['read', 'write'],
  });
  const key = String((made.body as Json)['key']);
  const ask = async (method: string, path: string, body?: object) => {
    const answer = await fetch(`${gw.url}/mgmt/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as Json };
  };
  t.match(await ask('POST', '/stop', { scope: { org: 'other' }, reason: LEAK, confirm: 'stop' }), { status: 400 });
  const theirs = await stop(gw, { org: 'default', model: 'gpt-4' });
  await stop(gw, { org: 'other' });
  const own = await ask('POST', '/stop', { scope: { provider: 'openai' }, reason: LEAK, confirm: 'stop' });
  t.match(own, {
    status: 201,
    body: { org_id: 'default', scope: { org: 'default', provider: 'openai' }, by_org: true, created_by: 'ops' },
  });
  t.equal((await send(chat())).status, 403);
  t.match(await ask('GET', '/stops'), { status: 200, body: { data: [{ by_org: true }, { stop_id: theirs['stop_id'] }], has_more: false } });
  t.match(await ask('POST', '/resume', { stop_id: theirs['stop_id'] }), { status: 403, body: { error: { code: 'forbidden' } } });
  t.match(await ask('POST', '/resume', { scope: { provider: 'openai' } }), { status: 200 });
  t.equal((await send(chat())).status, 200);
});

t.test('an earlier answer is not given again while its calls are stopped, and is afterwards', async (t) => {
  const { gw, execute, upstream } = await startGoverned(t, { bundle: ALLOW_ALL });
  const keyed = { idempotency_key: 'k' };
  t.equal((await execute(keyed)).status, 200);
  for (const scope of [{}, { provider: 'openai' }, { model: 'gpt-4o-mini' }]) {
    await stop(gw, scope);
    t.match(await execute(keyed), { status: 403, body: { reason_codes: ['stopped'] } }, JSON.stringify(scope));
    await resume(gw, { scope });
  }
  const again = await execute(keyed);
  t.same([again.status, again.headers.get('idempotent-replayed')], [200, 'true']);
  t.equal(upstream.requests.length, 1);
});

t.test('a call that policy leads away from a stopped model goes on, and one that it leads there does not', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: small, effect: {decision: downgrade, mutations: [{key: action.params.model, value: gpt-4o-mini}]}}
`);
  const { gw, send } = await startGoverned(t, { bundle });
  await stop(gw, { model: 'gpt-4o' });
  const asked = chat([], undefined, { ...CHAT, model: 'gpt-4o' });
  t.equal((await send(asked)).status, 200);
  await stop(gw, { model: 'gpt-4o-mini' });
  t.equal((await send(asked)).status, 403);
});

/** A gateway before a provider whose streams begin and never end, and whose other answers never come. */
function endless(t: Test) {
  return startGoverned(t, {
    bundle: ALLOW_ALL,
    env: { GW_DRAIN_TIMEOUT: '0s' },
    handler: (_request, response, body) =>
      void body.then((bytes) => {
        if (bytes.includes('"stream":true')) response.writeHead(200, { 'content-type': 'text/event-stream' }).write(openaiStreamEvent(0));
      }),
  });
}

async function beginStream(t: Test, { gw }: Governed, path = '/proxy/openai/v1/chat/completions', envelope?: object) {
  const client = await connectPlain(gw.port);
  t.teardown(() => client.destroy());
  let text = '';
  client.on('error', () => undefined);
  client.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  const over = overOf(client);
  const body = JSON.stringify(envelope ?? { ...CHAT, stream: true });
  client.write(
    `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer sk-client\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  while (!text.includes('"w0 "')) await once(client, 'data');
  return { over, text: () => text, recordId: () => /x-gw-record-id: (\S+)/i.exec(text)?.[1] ?? '' };
}

// Holds: stops-hold-at-once
t.test('a stream under way ends with an event that says why, and a call that waits for its answer with 403', async (t) => {
  const governed = await endless(t);
  const { gw, send, upstream } = governed;
  const stream = await beginStream(t, governed);
  const envelope = {
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: 'default',
    credential_hint: 'sk-caller',
    action: { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: { ...CHAT, stream: true } },
  };
  const direct = await beginStream(t, governed, '/v1/actions:execute', envelope);
  const waiting = send(chat());
  await until(() => Promise.resolve(upstream.requests.length === 3));
  await stop(gw, { model: 'gpt-4o-mini' });
  for (const { over, text, recordId } of [stream, direct]) {
    await over;
    t.match(text(), /data: \{.*"message":".*This call was stopped while it was under way: a key has leaked".*\}\n\n/);
    t.match(text(), /\r\n0\r\n\r\n$/, 'in order');
    t.match(await gw.record(recordId()), {
      decision: 'allow',
      stream_outcome: 'aborted',
      reason_codes: ['stopped'],
      error: { code: 'stopped' },
    });
  }
  const answer = await waiting;
  t.match([answer.status, bodyOf(answer)], [403, { decision: 'error', reason_codes: ['stopped'], reason: /a key has leaked/ }]);
});

t.test('over h2 a stream ends with the event too; calls of other models go on', async (t) => {
  const governed = await endless(t);
  const { gw } = governed;
  const h2 = h2Session(await connectThrough(gw.port, OPENAI, gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
  t.teardown(() => h2.destroy());
  const request = h2.request({ ':method': 'POST', ':path': INNER, authorization: 'Bearer sk', 'content-type': 'application/json' });
  let text = '';
  request.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  request.end(JSON.stringify({ ...CHAT, stream: true }));
  while (!text.includes('"w0 "')) await once(request, 'data');
  const stays = await beginStream(t, governed, undefined, { ...CHAT, model: 'gpt-4', stream: true });
  const end = once(request, 'end');
  await stop(gw, { model: 'gpt-4o-mini' });
  await end;
  t.match(text, /a key has leaked/);
  t.equal((await gw.admin('GET', `/v1/records/${stays.recordId()}`)).status, 404, 'it has not ended');
});

t.test('a WebSocket is closed with the reason, and no new one is opened', async (t) => {
  const { gw, open } = await socketScene(t);
  for (const [path, scope] of [
    [REALTIME, { provider: 'openai' }],
    [REALTIME, { model: 'gpt-4o-mini' }],
    [RESPONSES, { org: 'default' }],
  ] as const) {
    const talk = await open(path);
    const closed = closing(talk.socket);
    await stop(gw, scope);
    t.match(await closed, { code: 1008, reason: /a key has leaked/ }, JSON.stringify(scope));
    await t.rejects(open(path), /403/);
    await resume(gw, { scope });
  }
});

t.test('on a WebSocket whose calls name their models, the call of a stopped one is refused, and one under way ends it', async (t) => {
  const { gw, open, recorded } = await socketScene(t, {}, { onSocket: () => undefined });
  const talk = await open(RESPONSES);
  const create = (model: string) => ({ type: 'response.create', model, input: 'hi' });
  await stop(gw, { model: 'gpt-4' });
  t.match(await talk.say(create('gpt-4'), 'error'), { error: { message: /a key has leaked/ } });
  talk.socket.send(JSON.stringify(create('gpt-4o')));
  await resume(gw, { scope: { model: 'gpt-4' } });
  const closed = closing(talk.socket);
  await stop(gw, { model: 'gpt-4o' });
  t.match(await closed, { code: 1008, reason: /a key has leaked/ });
  await until(() => Promise.resolve(recorded().length >= 3));
  t.match(await gw.record(recorded().at(-1) ?? ''), { reason_codes: ['stopped'], stream_outcome: 'aborted' });
});

t.test('a tunnel that nobody looks into ends with its provider, its org or all calls; no other one does', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_PROXY_BYPASS: 'api.openai.com,www.example.com' } });
  const { gw, upstream } = governed;
  const begin = async (host: string) => {
    const socket = await connectThrough(gw.port, `${host}:443`, upstream.caPem);
    socket.on('error', () => undefined);
    t.teardown(() => socket.destroy());
    t.equal((await h1Request(socket, host)).status, 200);
    return socket;
  };
  for (const scope of [{ provider: 'openai' }, { org: 'default' }, {}]) {
    const socket = await begin('api.openai.com');
    const over = overOf(socket);
    const other = await begin('www.example.com');
    await stop(gw, scope);
    await over;
    if ('provider' in scope) t.equal(other.destroyed, false, 'another host');
    t.match(await refusedTunnel(gw), { status: 403, body: /a key has leaked/ });
    await resume(gw, { scope });
    other.destroy();
  }
});

t.test('a tunnel that policy decides by its host is refused and ended as well', async (t) => {
  const { gw, upstream } = await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_PROXY_MITM_ENABLED: 'false' } });
  const socket = await connectThrough(gw.port, OPENAI, upstream.caPem);
  socket.on('error', () => undefined);
  const over = overOf(socket);
  await stop(gw, { provider: 'openai' });
  await over;
  t.match(await refusedTunnel(gw), { status: 403, body: /a key has leaked/ });
});

t.test('what passes undecided inside an inspected tunnel is refused while all calls, or those of its org, are stopped', async (t) => {
  const { gw, upstream, recorded } = await passingScene(t, { GW_PROXY_NON_AI: 'inspect' });
  const inside = await connectThrough(gw.port, 'www.example.com:443', gw.caPem);
  t.teardown(() => inside.destroy());
  await stop(gw, { provider: 'openai' });
  t.equal((await h1Request(inside, 'www.example.com')).status, 200);
  await stop(gw, { org: 'default' });
  t.equal((await h1Request(inside, 'www.example.com')).status, 403);
  t.equal(upstream.requests.length, 1);
  t.match(await gw.record(recorded()[0] ?? ''), { reason_codes: ['stopped'] });
});

t.test('a stop holds over a start', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL });
  await stop(gw, {});
  await gw.gateway.stop();
  const again = await startTestGateway(t, { bundle: ALLOW_ALL, env: { GW_DATA_DIR: gw.dataDir } });
  const ask = () =>
    fetch(`${again.url}/proxy/openai/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(CHAT),
    });
  t.match(await (await ask()).json(), { reason_codes: ['stopped'] });
  t.match(await resume(again, { scope: {} }), { status: 200 });
  t.notMatch(await (await ask()).json(), { reason_codes: ['stopped'] });
});

await t.test('at two nodes of one database', { skip: skipWithout(['postgresql']), timeout: 300_000 }, async (t) => {
  const server = await PostgresServer.start(t);
  const url = server.url(await server.createDatabase());
  const common = {
    GW_DATABASE_URL: url,
    GW_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64'),
    GW_CA_DIR: join(tempDir(t), 'ca'),
    GW_DRAIN_TIMEOUT: '0s',
  };
  const node = (name: string) =>
    startGoverned(t, {
      bundle: ALLOW_ALL,
      env: { ...common, GW_NODE_ID: name },
      handler: (_request, response, body) =>
        void body.then(() => response.writeHead(200, { 'content-type': 'text/event-stream' }).write(openaiStreamEvent(0))),
    });
  const [a, b] = [await node('node-a'), await node('node-b')];
  const stream = await beginStream(t, b);
  const begun = performance.now();
  await stop(a.gw, { provider: 'openai' });
  await stream.over;
  t.ok(performance.now() - begun < 1_000, 'within a second');
  t.match(stream.text(), /a key has leaked/);
  t.equal((await b.send(chat())).status, 403);
  await resume(b.gw, { scope: { provider: 'openai' } });
  await until(async () => ((await a.gw.admin('GET', '/v1/admin/stops')).body as { stops: Json[] }).stops.length === 0);
  t.pass();
});
