import { once } from 'node:events';
import t from 'tap';
import type { Arrival } from '../../../src/base/model/arrival.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { dialTo, exchange, h2Client, openTunnel, rawClient, startListener, tcpServer, tlsInside, watch } from './harness.ts';

t.test('draining refuses new connections, ends idle ones at once, and waits for nothing else', async (t) => {
  const harness = await startListener(t);
  const { listener } = harness;
  const fresh = await rawClient(t, listener.port);
  const used = await rawClient(t, listener.ambientPort);
  used.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await used.until(/200 OK.*\r\n\r\n/s);
  const inner = watch(await tlsInside(t, harness, await openTunnel(t, listener.port)));
  const h2 = await h2Client(t, harness);
  const goaway = once(h2, 'goaway');
  const waiting = watch(await openTunnel(t, listener.port));
  t.equal(listener.openConnections, 5);
  t.equal(await listener.drain(10_000), true);
  await Promise.all([fresh.closed, used.closed, inner.closed, waiting.closed, goaway]);
  t.equal(listener.openConnections, 0);
  await t.rejects(rawClient(t, listener.port), { code: 'ECONNREFUSED' });
});

t.test('what was sent before its client could know of the drain is answered, as the last request of its connection', async (t) => {
  const harness = await startListener(t, { limits: { firstRequestMs: 60_000 } });
  const { listener } = harness;
  const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
  const [fresh, half, asksForTunnel, used] = await Promise.all([1, 2, 3, 4].map(() => rawClient(t, listener.port)));
  const inside = watch(await tlsInside(t, harness, await openTunnel(t, listener.ambientPort)));
  for (const client of [used, inside]) {
    client?.socket.write(get);
    await client?.until(/200 OK.*\r\n\r\n/s);
  }
  half?.socket.write(get.slice(0, 20));
  while (listener.openConnections < 5) await new Promise(setImmediate);
  used?.socket.write(get);
  const drained = listener.drain(60_000);
  for (let i = 0; i < 20; i++) await new Promise(setImmediate);
  fresh?.socket.write(get);
  half?.socket.write(get.slice(20));
  asksForTunnel?.socket.write('CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n');
  const texts = (await Promise.all([fresh?.closed, half?.closed, used?.closed, asksForTunnel?.closed])).map((closed) => closed?.text ?? '');
  t.equal(await drained, true);
  for (const text of texts.slice(0, 3)) t.match(text, /HTTP\/1\.1 200 OK\r\n(?:[^\r]+\r\n)*Connection: close\r\n/);
  t.match(texts[3], /^HTTP\/1\.1 503 /);
  await inside.closed;
});

t.test('draining lets running streams finish on both protocols and closes their connections then', async (t) => {
  const running: Arrival[] = [];
  const harness = await startListener(t, {
    onArrival: (arrival) => {
      running.push(arrival);
      if (arrival.head.rawTarget === '/later') return;
      arrival.reply.head(200, ['content-type', 'text/event-stream']);
      arrival.reply.write(Buffer.from('one'));
    },
  });
  const { listener } = harness;
  const stream = await rawClient(t, listener.port);
  stream.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await stream.until(/one/);
  const later = await rawClient(t, listener.port);
  later.socket.write('GET /later HTTP/1.1\r\nHost: x\r\n\r\n');
  const session = await h2Client(t, harness);
  const h2 = session.request({ ':path': '/' });
  let h2Text = '';
  h2.on('data', (chunk: Buffer) => {
    h2Text += chunk.toString();
  });
  await once(h2, 'data');
  while (running.length < 3) await new Promise(setImmediate);
  const drained = listener.drain(10_000);
  for (let i = 0; i < 20; i++) await new Promise(setImmediate);
  t.equal(listener.openConnections, 3);
  for (const { head, reply } of running) {
    if (head.rawTarget === '/later') {
      reply.sendWhole(200, [], Buffer.from('late'));
    } else {
      reply.write(Buffer.from('two'));
      reply.end();
    }
  }
  const [first, second] = await Promise.all([stream.closed, later.closed, once(h2, 'close')]);
  t.equal(await drained, true);
  t.match(first.text, /one\r\n3\r\ntwo\r\n0\r\n\r\n$/);
  t.match(second.text, /Connection: close\r\n.*late$/s, 'what begins to answer while draining says that it is the last');
  t.equal(h2Text, 'onetwo');
});

t.test('what is not done in time is cut, and the caller is told', async (t) => {
  const gone: string[] = [];
  const { listener } = await startListener(t, {
    onArrival: ({ reply }) => {
      reply.onGone(() => gone.push('gone'));
      reply.head(200, []);
      reply.write(Buffer.from('x'));
    },
  });
  const client = await rawClient(t, listener.port);
  client.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await client.until(/x/);
  t.equal(await listener.drain(30), false);
  t.same(gone, ['gone']);
  await client.closed;
});

t.test('an idle tunnel is ended at once, an active one when it falls silent', async (t) => {
  const far = await tcpServer(t, (socket) => {
    socket.pipe(socket);
  });
  const clock = fakeClock();
  const { listener } = await startListener(t, {
    clock,
    limits: { idleTunnelMs: 5_000 },
    onTunnel: () => Promise.resolve({ kind: 'tunnel' }),
    dial: () => dialTo(far.port),
  });
  const idle = watch(await openTunnel(t, listener.port));
  const active = watch(await openTunnel(t, listener.port));
  clock.advance(5_000);
  active.socket.write('ping');
  await active.until(/ping/);
  const drained = listener.drain(60_000);
  await idle.closed;
  t.equal(active.socket.destroyed, false);
  active.socket.write('pong');
  await active.until(/pong/);
  clock.advance(4_000);
  active.socket.write('pung');
  await active.until(/pung/);
  clock.advance(4_000);
  t.equal(listener.openTunnels, 1, 'one second is left');
  clock.advance(1_500);
  await active.closed;
  t.equal(await drained, true);
});

t.test('a CONNECT on a connection that is still there while draining is 503', async (t) => {
  let decide: (() => void) | undefined;
  const { listener } = await startListener(t, {
    onTunnel: ({ authority }) =>
      new Promise((resolve) => {
        decide = () => resolve({ kind: 'intercept', tunnel: { authority } });
      }),
  });
  const answer = exchange(t, listener.port, 'CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\n\r\n');
  while (decide === undefined) await new Promise(setImmediate);
  const drained = listener.drain(10_000);
  decide();
  t.match(await answer, /^HTTP\/1\.1 503 .*shutting_down/s);
  t.equal(await drained, true);
});

t.test('close ends everything at once, twice as well as once', async (t) => {
  const harness = await startListener(t, { onArrival: () => undefined });
  const client = await rawClient(t, harness.listener.port);
  client.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  const session = await h2Client(t, harness);
  const sessionClosed = once(session, 'close');
  while (harness.arrivals.length === 0) await new Promise(setImmediate);
  await Promise.all([harness.listener.close(), harness.listener.close()]);
  await Promise.all([client.closed, sessionClosed]);
  t.equal(harness.listener.openConnections, 0);
});
