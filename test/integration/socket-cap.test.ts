// GW_STREAM_STOP_AT_CAP on WebSockets: a response that would pass a cap is stopped where its server can be told to,
// else its socket ends with it.
import { once } from 'node:events';
import t from 'tap';
import type { WebSocket } from 'ws';
import { picoFromUsd } from '../../src/base/lib/money.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { type Json, REALTIME, RESPONSES, scene } from '../support/metered-sockets.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { closing } from '../support/websockets.ts';

/** Output of gpt-4o costs 15 USD per million tokens: 66 tokens, and a little input. */
const CAP = '0.001';
const ask = { type: 'response.create', model: 'gpt-4o-2024-05-13', input: 'x', max_output_tokens: 20 };

interface Endless {
  /** Events of clients. */
  readonly heard: Json[];
  /** What a cancelled response says that it used; undefined: it never ends. */
  usage: object | undefined;
  /** Set once its own socket is closed. */
  closed: boolean;
}

/** Says words until it is cancelled or left. */
function endless(): { state: Endless; onSocket: (socket: WebSocket) => void } {
  const state: Endless = { heard: [], usage: { input_tokens: 5, output_tokens: 77 }, closed: false };
  const onSocket = (socket: WebSocket): void => {
    const send = (event: object) => socket.send(JSON.stringify(event));
    let count = 0;
    const running = new Set<string>();
    const say = (id: string): void => {
      if (!running.has(id) || socket.readyState !== socket.OPEN) return;
      send({ type: 'response.output_text.delta', response_id: id, delta: ' word' });
      setImmediate(say, id);
    };
    send({ type: 'session.created', session: { type: 'realtime', model: 'gpt-4o-2024-05-13', max_output_tokens: 20 } });
    socket.on('close', () => {
      running.clear();
      state.closed = true;
    });
    socket.on('message', (data: Buffer) => {
      const event = JSON.parse(data.toString()) as Json;
      state.heard.push(event);
      if (event['type'] === 'response.create') {
        const id = `resp_${++count}`;
        running.add(id);
        send({ type: 'response.created', response: { id, status: 'in_progress' } });
        say(id);
      }
      if (event['type'] === 'response.cancel' && state.usage && running.delete(String(event['response_id']))) {
        // What was on its way reaches nobody.
        for (let at = 0; at < 50; at++) send({ type: 'response.output_text.delta', response_id: event['response_id'], delta: ' late' });
        send({ type: 'response.done', response: { id: event['response_id'], status: 'cancelled', usage: state.usage } });
      }
    });
  };
  return { state, onSocket };
}

async function capped(t: HasTeardown, more: Parameters<typeof scene>[1] = {}) {
  const { state, onSocket } = endless();
  const at = await scene(t, { ...more, env: { GW_STREAM_STOP_AT_CAP: 'true' } }, { onSocket });
  await at.gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: CAP, actions: ['cap'] });
  const limit = async () => ((await at.gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: Json[] }).limits[0];
  return { ...at, state, limit };
}

const STOPPED = {
  record_tier: 'action',
  decision: 'allow',
  reason: 'budget_exceeded',
  reason_codes: ['stream_stopped_at_cap', 'budget_limit_exceeded'],
  stream_outcome: 'aborted',
  budget: { kind: 'limit', scope: 'org', limit_usd: exactly('0.001') },
  error: { code: 'stream_stopped_at_cap', message: /0\.001 USD/ },
};

t.test('a realtime response is cancelled, and charged what its server says that it used', async (t) => {
  const { open, state, records, limit, gw } = await capped(t);
  const client = await open(REALTIME);
  const told = client.until('error');
  const done = await client.say({ type: 'response.create', event_id: 'mine' }, 'response.done');
  t.match(await told, {
    status: 403,
    error: { code: 'budget_exceeded', message: /budget limit of its org, 0\.001 USD/, event_id: 'mine' },
    reason_codes: ['stream_stopped_at_cap', 'budget_limit_exceeded'],
    budget: { kind: 'limit', period: 'monthly' },
  });
  t.match(done, { response: { status: 'cancelled' } });
  t.match(state.heard.at(-1), { type: 'response.cancel', response_id: 'resp_1' });
  const words = client.events.filter(({ type }) => String(type).endsWith('.delta')).length;
  t.ok(words > 40 && words < 80, `${words} words`);
  const record = (await records())[1];
  // 5 × 5 + 77 × 15 USD per million
  t.match(record, { ...STOPPED, metering: { tokens_in: 5, tokens_out: 77, usage_reported: true, cost_usd: exactly('0.00118') } });
  t.match(await told, { record_id: record?.['record_id'], record_hash: record?.['record_hash'] });
  t.match(await limit(), { spent_usd: exactly('0.00118'), reserved_usd: exactly('0') });
  t.match(
    await client.say({ type: 'response.create' }, 'error'),
    { decision: 'deny', error: { message: /budget_limit_exceeded/ } },
    'the socket goes on',
  );
  t.match(
    (await gw.admin('GET', '/metrics')).text,
    /gw_streams_stopped_at_cap_total\{org_id="default",reason_code="budget_limit_exceeded"\} 1/,
  );
});

t.test('a server that does not heed the cancel loses its socket, and is charged what was seen', async (t) => {
  const clock = fakeClock();
  const { open, state, records, limit } = await capped(t, { clock });
  state.usage = undefined;
  const client = await open(REALTIME);
  const closed = closing(client.socket);
  const told = client.say({ type: 'response.create' }, 'error');
  while (!state.heard.some(({ type }) => type === 'response.cancel')) await new Promise((resolve) => setImmediate(resolve));
  t.match(await limit(), { spent_usd: exactly('0'), reserved_usd: /^0\.00[01]/ }, 'the server has its time');
  clock.advance(2_000);
  t.match(await told, { error: { code: 'budget_exceeded' } });
  t.match(await closed, { code: 1008 });
  const record = (await records())[1] as { metering: { cost_usd: string } };
  t.match(record, { ...STOPPED, metering: { usage_reported: false } });
  t.ok(picoFromUsd(record.metering.cost_usd) > picoFromUsd(CAP));
  t.match(await limit(), { spent_usd: exactly(record.metering.cost_usd), reserved_usd: exactly('0') });
});

t.test('what the server says while a stopped response is stored is no other response', async (t) => {
  const clock = fakeClock();
  let held: (() => void)[] | undefined;
  const store = (opened: Store): Store =>
    new Proxy(opened, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== 'function') return member;
        if (name !== 'commit' || held === undefined) return member.bind(target);
        return (...given: unknown[]) =>
          new Promise<void>((resolve) => held?.push(resolve)).then(() => Reflect.apply(member, target, given) as unknown);
      },
    });
  const { open, state, upstream, records, limit } = await capped(t, { clock, store });
  state.usage = undefined;
  const client = await open(REALTIME);
  const closed = closing(client.socket);
  client.socket.send(JSON.stringify({ type: 'response.create' }));
  while (!state.heard.some(({ type }) => type === 'response.cancel')) await new Promise((resolve) => setImmediate(resolve));
  held = [];
  clock.advance(2_000);
  while (held.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const server = upstream.sockets[0] as WebSocket;
  const usage = { input_tokens: 5, output_tokens: 77 };
  server.send(JSON.stringify({ type: 'response.done', response: { id: 'resp_1', status: 'cancelled', usage } }));
  // Nothing is to come of it, so there is nothing to wait for; another call would want to store its intent.
  for (let turn = 0; turn < 500 && held.length === 1; turn++) await new Promise((resolve) => setImmediate(resolve));
  const waiting = held;
  held = undefined;
  for (const go of waiting) go();
  await closed;
  while (!state.closed) await new Promise((resolve) => setImmediate(resolve));
  const stored = (await records()) as readonly { record_id: string; metering?: { cost_usd: string } }[];
  t.equal(new Set(stored.map(({ record_id }) => record_id)).size, 2, 'the handshake and one response');
  t.match(await limit(), { spent_usd: stored[1]?.metering?.cost_usd, reserved_usd: exactly('0') });
});

t.test('a responses socket, which knows no cancel, ends with the response; the error comes first', async (t) => {
  const { open, upstream, records, limit } = await capped(t);
  const client = await open(RESPONSES);
  const heard = once(upstream.sockets[0] as WebSocket, 'close');
  const closed = closing(client.socket);
  t.match(await client.say(ask, 'error'), { status: 403, error: { code: 'budget_exceeded' }, record_id: /.+/ });
  t.match(await closed, { code: 1008, reason: /cap/ });
  await heard;
  const record = (await records())[1] as { metering: { cost_usd: string } };
  t.match(record, { ...STOPPED, metering: { usage_reported: false } });
  t.match(await limit(), { spent_usd: exactly(record.metering.cost_usd), reserved_usd: exactly('0') });
});

t.test('a socket that its client leaves pays for what was seen', async (t) => {
  const { open, records, recorded, limit, gw } = await capped(t);
  await gw.admin('DELETE', `/v1/admin/budgets/limits/${String((await limit())?.['limit_id'])}`);
  await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '1000', actions: ['cap'] });
  const client = await open(RESPONSES);
  await client.say(ask, 'response.output_text.delta');
  for (let at = 0; at < 9; at++) await client.until('response.output_text.delta');
  client.socket.terminate();
  while (recorded().length < 2) await new Promise((resolve) => setImmediate(resolve));
  const record = (await records())[1] as { metering: { cost_usd: string; tokens_out: number } };
  t.match(record, { stream_outcome: 'aborted', error: { code: 'client_gone' }, metering: { usage_reported: false } });
  t.ok(record.metering.tokens_out >= 10);
  t.match(await limit(), { spent_usd: exactly(record.metering.cost_usd), reserved_usd: exactly('0') });
});
