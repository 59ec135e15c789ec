// Receivers that answer without end: what is kept of an answer is what is read of it, whoever asked.
import { createServer, type Socket } from 'node:net';
import t from 'tap';
import { SmtpSender } from '../../../src/outbound/destinations/smtp-sender.ts';
import { sendToSyslog } from '../../../src/outbound/destinations/syslog-sender.ts';
import { createUpstream } from '../../../src/outbound/net/create-upstream.ts';
import { SideDoor } from '../../../src/outbound/net/side-door.ts';
import { runningClock } from '../../support/fake-clock.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';

const PIECE = Buffer.alloc(65_536, 'x');
/** What the systems of both sides take on their own. */
const SYSTEMS = 32 * 1_048_576;
const SIGNAL = new AbortController().signal;

/** A server that writes `first` to who connects, and then pieces as long as somebody takes them. */
async function endlessServer(t: HasTeardown, first: string, piece: Uint8Array = PIECE) {
  let sent = 0;
  const closed: Promise<void>[] = [];
  const server = createServer((socket: Socket) => {
    closed.push(new Promise((resolve) => socket.once('close', () => resolve())));
    socket.on('error', () => undefined);
    const pour = (): void => {
      while (!socket.destroyed && sent < 4 * SYSTEMS) {
        sent += piece.length;
        if (!socket.write(piece)) break;
      }
    };
    socket.on('drain', pour);
    socket.once('data', () => undefined);
    socket.write(first);
    pour();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise((resolve) => server.close(resolve)));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { port, sent: () => sent, whenClosed: () => Promise.all(closed) };
}

function doorOf(t: HasTeardown): SideDoor {
  const upstream = createUpstream({ clock: runningClock, headersTimeoutMs: 5_000, idleTimeoutMs: 5_000 });
  const door = new SideDoor(upstream, runningClock);
  t.teardown(() => door.close());
  t.teardown(() => upstream.close());
  return door;
}

t.test('the answer to a post is its first 16 KiB, and its connection is closed there', async (t) => {
  for (const framing of ['Content-Length: 1099511627776', 'Connection: close']) {
    const { port, sent, whenClosed } = await endlessServer(t, `HTTP/1.1 200 OK\r\n${framing}\r\n\r\n`);
    const to = { authority: { host: 'localhost', port }, tls: false, path: '/', operatorOwn: true };
    const { status, body } = await doorOf(t).post({ to, headers: [], body: '{}', signal: SIGNAL });
    t.same([status, body], [200, 'x'.repeat(16_384)]);
    await whenClosed();
    t.ok(sent() < SYSTEMS, `${framing}: ${sent()} bytes left the receiver`);
  }
});

t.test('what is no answer ends as well: extensions of chunks, interim answers, trailers', async (t) => {
  const rows: readonly (readonly [string, string, string])[] = [
    ['extensions', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', `1;${'e'.repeat(4_000)}\r\nx\r\n`.repeat(16)],
    ['leading zeros', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', `${'0'.repeat(4_000)}1\r\nx\r\n`.repeat(16)],
    ['interim answers', '', `HTTP/1.1 103 Early Hints\r\nLink: ${'l'.repeat(30_000)}\r\n\r\n`],
    ['trailers', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n', 'X-Trailer: y\r\n'.repeat(1_000)],
  ];
  for (const [what, first, piece] of rows) {
    const { port, sent, whenClosed } = await endlessServer(t, first, Buffer.from(piece));
    const to = { authority: { host: 'localhost', port }, tls: false, path: '/', operatorOwn: true };
    const fault: unknown = await doorOf(t)
      .post({ to, headers: [], body: '{}', signal: SIGNAL })
      .catch((error: unknown) => error);
    t.match(fault, { code: 'upstream_protocol' }, what);
    await whenClosed();
    t.ok(sent() < SYSTEMS, `${what}: ${sent()} bytes left the receiver`);
  }
});

t.test('one that comes in chunks of a byte is read as the bytes that it has', async (t) => {
  const { port, whenClosed } = await endlessServer(
    t,
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
    Buffer.from('1\r\ny\r\n'.repeat(1_000)),
  );
  const to = { authority: { host: 'localhost', port }, tls: false, path: '/', operatorOwn: true };
  t.equal((await doorOf(t).post({ to, headers: [], body: '{}', signal: SIGNAL })).body, 'y'.repeat(16_384));
  await whenClosed();
});

t.test('a mail server that greets without end is left, and the mail is tried again', async (t) => {
  const rows: readonly (readonly [string, Uint8Array])[] = [
    ['lines', Buffer.from('220-and one more line\r\n'.repeat(1_000))],
    ['one line', PIECE],
  ];
  for (const [what, piece] of rows) {
    const { port, sent, whenClosed } = await endlessServer(t, '220-mail.example.com\r\n', piece);
    const server = { authority: { host: 'localhost', port }, tls: 'none' as const };
    const sender = new SmtpSender({ door: doorOf(t), clock: runningClock, server, from: 'gw@example.com' });
    const card = { alertId: 'alr_1', at: 0, title: 'a', lines: [], facts: [], severity: 'info' };
    const fault: unknown = await sender.send(card as never, ['ops@example.com'], SIGNAL).catch((error: unknown) => error);
    t.match(fault, { reason: 'unreachable', retryable: true }, what);
    await whenClosed();
    t.ok(sent() < SYSTEMS, `${what}: ${sent()} bytes left the server`);
  }
});

t.test('a syslog server that talks is left when it has said 16 KiB', async (t) => {
  const { port, sent, whenClosed } = await endlessServer(t, 'hello');
  const target = { transport: 'tcp', authority: { host: 'localhost', port }, format: 'rfc5424', operatorOwn: true } as const;
  const envelope = { event_type: 'execution', event_time: '2026-11-24T12:00:00.000Z', org_id: 'acme', workload_id: 'w', payload: {} };
  const event = { id: 'evt_1', envelope };
  await sendToSyslog({ door: doorOf(t), clock: runningClock }, target, [event as never], 'node', SIGNAL).catch(() => undefined);
  await whenClosed();
  t.ok(sent() < SYSTEMS, `${sent()} bytes left the server`);
});
