// Quarantine through the doors: who is held, what he is told, what becomes of what he has running, and how he gets out
// again.
import { once } from 'node:events';
import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import { startTestGateway } from '../support/gateway.ts';
import { bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { REALTIME, scene } from '../support/metered-sockets.ts';
import { openaiStreamEvent } from '../support/openai-stream.ts';
import { overOf } from '../support/over-of.ts';
import { connectPlain, connectThrough, h2Request, h2Session, openTunnel, type RawResponse } from '../support/raw-clients.ts';
import { closing } from '../support/websockets.ts';

const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: lock
      when: {field: context.action.params.user, equals: bad}
      effect: {decision: quarantine, reason: odd behaviour, reason_codes: [odd]}
`);
const BAD = { ...CHAT, user: 'bad' };
const OPENAI = 'api.openai.com:443';
const INNER = '/v1/chat/completions';

const as = (caller: string, body: unknown = CHAT, path?: string) => chat(['X-GW-Caller-ID', caller], path, body);

async function entries({ gw }: Pick<Governed, 'gw'>, query = ''): Promise<readonly Record<string, unknown>[]> {
  return ((await gw.admin('GET', `/v1/admin/quarantine${query}`)).body as { items: Record<string, unknown>[] }).items;
}

/** Each door by which a caller can come, for a caller of this name. */
const DOORS: readonly (readonly [name: string, call: (governed: Governed, caller: string, body: object) => Promise<RawResponse>])[] = [
  ['redirect', ({ send }, caller, body) => send(as(caller, body))],
  ['tunnel', ({ through }, caller, body) => through(OPENAI, as(caller, body, INNER))],
  [
    'tunnel, h2',
    async ({ gw }, caller, body) => {
      const h2 = h2Session(await connectThrough(gw.port, OPENAI, gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
      const answer = await h2Request(h2, as(caller, body, INNER));
      h2.destroy();
      return answer;
    },
  ],
  ['absolute', ({ send }, caller, body) => send({ ...as(caller, body, `http://api.openai.com${INNER}`), host: 'api.openai.com' })],
];

// Holds: quarantine-holds-at-once
t.test('whom a rule puts into quarantine is refused on every door from then on, as the first time, until he is released', async (t) => {
  const governed = await startGoverned(t, { bundle: BUNDLE });
  const { gw, upstream, recordOf } = governed;
  for (const [name, call] of DOORS) {
    const caller = `by ${name}`;
    const first = await call(governed, caller, BAD);
    const second = await call(governed, caller, CHAT);
    for (const answer of [first, second]) {
      t.equal(answer.status, 403, name);
      t.match(
        JSON.parse(answer.body.toString()),
        { decision: 'quarantine', reason: 'odd behaviour', reason_codes: ['odd'], record_id: String },
        name,
      );
      t.notMatch(answer.body.toString(), 'quarantine_id');
      t.match(await recordOf(answer), { decision: 'quarantine', caller_id: caller, reason: 'odd behaviour' });
    }
    const [entry, ...more] = (await entries(governed)).filter(({ caller_id: whom }) => whom === caller);
    t.same(more, [], 'one entry');
    t.match(entry, {
      org_id: 'default',
      workload_id: 'default',
      caller_ip: '127.0.0.1',
      action_type: 'ai.infer',
      reason: 'odd behaviour',
      record_id: first.headers['x-gw-record-id'],
    });
    t.notOk((await gw.record(String(first.headers['x-gw-record-id'])))['quarantine_id']);
    for (const [other, elsewhere] of DOORS) t.equal((await elsewhere(governed, caller, CHAT)).status, 403, `${name}, then ${other}`);
    const id = String(entry?.['quarantine_id']);
    t.match(await gw.admin('POST', `/v1/admin/quarantine/${id}/release`, { released_by: 'olga' }), {
      status: 200,
      body: { released_by: 'olga', released_by_note: 'olga', released_by_principal: { kind: 'admin' }, released_at: String },
    });
    t.not((await call(governed, caller, CHAT)).status, 403, 'policy decides again');
    t.match(await gw.admin('POST', `/v1/admin/quarantine/${id}/release`), {
      status: 409,
      body: { error: { code: 'conflict', message: /olga/ } },
    });
  }
  t.equal(upstream.requests.length, 3, 'what was let through after release, but for the absolute form, which leads to port 80');
  t.match(await gw.admin('POST', '/v1/admin/quarantine/nobody/release'), { status: 404 });
  const metrics = (await gw.admin('GET', '/metrics')).text;
  t.match(metrics, /gw_quarantine_total\{org_id="default"\} 4/);
  t.match(metrics, /gw_quarantine_active 0/);
});

t.test(
  'on the structured API the body says what is specified, what to do next and no more, and no idempotency key gets round it',
  async (t) => {
    const governed = await startGoverned(t, { bundle: BUNDLE });
    const { gw, execute, upstream } = governed;
    const good = { caller_id: 'eve', idempotency_key: 'k' };
    t.equal((await execute(good)).status, 200);
    const first = await execute({ caller_id: 'eve' }, { params: BAD });
    const second = await execute(good);
    for (const { status, body } of [first, second]) {
      t.equal(status, 403);
      t.match(body, { decision: 'quarantine', reason: 'odd behaviour', record_id: String });
      t.same(Object.keys(body).sort(), ['decision', 'next', 'reason', 'record_hash', 'record_id']);
    }
    t.equal(upstream.requests.length, 1);
    const { status, body } = await gw.admin('GET', '/v1/admin/quarantine?limit=1');
    t.equal(status, 200);
    t.match(body, { items: [{ caller_id: 'eve', record_id: first.body['record_id'] }], next_page_token: null });
    t.match(await gw.admin('GET', '/v1/admin/quarantine?active=maybe&limit=0&x=1'), {
      status: 400,
      body: { error: { details: [{ path: 'x' }, { path: 'active' }, { path: 'limit' }] } },
    });
    t.same((await entries(governed, '?active=false')).length, 0);
    t.same((await entries(governed, '?org_id=other')).length, 0);
    t.match(await gw.admin('POST', `/v1/admin/quarantine/${String((await entries(governed))[0]?.['quarantine_id'])}/release`, {}), {
      status: 200,
      body: { released_by: 'admin' },
    });
    t.match((await gw.admin('GET', '/v1/admin/audit')).body, { items: [{ operation: 'quarantine.release' }] });
  },
);

t.test('calls of one caller at the same time make one entry, and it outlives the gateway', async (t) => {
  const governed = await startGoverned(t, { bundle: BUNDLE });
  const { gw, send } = governed;
  const answers = await Promise.all(Array.from({ length: 50 }, () => send(as('mallory', BAD))));
  t.ok(answers.every(({ status }) => status === 403));
  t.equal((await entries(governed)).length, 1);
  await gw.gateway.stop();
  const again = await startTestGateway(t, { bundle: BUNDLE, env: { GW_DATA_DIR: gw.dataDir } });
  t.match((await again.admin('GET', '/metrics')).text, /gw_quarantine_active 1/);
  const answer = await fetch(`${again.url}/proxy/openai/v1/chat/completions`, {
    method: 'POST',
    headers: { 'x-gw-caller-id': 'mallory', 'content-type': 'application/json' },
    body: JSON.stringify(CHAT),
  });
  t.match([answer.status, await answer.json()], [403, { decision: 'quarantine' }]);
});

t.test('a refusal of the final choice alone puts the caller aside as well', async (t) => {
  const bundle = bundleOf(`  connectors:
    - {id: any, effect: {decision: allow}}
  targets:
    - {id: no.mistral, when: {field: action.target_host, equals: api.mistral.ai}, effect: {decision: quarantine, reason: not there}}
  transforms:
    - {id: move, when: {field: context.action.params.user, equals: bad}, effect: {mutations: [{key: action.target_host, value: api.mistral.ai}]}}
`);
  const governed = await startGoverned(t, { bundle });
  t.match(await governed.execute({ caller_id: 'eve' }, { params: BAD }), { status: 403, body: { decision: 'quarantine' } });
  t.match(await entries(governed), [{ caller_id: 'eve', reason: 'not there' }]);
  t.match(await governed.execute({ caller_id: 'eve' }), { status: 403, body: { decision: 'quarantine', reason: 'not there' } });
});

t.test('a CONNECT that is not opened is refused as well', async (t) => {
  const bundle = bundleOf('  targets:\n    - {id: lock, effect: {decision: quarantine, reason: nowhere}}\n');
  const governed = await startGoverned(t, { bundle, env: { GW_PROXY_MITM_ENABLED: 'false' } });
  const connect = () =>
    openTunnel(governed.gw.port, OPENAI).then(
      (socket) => socket.destroy(),
      (refused: unknown) => refused,
    );
  t.match(await connect(), { status: 403 });
  t.match(await connect(), { status: 403, body: /nowhere/ });
  t.equal((await entries(governed)).length, 1);
});

/** A gateway before a provider whose streams begin and never end. */
async function endless(t: Test, running: string) {
  return startGoverned(t, {
    bundle: BUNDLE,
    env: { GW_QUARANTINE_RUNNING: running, GW_DRAIN_TIMEOUT: '0s' },
    handler: (_request, response, body) =>
      void body.then(() => response.writeHead(200, { 'content-type': 'text/event-stream' }).write(openaiStreamEvent(0))),
  });
}

async function beginStream(client: Socket, caller: string): Promise<{ readonly text: () => string; readonly recordId: () => string }> {
  let text = '';
  client.on('error', () => undefined);
  client.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  const body = JSON.stringify({ ...CHAT, stream: true });
  client.write(
    `POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-GW-Caller-ID: ${caller}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  while (!text.includes('"w0 "')) await once(client, 'data');
  return { text: () => text, recordId: () => /x-gw-record-id: (\S+)/i.exec(text)?.[1] ?? '' };
}

t.test('streams of the caller are ended where the setting says so, and their records tell why; others go on', async (t) => {
  const governed = await endless(t, 'end');
  const { gw, send } = governed;
  const theirs = await connectPlain(gw.port);
  const others = await connectPlain(gw.port);
  t.teardown(() => others.destroy());
  const over = overOf(theirs);
  const { text, recordId } = await beginStream(theirs, 'eve');
  await beginStream(others, 'bob');
  await send(as('eve', BAD));
  await over;
  t.notMatch(text(), /\r\n0\r\n\r\n$/, 'nobody takes it for complete');
  t.match(await gw.record(recordId()), {
    caller_id: 'eve',
    decision: 'allow',
    stream_outcome: 'aborted',
    reason_codes: ['quarantined_while_running'],
    error: { code: 'quarantined_while_running' },
  });
  t.equal(others.destroyed, false);
});

t.test('without it what runs goes on', async (t) => {
  const governed = await endless(t, 'leave');
  const { gw, send } = governed;
  const theirs = await connectPlain(gw.port);
  t.teardown(() => theirs.destroy());
  const { recordId } = await beginStream(theirs, 'eve');
  await send(as('eve', BAD));
  t.equal((await gw.admin('GET', `/v1/records/${recordId()}`)).status, 404, 'it has not ended');
  t.equal(theirs.destroyed, false);
});

t.test('calls on a WebSocket are refused too, and the socket is ended where the setting says so', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - {id: lock, when: {field: context.action.params.instructions, equals: bad}, effect: {decision: quarantine, reason: odd}}
`);
  const create = { type: 'response.create', response: {} };
  const bad = { type: 'response.create', response: { instructions: 'bad' } };
  const left = await scene(t, { bundle });
  const talk = await left.open(REALTIME);
  t.match(await talk.say(bad, 'error'), { error: { message: /odd/ } });
  t.match(await talk.say(create, 'error'), { error: { message: /odd/ } }, 'the next one, which policy would allow');
  const ended = await scene(t, { bundle, env: { GW_QUARANTINE_RUNNING: 'end' } });
  const ending = await ended.open(REALTIME);
  const closed = closing(ending.socket);
  ending.socket.send(JSON.stringify(bad));
  t.match(await closed, { code: 1008, reason: /quarantine/ });
});
