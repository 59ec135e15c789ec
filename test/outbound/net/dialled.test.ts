// Connections that belong to one tunnel: what silence means on them, and what becomes of them.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createSecureServer, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import t from 'tap';
import type { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { createUpstream } from '../../../src/outbound/net/create-upstream.ts';
import { DialledHttp2 } from '../../../src/outbound/net/dialled-http2.ts';
import type { UpstreamEvents } from '../../../src/outbound/net/upstream.ts';
import { runningClock } from '../../support/fake-clock.ts';
import { AGAIN, DEAR, END_HEADERS, END_STREAM, FRAME, FrameReader, frame } from '../../support/h2-frames.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';
import { certificateOf, closeServer, listenOnFreePort, startTlsUpstream, trackSockets } from '../../support/tls-upstream.ts';

/** More than the system takes for a connection. */
const WINDOW = 2 ** 28;
const AUTHORITY = { host: 'origin.example', port: 443 };

function upstreamTo(t: HasTeardown, port: number, caPem: string, headersTimeoutMs = 10_000) {
  const upstream = createUpstream({
    clock: runningClock,
    connectTo: [{ ...AUTHORITY, toHost: '127.0.0.1', toPort: port }],
    caFile: caPem,
    headersTimeoutMs,
    idleTimeoutMs: 200,
  });
  t.teardown(() => upstream.close());
  return upstream;
}

/** An h2 origin that says one thing, and the next when it is told to; at `mute` it says nothing. */
async function quietOrigin(t: HasTeardown, { mute }: { mute?: string } = {}) {
  const { caPem, certPem, keyPem } = certificateOf('good', [AUTHORITY.host]);
  const server = createSecureServer({ cert: certPem, key: keyPem, settings: { initialWindowSize: WINDOW } });
  const streams: ServerHttp2Stream[] = [];
  let pings = 0;
  let onPing: () => void = () => undefined;
  server.on('session', (session) => {
    session.on('error', () => undefined);
    session.setLocalWindowSize(WINDOW);
    session.on('ping', () => {
      pings++;
      onPing();
    });
  });
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    if (headers[':path'] === mute) return;
    stream.respond({ ':status': 200 });
    stream.write('first');
    streams.push(stream);
  });
  const sockets = trackSockets(server);
  t.teardown(() => closeServer(server, sockets));
  const port = await listenOnFreePort(server);
  const pinged = (times: number): Promise<void> =>
    new Promise((resolve) => {
      onPing = () => pings >= times && resolve();
    });
  return { port, caPem, streams, sockets, pinged };
}

interface Ended {
  readonly text: string;
  readonly error?: GatewayError;
}

function collect(): { readonly events: UpstreamEvents; readonly ended: Promise<Ended>; readonly first: Promise<void> } {
  let text = '';
  let end: (ended: Ended) => void = () => undefined;
  let begin: () => void = () => undefined;
  const first = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const ended = new Promise<Ended>((resolve) => {
    end = resolve;
  });
  const events: UpstreamEvents = {
    onHead: () => undefined,
    onData: (chunk) => {
      text += Buffer.from(chunk).toString();
      begin();
      return true;
    },
    onEnd: () => end({ text }),
    onError: (error) => end({ text, error }),
  };
  return { events, ended, first };
}

type WithHandle = Socket & { _handle?: { readStop(): void; readonly writeQueueSize: number } };

/** The sockets that this process makes from now on towards anybody. */
function ownSockets(t: HasTeardown): readonly WithHandle[] {
  const ours: WithHandle[] = [];
  const onSocket = (message: unknown): void => void ours.push((message as { socket: WithHandle }).socket);
  subscribe('net.client.socket', onSocket);
  t.teardown(() => unsubscribe('net.client.socket', onSocket));
  return ours;
}

const GET = { authority: AUTHORITY, tls: true, method: 'GET', path: '/', headers: [], body: undefined };

t.test('an h2 stream may be silent for longer than the limit while its connection answers', async (t) => {
  const origin = await quietOrigin(t);
  const upstream = upstreamTo(t, origin.port, origin.caPem);
  const on = await upstream.dial(AUTHORITY, ['h2', 'http/1.1']);
  t.equal(on.protocol, 'h2');
  const { events, ended } = collect();
  upstream.call({ ...GET, on }, events);
  await origin.pinged(3);
  origin.streams[0]?.end(' last');
  t.same(await ended, { text: 'first last' });
  on.close();
});

t.test('a connection that answers nothing any more is given up', async (t) => {
  const origin = await quietOrigin(t);
  const upstream = upstreamTo(t, origin.port, origin.caPem);
  const on = await upstream.dial(AUTHORITY, ['h2']);
  const { events, ended, first } = collect();
  upstream.call({ ...GET, on }, events);
  await first;
  for (const socket of origin.sockets) socket.pause();
  for (const socket of origin.sockets as Set<WithHandle>) socket._handle?.readStop();
  const gone = new Promise<void>((resolve) => on.onGone(resolve));
  t.match(await ended, { error: { code: 'upstream_timeout' } });
  await gone;
});

t.test(
  'a connection on which nothing comes any more is given up, whatever waits on it, not only the call that has waited too long',
  async (t) => {
    const origin = await quietOrigin(t);
    const upstream = upstreamTo(t, origin.port, origin.caPem, 100);
    const on = await upstream.dial(AUTHORITY, ['h2']);
    const waiting = collect();
    upstream.call({ ...GET, on }, { ...waiting.events, onData: (chunk) => waiting.events.onData(chunk) && false });
    await waiting.first;
    for (const socket of origin.sockets as Set<WithHandle>) socket._handle?.readStop();
    const gone = new Promise<void>((resolve) => on.onGone(resolve));
    const { events, ended } = collect();
    upstream.call({ ...GET, on }, events);
    t.match(await ended, { error: { code: 'upstream_timeout', message: /did not begin to answer/ } });
    t.match(await waiting.ended, { error: { code: 'upstream_timeout', message: /does not answer any more/ } });
    await gone;
  },
);

t.test('a call that waited too long for an answer ends alone while its connection answers', async (t) => {
  const origin = await quietOrigin(t, { mute: '/mute' });
  const upstream = upstreamTo(t, origin.port, origin.caPem, 100);
  const on = await upstream.dial(AUTHORITY, ['h2']);
  const { events, ended, first } = collect();
  upstream.call({ ...GET, on }, events);
  await first;
  const mute = collect();
  upstream.call({ ...GET, path: '/mute', on }, mute.events);
  t.match(await mute.ended, { error: { code: 'upstream_timeout' } });
  await origin.pinged(3);
  origin.streams[0]?.end(' last');
  t.same(await ended, { text: 'first last' });
  on.close();
});

t.test('a connection that breaks while nobody reads from it, as node:http2 does now and then, is noticed all the same', async (t) => {
  const origin = await quietOrigin(t);
  const upstream = upstreamTo(t, origin.port, origin.caPem);
  const ours = ownSockets(t);
  const on = await upstream.dial(AUTHORITY, ['h2']);
  const { events, ended, first } = collect();
  upstream.call({ ...GET, on }, events);
  await first;
  const raw = ours[0] as (typeof ours)[number];
  const closed = once(raw, 'close');
  raw._handle?.readStop();
  for (const socket of origin.sockets) socket.resetAndDestroy();
  t.match(await ended, { text: 'first', error: { code: 'upstream_unreachable', message: /broke the connection/ } });
  await closed;
  t.equal(raw.destroyed, true, 'and its descriptor is given back');
});

t.test('closing it gives its descriptor back where the origin reads nothing of what is still to be written', async (t) => {
  const origin = await quietOrigin(t);
  const upstream = upstreamTo(t, origin.port, origin.caPem);
  const ours = ownSockets(t);
  const on = await upstream.dial(AUTHORITY, ['h2']);
  const { events, first } = collect();
  upstream.call({ ...GET, method: 'POST', body: zeros(), on }, events);
  await first;
  for (const socket of origin.sockets as Set<WithHandle>) socket._handle?.readStop();
  const raw = ours[0] as WithHandle;
  while (raw._handle?.writeQueueSize === 0) await new Promise(setImmediate);
  on.close();
  if (!raw.closed) await once(raw, 'close');
  t.equal(raw.destroyed, true);
});

async function* zeros(): AsyncGenerator<Uint8Array> {
  for (;;) {
    await new Promise(setImmediate);
    yield Buffer.alloc(16_384);
  }
}

t.test('closing it lets go of the origin, whatever is under way', async (t) => {
  const origin = await quietOrigin(t);
  const upstream = upstreamTo(t, origin.port, origin.caPem);
  const on = await upstream.dial(AUTHORITY, ['h2']);
  const { events, first } = collect();
  upstream.call({ ...GET, on }, events);
  await first;
  const gone = once(origin.streams[0] as ServerHttp2Stream, 'close');
  on.close();
  await gone;
  const [socket] = origin.sockets;
  if (socket !== undefined && !socket.destroyed) await once(socket, 'close');
  t.equal(origin.sockets.size, 0);
});

t.test('an h2 connection that is closed as soon as it is there, because its client has left, ends nothing else', async (t) => {
  const origin = await quietOrigin(t);
  const upstream = upstreamTo(t, origin.port, origin.caPem);
  const on = await upstream.dial(AUTHORITY, ['h2']);
  if (!(on instanceof DialledHttp2)) throw new Error('no h2');
  const told = once(on.session, 'connect');
  on.close();
  t.equal(on.session.destroyed, true);
  await told;
  // What a listener throws comes after all of them.
  await new Promise((resolve) => setImmediate(resolve));
  t.pass('and nothing was thrown');
});

t.test('a call that is given up when its whole answer has come, unread, leaves no stream behind', async (t) => {
  const origin = await quietOrigin(t);
  const upstream = upstreamTo(t, origin.port, origin.caPem);
  const on = await upstream.dial(AUTHORITY, ['h2']);
  if (!(on instanceof DialledHttp2)) throw new Error('no h2');
  const { events, first } = collect();
  const handle = upstream.call({ ...GET, on }, { ...events, onData: (chunk) => events.onData(chunk) && false });
  await first;
  const [stream] = origin.streams;
  if (stream === undefined) throw new Error('no stream');
  stream.end(' last');
  await once(stream, 'close');
  // What came before the answer to a PING has been seen.
  await new Promise((resolve) => on.session.ping(resolve));
  handle.abort();
  await new Promise<void>((resolve) => on.session.close(resolve));
  t.equal(on.session.destroyed, true);
});

t.test('an http/1.1 connection that the origin closes before it is used is made anew', async (t) => {
  const origin = await startTlsUpstream({ hosts: [AUTHORITY.host], handler: (_request, response) => response.end('answer') });
  t.teardown(() => origin.close());
  const upstream = upstreamTo(t, origin.port, origin.caPem);
  const on = await upstream.dial(AUTHORITY, ['h2', 'http/1.1']);
  t.equal(on.protocol, 'http/1.1');
  origin.endConnections();
  while (origin.open > 0) await new Promise(setImmediate);
  const { events, ended } = collect();
  upstream.call({ ...GET, on }, events);
  t.same(await ended, { text: 'answer' });
  t.equal(origin.connections, 2);
  on.close();
});

/** The length of what an h2 client sends first (RFC 9113 §3.4). */
const PREFACE_BYTES = 24;
/** RFC 7541 appendix A: `:status: 200`. */
const OK = Buffer.from([0x88]);
const EARLY_HINTS = Buffer.concat([Buffer.from([0x08, 3]), Buffer.from('103')]);
const again = (times: number): Buffer => Buffer.alloc(times, AGAIN);

/** An h2 origin that never acknowledges SETTINGS, and answers each stream with `frames`. */
async function rudeOrigin(t: HasTeardown, frames: (stream: number) => readonly Buffer[]) {
  const { caPem, certPem, keyPem } = certificateOf('good', [AUTHORITY.host]);
  const server = createTlsServer({ cert: certPem, key: keyPem, ALPNProtocols: ['h2'] }, (socket: TLSSocket) => {
    const reader = new FrameReader();
    let skipped = 0;
    socket.on('error', () => undefined);
    socket.write(frame(FRAME.settings, 0, 0));
    socket.on('data', (chunk: Buffer) => {
      const preface = Math.min(chunk.length, PREFACE_BYTES - skipped);
      skipped += preface;
      for (const { type, stream } of reader.push(chunk.subarray(preface)))
        if (type === FRAME.headers) socket.write(Buffer.concat(frames(stream)));
    });
  });
  const sockets = trackSockets(server);
  t.teardown(() => closeServer(server, sockets));
  return { port: await listenOnFreePort(server), caPem };
}

for (const [what, answer] of Object.entries({
  'whose head is megabytes, decoded': (stream: number) => [
    frame(FRAME.headers, END_HEADERS | END_STREAM, stream, Buffer.concat([OK, DEAR, again(100)])),
  ],
  'whose interim answer is': (stream: number) => [
    frame(FRAME.headers, END_HEADERS, stream, Buffer.concat([EARLY_HINTS, DEAR, again(100)])),
    frame(FRAME.headers, END_HEADERS | END_STREAM, stream, OK),
  ],
  'whose trailers are': (stream: number) => [
    frame(FRAME.headers, END_HEADERS, stream, OK),
    frame(FRAME.data, 0, stream, Buffer.from('text')),
    frame(FRAME.headers, END_HEADERS | END_STREAM, stream, Buffer.concat([DEAR, again(100)])),
  ],
})) {
  t.test(`an answer ${what} fails, although the origin never acknowledges the limit`, async (t) => {
    const origin = await rudeOrigin(t, answer);
    const upstream = upstreamTo(t, origin.port, origin.caPem);
    const on = await upstream.dial(AUTHORITY, ['h2']);
    const { events, ended } = collect();
    const seen: string[] = [];
    const noted: UpstreamEvents = {
      ...events,
      onInfo: (_status, fields) => seen.push(...fields),
      onHead: (_status, fields) => seen.push(...fields),
      onEnd: (trailers) => {
        seen.push(...trailers);
        events.onEnd(trailers);
      },
    };
    upstream.call({ ...GET, on }, noted);
    t.match(await ended, { error: { code: 'upstream_protocol', message: 'origin.example:443 sent a head that is too large.' } });
    t.same(seen, [], 'nothing of it was handed on');
    on.close();
  });
}

t.test('an origin that pushes streams, although it was told not to, has them held by nobody', async (t) => {
  const promise = (stream: number): Buffer => {
    const promised = Buffer.alloc(4);
    promised.writeUInt32BE(stream);
    return Buffer.concat([promised, Buffer.from([0x82, 0x87, 0x84, 0x01, 1, 0x61])]);
  };
  const origin = await rudeOrigin(t, (stream) =>
    Array.from({ length: 100 }, (_, at) => 2 * at + 2).flatMap((pushed) => [
      frame(FRAME.pushPromise, END_HEADERS, stream, promise(pushed)),
      frame(FRAME.headers, END_HEADERS, pushed, OK),
      frame(FRAME.data, 0, pushed, Buffer.alloc(16_000)),
    ]),
  );
  const upstream = upstreamTo(t, origin.port, origin.caPem, 200);
  const on = await upstream.dial(AUTHORITY, ['h2']);
  if (!(on instanceof DialledHttp2)) throw new Error('no h2');
  let pushed = 0;
  on.session.on('stream', () => {
    pushed += 1;
  });
  const { events, ended } = collect();
  upstream.call({ ...GET, on }, events);
  t.type((await ended).error, Error);
  t.equal(pushed, 0);
  on.close();
});
