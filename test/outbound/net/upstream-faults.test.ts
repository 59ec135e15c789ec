import { createServer } from 'node:net';
import type { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { createUpstream } from '../../../src/outbound/net/create-upstream.ts';
import type { UpstreamHandle } from '../../../src/outbound/net/upstream.ts';
import { fakeClock, runningClock } from '../../support/fake-clock.ts';
import { MISBEHAVIOUR, type RawBehaviour, startRawUpstream } from '../../support/raw-upstream.ts';
import { certificateOf, listenOnFreePort, startPlainUpstream, startTlsUpstream } from '../../support/tls-upstream.ts';
import { at, collect, eachClient, events, fill, spokenBy, until } from '../../support/upstream-calls.ts';

eachClient('a connection that failed or was closed gives its place back', async (t, openUpstream) => {
  let behaviour: keyof typeof MISBEHAVIOUR = 'halfCloses';
  const server = await startRawUpstream((socket, text) => (MISBEHAVIOUR[behaviour] as RawBehaviour)(socket, text));
  t.teardown(() => server.close());
  const upstream = openUpstream(t, { maxConnections: 1 });
  for (const name of ['halfCloses', 'resets', 'halfCloses', 'closes', 'resets', 'halfCloses', 'halfCloses'] as const) {
    behaviour = name;
    t.equal((await collect(upstream, { authority: at(server) })).body, name === 'halfCloses' ? 'ok' : '');
    await until(() => server.open === 0);
  }
  behaviour = 'untilClose';
  const all = await Promise.all(Array.from({ length: 4 }, () => collect(upstream, { authority: at(server) })));
  t.same(
    new Set(all.map((outcome) => outcome.body)),
    new Set(['up to the end']),
    'waiting calls get a new connection when the one before is gone',
  );
  const gone = await startPlainUpstream();
  await gone.close();
  for (let i = 0; i < 3; i++) t.match((await collect(upstream, { authority: at(gone) })).error, { message: /refused/ });
});

eachClient('a call that was sent is never sent again, not even when an idle connection proves dead', async (t, openUpstream) => {
  const server = await startRawUpstream((socket) => {
    if (server.connections === 1 && !server.received.includes('/second')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    else socket.resetAndDestroy();
  });
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
  t.equal((await collect(upstream, { authority: at(server) })).body, 'ok');
  const outcome = await collect(upstream, { authority: at(server), method: 'POST', path: '/second', body: Buffer.from('once') });
  t.match(outcome.error, { code: 'upstream_unreachable', message: /closed the connection before it answered/ });
  t.equal(server.received.split('/second').length, 2);
  t.equal(server.connections, 1);
});

eachClient('broken upstreams are told apart, in words for people', async (t, openUpstream) => {
  const cases = [
    ['closes', 'upstream_unreachable', /closed the connection before it answered/],
    ['resets', 'upstream_unreachable', /closed the connection before it answered/],
    ['cutsLength', 'upstream_unreachable', /in the middle of its answer/],
    ['cutsChunks', 'upstream_unreachable', /in the middle of its answer/],
    ['cutsLastChunks', 'upstream_unreachable', /in the middle of its answer/],
    ['garbage', 'upstream_protocol', /not valid HTTP/],
    ['hugeHead', 'upstream_protocol', /head that is too large/],
    ['upgrades', 'upstream_protocol', /switched to a protocol/],
  ] as const;
  for (const [name, code, message] of cases) {
    const server = await startRawUpstream(MISBEHAVIOUR[name]);
    t.teardown(() => server.close());
    const { error } = await collect(openUpstream(t), { authority: at(server) });
    t.match(error, { code, message }, name);
    t.notMatch(error?.message, /\n|\.[jt]s\b/, `${name}: no stack`);
  }
  const gone = await startPlainUpstream();
  await gone.close();
  t.match((await collect(openUpstream(t), { authority: at(gone) })).error, {
    code: 'upstream_unreachable',
    message: /refused the connection/,
  });
});

eachClient('each fault of a certificate has its own message, and nothing was sent', async (t, openUpstream) => {
  const cases = [
    ['expired', /has expired/],
    ['not-yet-valid', /not valid yet/],
    ['wrong-host', /for another host/],
    ['self-signed', /self-signed/],
    ['untrusted', /not trusted/],
    ['common-name-only', /names no host/],
    ['odd-extension', /critical extension that is not understood/],
  ] as const;
  for (const [certificate, message] of cases) {
    const server = await startTlsUpstream({ certificate, hosts: ['localhost'] });
    t.teardown(() => server.close());
    const upstream = openUpstream(t, { caFile: server.caPem, lookup: async () => ['127.0.0.1'] });
    // Twice: a session of a refused certificate must not open the door the second time.
    for (const round of [1, 2]) {
      const { error } = await collect(upstream, { authority: at(server, 'localhost'), tls: true });
      t.match(error, { code: 'upstream_tls', message }, `${certificate} ${round}`);
    }
    t.equal(server.requests.length, 0, certificate);
  }
  const plain = createServer((socket) =>
    socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).on('error', () => undefined),
  );
  const port = await listenOnFreePort(plain);
  t.teardown(() => plain.close());
  t.match((await collect(openUpstream(t), { authority: at({ port }), tls: true })).error, {
    code: 'upstream_tls',
    message: /does not speak TLS/,
  });
});

eachClient('the environment of the process cannot turn the look at certificates off', async (t, openUpstream) => {
  const server = await startTlsUpstream({ certificate: 'untrusted', h2: true });
  t.teardown(() => server.close());
  const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
  t.teardown(() => {
    if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before;
  });
  const upstream = openUpstream(t, { connectTo: [{ host: 'localhost', port: 443, toHost: '127.0.0.1', toPort: server.port }] });
  const { error } = await collect(upstream, { authority: { host: 'localhost', port: 443 }, tls: true });
  t.match(error, { code: 'upstream_tls', message: /not trusted/ });
  const dialled = await upstream.dial({ host: 'localhost', port: 443 }, ['h2', 'http/1.1']);
  t.teardown(() => dialled.close());
  const relayed = await collect(upstream, { authority: { host: 'localhost', port: 443 }, tls: true, on: dialled });
  t.match(relayed.error, { code: 'upstream_tls', message: /not trusted/ });
  t.equal(server.requests.length, 0);
});

eachClient(
  'an origin that asks for a client certificate is told apart from one without a common TLS version, in TLS 1.2 and 1.3',
  async (t, openUpstream) => {
    for (const version of [{}, { maxVersion: 'TLSv1.2' }] as const) {
      const server = await startTlsUpstream({ clientCertificate: true, ...version });
      t.teardown(() => server.close());
      for (const size of [0, 1_000_000]) {
        const upstream = openUpstream(t, { caFile: server.caPem, lookup: async () => ['127.0.0.1'] });
        const { error } = await collect(upstream, {
          authority: at(server, 'localhost'),
          tls: true,
          method: 'POST',
          body: Buffer.alloc(size),
        });
        t.match(
          error,
          { code: 'upstream_tls', message: /asks for a client certificate, and the gateway has none \(GW_PROXY_BYPASS .*\)\.$/ },
          `${JSON.stringify(version)} ${size}`,
        );
      }
      t.equal(server.requests.length, 0);
    }
    const refusing = createServer((socket) =>
      socket.once('data', () => socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 40]))).on('error', () => undefined),
    );
    const port = await listenOnFreePort(refusing);
    t.teardown(() => refusing.close());
    const { error } = await collect(openUpstream(t), { authority: at({ port }), tls: true });
    t.match(error, { code: 'upstream_tls', message: /no TLS version or cipher that both sides accept/ });
  },
);

eachClient('a handshake that does not end is 504 after ten seconds', async (t, openUpstream) => {
  const clock = fakeClock();
  const server = createServer((socket) => void socket.on('error', () => undefined).resume());
  const port = await listenOnFreePort(server);
  t.teardown(() => server.close());
  const outcome = collect(openUpstream(t, { clock }), { authority: at({ port }), tls: true });
  await new Promise((resolve) => server.once('connection', (socket) => socket.once('data', resolve)));
  clock.advance(10_000);
  t.match((await outcome).error, { code: 'upstream_timeout', message: /TLS handshake within 10 seconds/ });
});

eachClient(
  'sessions are resumed, SNI is the host, and an address literal has none but is checked against the certificate',
  async (t, openUpstream) => {
    const server = await startTlsUpstream((_request, response) => {
      response.setHeader('Connection', 'close');
      response.end('ok');
    });
    t.teardown(() => server.close());
    const upstream = openUpstream(t, { caFile: server.caPem, lookup: async () => ['127.0.0.1'] });
    for (let i = 0; i < 3; i++) t.equal((await collect(upstream, { authority: at(server, 'localhost'), tls: true })).body, 'ok');
    t.equal(server.requests[0]?.servername, 'localhost');
    t.ok(server.resumed >= 1, 'a later handshake resumes');
    t.match(await collect(upstream, { authority: at(server), tls: true }), { body: 'ok' });
    t.notOk(server.requests[3]?.servername);
    const { certPem } = certificateOf('good', ['x.example']);
    t.throws(() => openUpstream(t, { caFile: `${certPem.slice(0, 60)}garbage` }));
  },
);

eachClient('abort closes the upstream connection at once, is silent, and dials nothing anew', async (t, openUpstream) => {
  const server = await startRawUpstream(MISBEHAVIOUR.stalls);
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
  const log: string[] = [];
  const handle = await new Promise<UpstreamHandle>((resolve) => {
    const started: UpstreamHandle = upstream.call(
      fill({ authority: at(server) }),
      events({
        onData: () => {
          resolve(started);
          return true;
        },
        onEnd: () => log.push('end'),
        onError: (error) => log.push(error.code),
      }),
    );
  });
  t.equal(server.open, 1);
  handle.abort();
  handle.abort();
  await until(() => server.open === 0);
  await new Promise((resolve) => setTimeout(resolve, 30));
  t.same([server.connections, log], [1, []]);
});

eachClient('abort before the connection stands sends nothing and leaves the connection to the next call', async (t, openUpstream) => {
  const server = await startPlainUpstream();
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
  upstream.call(fill({ authority: at(server) }), events({ onHead: () => t.fail('was sent') })).abort();
  await until(() => server.open === 1);
  t.equal((await collect(upstream, { authority: at(server) })).body, '{"ok":true}');
  t.same([server.requests.length, server.connections], [1, 1]);
});

eachClient('a source that fails breaks the upstream call, and a call that is aborted lets go of its source', async (t, openUpstream) => {
  const server = await startPlainUpstream((_request, response, body) => void body.then(() => response.end('ok')));
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
  const broken = new Error('the client left');
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('begin');
    await until(() => server.requests.length === 1);
    throw broken;
  }
  const outcome = await collect(upstream, { authority: at(server), method: 'POST', body: failing() });
  t.match(outcome.error, { code: 'client_gone', cause: broken });
  t.equal(await server.requests[0]?.complete, false, 'the upstream sees a cut request');

  let released = false;
  const source: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise(() => undefined),
      return: async () => {
        released = true;
        return { done: true, value: undefined };
      },
    }),
  };
  const handle = upstream.call(fill({ authority: at(server), method: 'POST', body: source }), events({}));
  await new Promise((resolve) => setTimeout(resolve, 20));
  handle.abort();
  await until(() => released);
  t.pass('released');
});

eachClient(
  'silence before the head and inside the body is 504, measured from the last sign of life; a held-back client is no silence',
  async (t, openUpstream) => {
    const clock = fakeClock();
    const server = await startRawUpstream((socket, text) => (text.includes('/stalls') ? MISBEHAVIOUR.stalls(socket) : undefined));
    t.teardown(() => server.close());
    const upstream = openUpstream(t, { clock, headersTimeoutMs: 8_000, idleTimeoutMs: 4_000 });
    const log: string[] = [];
    const start = (path: string, keepReading: boolean): UpstreamHandle =>
      upstream.call(
        fill({ authority: at(server), path }),
        events({
          onData: () => {
            log.push(`${path} data`);
            return keepReading;
          },
          onError: (error) => log.push(`${path} ${error.code}: ${error.message.replace(/^\S+ /, '')}`),
        }),
      );
    start('/silent', true);
    start('/stalls', true);
    start('/stalls-paused', false);
    await until(() => log.length === 2 && server.received.includes('/silent'));
    clock.advance(3_900);
    t.equal(log.length, 2);
    clock.advance(1_100);
    t.same(log.slice(2), ['/stalls upstream_timeout: was silent for 4 seconds in the middle of its answer.']);
    clock.advance(2_900);
    t.equal(log.length, 3);
    clock.advance(1_200);
    t.same(log.slice(3), ['/silent upstream_timeout: did not begin to answer within 8 seconds.']);
    await until(() => server.open === 1);
    clock.advance(60_000);
    t.equal(log.length, 4, 'the paused one is still there');
  },
);

eachClient('what cannot be sent is refused after the call has returned', async (t, openUpstream) => {
  const server = await startPlainUpstream();
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
  for (const bad of [
    { path: 'no-slash' },
    { headers: ['X-Bad', 'a\r\nb'] },
    { method: 'GE T' },
    { path: '/a b' },
    { headers: ['Bad Name', 'x'] },
    { headers: ['host', 'evil.example'] },
  ]) {
    let returned = false;
    const error = await new Promise<GatewayError>((resolve) => {
      const onError = (failure: GatewayError): void => {
        t.ok(returned);
        resolve(failure);
      };
      upstream.call(fill({ authority: at(server), ...bad }), events({ onError }));
      returned = true;
    });
    t.match(error, { code: 'invalid_request', message: /cannot be sent/ }, JSON.stringify(bad));
  }
  t.equal(server.requests.length, 0);
});

eachClient('close ends what is under way and refuses what comes after', async (t, _open, client) => {
  const server = await startRawUpstream(MISBEHAVIOUR.stalls);
  t.teardown(() => server.close());
  const upstream = createUpstream({ ...spokenBy(client), clock: runningClock, headersTimeoutMs: 60_000, idleTimeoutMs: 60_000 });
  const running = collect(upstream, { authority: at(server) });
  await until(() => server.received !== '');
  await upstream.close();
  t.match((await running).error, { code: 'shutting_down' });
  t.match((await collect(upstream, { authority: at(server) })).error, { code: 'shutting_down' });
  await until(() => server.open === 0);
});
