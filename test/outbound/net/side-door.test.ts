// What the gateway asks for by itself: whole, bounded in size and time, through the guard, by undici.
import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { createUpstream } from '../../../src/outbound/net/create-upstream.ts';
import { SideDoor } from '../../../src/outbound/net/side-door.ts';
import type { RawWays } from '../../../src/outbound/net/upstream.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type RawBehaviour, startRawUpstream } from '../../support/raw-upstream.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';
import { until } from '../../support/upstream-calls.ts';

const SIGNAL = new AbortController().signal;

/** A door, and a server that treats each request head as `behaviour` says. */
async function opened(t: HasTeardown, behaviour: RawBehaviour, ways: Partial<RawWays> = {}) {
  const server = await startRawUpstream(behaviour);
  const clock = fakeClock();
  const upstream = createUpstream({ clock, headersTimeoutMs: 5_000, idleTimeoutMs: 5_000 });
  const connectForHttp: RawWays['connectForHttp'] = (...way) => upstream.connectForHttp(...way);
  const parentOf: RawWays['parentOf'] = (authority) => upstream.parentOf(authority);
  const door = new SideDoor({ ...upstream, connectForHttp, parentOf, ...ways }, clock);
  t.teardown(async () => {
    door.close();
    await upstream.close();
    await server.close();
  });
  const to = { authority: { host: '127.0.0.1', port: server.port }, tls: false, path: '/data.json?k=1', operatorOwn: true };
  const request = { to, headers: ['accept', 'application/json'], maxBytes: 10, signal: SIGNAL };
  return { server, clock, door, to, request };
}

const answer = (head: string, body = ''): string => `HTTP/1.1 ${head}\r\n\r\n${body}`;

t.test('an answer comes whole, with its status and fields, and is asked for without a body', async (t) => {
  const told = answer('200 OK\r\nETag: "a"\r\nContent-Length: 10', '0123456789');
  const { door, server, clock, request } = await opened(t, (socket) => socket.write(told));
  const { status, headers, body } = await door.get(request);
  t.same([status, headers.get('etag'), Buffer.from(body).toString()], [200, '"a"', '0123456789']);
  const head = `GET /data.json?k=1 HTTP/1.1\r\nhost: 127.0.0.1:${server.port}\r\nconnection: keep-alive\r\naccept: application/json\r\n\r\n`;
  t.equal(server.received, head);
  t.equal(clock.pending, 0);
});

t.test('a connection serves the next, until the door closes', async (t) => {
  const { door, server, request } = await opened(t, (socket) => socket.write(answer('200 OK\r\nContent-Length: 2', 'ok')));
  for (let i = 0; i < 3; i++) {
    await door.get(request);
    await door.post({ ...request, body: '{}' });
  }
  t.equal(server.connections, 1);
  await door.get({ ...request, to: { ...request.to, operatorOwn: false } }).catch(() => undefined);
  t.equal(server.connections, 1, 'the guard is asked for what the operator has not named');
  door.close();
  await until(() => server.open === 0);
});

t.test('an answer 304 is whole although it names the length of another', async (t) => {
  const { door, request } = await opened(t, (socket) => socket.write(answer('304 Not Modified\r\nContent-Length: 10')));
  t.equal((await door.get(request)).status, 304);
});

t.test('one that is longer than is taken is read no further', async (t) => {
  const { door, server, clock, request } = await opened(t, (socket) => socket.write(answer('200 OK\r\nContent-Length: 11', '0123456789!')));
  await t.rejects(door.get(request), { code: 'upstream_protocol', message: '127.0.0.1 sent a longer answer than is taken.' });
  await until(() => server.open === 0);
  t.equal(clock.pending, 0);
});

t.test('one that does not come in its time, or is not waited for any more, is given up', async (t) => {
  const { door, server, clock, request } = await opened(t, () => undefined);
  const late = door.get({ ...request, timeoutMs: 60_000 });
  await until(() => server.received !== '');
  clock.advance(59_999);
  t.equal(server.open, 1);
  clock.advance(1);
  await t.rejects(late, { code: 'upstream_timeout', message: /60 seconds/ });
  await until(() => server.open === 0);
  const ending = new AbortController();
  const left = door.get({ ...request, signal: ending.signal });
  await until(() => server.open === 1);
  ending.abort();
  await t.rejects(left, { code: 'shutting_down' });
  await until(() => server.open === 0);
  await t.rejects(door.get({ ...request, signal: ending.signal }), { code: 'shutting_down' });
  t.same([server.connections, clock.pending], [2, 0], 'nothing is asked then');
});

t.test('a connection that is never made is waited for no longer than the answer', async (t) => {
  const { door, clock, request } = await opened(t, () => undefined, { connectForHttp: () => new Promise(() => undefined) });
  const late = door.get(request);
  clock.advance(15_000);
  await t.rejects(late, { code: 'upstream_timeout', message: /15 seconds/ });
});

t.test('what the way says is said, and what undici says in the words of calls', async (t) => {
  const refused = () => Promise.reject(new GatewayError('egress_denied', 'lists.example.com is a private address.'));
  const { door, request } = await opened(t, () => undefined, { connectForHttp: refused });
  await t.rejects(door.get(request), { code: 'egress_denied', message: 'lists.example.com is a private address.' });
  const rows: readonly (readonly [string, { code: string; message: RegExp }])[] = [
    ['SSH-2.0-OpenSSH_9.2\r\n', { code: 'upstream_protocol', message: /^127\.0\.0\.1:\d+ sent an answer that is not valid HTTP\/1\.1\.$/ }],
    [answer('600 No'), { code: 'upstream_protocol', message: /a status that HTTP does not have/ }],
    [answer('200 OK\r\nContent-Length: 9', 'four'), { code: 'upstream_unreachable', message: /in the middle of its answer/ }],
    ['', { code: 'upstream_unreachable', message: /closed the connection before it answered/ }],
  ];
  for (const [bytes, said] of rows) {
    const { door, request } = await opened(t, (socket) => socket.end(bytes));
    await t.rejects(door.get(request), said, bytes);
  }
  await t.rejects(door.get({ ...request, headers: ['host', 'b.example'] }), { code: 'invalid_request' });
});

t.test('a parent proxy takes the whole address, and its credentials', async (t) => {
  const parent = { host: '127.0.0.1', port: 1, authorization: 'Basic dTpw' };
  const { door, server, to, request } = await opened(t, (socket) => socket.write(answer('204 No Content')), { parentOf: () => parent });
  await door.post({ ...request, body: '{}' });
  t.match(server.received, `POST http://127.0.0.1:${server.port}${to.path} HTTP/1.1\r\n`);
  t.match(server.received, 'Proxy-Authorization: Basic dTpw\r\n');
});
