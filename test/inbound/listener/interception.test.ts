// TLS that ends in this process, and what follows inside the tunnel.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect as connectH2 } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import t from 'tap';
import { fakeClock } from '../../support/fake-clock.ts';
import { requirePeer, skipWithout } from '../../support/peers.ts';
import { connectPlain, h1Request } from '../../support/raw-clients.ts';
import { errorCode, h2Client, h2Request, openTunnel, rawClient, startListener, tlsInside, watch } from './harness.ts';

const run = promisify(execFile);
const INSIDE = 'GET /inside HTTP/1.1\r\nHost: api.openai.com\r\nConnection: close\r\n\r\n';

t.test('curl verifies us and speaks h2, http/1.1 and plain HTTP through the tunnel', { skip: skipWithout(['curl']) }, async (t) => {
  const harness = await startListener(t);
  const proxy = ['--proxy', `http://me:secret@127.0.0.1:${harness.listener.port}`, '--cacert', join(harness.caDir, 'root-ca.pem')];
  const curl = async (...args: readonly string[]): Promise<string> =>
    (await run(requirePeer('curl'), ['-sS', '--max-time', '20', '-w', ' %{http_version}', ...proxy, ...args])).stdout;
  t.equal(await curl('--http2', 'https://api.openai.com/v1', '-d', 'hello'), 'hello 2');
  t.equal(await curl('--http1.1', 'https://api.openai.com/v1', '-d', 'hello'), 'hello 1.1');
  t.equal(await curl('--no-alpn', 'https://api.openai.com/v1', '-d', 'hello'), 'hello 1.1');
  t.equal(await curl('--tls-max', '1.2', 'https://api.openai.com/v1', '-d', 'hello'), 'hello 2');
  t.equal(await curl('https://[2001:db8::1]/v1', '-d', 'hello'), 'hello 2');
  t.equal(await curl('https://192.0.2.1/v1', '-d', 'hello'), 'hello 2');
  t.equal(await curl('--proxytunnel', 'http://api.openai.com/v1', '-d', 'hello'), 'hello 1.1');
  t.same(
    harness.arrivals.map(({ head }) => [
      head.httpVersion,
      head.secure,
      head.door,
      head.tunnel?.authority.host,
      head.tunnel?.authority.port,
    ]),
    [
      ['2', true, 'connect', 'api.openai.com', 443],
      ['1.1', true, 'connect', 'api.openai.com', 443],
      ['1.1', true, 'connect', 'api.openai.com', 443],
      ['2', true, 'connect', 'api.openai.com', 443],
      ['2', true, 'connect', '2001:db8::1', 443],
      ['2', true, 'connect', '192.0.2.1', 443],
      ['1.1', false, 'connect', 'api.openai.com', 80],
    ],
  );
});

// Holds: connect-chooses-the-destination
t.test('the leaf is that of the CONNECT, whatever SNI says and without any', async (t) => {
  const harness = await startListener(t);
  for (const servername of ['api.openai.com', 'evil.example', '']) {
    const tunnel = await openTunnel(t, harness.listener.port);
    const secure = connectTls({ socket: tunnel, ca: harness.ca.rootPem, servername, checkServerIdentity: () => undefined });
    t.teardown(() => secure.destroy());
    await once(secure, 'secureConnect');
    t.equal(secure.authorized, true);
    t.equal(secure.getPeerCertificate().subjectaltname, 'DNS:api.openai.com', `SNI ${servername}`);
  }
});

t.test('TLS 1.2 and 1.3 are spoken, older ones are not', async (t) => {
  const harness = await startListener(t);
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const secure = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), { minVersion: version, maxVersion: version });
    t.equal(secure.getProtocol(), version);
  }
  const old = tlsInside(t, harness, await openTunnel(t, harness.listener.port), {
    minVersion: 'TLSv1',
    maxVersion: 'TLSv1.1',
    ciphers: 'DEFAULT:@SECLEVEL=0',
  });
  await t.rejects(old);
});

t.test('clients without ECDSA are served with a leaf of RSA, all others with the usual one', async (t) => {
  const harness = await startListener(t);
  const rsaOnly = { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-GCM-SHA256' } as const;
  const table: readonly (readonly [what: string, options: ConnectionOptions, type: string])[] = [
    ['TLS 1.3', {}, 'ECDSA'],
    ['TLS 1.2', { maxVersion: 'TLSv1.2' }, 'ECDSA'],
    ['RSA suites alone', rsaOnly, 'RSA'],
    ['RSA suites of no key exchange', { maxVersion: 'TLSv1.2', ciphers: 'AES128-GCM-SHA256' }, 'RSA'],
    ['RSA suites of another age', { maxVersion: 'TLSv1.2', ciphers: 'AES128-SHA:AES256-SHA' }, 'RSA'],
    ['RSA suites of finite fields alone', { maxVersion: 'TLSv1.2', ciphers: 'DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384' }, 'RSA'],
    ['signatures of RSA alone', { maxVersion: 'TLSv1.2', sigalgs: 'rsa_pss_rsae_sha256:RSA+SHA256' }, 'RSA'],
    ['TLS 1.3 with signatures of RSA alone', { minVersion: 'TLSv1.3', sigalgs: 'rsa_pss_rsae_sha256' }, 'RSA'],
    ['no P-256', { maxVersion: 'TLSv1.2', ecdhCurve: 'X25519' }, 'RSA'],
  ];
  for (const [what, options, type] of table) {
    const secure = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), options);
    t.ok(secure.authorized, what);
    const leaf = secure.getPeerX509Certificate();
    t.equal(leaf?.publicKey.asymmetricKeyType, type === 'RSA' ? 'rsa' : 'ec', what);
    t.equal(leaf?.subjectAltName, 'DNS:api.openai.com');
    secure.write(INSIDE);
    t.match(String((await once(secure, 'data'))[0]), /^HTTP\/1\.1 200/, what);
    secure.destroy();
  }
  const many = await Promise.all(
    Array.from({ length: 8 }, async () => tlsInside(t, harness, await openTunnel(t, harness.listener.port), rsaOnly)),
  );
  const shown = new Set(many.map((secure) => secure.getPeerX509Certificate()?.fingerprint256));
  t.equal(shown.size, 1, 'the leaf is made once');
});

t.test('h2 is chosen when it is offered, http/1.1 when it is not, and a foreign protocol is refused', async (t) => {
  const harness = await startListener(t);
  const offers: readonly (readonly [string[], string | false])[] = [
    [['http/1.1', 'h2'], 'h2'],
    [['http/1.1'], 'http/1.1'],
    [[], false],
  ];
  for (const [offer, chosen] of offers) {
    const secure = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), { ALPNProtocols: offer });
    t.equal(secure.alpnProtocol, chosen);
  }
  await t.rejects(tlsInside(t, harness, await openTunnel(t, harness.listener.port), { ALPNProtocols: ['smtp'] }));
});

t.test('a session is resumed by the same host', async (t) => {
  const harness = await startListener(t);
  const first = await tlsInside(t, harness, await openTunnel(t, harness.listener.port));
  const ticket = once(first, 'session');
  first.write(INSIDE);
  first.resume();
  const [session]: unknown[] = await ticket;
  if (!Buffer.isBuffer(session)) throw new Error('no session');
  const second = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), { session });
  t.equal(second.isSessionReused(), true);
});

t.test('a ClientHello that is sent together with the CONNECT is not lost', async (t) => {
  const harness = await startListener(t);
  const socket = connectTcp({ port: harness.listener.port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  // The first thing that the TLS client writes is its ClientHello; the CONNECT is put in front of it.
  let connect = Buffer.from('CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\n\r\n');
  let answer = '';
  const inside = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => {
      socket.write(Buffer.concat([connect, chunk]));
      connect = Buffer.alloc(0);
      done();
    },
  });
  socket.on('data', (chunk: Buffer) => {
    const rest = answer === '' ? chunk.indexOf('\r\n\r\n') + 4 : 0;
    answer += chunk.subarray(0, rest).toString();
    if (rest < chunk.length) inside.push(chunk.subarray(rest));
  });
  const secure = connectTls({ socket: inside, ca: harness.ca.rootPem, servername: 'api.openai.com' });
  t.teardown(() => secure.destroy());
  await once(secure, 'secureConnect');
  t.equal(answer, 'HTTP/1.1 200 Connection Established\r\n\r\n');
  const client = watch(secure);
  secure.write(INSIDE);
  t.match(await client.until(/\r\n\r\n/), /^HTTP\/1\.1 200 /);
});

t.test('plain HTTP behind the CONNECT is served, sent later or together with it', async (t) => {
  const harness = await startListener(t);
  const together = await rawClient(t, harness.listener.port);
  together.socket.write(`CONNECT api.openai.com:80 HTTP/1.1\r\nHost: x\r\n\r\n${INSIDE}`);
  t.match((await together.closed).text, /^HTTP\/1\.1 200 Connection Established\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  const later = watch(await openTunnel(t, harness.listener.port, 'api.openai.com:80'));
  later.socket.write(INSIDE);
  t.match((await later.closed).text, /^HTTP\/1\.1 200 OK/);
  const garbage = watch(await openTunnel(t, harness.listener.port, 'api.openai.com:80'));
  garbage.socket.write('SSH-2.0-OpenSSH\r\n');
  t.equal(errorCode((await garbage.closed).text), 'bad_framing');
});

t.test('CONNECT and WebSocket upgrades open nothing inside a tunnel', async (t) => {
  const harness = await startListener(t);
  const nested = 'CONNECT other.example:443 HTTP/1.1\r\nHost: other.example\r\n\r\n';
  const secure = watch(await tlsInside(t, harness, await openTunnel(t, harness.listener.port)));
  secure.socket.write(nested);
  t.equal(errorCode((await secure.closed).text), 'invalid_target');
  const session = await h2Client(t, harness);
  const stream = session.request({ ':method': 'CONNECT', ':authority': 'other.example:443' });
  const response: unknown[] = await once(stream, 'response');
  t.match(response[0], { ':status': 400 });
  stream.destroy();
  t.equal(session.remoteSettings.enableConnectProtocol ?? false, false, 'extended CONNECT is not offered');
  t.equal(harness.arrivals.length, 0);
  const upgrade = watch(await tlsInside(t, harness, await openTunnel(t, harness.listener.port)));
  upgrade.socket.write('GET /v1/realtime HTTP/1.1\r\nHost: api.openai.com\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n');
  t.match((await upgrade.closed).text, /^HTTP\/1\.1 200 /, 'it arrives as a request');
  t.equal(harness.arrivals[0]?.head.headers['upgrade'], 'websocket');
});

t.test('the tunnel that was decided travels with each of its requests', async (t) => {
  const harness = await startListener(t, {
    onTunnel: ({ authority, proxyUser }) =>
      Promise.resolve({
        kind: 'intercept',
        tunnel: { authority, ...(proxyUser === undefined ? {} : { proxyUser, fixedWorkload: proxyUser }) },
      }),
  });
  const fields = `Proxy-Authorization: Basic ${Buffer.from('ci:x').toString('base64')}\r\n`;
  const tunnel = await openTunnel(t, harness.listener.ambientPort, 'api.openai.com:443', fields);
  const session = connectH2('https://api.openai.com', {
    createConnection: () => connectTls({ socket: tunnel, ca: harness.ca.rootPem, servername: 'api.openai.com', ALPNProtocols: ['h2'] }),
  });
  t.teardown(() => session.destroy());
  await Promise.all([h2Request(session, { ':path': '/1' }), h2Request(session, { ':path': '/2' })]);
  for (const { head } of harness.arrivals) t.match(head, { trafficClass: 'ambient', tunnel: { fixedWorkload: 'ci' } });
  t.equal(harness.arrivals.length, 2);
});

t.test('an h2 client is told of 128 streams at once and of heads up to 64 KiB', async (t) => {
  const harness = await startListener(t, { onArrival: () => undefined });
  const session = await h2Client(t, harness);
  await once(session, 'remoteSettings');
  t.equal(session.remoteSettings.maxConcurrentStreams, 128);
  t.equal(session.remoteSettings.maxHeaderListSize, 65_536);
});

t.test('a client that does not trust us, or says no TLS at all, ends its own connection and nothing else', async (t) => {
  const harness = await startListener(t);
  const distrustful = connectTls({ socket: await openTunnel(t, harness.listener.port), servername: 'api.openai.com' });
  const [error]: unknown[] = await once(distrustful, 'error');
  t.match(error, { code: /UNABLE_TO_VERIFY|SELF_SIGNED|UNABLE_TO_GET/ });
  await t.test('curl neither', { skip: skipWithout(['curl']) }, async (t) => {
    await run(requirePeer('curl'), ['-sS', '--proxy', `http://127.0.0.1:${harness.listener.port}`, 'https://api.openai.com/']).then(
      () => t.fail('curl trusted an unknown root'),
      (failure: unknown) => t.match(String(failure), /certificate/),
    );
  });
  const broken = watch(await openTunnel(t, harness.listener.port));
  broken.socket.write('\x16\x03\x01\x00\x05hello', 'latin1');
  await broken.closed;
  while (harness.listener.openConnections > 0) await new Promise(setImmediate);
  t.equal(harness.listener.openTunnels, 0);
});

/**
 * Bytes that are no part of a TLS connection that stands: a record that was altered, no TLS at all, an alert that is
 * not encrypted.
 */
const BREAKS = [`\x17\x03\x03\x00\x40${'\x07'.repeat(64)}`, 'GET / HTTP/1.1\r\n\r\n', '\x15\x03\x03\x00\x02\x02\x30'] as const;

t.test('what breaks TLS after the handshake ends the connection at once, over both protocols and versions', async (t) => {
  const harness = await startListener(t, { onArrival: () => undefined });
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    for (const protocol of ['http/1.1', 'h2']) {
      for (const bytes of BREAKS) {
        for (const waits of [false, true]) {
          const tunnel = await openTunnel(t, harness.listener.port);
          // The client's TLS is spoken beside the socket, so that bytes of another kind can be put on it.
          const beside = new Duplex({ read: () => undefined, write: (chunk, _encoding, done) => void tunnel.write(chunk, () => done()) });
          tunnel.on('data', (chunk) => beside.push(chunk));
          const secure = connectTls({
            socket: beside,
            ca: harness.ca.rootPem,
            servername: 'api.openai.com',
            ALPNProtocols: [protocol],
            maxVersion,
          });
          secure.on('error', () => undefined);
          await once(secure, 'secureConnect');
          const arrived = harness.arrivals.length;
          if (protocol === 'h2') {
            const session = connectH2('https://api.openai.com', { createConnection: () => secure });
            session.on('error', () => undefined);
            await once(session, 'remoteSettings');
            if (waits) session.request({}).on('error', () => undefined);
          } else if (waits) secure.write('GET / HTTP/1.1\r\nHost: api.openai.com\r\n\r\n');
          while (waits && harness.arrivals.length === arrived) await new Promise(setImmediate);
          const closed = new Promise((resolve) => tunnel.once('close', resolve));
          tunnel.write(bytes, 'latin1');
          await closed;
          while (harness.listener.openConnections > 0) await new Promise(setImmediate);
          secure.destroy();
        }
      }
    }
  }
  t.equal(harness.listener.openTunnels, 0);
});

t.test('a client of TLS 1.2 that renegotiates without an end is cut', async (t) => {
  const harness = await startListener(t);
  const secure = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), { maxVersion: 'TLSv1.2' });
  const ended = new Promise((resolve) => secure.once('close', resolve));
  let done = 0;
  const again = (): void => {
    if (done < 100 && !secure.destroyed) secure.renegotiate({}, (error) => void (error === null && ++done && again()));
  };
  again();
  await ended;
  t.ok(done > 0 && done < 10, `${done} times`);
});

t.test('sixty clients that leave, by each way there is, leave no connection and no descriptor behind', async (t) => {
  const harness = await startListener(t);
  const descriptors = (): number => readdirSync('/proc/self/fd').length;
  await h2Request(await h2Client(t, harness), {});
  const before = descriptors();
  for (let i = 0; i < 60; i++) {
    const tunnel = await openTunnel(t, harness.listener.port);
    const secure = await tlsInside(t, harness, tunnel, { ALPNProtocols: ['h2'] });
    const session = connectH2('https://api.openai.com', { createConnection: () => secure });
    session.on('error', () => undefined);
    await h2Request(session, {});
    if (i % 3 === 0) session.close();
    else if (i % 3 === 1) session.destroy();
    else tunnel.destroy();
  }
  const deadline = performance.now() + 60_000;
  while ((harness.listener.openConnections > 1 || descriptors() > before) && performance.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, 5));
  t.equal(harness.listener.openConnections, 1, 'the first one is still there');
  t.equal(descriptors(), before);
});

t.test('deadlines: a silent tunnel, a stopped handshake, an idle h2 connection and a body that never ends are closed', async (t) => {
  const clock = fakeClock();
  const harness = await startListener(t, { clock });
  const { listener } = harness;
  const silent = watch(await openTunnel(t, listener.port));
  const stopped = watch(await openTunnel(t, listener.port));
  stopped.socket.write('\x16\x03\x01', 'latin1');
  const idle = await h2Client(t, harness);
  const idleClosed = once(idle, 'close');
  clock.advance(9_000);
  t.equal(listener.openTunnels, 3);
  clock.advance(3_000);
  await Promise.all([silent.closed, stopped.closed]);
  t.equal(idle.closed, false);
  const slow = await h2Client(t, harness);
  await h2Request(slow, {});
  const stream = slow.request({ ':method': 'POST', ':path': '/' });
  stream.on('error', () => undefined);
  stream.write('begin');
  while (harness.arrivals.length < 2) await new Promise(setImmediate);
  clock.advance(80_000);
  await idleClosed;
  t.equal(slow.closed, false, 'a connection with a running request is not idle');
  const cancelled = once(stream, 'close');
  clock.advance(230_000);
  await cancelled;
  t.equal(stream.rstCode, 8, 'CANCEL');
});

t.test('deadlines of http/1.1 inside a tunnel: a head that never ends is 408', async (t) => {
  const harness = await startListener(t, { limits: { headersMs: 1_500, requestMs: 1_500, keepAliveMs: 1_000 } });
  const slow = watch(await openTunnel(t, harness.listener.port, 'api.openai.com:80'));
  slow.socket.write('GET / HTTP/1.1\r\nHost: ');
  const { text } = await slow.closed;
  t.match(text, /^HTTP\/1\.1 408 /);
  t.equal(errorCode(text), 'request_timeout');
  const idle = watch(await tlsInside(t, harness, await openTunnel(t, harness.listener.port)));
  idle.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  t.match((await idle.closed).text, /^HTTP\/1\.1 200 /, 'kept alive for a while, then closed');
});

t.test('requests that came in time are answered, however late a busy event loop hears of them', async (t) => {
  const keepAliveMs = 50;
  const harness = await startListener(t, { limits: { keepAliveMs } });
  const { port } = harness.listener;
  const inside = await tlsInside(t, harness, await openTunnel(t, port));
  const connections = [await connectPlain(port), await openTunnel(t, port, 'api.openai.com:80'), inside];
  const ask = () => Promise.allSettled(connections.map((connection) => h1Request(connection, 'x', { path: '/' })));
  for (const connection of connections) t.teardown(() => connection.destroy());
  await ask();
  const answers = new Promise<Awaited<ReturnType<typeof ask>>>((resolve) => {
    setImmediate(() => {
      resolve(ask());
      // Deadlines come next, and what has come is read after them. node:http waits for a second longer than it says.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, keepAliveMs + 1_200);
    });
  });
  t.same(
    (await answers).map((answer) => (answer.status === 'fulfilled' ? answer.value.status : String(answer.reason))),
    [200, 200, 200],
  );
});
