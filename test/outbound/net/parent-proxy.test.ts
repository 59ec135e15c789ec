import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { proxyAddress } from '../../../src/base/config/setting-types.ts';
import type { UpstreamOptions } from '../../../src/outbound/net/create-upstream.ts';
import type { ParentProxy } from '../../../src/outbound/net/parent-proxy.ts';
import type { Upstream, UpstreamHandle } from '../../../src/outbound/net/upstream.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type ParentProxyOptions, refusal, startParentProxy, type TestParentProxy } from '../../support/parent-proxy.ts';
import { MISBEHAVIOUR, startRawUpstream } from '../../support/raw-upstream.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';
import { closeServer, listenOnFreePort, startPlainUpstream, startTlsUpstream, trackSockets } from '../../support/tls-upstream.ts';
import { collect, eachClient, events, fill, type OpenUpstream, until } from '../../support/upstream-calls.ts';

const TLS = { host: 'api.openai.com', port: 443 };
const PLAIN = { host: 'plain.example', port: 80 };
const GUARDED = { operatorOwn: false };

async function parent(t: HasTeardown, options: ParentProxyOptions = {}): Promise<TestParentProxy> {
  const proxy = await startParentProxy(options);
  t.teardown(() => proxy.close());
  return proxy;
}

/** An upstream door behind `proxy`. Its own resolver fails every look-up: the parent resolves the names. */
function behind(
  openUpstream: OpenUpstream,
  t: HasTeardown,
  proxy: { port: number },
  userInfo = '',
  options: Partial<UpstreamOptions> = {},
): Upstream {
  const parentProxy: ParentProxy = proxyAddress.parse(`http://${userInfo}127.0.0.1:${proxy.port}`);
  return openUpstream(t, { parentProxy, lookup: async (host) => Promise.reject(new Error(`${host} was looked up`)), ...options });
}

eachClient(
  'TLS goes through CONNECT with credentials that the origin never sees; connections are kept and sessions resumed',
  async (t, openUpstream) => {
    const server = await startTlsUpstream({
      hosts: [TLS.host],
      handler: (request, response) => {
        if (request.url === '/last') response.setHeader('Connection', 'close');
        response.end('ok');
      },
    });
    t.teardown(() => server.close());
    const proxy = await parent(t, { credentials: 'us er:pä:ss', ports: { 'api.openai.com:443': server.port } });
    const upstream = behind(openUpstream, t, proxy, 'us%20er:p%C3%A4:ss@', { caFile: server.caPem });
    for (const path of ['/a', '/b', '/last', '/again']) {
      const outcome = await collect(upstream, { authority: TLS, tls: true, path, ...GUARDED });
      t.same([outcome.error, outcome.body], [undefined, 'ok'], path);
    }
    t.same([server.connections, server.resumed, server.requests.length], [2, 1, 4]);
    const authorization = `Basic ${Buffer.from('us er:pä:ss').toString('base64')}`;
    t.same(
      proxy.requests.map(({ method, target, rawHeaders }) => [method, target, ...rawHeaders]),
      Array.from({ length: 2 }, () => [
        'CONNECT',
        'api.openai.com:443',
        'Host',
        'api.openai.com:443',
        'Proxy-Authorization',
        authorization,
      ]),
    );
    t.ok(server.requests.every(({ rawHeaders, servername }) => !/proxy|Basic/i.test(rawHeaders.join()) && servername === TLS.host));
  },
);

eachClient('without credentials none are sent', async (t, openUpstream) => {
  const server = await startTlsUpstream({ hosts: [TLS.host] });
  t.teardown(() => server.close());
  const proxy = await parent(t, { ports: { 'api.openai.com:443': server.port } });
  t.equal(
    (await collect(behind(openUpstream, t, proxy, '', { caFile: server.caPem }), { authority: TLS, tls: true, ...GUARDED })).status,
    200,
  );
  t.same(proxy.requests[0]?.rawHeaders, ['Host', 'api.openai.com:443']);
});

eachClient(
  'CONNECT says who sends it, so that a ring of proxies is noticed, and the other end of the ring says so',
  async (t, openUpstream) => {
    const proxy = await parent(t, { onConnect: (socket) => socket.end(refusal(508)) });
    const upstream = behind(openUpstream, t, proxy, 'u:p@', { via: '1.1 gw-n1' });
    const { error } = await collect(upstream, { authority: TLS, tls: true, ...GUARDED });
    t.match(error, { code: 'upstream_unreachable', message: /with 508: it leads in a circle/ });
    t.same(proxy.requests[0]?.rawHeaders.slice(-2), ['Via', '1.1 gw-n1']);
  },
);

eachClient(
  'plain HTTP goes in absolute form over kept connections, its credentials end at the parent, bodies stream both ways',
  async (t, openUpstream) => {
    const origin = await startPlainUpstream((_request, response, body) => void body.then((bytes) => response.end(`got ${bytes.length}`)));
    t.teardown(() => origin.close());
    const proxy = await parent(t, { credentials: 'u:p', ports: { 'plain.example:80': origin.port, 'plain.example:8080': origin.port } });
    const upstream = behind(openUpstream, t, proxy, 'u:p@');
    async function* body(): AsyncGenerator<Uint8Array> {
      for (let i = 0; i < 10; i++) yield Buffer.alloc(10_000);
    }
    t.equal((await collect(upstream, { authority: PLAIN, path: '/a?b=http://x/', ...GUARDED })).body, 'got 0');
    t.equal((await collect(upstream, { authority: PLAIN, method: 'POST', path: '/up', body: body(), ...GUARDED })).body, 'got 100000');
    t.equal((await collect(upstream, { authority: { ...PLAIN, port: 8080 }, path: '/', ...GUARDED })).body, 'got 0');
    t.same(
      proxy.requests.map(({ method, target, connection }) => [method, target, connection]),
      [
        ['GET', 'http://plain.example/a?b=http://x/', 1],
        ['POST', 'http://plain.example/up', 1],
        ['GET', 'http://plain.example:8080/', 2],
      ],
    );
    t.match(proxy.requests[0]?.rawHeaders.join(), /^host,plain\.example,.*Proxy-Authorization,Basic dTpw$/);
    t.ok(origin.requests.every(({ rawHeaders }) => !/proxy-auth|Basic/i.test(rawHeaders.join())));
    for (const path of ['@evil.example/', 'http://evil.example/', '', '.evil.example/'])
      t.match((await collect(upstream, { authority: PLAIN, path })).error, { code: 'invalid_request' }, path);
    t.equal(proxy.requests.length, 3);
  },
);

eachClient('a parent that wants other credentials is 502 with words for people, on both ways and for tunnels', async (t, openUpstream) => {
  const proxy = await parent(t, { credentials: 'right:hush', ports: { 'api.openai.com:443': 1, 'plain.example:80': 1 } });
  for (const userInfo of ['', 'wrong:guess@']) {
    const upstream = behind(openUpstream, t, proxy, userInfo);
    const errors = [
      (await collect(upstream, { authority: TLS, tls: true, ...GUARDED })).error,
      (await collect(upstream, { authority: PLAIN, ...GUARDED })).error,
      await upstream.connect(TLS).catch((error: unknown) => error),
    ];
    for (const error of errors) {
      t.match(error, {
        code: 'upstream_unreachable',
        status: 502,
        message: /parent proxy refused the way to [a-z.]+:\d+ with 407: it asks for a user/,
      });
      t.notMatch(JSON.stringify(error) + String(error), /wrong|guess|d3Jvbmc|Words|127\.0\.0\.1/);
    }
  }
  await until(() => proxy.open === 0);
});

eachClient('every refusal of CONNECT is 502 with its status, and nothing that the parent says is passed on', async (t, openUpstream) => {
  for (const [status, why] of [
    [403, /does not allow this destination/],
    [502, /could not reach/],
    [503, /not available/],
    [504, /in time/],
    [302, /with 302\.$/],
    [418, /with 418\.$/],
  ] as const) {
    const proxy = await parent(t, { onConnect: (socket) => socket.end(`HTTP/1.1 103 Hints\r\nA: b\r\n\r\n${refusal(status)}`) });
    const outcome = await collect(behind(openUpstream, t, proxy), { authority: TLS, tls: true, ...GUARDED });
    t.match(outcome.error, { code: 'upstream_unreachable', message: why }, String(status));
    t.match(outcome.error?.message, `refused the way to api.openai.com:443 with ${status}`);
    t.same([outcome.status, outcome.body], [0, '']);
    await until(() => proxy.open === 0);
  }
});

eachClient('an origin behind the parent keeps its own 502, 403 and their bodies', async (t, openUpstream) => {
  const origin = await startPlainUpstream((request, response) => void response.writeHead(Number(request.url?.slice(1))).end('own words'));
  t.teardown(() => origin.close());
  const proxy = await parent(t, { ports: { 'plain.example:80': origin.port } });
  const upstream = behind(openUpstream, t, proxy);
  for (const status of [403, 502, 504])
    t.match(await collect(upstream, { authority: PLAIN, path: `/${status}`, ...GUARDED }), { status, body: 'own words', error: undefined });
});

eachClient(
  'a parent that closes, resets, answers garbage or without an end is told apart, and no socket stays',
  async (t, openUpstream) => {
    const cases: [string, (socket: Socket) => void, string, RegExp][] = [
      ['closes', (socket) => socket.end(), 'upstream_unreachable', /parent proxy closed the connection before it opened the way/],
      ['half an answer', (socket) => socket.end('HTTP/1.1 200 O'), 'upstream_unreachable', /closed the connection/],
      ['resets', (socket) => socket.resetAndDestroy(), 'upstream_unreachable', /closed the connection/],
      [
        'garbage',
        (socket) => socket.write('SSH-2.0-OpenSSH_9.2\r\n'),
        'upstream_protocol',
        /parent proxy sent an answer that is not valid HTTP/,
      ],
      ['status', (socket) => socket.write('HTTP/1.1 2000 OK\r\n\r\n'), 'upstream_protocol', /not valid HTTP/],
      ['upgrade', (socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n'), 'upstream_protocol', /not valid HTTP/],
      [
        'a head without end',
        (socket) => socket.write(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(70_000)}`),
        'upstream_protocol',
        /not valid HTTP/,
      ],
    ];
    for (const [name, onConnect, code, message] of cases) {
      const proxy = await parent(t, { onConnect });
      const upstream = behind(openUpstream, t, proxy);
      t.match((await collect(upstream, { authority: TLS, tls: true, ...GUARDED })).error, { code, message }, name);
      t.match(await upstream.connect(TLS).catch((error: unknown) => error), { code, message }, name);
      await until(() => proxy.open === 0);
    }
    const gone = await startParentProxy();
    await gone.close();
    for (const call of [{ authority: TLS, tls: true }, { authority: PLAIN }]) {
      const { error } = await collect(behind(openUpstream, t, gone), { ...call, ...GUARDED });
      t.match(error, { code: 'upstream_unreachable', message: 'The parent proxy refused the connection.' });
    }
    const nowhere = { host: 'proxy.corp.example', port: 3128, authorization: undefined };
    const { error } = await collect(openUpstream(t, { parentProxy: nowhere, lookup: async () => [] }), { authority: TLS, tls: true });
    t.match(error, { code: 'upstream_unreachable', message: 'The parent proxy has no address.' });
  },
);

eachClient('a parent that stalls is 504 after ten seconds, before its answer and inside of it', async (t, openUpstream) => {
  for (const begin of ['', 'HTTP/1.1 200 OK\r\nX-Slow: ']) {
    const clock = fakeClock();
    const proxy = await parent(t, { onConnect: (socket) => void socket.write(begin) });
    const upstream = behind(openUpstream, t, proxy, '', { clock });
    const outcome = collect(upstream, { authority: TLS, tls: true, ...GUARDED });
    const tunnel = upstream.connect(TLS).catch((error: unknown) => error);
    await until(() => proxy.requests.length === 2);
    clock.advance(9_999);
    t.equal(proxy.open, 2);
    clock.advance(1);
    for (const error of [(await outcome).error, await tunnel])
      t.match(error, {
        code: 'upstream_timeout',
        message: 'The parent proxy did not open the way to api.openai.com:443 within 10 seconds.',
      });
    await until(() => proxy.open === 0);
  }
});

eachClient('streams pass through, and an abort reaches the origin at once', async (t, openUpstream) => {
  const plain = await startRawUpstream(MISBEHAVIOUR.stalls);
  const tls = await startRawUpstream(MISBEHAVIOUR.stalls, [TLS.host]);
  t.teardown(() => Promise.all([plain.close(), tls.close()]));
  const proxy = await parent(t, { ports: { 'api.openai.com:443': tls.port, 'plain.example:80': plain.port } });
  const upstream = behind(openUpstream, t, proxy, '', { caFile: tls.caPem });
  for (const [call, origin] of [
    [fill({ authority: TLS, tls: true, ...GUARDED }), tls],
    [fill({ authority: PLAIN, ...GUARDED }), plain],
  ] as const) {
    const handle = await new Promise<UpstreamHandle>((resolve) => {
      const started: UpstreamHandle = upstream.call(
        call,
        events({
          onData: (chunk) => {
            t.equal(Buffer.from(chunk).toString(), 'data: first\n\n');
            resolve(started);
            return true;
          },
          onError: () => t.fail('an abort is silent'),
        }),
      );
    });
    t.equal(origin.open, 1);
    handle.abort();
    await until(() => origin.open === 0 && proxy.open === 0);
  }
});

eachClient('an abort while the parent still thinks sends nothing and leaves no connection', async (t, openUpstream) => {
  const origin = await startTlsUpstream({ hosts: [TLS.host] });
  t.teardown(() => origin.close());
  let waiting: Socket | undefined;
  const proxy = await parent(t, {
    onConnect: (socket) => {
      waiting = socket;
    },
  });
  const upstream = behind(openUpstream, t, proxy, '', { caFile: origin.caPem });
  const handle = upstream.call(fill({ authority: TLS, tls: true, ...GUARDED }), events({ onHead: () => t.fail('was sent') }));
  await until(() => waiting !== undefined);
  handle.abort();
  await upstream.close();
  waiting?.write(refusal(502));
  await until(() => proxy.open === 0);
  t.equal(origin.requests.length, 0);
});

eachClient('a tunnel carries both directions, and what the destination says first is not lost', async (t, openUpstream) => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write('220 hello\r\n');
    socket.on('data', (chunk) => socket.write(`echo ${chunk.toString()}`));
  });
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  t.teardown(() => closeServer(server, sockets));
  const early = await parent(t, { onConnect: (socket) => socket.write('HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n220 early\r\n') });
  const real = await parent(t, { ports: { 'mail.example:25': port } });
  for (const [proxy, greeting] of [
    [early, '220 early\r\n'],
    [real, '220 hello\r\n'],
  ] as const) {
    const socket = await behind(openUpstream, t, proxy).connect({ host: 'mail.example', port: 25 });
    t.equal(String((await once(socket, 'data'))[0]), greeting);
    if (proxy === real) {
      socket.write('x');
      t.equal(String((await once(socket, 'data'))[0]), 'echo x');
    }
    socket.destroy();
    await until(() => proxy.open === 0);
  }
});

eachClient(
  'addresses are judged before the parent is asked, the parent itself is exempt, and the connect-to table goes around it',
  async (t, openUpstream) => {
    const origin = await startPlainUpstream();
    t.teardown(() => origin.close());
    const proxy = await parent(t, { credentials: 'u:p', ports: { 'plain.example:80': origin.port, '127.0.0.1:80': origin.port } });
    const connectTo = [{ host: 'direct.example', port: 80, toHost: '127.0.0.1', toPort: origin.port }];
    const upstream = behind(openUpstream, t, proxy, 'u:p@', { connectTo });
    for (const host of ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', '::ffff:127.0.0.1', 'localhost', 'a.localhost'])
      for (const tls of [true, false]) {
        const { error } = await collect(upstream, { authority: { host, port: 80 }, tls, ...GUARDED });
        t.match(error, { code: 'egress_denied' }, host);
      }
    t.match(await upstream.connect({ host: '192.168.0.1', port: 443 }).catch((error: unknown) => error), { code: 'egress_denied' });
    t.equal(proxy.connections, 0);
    t.equal((await collect(upstream, { authority: { host: 'direct.example', port: 80 }, ...GUARDED })).status, 200);
    t.equal(proxy.connections, 0);
    t.notMatch(origin.requests[0]?.rawHeaders.join(), /proxy/i);
    t.equal((await collect(upstream, { authority: PLAIN, ...GUARDED })).status, 200);
    t.equal((await collect(upstream, { authority: { host: '127.0.0.1', port: 80 } })).status, 200, "the operator's own target");
    const looped = behind(openUpstream, t, proxy, '', { ownAddresses: () => [{ address: '0.0.0.0', port: proxy.port }] });
    const { error } = await collect(looped, { authority: PLAIN });
    t.match(error, { code: 'egress_denied', message: /^The parent proxy is not reachable.*the gateway itself/ });
  },
);
