// Answers that nobody reads: how many are begun, how much of them is held, and when their connections are closed, at
// every door.
import { once } from 'node:events';
import { connect as connectH2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Arrival } from '../../../src/base/model/arrival.ts';
import { CONNECTION_BOUNDS } from '../../../src/base/model/traffic-bounds.ts';
import { DEFAULT_LIMITS, type ListenerLimits } from '../../../src/inbound/listener/limits.ts';
import type { Listener, ListenerOptions } from '../../../src/inbound/listener/listener.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { dialTo, type HasTeardown, openTunnel, startListener, tcpServer, tlsInside } from './harness.ts';

const MIB = 1_048_576;
/** More than the systems of both sides take. */
const LARGE = Buffer.alloc(32 * MIB);
const PIECE = CONNECTION_BOUNDS.unreadOfAnswer.one;
const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

const large: ListenerOptions['onArrival'] = ({ reply }) => reply.sendWhole(200, [], LARGE);

/** Somebody who connects from an address of this machine, and reads nothing. */
async function silent(t: HasTeardown, port: number, localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  t.teardown(() => socket.destroy());
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket.pause();
}

/** A listener with a clock that stands, and what lets it look once. */
async function standing(t: Test, options: Partial<ListenerOptions> = {}, limits: Partial<ListenerLimits> = {}) {
  const clock = fakeClock();
  const harness = await startListener(t, { clock, onArrival: large, ...options, limits });
  const look = async (): Promise<void> => {
    clock.advance(DEFAULT_LIMITS.sweepMs);
    for (let i = 0; i < 20; i++) await turn();
  };
  return { ...harness, clock, look };
}

/** Waits for what the event loop is about to do. */
async function until(what: string, condition: () => boolean): Promise<void> {
  for (let i = 0; i < 20_000; i++) {
    if (condition()) return;
    await turn();
  }
  throw new Error(`never: ${what}`);
}

/**
 * Lets time pass until a connection is closed, and says how long that took, and for how long nothing of an answer had
 * left by then: the systems of both sides may still pass on what they hold when nobody reads any more.
 */
async function closedAfter(clock: FakeClock, listener: Listener, open: number): Promise<{ ms: number; stillMs: number }> {
  const began = clock.monotonic();
  let unread = listener.unreadBytes;
  let since = began;
  while (listener.openConnections >= open && clock.monotonic() - began < 10 * DEFAULT_LIMITS.unreadMs) {
    clock.advance(DEFAULT_LIMITS.sweepMs);
    await turn();
    if (listener.openConnections < open || listener.unreadBytes === unread) continue;
    unread = listener.unreadBytes;
    since = clock.monotonic();
  }
  return { ms: clock.monotonic() - began, stillMs: clock.monotonic() - since };
}

t.test('of 32 pipelined requests on each of many connections one is begun, and what is held of its answer is one piece', async (t) => {
  const { listener, arrivals, look } = await standing(t);
  const clients = await Promise.all(Array.from({ length: 50 }, () => silent(t, listener.port)));
  for (const client of clients) client.write(GET.repeat(32));
  await until('each has its first answer', () => arrivals.length === clients.length);
  for (let i = 0; i < 200; i++) await turn();
  t.equal(arrivals.length, clients.length);
  await look();
  // What is left of the one answer counts as well: it is held, if it is not shared.
  t.ok(listener.unreadBytes <= clients.length * LARGE.length, `${listener.unreadBytes} bytes wait`);
  let written = 0;
  const [first] = clients;
  first?.on('data', (chunk: Buffer) => {
    written += chunk.length;
  });
  first?.resume();
  await until('the second answer is begun when the first has left', () => arrivals.length === clients.length + 1);
  t.ok(written > LARGE.length / 4, `${written} bytes were read by then`);
});

t.test('a connection that nobody reads is reset after ten minutes, one that is read at 4 KB a second stays', async (t) => {
  const { listener, clock, look, arrivals } = await standing(t);
  const client = await silent(t, listener.port);
  client.write(GET);
  await until('begun', () => arrivals.length === 1);
  await look();
  t.ok(listener.unreadBytes > 0);
  for (let step = 0; step < 4; step++) {
    clock.advance(8 * 60_000);
    // The systems of both sides ask for more when a third of what one of them holds was taken.
    let taken = 0;
    while (taken < 2 * MIB) {
      const chunk: unknown = client.read();
      if (chunk instanceof Uint8Array) taken += chunk.length;
      else await turn();
    }
    await look();
  }
  t.same([client.destroyed, listener.openConnections], [false, 1], 'half an hour of a slow reader');
  await until('the client has taken what it holds unread', () => client.readableLength >= client.readableHighWaterMark);
  await look();
  const { ms, stillMs } = await closedAfter(clock, listener, 1);
  t.ok(ms >= DEFAULT_LIMITS.unreadMs - 1_000, `${ms} ms`);
  t.ok(stillMs <= DEFAULT_LIMITS.unreadMs + 1_000, `${stillMs} ms after the last byte`);
  t.same([listener.closed.unread, listener.openConnections], [1, 0]);
});

t.test('an upstream that streams is held up by who does not read, and hears in the end that he has left', async (t) => {
  let given = 0;
  let held = 0;
  let gone = 0;
  const chunk = Buffer.alloc(PIECE);
  const stream = ({ reply }: Arrival): void => {
    reply.onGone(() => gone++);
    reply.head(200, []);
    const pour = (): void => {
      for (;;) {
        given += chunk.length;
        if (!reply.write(chunk)) break;
      }
      held++;
    };
    reply.onDrain(pour);
    pour();
  };
  const { listener, clock, look } = await standing(t, { onArrival: stream });
  const clients = await Promise.all(Array.from({ length: 20 }, () => silent(t, listener.port)));
  for (const client of clients) client.write(GET);
  await until('all are held up', () => held >= clients.length);
  for (let i = 0; i < 100; i++) await look();
  const before = given;
  for (let i = 0; i < 100; i++) await look();
  t.equal(given, before, 'nothing more is asked for');
  t.ok(listener.unreadBytes <= clients.length * (2 * PIECE + 1_024), `${listener.unreadBytes} bytes wait`);
  await closedAfter(clock, listener, 1);
  t.same([listener.openConnections, gone], [0, clients.length]);
});

t.test('h2: streams whose window is shut are reset one by one, however fast others are read', async (t) => {
  const harness = await standing(t, {}, { maxUnreadBytes: 64 * LARGE.length });
  const { listener, arrivals, clock, look } = harness;
  const secure = await tlsInside(t, harness, await openTunnel(t, listener.port), { ALPNProtocols: ['h2'] });
  const session = connectH2('https://api.openai.com', { createConnection: () => secure, settings: { initialWindowSize: 0 } });
  session.on('error', () => undefined);
  t.teardown(() => session.destroy());
  const reset: number[] = [];
  const streams = Array.from({ length: 16 }, () => {
    const stream = session.request({ ':path': '/' });
    stream.on('error', () => undefined).on('close', () => reset.push(stream.rstCode));
    return stream;
  });
  await until('all are begun', () => arrivals.length === 16);
  await look();
  t.ok(listener.unreadBytes > 0);
  streams.push(session.request({ ':path': '/soon-after' }).on('error', () => undefined));
  streams.at(-1)?.on('close', () => reset.push(streams.at(-1)?.rstCode ?? 0));
  await until('who may be about to take them is given more', () => arrivals.length === 17 || reset.length > 0);
  t.same(reset, []);
  clock.advance(11_000);
  await look();
  const refused = session.request({ ':path': '/one-more' });
  refused.on('error', () => undefined);
  await new Promise((resolve) => refused.once('close', resolve));
  t.equal(refused.rstCode, 7, 'a stream above the bytes of a connection is refused, which is safe to try again');
  for (const ms of [DEFAULT_LIMITS.unreadMs / 2, DEFAULT_LIMITS.unreadMs / 2, DEFAULT_LIMITS.sweepMs]) {
    clock.advance(ms);
    session.ping(() => undefined);
    await until('heard', () => true);
    await look();
  }
  await until('all are reset', () => reset.length === 17);
  t.same([new Set(reset), listener.closed.unread, listener.openConnections], [new Set([8]), 17, 1]);
  t.ok(streams.every((stream) => stream.closed));
});

t.test('what all hold together is bounded: those that have waited longest go, of the address that holds more than half', async (t) => {
  const limits = { maxUnreadBytes: 4 * LARGE.length };
  const { listener, arrivals, look, clock } = await standing(t, {}, limits);
  const first = await silent(t, listener.port, '127.0.0.2');
  first.write(GET);
  await until('begun', () => arrivals.length === 1);
  await look();
  clock.advance(1_000);
  const others: Socket[] = [];
  for (let i = 0; i < 4; i++) {
    const client = await silent(t, listener.port, '127.0.0.1');
    client.write(GET);
    others.push(client);
    await until('begun', () => arrivals.length === 2 + i);
    await look();
    clock.advance(1_000);
  }
  await until('some are closed', () => listener.openConnections <= 3);
  t.ok(listener.unreadBytes <= limits.maxUnreadBytes);
  t.ok(listener.closed.made_room >= 2);
  const reads = async (socket: Socket): Promise<boolean> => {
    socket.resume();
    let read = 0;
    socket.on('data', (chunk: Buffer) => {
      read += chunk.length;
    });
    await until('read or closed', () => socket.destroyed || read > LARGE.length);
    return read > LARGE.length;
  };
  t.equal(await reads(first), true, 'that of another address is whole, though it has waited longer than they');
  t.equal(await reads(others[3] as Socket), true, 'of those the last stays');
  t.equal(await reads(others[0] as Socket), false, 'and the first has gone');
});

t.test('a WebSocket that nobody reads is reset in the same time; what waits in a passed tunnel counts, and stays', async (t) => {
  const chunk = Buffer.alloc(PIECE);
  const accept = ({ reply }: Arrival): void => {
    const channel = reply.switchProtocols?.([]);
    channel?.open({ onData: () => undefined, onDrain: () => undefined, onEnd: () => undefined, onClose: () => undefined });
    for (let i = 0; i < 32 * 16 && channel?.write(chunk) !== false; i++);
    for (let i = 0; i < 32; i++) channel?.write(chunk);
  };
  const origin = await tcpServer(t, (socket) => void socket.once('data', () => socket.write(LARGE)));
  const { listener, clock, look } = await standing(t, {
    onArrival: accept,
    onTunnel: () => Promise.resolve({ kind: 'tunnel' }),
    dial: () => dialTo(origin.port),
  });
  const client = await silent(t, listener.port);
  client.write(
    'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n',
  );
  await until('it is open', () => listener.openTunnels === 1);
  await look();
  t.ok(listener.unreadBytes > 0);
  const { stillMs } = await closedAfter(clock, listener, 1);
  t.ok(stillMs <= DEFAULT_LIMITS.unreadMs + 1_000, `${stillMs} ms after the last byte`);
  const tunnel = await openTunnel(t, listener.port);
  tunnel.pause();
  tunnel.write('hello');
  for (let i = 0; i < 2_000 && listener.unreadBytes === 0; i++) await look();
  t.ok(listener.unreadBytes > 0);
  await closedAfter(clock, listener, 1);
  t.equal(listener.openTunnels, 1);
});
