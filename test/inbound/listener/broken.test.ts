// A client that breaks its connection while nobody reads from it: node:net does not tell, so sweeps have to ask.
import { EventEmitter, once } from 'node:events';
import type { ServerHttp2Session } from 'node:http2';
import { connect, Socket } from 'node:net';
import t from 'tap';
import { isBroken } from '../../../src/base/lib/sockets.ts';
import type { Arrival } from '../../../src/base/model/arrival.ts';
import { Places } from '../../../src/inbound/listener/calls-under-way.ts';
import { Http2Connection } from '../../../src/inbound/listener/http2.ts';
import { DEFAULT_LIMITS } from '../../../src/inbound/listener/limits.ts';
import { Links } from '../../../src/inbound/listener/links.ts';
import { OpenTunnels } from '../../../src/inbound/listener/open-tunnels.ts';
import type { TunnelSummary } from '../../../src/inbound/listener/tunnel.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, openTunnel, startListener, tcpServer, tlsInside } from './harness.ts';

const OPTIONS = { skip: process.platform === 'win32' ? 'the system answers otherwise' : false };
const LIMITS = { sweepMs: 20 };
const BLOCK = Buffer.alloc(262_144, 'x');

/** Writes until the other side has taken nothing for a while: all that is in between is full. */
async function fill(socket: Socket): Promise<void> {
  for (;;) {
    socket.write(BLOCK);
    const before = socket.writableLength;
    await new Promise((resolve) => setTimeout(resolve, 100));
    if (socket.writableLength >= before && before > 0) return;
  }
}

/** A client of its own, since one that holds back would not hear either. */
async function plainClient(t: HasTeardown, port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

/** A listener, one client of it, in a tunnel with TLS or by itself, and what the listener hears of its request. */
async function oneClient(t: HasTeardown, secure: boolean): Promise<{ arrival: Promise<Arrival>; tcp: Socket; client: Socket }> {
  let arrived: (arrival: Arrival) => void = () => undefined;
  const arrival = new Promise<Arrival>((resolve) => {
    arrived = resolve;
  });
  const harness = await startListener(t, { limits: LIMITS, onArrival: (one) => arrived(one) });
  const tcp = secure ? await openTunnel(t, harness.listener.port) : await plainClient(t, harness.listener.port);
  const client = secure ? await tlsInside(t, harness, tcp) : tcp;
  return { arrival, tcp, client };
}

t.test('a client that resets in the middle of an upload that waits is gone within a moment', OPTIONS, async (t) => {
  for (const secure of [false, true]) {
    const { arrival, tcp, client } = await oneClient(t, secure);
    client.write('POST / HTTP/1.1\r\nHost: api.openai.com\r\nContent-Length: 900000000\r\n\r\n');
    client.write(BLOCK);
    const { body, reply } = await arrival;
    const reading = body.stream()[Symbol.asyncIterator]();
    await reading.next();
    const gone = new Promise<void>((resolve) => reply.onGone(resolve));
    await fill(client);
    tcp.resetAndDestroy();
    await gone;
    t.pass(secure ? 'inside TLS' : 'plain');
  }
});

t.test('so is one whose passed tunnel waits for its upstream', OPTIONS, async (t) => {
  const far = await tcpServer(t, (socket) => socket.pause());
  const closed = new Promise<TunnelSummary>((resolve) => {
    void startListener(t, {
      limits: LIMITS,
      onTunnel: () => Promise.resolve({ kind: 'tunnel' }),
      dial: () => plainClient(t, far.port),
      onTunnelClosed: resolve,
    }).then(async ({ listener }) => {
      const client = await openTunnel(t, listener.port, 'stub.example:443');
      await fill(client);
      client.resetAndDestroy();
    });
  });
  t.ok((await closed).bytesUp > 0);
});

t.test('so is one that had said all it had to say, and resets before the answer', OPTIONS, async (t) => {
  let hear: () => void = () => undefined;
  const allSaid = new Promise<void>((resolve) => {
    hear = resolve;
  });
  const far = await tcpServer(t, (socket) => socket.resume().once('end', hear));
  let ended: () => void = () => undefined;
  const closed = new Promise<void>((resolve) => {
    ended = resolve;
  });
  const { listener } = await startListener(t, {
    limits: LIMITS,
    onTunnel: () => Promise.resolve({ kind: 'tunnel' }),
    dial: () => plainClient(t, far.port),
    onTunnelClosed: () => ended(),
  });
  const client = await openTunnel(t, listener.port, 'stub.example:443');
  client.end('all of it');
  await allSaid;
  t.equal(listener.openTunnels, 1, 'half a tunnel is open');
  client.resetAndDestroy();
  await closed;
});

t.test('so is one with a WebSocket that nobody takes from, and one that waits for a WebSocket', OPTIONS, async (t) => {
  for (const accepted of [true, false]) {
    for (const secure of [false, true]) {
      const { arrival, tcp, client } = await oneClient(t, secure);
      client.write('GET / HTTP/1.1\r\nHost: api.openai.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      const { reply } = await arrival;
      const gone = new Promise<boolean>((resolve) => {
        if (!accepted) return reply.onGone(() => resolve(true));
        const channel = reply.switchProtocols?.([]);
        channel?.open({ onData: () => channel.pause(), onDrain: () => undefined, onEnd: () => undefined, onClose: resolve });
      });
      await fill(client);
      tcp.resetAndDestroy();
      t.equal(await gone, true, `${accepted ? 'accepted' : 'waiting'}${secure ? ', inside TLS' : ''}`);
    }
  }
});

t.test('so is an h2 connection that broke while a stream was open, and whose session reads no more', OPTIONS, async (t) => {
  let accepted: (socket: Socket) => void = () => undefined;
  const accept = new Promise<Socket>((resolve) => {
    accepted = resolve;
  });
  const server = await tcpServer(t, (socket) => accepted(socket));
  const client = await plainClient(t, server.port);
  const socket = (await accept).pause();
  const links = new Links();
  const link = links.open(socket, 'developer');
  if (link === undefined) throw new Error('no room');
  const clock = fakeClock();
  const places = new Places(1, () => undefined);
  const { counts } = links;
  const heard = { onArrival: () => undefined, onRefused: () => undefined };
  const arrivals = { clock, limits: DEFAULT_LIMITS, tunnels: new OpenTunnels(1), places, counts, ...heard };
  const now = clock.monotonic();
  const later = now + DEFAULT_LIMITS.lingerMs + 1;
  const idle = () => {
    const session = Object.assign(new EventEmitter(), { ping: () => true }) as unknown as ServerHttp2Session;
    return new Http2Connection({ link, session, tunnel: { authority: { host: 'api.openai.com', port: 443 } }, arrivals });
  };
  idle().sweep(later);
  t.equal(socket.destroyed, false, 'one that is there stays');
  client.resetAndDestroy();
  while (!isBroken(socket)) await new Promise(setImmediate);
  const connection = idle();
  connection.sweep(now);
  t.equal(socket.destroyed, false, 'idle connections are not asked all the time');
  connection.sweep(later);
  t.equal(socket.destroyed, true);
});

t.test('the private handle that is asked is there on this Node; without it nobody is said to be broken', async (t) => {
  const { server, port } = await tcpServer(t, () => undefined);
  const client = await plainClient(t, port);
  const handle: unknown = Reflect.get(client, '_handle');
  t.match(handle, { getpeername: Function });
  t.equal(isBroken(client), false);
  const without = new Socket();
  t.equal(Reflect.get(without, '_handle'), null);
  t.equal(isBroken(without), false);
  t.ok(server.listening);
});

t.test('a sweep leaves the loop to others now and then, and comes to every connection once', async (t) => {
  const links = new Links();
  let swept = 0;
  for (let i = 0; i < 1_000; i++) {
    const link = links.open(new Socket(), 'developer');
    if (link !== undefined) link.activity = { drain: () => undefined, sweep: () => void swept++ };
  }
  links.sweep(0);
  t.ok(swept > 0 && swept < 200, `${swept} at once`);
  links.sweep(1);
  while (swept < 1_000) await new Promise((resolve) => setImmediate(resolve));
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
  t.equal(swept, 1_000);
});
