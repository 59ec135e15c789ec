// What either side of a metered WebSocket may do to the gateway: no event, and no flood of them, ends more than its own
// socket.
import { once } from 'node:events';
import type { Socket } from 'node:net';
import t from 'tap';
import type { WebSocket } from 'ws';
import { frameOf, OPCODE } from '../../src/base/lib/websocket-frames.ts';
import { exactly } from '../support/exactly.ts';
import { type Json, REALTIME, RESPONSES, type Scene, scene } from '../support/metered-sockets.ts';
import { closing } from '../support/websockets.ts';

/** The TCP or TLS connection of a socket of `ws`. */
function rawOf(socket: WebSocket): Socket {
  return Reflect.get(socket, '_socket') as Socket;
}

/** The newest. */
function upstreamSocket({ upstream }: Scene): WebSocket {
  const socket = upstream.sockets.at(-1);
  if (socket === undefined) throw new Error('no socket');
  return socket;
}

/** Resolves when there are as many records. */
async function recordsOf({ recorded, records }: Scene, count: number): Promise<readonly Json[]> {
  while (recorded().length < count) await new Promise((resolve) => setImmediate(resolve));
  return records();
}

const HANG = { type: 'response.create', model: 'gpt-4o-mini', input: 'hang' };
const DEEP = '['.repeat(30_000) + ']'.repeat(30_000);

t.test('an event of the server that nobody can read ends its socket, with a record of each call on it', async (t) => {
  const events = {
    'too deep': `{"type":"response.output_text.delta","response_id":"resp_1","delta":${DEEP}}`,
    'too many members': `{"type":"response.output_text.delta","delta":[${'{},'.repeat(100_001)}1]}`,
    'settings that are too deep': `{"type":"session.updated","session":{"tools":${DEEP}}}`,
    'settings that are too large': `{"type":"session.updated","session":{"instructions":"${'x'.repeat(1_100_000)}"}}`,
  };
  const place = await scene(t);
  for (const [name, event] of Object.entries(events)) {
    const settings = name.startsWith('settings');
    const client = await place.open(settings ? REALTIME : RESPONSES);
    if (!settings) await client.say(HANG, 'response.created');
    const before = place.recorded().length;
    const told = closing(client.socket);
    upstreamSocket(place).send(event);
    t.match(await told, { code: 1011 }, name);
    if (!settings) t.match((await recordsOf(place, before + 1)).at(-1), { decision: 'allow', error: { code: 'upstream_protocol' } }, name);
    t.match(await place.gw.admin('GET', '/healthz'), { status: 200 }, 'and nobody else');
  }
  const other = await place.open(RESPONSES);
  await other.say({ ...HANG, input: 'x' }, 'response.completed');
});

t.test('what is no event passes as it is, however it looks', async (t) => {
  const place = await scene(t);
  const client = await place.open(RESPONSES);
  client.socket.removeAllListeners('message');
  const sound = Buffer.concat([Buffer.from([7]), Buffer.from('[{,'.repeat(200_000))]);
  const got = once(client.socket, 'message');
  upstreamSocket(place).send(sound);
  t.match(await got, [sound]);
});

t.test('a message of the server in pieces of one byte is joined as it comes; one without an end of pieces ends the socket', async (t) => {
  const place = await scene(t);
  const client = await place.open(RESPONSES);
  const raw = rawOf(upstreamSocket(place));
  const text = JSON.stringify({ type: 'response.output_text.delta', delta: 'y'.repeat(20_000) });
  const pieces = [...text].map((byte, at) => Buffer.from([at === 0 ? 1 : at === text.length - 1 ? 0x80 : 0, 1, byte.charCodeAt(0)]));
  const got = client.until('response.output_text.delta');
  raw.write(Buffer.concat(pieces));
  t.equal((await got)['delta'], 'y'.repeat(20_000));
  const told = closing(client.socket);
  raw.write(Buffer.concat([Buffer.from([1, 0]), Buffer.alloc(2 * 70_000)]));
  t.match(await told, { code: 1008 });
});

t.test('a server that begins responses without an end, or the same one twice, ends its socket; nothing stays set aside', async (t) => {
  for (const name of ['without an end', 'one key twice']) {
    const place = await scene(t);
    await place.gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '900', actions: ['cap'] });
    const client = await place.open(RESPONSES);
    const told = closing(client.socket);
    const server = upstreamSocket(place);
    const begin = (response: Json, more: Json = {}): void => server.send(JSON.stringify({ type: 'response.created', response, ...more }));
    if (name === 'one key twice') {
      for (const id of ['first', 'second']) begin({ id });
      for (let at = 0; at < 2; at++) begin({}, { stream_id: 'lane' });
    } else for (let at = 0; at < 120; at++) begin({ id: `r${at}`, model: 'gpt-4o' });
    t.match(await told, { code: 1011 }, name);
    const count = name === 'without an end' ? 100 : 3;
    const records = await recordsOf(place, 1 + count);
    t.equal(records.length, 1 + count, 'a record of each that was begun');
    t.match(records[1], { error: { code: 'upstream_protocol' } });
    const limits = (await place.gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: object[] };
    t.match(limits.limits[0], { reserved_usd: exactly('0') });
  }
});

t.test('who reads nothing has no number of refusals written for him', async (t) => {
  const place = await scene(t);
  const client = await place.open(RESPONSES);
  const raw = rawOf(client.socket);
  raw.pause();
  const bad = Buffer.concat(frameOf(OPCODE.text, Buffer.from('{"type":7,"x":"'), true));
  let sent = 0;
  // As long as anything is taken: the kernel of a machine that has memory takes several megabytes on either side.
  while (raw.writableLength < 4_000_000 && sent < 2_000_000) {
    raw.write(Buffer.concat(Array.from({ length: 1_000 }, () => Buffer.from(bad))));
    sent += 1_000;
    if (raw.writableLength > 0) await new Promise((resolve) => setImmediate(resolve));
  }
  t.ok(raw.writableLength > 0, 'what was sent waits at the client');
  const before = place.recorded().length;
  t.ok(before < 20_000, `${before} refusals were made`);
  const other = await place.open(RESPONSES);
  await other.say({ ...HANG, input: 'x' }, 'response.completed');
});

t.test('pings without an end are held back by who does not read them', async (t) => {
  const place = await scene(t);
  const client = await place.open(RESPONSES);
  rawOf(client.socket).pause();
  const raw = rawOf(upstreamSocket(place));
  const pings = Buffer.from(Array.from({ length: 32_000 }, () => [0x89, 0]).flat());
  for (let at = 0; at < 250; at++) raw.write(pings);
  const other = await place.open(RESPONSES);
  for (let at = 0; at < 5; at++) await other.say({ ...HANG, input: 'x' }, 'response.completed');
  t.ok(raw.writableLength > 2_000_000, 'they wait at the upstream');
  const told = closing(client.socket);
  rawOf(client.socket).resume();
  client.socket.terminate();
  await told;
});
