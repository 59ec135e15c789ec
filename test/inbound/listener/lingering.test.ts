// RFC 9112 §9.6: an answer that comes while the client still sends must not be lost to the reset that closing with
// unread bytes would be.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { DEFAULT_LIMITS } from '../../../src/inbound/listener/limits.ts';
import type { ListenerOptions } from '../../../src/inbound/listener/listener.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { type Harness, type HasTeardown, h2Client, h2Request, openTunnel, startListener, tlsInside, watch } from './harness.ts';

const UPLOAD = Buffer.alloc(5_000_000, 'x');
const WHY = JSON.stringify({ error: { code: 'policy_denied', message: 'no '.repeat(300) } });
const ROUNDS = 25;

/** Decides from the head, and reads nothing. */
const deny: ListenerOptions['onArrival'] = ({ reply }) => reply.sendWhole(403, ['content-type', 'application/json'], Buffer.from(WHY));

/** Has read a part of the body when it finds that it is too large. */
const tooLarge: ListenerOptions['onArrival'] = ({ body, reply }) => {
  body.readAll(1_000).catch(() => reply.sendWhole(403, [], Buffer.from(WHY)));
};

async function plain(t: HasTeardown, { listener }: Harness): Promise<Socket> {
  const socket = connect({ port: listener.port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/**
 * Lets time pass until the client's connection is closed: long before any other deadline than that of lingering would
 * do it.
 */
async function cutInTime(t: Test, clock: FakeClock, socket: Socket): Promise<void> {
  const began = clock.monotonic();
  while (!socket.destroyed) {
    clock.advance(DEFAULT_LIMITS.sweepMs / 5);
    await turn();
  }
  t.ok(clock.monotonic() - began < DEFAULT_LIMITS.bodyIdleMs, 'cut');
}

async function inTunnel(t: HasTeardown, { listener }: Harness): Promise<Socket> {
  return await openTunnel(t, listener.port, 'api.openai.com:80');
}

async function secure(t: HasTeardown, harness: Harness): Promise<Socket> {
  return await tlsInside(t, harness, await openTunnel(t, harness.listener.port));
}

/** In one burst, or in parts of which each waits for the one before. */
async function send(socket: Socket, head: string, body: Buffer, slowly: boolean): Promise<void> {
  socket.write(head);
  if (!slowly) {
    socket.write(body);
    return;
  }
  for (let at = 0; at < body.length && socket.writable; at += 200_000) {
    await new Promise<void>((resolve) => socket.write(body.subarray(at, at + 200_000), () => resolve()));
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const LENGTH = `Host: api.openai.com\r\nContent-Length: ${UPLOAD.length}\r\n\r\n`;
const CHUNKED = Buffer.concat([Buffer.from(`${UPLOAD.length.toString(16)}\r\n`), UPLOAD, Buffer.from('\r\n0\r\n\r\n')]);

for (const { name, open, head, body = UPLOAD, onArrival = deny } of [
  { name: 'redirect mode, denied from the head', open: plain, head: `POST /proxy/openai/v1/x HTTP/1.1\r\n${LENGTH}` },
  {
    name: 'a body found to be too large on the way',
    open: plain,
    head: `POST /v1/actions:execute HTTP/1.1\r\n${LENGTH}`,
    onArrival: tooLarge,
  },
  { name: 'absolute form', open: plain, head: `POST http://api.openai.com/v1/x HTTP/1.1\r\n${LENGTH}` },
  { name: 'a client that closes by itself', open: plain, head: `POST /x HTTP/1.1\r\nConnection: close\r\n${LENGTH}` },
  { name: 'in chunks', open: plain, head: 'POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n', body: CHUNKED },
  { name: 'plain HTTP in a tunnel', open: inTunnel, head: `POST /v1/x HTTP/1.1\r\n${LENGTH}` },
  { name: 'TLS in a tunnel', open: secure, head: `POST /v1/x HTTP/1.1\r\n${LENGTH}` },
  { name: 'no HTTP at all', open: plain, head: 'POST /x HTTP/1.1\r\nContent-Length: none\r\n\r\n' },
]) {
  t.test(`the whole refusal reaches a client that still sends: ${name}`, async (t) => {
    const harness = await startListener(t, { onArrival });
    for (let round = 0; round < ROUNDS; round++) {
      const socket = await open(t, harness);
      const client = watch(socket);
      const sent = send(socket, head, body, round % 2 === 1);
      const { text, reset } = await client.closed;
      await sent;
      if (reset || !text.includes('\r\n\r\n') || !(text.endsWith(WHY) || text.includes('bad_framing'))) {
        t.fail(`round ${round}: reset ${reset}, ${text.length} bytes`);
        return;
      }
    }
    t.pass(`${ROUNDS} times`);
  });
}

t.test('and one whose CONNECT was refused', async (t) => {
  const error = new GatewayError('connect_refused', 'no '.repeat(300));
  const { listener } = await startListener(t, { onTunnel: () => Promise.resolve({ kind: 'refuse', error }) });
  for (let round = 0; round < ROUNDS; round++) {
    const socket = connect({ port: listener.port, host: '127.0.0.1' });
    const client = watch(socket);
    const sent = send(socket, 'CONNECT api.openai.com:443 HTTP/1.1\r\n\r\n', UPLOAD, round % 2 === 1);
    const { text, reset } = await client.closed;
    await sent;
    t.equal(reset, false);
    t.match(text, /^HTTP\/1\.1 403 .*connect_refused.*\}$/s);
  }
});

t.test('and, on one h2 connection, every stream', async (t) => {
  const harness = await startListener(t, { onArrival: deny });
  for (let round = 0; round < ROUNDS; round++) {
    // A session of its own: that of node:http2 gives up after 10 MB which it was not let send.
    const session = await h2Client(t, harness);
    for (const body of [UPLOAD.toString(), 'small']) {
      const answer = await h2Request(session, { ':method': 'POST' }, body);
      t.match(answer, { headers: { ':status': 403 }, body: WHY, rstCode: 0 });
    }
    session.destroy();
  }
});

t.test('an h2 stream whose body was read in part and given up is over with its answer, and lets its connection close', async (t) => {
  let answered = 0;
  const partly: ListenerOptions['onArrival'] = ({ body, reply }) => {
    const reader = body.stream();
    void reader
      .next()
      // What comes meanwhile waits in the stream, and nobody is going to take it.
      .then(() => new Promise((resolve) => setImmediate(resolve)))
      .then(() => reader.return?.())
      .then(() => reply.sendWhole(502, [], Buffer.from(WHY)))
      .then(() => {
        answered += 1;
      });
  };
  const harness = await startListener(t, { onArrival: partly });
  const sessions = await Promise.all([1, 2, 3, 4].map(() => h2Client(t, harness)));
  const answers = await Promise.all(
    sessions.map((session) => h2Request(session, { ':method': 'POST' }, UPLOAD.toString('latin1', 0, 200_000))),
  );
  for (const answer of answers) t.match(answer, { headers: { ':status': 502 }, body: WHY, rstCode: 0 });
  t.equal(answered, sessions.length);
  // GOAWAY to all: each connection is over when its last stream is.
  t.equal(await harness.listener.drain(10_000), true);
});

t.test('an h2 client that resets its stream without an error, as node:http2 does by itself, has left all the same', async (t) => {
  let resolveTaken: (() => void) | undefined;
  const taken = new Promise<void>((resolve) => {
    resolveTaken = resolve;
  });
  let resolveGone: (() => void) | undefined;
  const gone = new Promise<void>((resolve) => {
    resolveGone = resolve;
  });
  const harness = await startListener(t, {
    onArrival: ({ body, reply }) => {
      reply.onGone(() => resolveGone?.());
      // Takes one chunk, and then its upstream takes nothing.
      void body.stream().next().then(resolveTaken);
    },
  });
  const stream = (await h2Client(t, harness)).request({ ':method': 'POST', ':path': '/' });
  for (let count = 0; count < 10; count += 1) stream.write(UPLOAD.subarray(0, 20_000));
  await taken;
  stream.close();
  await gone;
  t.pass('told');
});

t.test('a client that never stops sending is cut when its time is over, and no request of it is heard any more', async (t) => {
  const clock = fakeClock();
  for (const open of [plain, secure]) {
    const harness = await startListener(t, { clock, onArrival: deny });
    const socket = await open(t, harness);
    const client = watch(socket);
    socket.allowHalfOpen = true;
    socket.write('POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n');
    const block = UPLOAD.subarray(0, 65_536);
    const more = (): void => {
      if (socket.writable) socket.write(block, more);
    };
    more();
    await client.until(/policy_denied/);
    await cutInTime(t, clock, socket);
    t.match(client.text(), WHY);
  }
  const harness = await startListener(t, { clock, onArrival: deny });
  const late = 'GET /late HTTP/1.1\r\nHost: x\r\n';
  const others = [
    'CONNECT api.openai.com:443 HTTP/1.1\r\n',
    `${late}Connection: Upgrade\r\nUpgrade: h2c\r\n`,
    `${late}Connection: Upgrade\r\nUpgrade: websocket\r\n`,
  ];
  for (const [i, other] of others.entries()) {
    const socket = await plain(t, harness);
    const client = watch(socket);
    socket.allowHalfOpen = true;
    socket.write(Buffer.concat([Buffer.from(`POST /x HTTP/1.1\r\n${LENGTH}`), UPLOAD, Buffer.from(`${late}\r\n${other}\r\n`)]));
    socket.end();
    await client.closed;
    t.equal(harness.arrivals.length, i + 1, 'what follows is thrown away');
    t.equal(client.text().split('HTTP/1.1').length, 2, 'and not answered');
  }
});

t.test('more than the bound is not read, and what was answered arrives all the same', async (t) => {
  const clock = fakeClock();
  const harness = await startListener(t, { clock, limits: { maxLingerBytes: 100_000 }, onArrival: deny });
  const socket = await plain(t, harness);
  const client = watch(socket);
  socket.write(`POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n`);
  for (let i = 0; i < 20; i++) socket.write(UPLOAD);
  t.match(await client.until(/\}\}?$/), WHY);
  t.ok(socket.writableLength > 0, 'it waits');
  await cutInTime(t, clock, socket);
});
