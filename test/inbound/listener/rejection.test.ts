// Clients that do not take our certificate (decision 3.10).
import { execFile } from 'node:child_process';
import { type EventEmitter, once } from 'node:events';
import { connect as connectH2 } from 'node:http2';
import { Agent, request } from 'node:https';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import t from 'tap';
import type { HandshakeRejectedEvent } from '../../../src/base/events/events.ts';
import { DEFAULT_LIMITS } from '../../../src/inbound/listener/limits.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { requirePeer, skipWithout } from '../../support/peers.ts';
import { type Harness, type HasTeardown, h2Client, h2Request, openTunnel, startListener, tlsInside } from './harness.ts';

const run = promisify(execFile);
const HOST = 'api.openai.com';

interface Scene extends Harness {
  readonly events: readonly HandshakeRejectedEvent[];
  readonly clock: ReturnType<typeof fakeClock>;
  /** Waits until every connection is gone. */
  settled(): Promise<void>;
  /** The same, and lets pass what silence waits for. */
  judged(): Promise<void>;
}

async function scene(t: HasTeardown): Promise<Scene> {
  const events: HandshakeRejectedEvent[] = [];
  const clock = fakeClock();
  const harness = await startListener(t, { clock, onHandshakeRejected: (event) => events.push(event) });
  const settled = async (): Promise<void> => {
    while (harness.listener.openConnections > 0) await new Promise(setImmediate);
  };
  const judged = async (): Promise<void> => {
    await settled();
    clock.advance(5_000);
  };
  return { ...harness, events, clock, settled, judged };
}

/** `once` would reject on the error that comes before. */
function gone(emitter: EventEmitter): Promise<void> {
  return new Promise((resolve) => emitter.once('close', () => resolve()));
}

/**
 * A connection of a client that trusts us, whose handshake we know to be complete as well: session tickets are sent
 * after it.
 */
async function trusting(t: HasTeardown, s: Scene, options: ConnectionOptions = {}, userAgent?: string): Promise<TLSSocket> {
  const socket = await openTunnel(t, s.listener.port, `${options.servername ?? HOST}:443`, userAgent ? `User-Agent: ${userAgent}\r\n` : '');
  const secure = connectTls({ socket, ca: s.ca.rootPem, servername: HOST, ...options });
  t.teardown(() => secure.destroy());
  secure.on('error', () => undefined).resume();
  await once(secure, 'session');
  // OpenSSL is still reading: what is written from within would wait for ever.
  await new Promise(setImmediate);
  return secure;
}

/** TLS by a client that has none of our root and looks at the certificate. */
async function distrustful(t: HasTeardown, s: Scene, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const secure = connectTls({ socket: await openTunnel(t, s.listener.port), servername: HOST, ...options });
  t.teardown(() => secure.destroy());
  secure.on('error', () => undefined);
  return secure;
}

t.test('programs that send an alert are seen by it', { skip: skipWithout(['curl', 'openssl', 'python3']) }, async (t) => {
  const s = await scene(t);
  const proxy = `127.0.0.1:${s.listener.port}`;
  const python = `import socket, ssl
s = socket.create_connection(("127.0.0.1", ${s.listener.port}))
s.sendall(b"CONNECT ${HOST}:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
s.recv(1000)
ssl.create_default_context().wrap_socket(s, server_hostname="${HOST}")`;
  const programs: readonly (readonly [string, readonly string[]])[] = [
    [requirePeer('curl'), ['-sS', '--proxy', `http://${proxy}`, `https://${HOST}/`]],
    [requirePeer('curl'), ['-sS', '--tls-max', '1.2', '--proxy', `http://${proxy}`, `https://${HOST}/`]],
    [requirePeer('openssl'), ['s_client', '-verify_return_error', '-proxy', proxy, '-connect', `${HOST}:443`]],
    [requirePeer('python3'), ['-c', python]],
  ];
  for (const [program, args] of programs) {
    await t.rejects(run(program, args), program);
    await s.settled();
  }
  t.same(
    s.events,
    programs.map(() => ({ host: HOST, signal: 'alert' })),
  );
});

t.test('programs on Node complete the handshake and leave in silence, which is seen as well', async (t) => {
  const s = await scene(t);
  const secure = await distrustful(t, s);
  await gone(secure);
  await s.settled();
  const older = await distrustful(t, s, { maxVersion: 'TLSv1.2' });
  await gone(older);
  await s.settled();
  const agent = new Agent();
  Object.assign(agent, {
    createConnection: (_options: unknown, done: (error: Error | null, socket: TLSSocket) => void) => {
      void distrustful(t, s).then((socket) => done(null, socket));
    },
  });
  const https = request({ host: HOST, method: 'POST', agent });
  https.on('error', () => undefined);
  https.end('body');
  await gone(https);
  await s.settled();
  const h2Socket = await distrustful(t, s, { ALPNProtocols: ['h2'] });
  const session = connectH2(`https://${HOST}`, { createConnection: () => h2Socket });
  session.on('error', () => undefined);
  session.request({}).on('error', () => undefined);
  await gone(session);
  await s.settled();
  t.same(s.events, [], 'silence waits for a sign that the client took the certificate after all');
  await s.judged();
  t.same(
    s.events,
    Array.from({ length: 4 }, () => ({ host: HOST, signal: 'silent_close' })),
  );
  t.equal(s.arrivals.length, 0);
});

t.test('a client that checks the fingerprint itself leaves in silence too', async (t) => {
  const s = await scene(t);
  const pinned = await distrustful(t, s, { ca: s.ca.rootPem, checkServerIdentity: () => new Error('not the certificate that is pinned') });
  await gone(pinned);
  await s.judged();
  t.same(s.events, [{ host: HOST, signal: 'silent_close' }]);
});

/** What a browser does with a connection that it opened on speculation and does not need. */
async function leave(secure: TLSSocket): Promise<void> {
  const closed = gone(secure);
  secure.end();
  await closed;
}

async function said(secure: TLSSocket): Promise<void> {
  const answered = once(secure, 'data');
  secure.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await answered;
}

t.test(
  'a spare connection that a client leaves is no rejection when it took the certificate on another, before, meanwhile or behind it',
  async (t) => {
    const before = await scene(t);
    const first = await trusting(t, before);
    await said(first);
    await leave(first);
    await leave(await trusting(t, before));
    await before.judged();
    t.same(before.events, []);

    const meanwhile = await scene(t);
    const spare = await trusting(t, meanwhile);
    const used = await trusting(t, meanwhile);
    await leave(spare);
    await said(used);
    meanwhile.clock.advance(5_000);
    t.same(meanwhile.events, [], 'the connection that is used is still open');
    await leave(used);

    const overH2 = await scene(t);
    const session = await h2Client(t, overH2);
    await h2Request(session, {});
    await leave(await trusting(t, overH2, { ALPNProtocols: ['h2'] }));
    overH2.clock.advance(5_000);
    t.same(overH2.events, []);
    session.destroy();

    const behind = await scene(t);
    await leave(await trusting(t, behind));
    await behind.settled();
    behind.clock.advance(4_999);
    const slow = await trusting(t, behind);
    await said(slow);
    await leave(slow);
    await behind.settled();
    behind.clock.advance(1);
    t.same(behind.events, []);
  },
);

t.test('what one program took says nothing of another beside it, nor of another host', async (t) => {
  const s = await scene(t);
  const browser = await trusting(t, s, {}, 'Browser/1');
  await said(browser);
  await leave(browser);
  await leave(await trusting(t, s, {}, 'Browser/1'));
  await leave(await trusting(t, s, {}, 'Pinning/1'));
  await leave(await trusting(t, s, { servername: 'api.anthropic.com' }, 'Browser/1'));
  await s.judged();
  t.same(s.events, [
    { host: HOST, signal: 'silent_close' },
    { host: 'api.anthropic.com', signal: 'silent_close' },
  ]);
});

t.test('an idle connection that was opened in advance and is closed later is no sign of anything', async (t) => {
  const s = await scene(t);
  const idle = await trusting(t, s);
  s.clock.advance(2_500);
  idle.end();
  await s.judged();
  const reset = await trusting(t, s);
  s.clock.advance(2_500);
  reset.destroy();
  await s.judged();
  t.same(s.events, []);
});

t.test('a client that has said anything took the certificate, over http/1.1 and h2', async (t) => {
  const s = await scene(t);
  const one = await tlsInside(t, s, await openTunnel(t, s.listener.port));
  one.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(one, 'data');
  one.destroy();
  const half = await tlsInside(t, s, await openTunnel(t, s.listener.port));
  half.end('GET / HT');
  half.resume();
  const session = await h2Client(t, s);
  await h2Request(session, {});
  session.destroy();
  await s.judged();
  t.same(s.events, []);
});

t.test(
  'what ends for another reason is no rejection: no common protocol, a stopped handshake, a tunnel without a byte, our own drain',
  async (t) => {
    const s = await scene(t);
    await gone(await distrustful(t, s, { ca: s.ca.rootPem, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' }));
    await gone(await distrustful(t, s, { ca: s.ca.rootPem, ALPNProtocols: ['smtp'] }));
    const stopped = await openTunnel(t, s.listener.port);
    stopped.end('\x16\x03\x01\x02');
    stopped.resume();
    (await openTunnel(t, s.listener.port)).destroy();
    await s.judged();
    const closed = gone(await trusting(t, s));
    const drained = s.listener.drain(1_000);
    // Who has just connected may still bring a request.
    s.clock.advance(DEFAULT_LIMITS.firstRequestMs);
    await closed;
    await drained;
    const cut = await scene(t);
    await trusting(t, cut);
    await cut.listener.close();
    t.same([...s.events, ...cut.events], []);
  },
);
