// What a hostile client can do with the frames of one h2 connection: each way has a bound, and others are served
// meanwhile.
import { once } from 'node:events';
import { constants } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import t from 'tap';
import type { Arrival } from '../../../src/base/model/arrival.ts';
import { CONNECTION_BOUNDS } from '../../../src/base/model/traffic-bounds.ts';
import { DEFAULT_LIMITS } from '../../../src/inbound/listener/limits.ts';
import type { ListenerOptions } from '../../../src/inbound/listener/listener.ts';
import { eventually } from '../../support/child.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { AGAIN, DEAR, DEAR_BYTES, END_HEADERS, END_STREAM, FRAME, type Frame, FrameReader, frame } from '../../support/h2-frames.ts';
import { type Harness, type HasTeardown, h2Client, h2Request, openTunnel, startListener, tlsInside } from './harness.ts';

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const CANCEL = Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL]);
/** Static table (RFC 7541 appendix A): GET, https, `/`, and the authority as a literal that is not indexed. */
const GET = Buffer.concat([Buffer.from([0x82, 0x87, 0x84, 0x01, 14]), Buffer.from('api.openai.com')]);
const POST = Buffer.concat([Buffer.from([0x83]), GET.subarray(1)]);

interface Asserts extends HasTeardown {
  equal(found: unknown, wanted: unknown, text: string): void;
}

/** From one look of a test to the next two turns may begin calls. */
const MOST_AT_ONCE = 2 * CONNECTION_BOUNDS.begins.one;

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** SETTINGS with INITIAL_WINDOW_SIZE. */
const windowOf = (bytes: number): Buffer => {
  const payload = Buffer.alloc(6);
  payload.writeUInt16BE(4, 0);
  payload.writeUInt32BE(bytes, 2);
  return payload;
};

/** An h2 connection whose frames are written by hand. `reads` false: nothing is taken from it. */
async function rawH2(t: HasTeardown, harness: Harness, settings: Uint8Array = new Uint8Array(0), reads = true): Promise<TLSSocket> {
  const socket = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), { ALPNProtocols: ['h2'] });
  socket.write(Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0, settings)]));
  if (reads) socket.resume();
  return socket;
}

/**
 * Writes `make(0)`, `make(1)`, … as fast as they are taken, and waits until the other side closes; with `limit` it
 * stops after so many, or when it was closed before. Resolves with how many were written.
 */
function flood(socket: TLSSocket, make: (at: number) => Uint8Array, limit = Number.POSITIVE_INFINITY): Promise<number> {
  return new Promise((resolve) => {
    let count = 0;
    const over = (): void => resolve(count);
    socket.once('close', over);
    const step = (): void => {
      for (let burst = 0; burst < 100; burst += 1) {
        if (count === limit) over();
        // One that is closing tells by `close`.
        if (count === limit || !socket.writable) return;
        count += 1;
        if (!socket.write(make(count - 1))) {
          socket.once('drain', step);
          return;
        }
      }
      setImmediate(step);
    };
    step();
  });
}

/** While `attack` is under way others get their answers. */
async function othersAreServed(
  t: HasTeardown & { equal(a: unknown, b: unknown, text: string): void },
  harness: Harness,
  attack: Promise<unknown>,
) {
  let under = true;
  void attack.finally(() => {
    under = false;
  });
  const session = await h2Client(t, harness);
  let served = 0;
  do {
    const { headers } = await h2Request(session, { ':path': '/other' });
    if (Number(headers[':status']) !== 200) break;
    served += 1;
  } while (under);
  t.equal(served > 0 && !under, true, 'others are served meanwhile');
}

/** All clients are idle: their connections are closed when the clock says so, whether they listen or not. */
async function closedInTime(t: Asserts, { listener }: Harness, clock: FakeClock): Promise<void> {
  for (let seconds = 0; seconds < 80; seconds += 1) {
    clock.advance(1_000);
    await turn();
  }
  for (const end = performance.now() + 60_000; listener.openConnections > 0 && performance.now() < end; ) await turn();
  t.equal(listener.openConnections, 0, 'closed');
}

const answer: ListenerOptions['onArrival'] = ({ reply }) => reply.sendWhole(200, [], Buffer.from('ok'));

t.test(
  'of streams that are opened and reset at once only some hundreds are heard, and their connection is closed when its time is over',
  async (t) => {
    const clock = fakeClock();
    const mine: Arrival[] = [];
    const harness = await startListener(t, {
      clock,
      onArrival: (arrival) => {
        if (arrival.head.rawTarget === '/other') answer(arrival);
        else mine.push(arrival);
      },
    });
    const socket = await rawH2(t, harness);
    const make = (at: number): Buffer => {
      const stream = 2 * at + 1;
      return Buffer.concat([frame(FRAME.headers, END_HEADERS | END_STREAM, stream, GET), frame(FRAME.rstStream, 0, stream, CANCEL)]);
    };
    const attack = flood(socket, make, 20_000);
    await othersAreServed(t, harness, attack);
    await attack;
    t.ok(mine.length < 3_000, `${mine.length} requests were heard`);
    t.ok(
      mine.every(({ reply }) => reply.gone),
      'all of them are known to be gone',
    );
    await closedInTime(t, harness, clock);
  },
);

t.test('more streams than are allowed at once are refused, and a client that goes on is cut', async (t) => {
  const harness = await startListener(t, { onArrival: () => undefined });
  const socket = await rawH2(t, harness);
  await flood(socket, (at) => frame(FRAME.headers, END_HEADERS | END_STREAM, 2 * at + 1, GET));
  t.equal(harness.arrivals.length, 128);
});

for (const [name, size] of [
  ['large', 16_000],
  ['small', 1],
  ['empty', 0],
] as const) {
  t.test(`a head that never ends, in ${name} CONTINUATION frames, ends its connection`, async (t) => {
    const harness = await startListener(t, { onArrival: answer });
    const socket = await rawH2(t, harness);
    socket.write(frame(FRAME.headers, END_STREAM, 1, GET));
    // A literal field whose value would go on for ever: `x-…`, never indexed.
    const piece = frame(FRAME.continuation, 0, 1, Buffer.alloc(size, 0x84));
    await othersAreServed(
      t,
      harness,
      flood(socket, () => piece),
    );
    t.equal(harness.arrivals.filter(({ head }) => head.rawTarget !== '/other').length, 0);
  });
}

t.test('a body of empty DATA frames ends its connection', async (t) => {
  const harness = await startListener(t);
  const socket = await rawH2(t, harness);
  socket.write(frame(FRAME.headers, END_HEADERS, 1, POST));
  await flood(socket, () => frame(FRAME.data, 0, 1));
  t.pass('closed');
});

for (const [name, piece] of [
  ['SETTINGS', frame(FRAME.settings, 0, 0, windowOf(65_535))],
  ['PING', frame(FRAME.ping, 0, 0, Buffer.alloc(8))],
] as const) {
  t.test(`a client that floods with ${name} and reads no answer is held back, and closed when its time is over`, async (t) => {
    const clock = fakeClock();
    const harness = await startListener(t, { clock, onArrival: answer });
    const socket = await rawH2(t, harness, undefined, false);
    let written = 0;
    let stopped = false;
    const block = Buffer.concat(Array.from({ length: 1_000 }, () => piece));
    // What is not taken any more is held back by the sender's own buffers.
    while (!stopped && !socket.destroyed && written < 200_000_000) {
      written += block.length;
      if (!socket.write(block)) {
        const drained = once(socket, 'drain').then(() => true);
        stopped = !(await Promise.race([drained.catch(() => false), new Promise((resolve) => setTimeout(() => resolve(false), 1_000))]));
      }
    }
    t.ok(written < 200_000_000, `${written} bytes were taken`);
    const session = await h2Client(t, harness);
    t.match(await h2Request(session, {}), { headers: { ':status': 200 } }, 'others are served meanwhile');
    session.destroy();
    await closedInTime(t, harness, clock);
  });
}

t.test('a client that reads the answers to its PINGs is served for as long as it likes, and so are others', async (t) => {
  const harness = await startListener(t, { onArrival: answer });
  const socket = await rawH2(t, harness);
  const attack = flood(socket, () => frame(FRAME.ping, 0, 0, Buffer.alloc(8)), 20_000);
  await othersAreServed(t, harness, attack);
  t.equal(await attack, 20_000);
  t.equal(socket.destroyed, false);
});

t.test('a client whose window is closed holds its answers back, not the gateway, which learns when it leaves', async (t) => {
  const held: Arrival[] = [];
  const piece = Buffer.alloc(65_536, 'x');
  let taken = 0;
  const harness = await startListener(t, {
    onArrival: (arrival) => {
      if (arrival.head.rawTarget === '/other') return answer(arrival);
      held.push(arrival);
      arrival.reply.head(200, []);
      const give = (): void => {
        do taken += piece.length;
        while (arrival.reply.write(piece));
      };
      arrival.reply.onDrain(give);
      give();
    },
  });
  const socket = await rawH2(t, harness, windowOf(0));
  for (let stream = 1; stream < 256; stream += 2) socket.write(frame(FRAME.headers, END_HEADERS | END_STREAM, stream, GET));
  const session = await h2Client(t, harness);
  while (held.length < 128) t.match(await h2Request(session, { ':path': '/other' }), { headers: { ':status': 200 } });
  t.equal(taken, 128 * piece.length, 'one piece for each stream');
  // A window that is opened by one byte at a time lets no more of them in than it has room for.
  for (let count = 0; count < 1_000; count += 1) socket.write(frame(FRAME.windowUpdate, 0, 1, Buffer.from([0, 0, 0, 1])));
  await h2Request(session, { ':path': '/other' });
  t.equal(taken, 128 * piece.length);
  const gone = Promise.all(held.map(({ reply }) => new Promise<void>((resolve) => reply.onGone(resolve))));
  socket.destroy();
  await gone;
  t.pass('every stream is known to be gone');
});

t.test(
  'after a fault of its connection a client is cut with all that it asked for, whether it closes or not; one that is merely silent is not',
  async (t) => {
    const arrivals: Arrival[] = [];
    const harness = await startListener(t, { limits: { sweepMs: 10, lingerMs: 40 }, onArrival: (arrival) => arrivals.push(arrival) });
    const silent = await h2Client(t, harness);
    const answered = h2Request(silent, { ':path': '/silent' });
    for (const end of [(socket: TLSSocket) => socket.end(), (socket: TLSSocket) => socket.resume()]) {
      const socket = await rawH2(t, harness);
      const closed = once(socket, 'close');
      // DATA on a stream that nobody opened (RFC 9113 §5.1).
      socket.write(Buffer.concat([frame(FRAME.headers, END_STREAM | END_HEADERS, 1, GET), frame(FRAME.data, END_STREAM, 7)]));
      end(socket);
      await closed;
    }
    const broken = arrivals.filter(({ head }) => head.rawTarget !== '/silent');
    t.equal(broken.length, 2);
    while (!broken.every(({ reply }) => reply.gone)) await turn();
    t.equal(harness.listener.openConnections, 1);
    arrivals.find(({ head }) => head.rawTarget === '/silent')?.reply.sendWhole(200, [], Buffer.from('ok'));
    t.equal((await answered).body, 'ok');
  },
);

const fieldBytes = (arrivals: readonly Arrival[]): number =>
  arrivals.reduce((sum, { head }) => sum + head.rawHeaders.reduce((length, text) => length + text.length, 0), 0);

/** A head with the dear field so many times. */
function dearHead(stream: number, times: number, more = END_STREAM): Buffer {
  return frame(FRAME.headers, END_HEADERS | more, stream, Buffer.concat([more === 0 ? POST : GET, Buffer.alloc(times, AGAIN)]));
}

/** The frames that come. */
function framesOf(socket: TLSSocket): Frame[] {
  const reader = new FrameReader();
  const frames: Frame[] = [];
  socket.on('data', (chunk: Buffer) => frames.push(...reader.push(chunk)));
  return frames;
}

t.test('a client that never acknowledges SETTINGS is held to the limit of a head all the same', async (t) => {
  const harness = await startListener(t, { onArrival: answer });
  const socket = await rawH2(t, harness);
  const frames = framesOf(socket);
  socket.write(
    Buffer.concat([
      frame(FRAME.headers, END_HEADERS | END_STREAM, 1, Buffer.concat([GET, DEAR])),
      dearHead(3, 15),
      dearHead(5, 17),
      dearHead(7, 1),
    ]),
  );
  while (harness.arrivals.length < 3) await turn();
  while (!frames.some(({ type }) => type === FRAME.rstStream)) await once(socket, 'data');
  t.same(
    harness.arrivals.map(({ head }) => head.rawHeaders.filter((text) => text.length === DEAR_BYTES).length),
    [1, 15, 1],
    'a head below the limit is taken, one beyond it is not, and the connection goes on',
  );
  t.same(
    frames.filter(({ type }) => type === FRAME.rstStream).map(({ stream, payload }) => [stream, payload.readUInt32BE(0)]),
    [[5, constants.NGHTTP2_ENHANCE_YOUR_CALM]],
  );
});

t.test('of streams that are reset as they are opened few begin in one turn, on any number of connections of their address', async (t) => {
  let mine = 0;
  let mostAtOnce = 0;
  let atOnce = 0;
  const harness = await startListener(t, {
    onArrival: (arrival) => {
      if (arrival.head.rawTarget === '/other') return answer(arrival);
      mine++;
      if (atOnce++ === 0) setImmediate(() => (atOnce = 0));
      mostAtOnce = Math.max(mostAtOnce, atOnce);
    },
  });
  const sockets: TLSSocket[] = [];
  for (let i = 0; i < 8; i++) sockets.push(await rawH2(t, harness));
  // As many as node:http2 takes at once before it ends the connection, in less than what is read at a time.
  const streams = Array.from({ length: 900 }, (_, at) => 2 * at + 1);
  const burst = Buffer.concat(
    streams.flatMap((id) => [frame(FRAME.headers, END_HEADERS | END_STREAM, id, GET), frame(FRAME.rstStream, 0, id, CANCEL)]),
  );
  for (const socket of sockets) socket.write(burst);
  while (mine === 0) await turn();
  const session = await h2Client(t, harness);
  t.equal((await h2Request(session, { ':path': '/other' })).headers[':status'], 200, 'others are served');
  t.ok(mostAtOnce <= MOST_AT_ONCE, `${mostAtOnce} begin in one turn`);
  t.ok(mine <= 8 * MOST_AT_ONCE, `${mine} of ${8 * streams.length} begin at all`);
});

t.test('streams that come at once on several connections begin in some turns, each of them', async (t) => {
  let atOnce = 0;
  let mostAtOnce = 0;
  let mine = 0;
  const harness = await startListener(t, {
    onArrival: (arrival) => {
      mine++;
      if (atOnce++ === 0) setImmediate(() => (atOnce = 0));
      mostAtOnce = Math.max(mostAtOnce, atOnce);
      answer(arrival);
    },
  });
  const CONNECTIONS = 8;
  const EACH = 100;
  const streams = Array.from({ length: EACH }, (_, at) => 2 * at + 1);
  const sockets: TLSSocket[] = [];
  for (let i = 0; i < CONNECTIONS; i++) sockets.push(await rawH2(t, harness));
  const heads = Buffer.concat(streams.map((id) => frame(FRAME.headers, END_HEADERS | END_STREAM, id, GET)));
  for (const socket of sockets) socket.write(heads);
  while (mine < CONNECTIONS * EACH) await turn();
  t.ok(mostAtOnce <= MOST_AT_ONCE, `${mostAtOnce} begin in one turn`);
});

t.test('a client that cancels some of its streams is read no later than others', async (t) => {
  const clock = fakeClock();
  let cancelled = 0;
  const harness = await startListener(t, {
    clock,
    onArrival: (arrival) => {
      if (arrival.head.rawTarget !== '/') return answer(arrival);
      cancelled++;
    },
  });
  const session = await h2Client(t, harness);
  for (let round = 0; round < 10; round++) {
    const streams = Array.from({ length: 20 }, () => session.request({ ':path': '/', ':authority': 'api.openai.com' }));
    for (const stream of streams) stream.on('error', () => undefined);
    while (cancelled < 20 * (round + 1)) await turn();
    for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL);
    t.equal((await h2Request(session, { ':path': '/next' })).headers[':status'], 200, 'no time passes until the next is answered');
  }
});

t.test('heads of a few bytes that would be megabytes end their connection, and others are served meanwhile', async (t) => {
  const harness = await startListener(t, { onArrival: answer });
  const socket = await rawH2(t, harness);
  const closed = once(socket, 'close');
  const first = frame(FRAME.headers, END_HEADERS | END_STREAM, 1, Buffer.concat([GET, DEAR]));
  const written = Buffer.concat([first, ...Array.from({ length: 170 }, (_, at) => dearHead(2 * at + 3, 490))]);
  socket.write(written);
  await othersAreServed(t, harness, closed);
  await closed;
  const bytes = fieldBytes(harness.arrivals.filter(({ head }) => head.rawTarget !== '/other'));
  t.ok(bytes < 10_000, `${bytes} bytes came of ${written.length}`);
});

t.test('the heads of the open streams of one connection have a limit together', async (t) => {
  const mine: Arrival[] = [];
  const harness = await startListener(t, {
    onArrival: (arrival) => (arrival.head.rawTarget === '/other' ? answer(arrival) : mine.push(arrival)),
  });
  const socket = await rawH2(t, harness);
  const closed = once(socket, 'close');
  socket.write(frame(FRAME.headers, END_HEADERS | END_STREAM, 1, Buffer.concat([GET, DEAR])));
  const attack = flood(socket, (at) => dearHead(2 * at + 3, 15), 128);
  await othersAreServed(t, harness, Promise.all([attack, closed]));
  t.ok(fieldBytes(mine) < DEFAULT_LIMITS.maxSessionHeaderBytes, `${mine.length} heads were taken`);
  t.ok(mine.length > 10, 'and so many were');
  while (!mine.every(({ reply }) => reply.gone)) await turn();
  t.pass('all of them are known to be gone');
});

t.test('streams that are over hold no head any more', async (t) => {
  const harness = await startListener(t, { onArrival: answer });
  const socket = await rawH2(t, harness);
  socket.write(frame(FRAME.headers, END_HEADERS | END_STREAM, 1, Buffer.concat([GET, DEAR])));
  for (let at = 0; at < 100; at += 1) {
    socket.write(dearHead(2 * at + 3, 15));
    while (harness.arrivals.length < at + 2) await turn();
  }
  t.equal(socket.destroyed, false);
});

t.test('trailers of a request count as its head does', async (t) => {
  const mine: Arrival[] = [];
  const harness = await startListener(t, { onArrival: (arrival) => mine.push(arrival) });
  const socket = await rawH2(t, harness);
  const frames = framesOf(socket);
  const trailers = (stream: number, times: number): Buffer =>
    frame(FRAME.headers, END_HEADERS | END_STREAM, stream, Buffer.alloc(times, AGAIN));
  socket.write(Buffer.concat([frame(FRAME.headers, END_HEADERS, 1, Buffer.concat([POST, DEAR])), dearHead(3, 1, 0), dearHead(5, 1, 0)]));
  while (mine.length < 3) await turn();
  const [first, second] = mine.map(({ body }) =>
    body.readAll(10).then(
      () => body.trailers.length,
      () => 'refused',
    ),
  );
  socket.write(Buffer.concat([trailers(1, 15), trailers(3, 17)]));
  t.same([await first, await second], [30, 'refused']);
  while (!frames.some(({ type }) => type === FRAME.rstStream)) await once(socket, 'data');
  const closed = once(socket, 'close');
  socket.write(trailers(5, 490));
  await closed;
  t.pass('trailers of megabytes end the connection');
});

t.test('a client in order may have as many streams as are allowed, each with a head of some kilobytes', async (t) => {
  const harness = await startListener(t, { onArrival: answer });
  const session = await h2Client(t, harness);
  const cookie = 'c'.repeat(7_000);
  const answers = await Promise.all(Array.from({ length: 128 }, (_, at) => h2Request(session, { ':path': `/${at}`, cookie })));
  t.same(new Set(answers.map(({ headers }) => headers[':status'])), new Set([200]));
});

t.test('a body in frames of one byte is ended when it piles up unread, and comes whole when it is read', async (t) => {
  const PIECES = 60_000;
  const arrivals: Arrival[] = [];
  const harness = await startListener(t, { onArrival: (arrival) => void arrivals.push(arrival) });
  const socket = await rawH2(t, harness);
  const resets = new Map<number, number>();
  const reader = new FrameReader();
  socket.on('data', (bytes: Buffer) => {
    for (const { type, stream, payload } of reader.push(bytes)) if (type === FRAME.rstStream) resets.set(stream, payload.readUInt32BE(0));
  });
  const begin = async (stream: number): Promise<Arrival['body']> => {
    socket.write(frame(FRAME.headers, END_HEADERS, stream, POST));
    return eventually('the head', () => arrivals[(stream - 1) / 2]?.body);
  };
  const send = (stream: number): void => {
    const piece = frame(FRAME.data, 0, stream, Buffer.from('x'));
    socket.write(Buffer.concat(Array.from({ length: PIECES }, () => piece)));
  };
  const reset = async (stream: number): Promise<void> => {
    t.equal(await eventually('the reset', () => resets.get(stream)), constants.NGHTTP2_ENHANCE_YOUR_CALM);
  };

  const unread = await begin(1);
  send(1);
  await reset(1);
  await t.rejects(unread.readAll(PIECES), { code: 'client_gone' });

  const halfRead = (await begin(3)).stream();
  const first = halfRead.next();
  send(3);
  await first;
  await reset(3);
  await t.rejects(halfRead.next(), { code: 'bad_framing' });

  const read = (await begin(5)).readAll(PIECES);
  send(5);
  socket.write(frame(FRAME.data, END_STREAM, 5));
  t.equal((await read).length, PIECES);
  t.equal(resets.has(5), false);
});
