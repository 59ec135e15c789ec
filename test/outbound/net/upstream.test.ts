import { once } from 'node:events';
import { createServer } from 'node:net';
import t from 'tap';
import { systemClock } from '../../../src/base/lib/clock.ts';
import type { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { createUpstream, type UpstreamOptions } from '../../../src/outbound/net/create-upstream.ts';
import type { Upstream, UpstreamCall, UpstreamEvents, UpstreamHandle } from '../../../src/outbound/net/upstream.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';
import { MISBEHAVIOUR, type RawBehaviour, startRawUpstream } from '../../support/raw-upstream.ts';
import { certificateOf, listenOnFreePort, startPlainUpstream, startTlsUpstream } from '../../support/tls-upstream.ts';

interface Outcome {
  readonly status: number;
  readonly rawHeaders: readonly string[];
  readonly body: string;
  readonly trailers: readonly string[];
  readonly infos: readonly (readonly [number, readonly string[]])[];
  readonly error: GatewayError | undefined;
}

function open(t: HasTeardown, options: Partial<UpstreamOptions> = {}): Upstream {
  const upstream = createUpstream({ clock: systemClock, headersTimeoutMs: 60_000, idleTimeoutMs: 60_000, ...options });
  t.teardown(() => upstream.close());
  return upstream;
}

/** Makes a call and collects everything that it tells. */
function collect(upstream: Upstream, call: Partial<UpstreamCall> & { authority: UpstreamCall['authority'] }): Promise<Outcome> {
  return new Promise((resolve) => {
    let status = 0;
    let rawHeaders: readonly string[] = [];
    const infos: (readonly [number, readonly string[]])[] = [];
    const chunks: Uint8Array[] = [];
    const finish = (trailers: readonly string[], error?: GatewayError): void =>
      resolve({ status, rawHeaders, body: Buffer.concat(chunks).toString('latin1'), trailers, infos, error });
    upstream.call(fill(call), {
      onInfo: (code, headers) => infos.push([code, headers]),
      onHead: (code, headers) => {
        status = code;
        rawHeaders = headers;
      },
      onData: (chunk) => chunks.push(chunk) > 0,
      onEnd: (trailers) => finish(trailers),
      onError: (error) => finish([], error),
    });
  });
}

function fill(call: Partial<UpstreamCall> & { authority: UpstreamCall['authority'] }): UpstreamCall {
  return { tls: false, method: 'GET', path: '/', headers: [], body: undefined, operatorOwn: true, ...call };
}

const at = (server: { port: number }, host = '127.0.0.1'): { host: string; port: number } => ({ host, port: server.port });

/** Events that do nothing but what is given. */
function events(given: Partial<UpstreamEvents>): UpstreamEvents {
  return { onHead: () => undefined, onData: () => true, onEnd: () => undefined, onError: () => undefined, ...given };
}

/** Waits for something that another process's end of a connection decides; five seconds at most. */
async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; !condition(); i++) {
    if (i === 1000) throw new Error(`never: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

t.test('a call over TLS arrives byte for byte, with Host and framing written here', async (t) => {
  const server = await startTlsUpstream({ hosts: ['api.openai.com'] });
  t.teardown(() => server.close());
  const connectTo = [{ host: 'api.openai.com', port: 443, toHost: '127.0.0.1', toPort: server.port }];
  const upstream = open(t, { connectTo, caFile: server.caPem });
  const outcome = await collect(upstream, {
    authority: { host: 'api.openai.com', port: 443 },
    tls: true,
    method: 'POST',
    path: '/v1/chat/completions?a=%2F&b',
    headers: ['Content-Type', 'application/json', 'X-Twice', '1', 'x-twice', '2', 'X-Latin', '\xe9'],
    body: Buffer.from('{"a":1}'),
    operatorOwn: false,
  });
  t.equal(outcome.error, undefined);
  t.match(outcome, { status: 200, body: '{"ok":true}' });
  const [seen] = server.requests;
  t.match(seen, { method: 'POST', url: '/v1/chat/completions?a=%2F&b', servername: 'api.openai.com' });
  t.equal(seen?.body.toString(), '{"a":1}');
  t.same(seen?.rawHeaders, [
    ...['host', 'api.openai.com', 'connection', 'keep-alive', 'Content-Type', 'application/json', 'X-Twice', '1', 'x-twice', '2', 'X-Latin', '\xe9'],
    ...['content-length', '7'],
  ]);
});

t.test("the answer's head keeps order, spelling, duplicates, empty values and bytes; 1xx come apart and trailers last", async (t) => {
  const server = await startRawUpstream((socket) => {
    socket.write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 20');
    setImmediate(() => {
      socket.write(
        '0 Fine\r\nSet-Cookie: a=1\r\nEmpty:\r\nset-cookie: b=\xe9\r\nTransfer-Encoding: chunked\r\nX-Late: 1\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\nX-Sum: 6\r\nx-sum: \xe9\r\n\r\n',
        'latin1',
      );
    });
  });
  t.teardown(() => server.close());
  const outcome = await collect(open(t), { authority: at(server) });
  t.equal(outcome.error, undefined);
  t.same(outcome.infos, [[103, ['Link', '</a>']]]);
  t.same(outcome.rawHeaders, ['Set-Cookie', 'a=1', 'Empty', '', 'set-cookie', 'b=\xe9', 'Transfer-Encoding', 'chunked', 'X-Late', '1']);
  t.same([outcome.body, outcome.trailers], ['onetwo', ['X-Sum', '6', 'x-sum', '\xe9']]);
});

t.test('a head that arrives one byte at a time is the same head', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\nX-A: one two\r\nx-a:\r\nContent-Length: 2\r\n\r\nok';
  const server = await startRawUpstream((socket) => {
    let next = 0;
    const step = (): void => {
      socket.write(head.slice(next, ++next));
      if (next < head.length) setImmediate(step);
    };
    step();
  });
  t.teardown(() => server.close());
  const outcome = await collect(open(t), { authority: at(server) });
  t.same([outcome.rawHeaders, outcome.body], [['X-A', 'one two', 'x-a', '', 'Content-Length', '2'], 'ok']);
});

t.test('HEAD, 204 and 304 have no body whatever their length says, and a body without framing ends with the connection', async (t) => {
  const answers: Record<string, string> = { '/204': '204 No Content', '/304': '304 Not Modified\r\nContent-Length: 9', '/head': '200 OK\r\nContent-Length: 9' };
  const server = await startRawUpstream((socket, text) => {
    const path = text.split(' ')[1] ?? '';
    if (path === '/close') MISBEHAVIOUR.untilClose(socket);
    else socket.write(`HTTP/1.1 ${answers[path]}\r\n\r\n`);
  });
  t.teardown(() => server.close());
  const upstream = open(t);
  for (const [method, path] of [['GET', '/204'], ['GET', '/304'], ['HEAD', '/head']] as const) {
    const outcome = await collect(upstream, { authority: at(server), method, path });
    t.same([outcome.error, outcome.body], [undefined, ''], path);
  }
  t.match(await collect(upstream, { authority: at(server), path: '/close' }), { status: 200, body: 'up to the end', error: undefined });
});

t.test('connections are kept and reused, calls at once get their own, and the limit makes the others wait', async (t) => {
  const server = await startPlainUpstream((_request, response) => void setTimeout(() => response.end('ok'), 10));
  t.teardown(() => server.close());
  const upstream = open(t, { maxConnections: 2 });
  for (let i = 0; i < 3; i++) t.equal((await collect(upstream, { authority: at(server) })).body, 'ok');
  t.equal(server.connections, 1);
  const all = await Promise.all(Array.from({ length: 6 }, () => collect(upstream, { authority: at(server) })));
  t.ok(all.every((outcome) => outcome.body === 'ok'));
  t.equal(server.connections, 2);
});

t.test('a connection that failed or was closed gives its place back', async (t) => {
  let behaviour: keyof typeof MISBEHAVIOUR = 'halfCloses';
  const server = await startRawUpstream((socket, text) => (MISBEHAVIOUR[behaviour] as RawBehaviour)(socket, text));
  t.teardown(() => server.close());
  const upstream = open(t, { maxConnections: 1 });
  for (const name of ['halfCloses', 'resets', 'halfCloses', 'closes', 'resets', 'halfCloses', 'halfCloses'] as const) {
    behaviour = name;
    t.equal((await collect(upstream, { authority: at(server) })).body, name === 'halfCloses' ? 'ok' : '');
    await until(() => server.open === 0);
  }
  behaviour = 'untilClose';
  const all = await Promise.all(Array.from({ length: 4 }, () => collect(upstream, { authority: at(server) })));
  t.same(new Set(all.map((outcome) => outcome.body)), new Set(['up to the end']), 'waiting calls get a new connection when the one before is gone');
  const gone = await startPlainUpstream();
  await gone.close();
  for (let i = 0; i < 3; i++) t.match((await collect(upstream, { authority: at(gone) })).error, { message: /refused/ });
});

t.test('an origin with a call under way is not closed to make room', async (t) => {
  const busy = await startRawUpstream(MISBEHAVIOUR.stalls);
  const other = await startPlainUpstream();
  t.teardown(() => Promise.all([busy.close(), other.close()]));
  const upstream = open(t, { maxOrigins: 1 });
  const log: string[] = [];
  const handle = upstream.call(fill({ authority: at(busy) }), events({ onData: () => log.push('data') > 0, onError: (error) => log.push(error.code) }));
  await until(() => log.length === 1);
  t.equal((await collect(upstream, { authority: at(other) })).body, '{"ok":true}');
  t.same([log, busy.open], [['data'], 1]);
  handle.abort();
  await until(() => busy.open === 0);
});

t.test('no timer runs while nothing is under way', async (t) => {
  const clock = fakeClock();
  const server = await startPlainUpstream();
  t.teardown(() => server.close());
  const upstream = open(t, { clock });
  await collect(upstream, { authority: at(server) });
  t.equal(clock.pending, 1);
  clock.advance(1_000);
  t.equal(clock.pending, 0);
});

t.test('only so many origins are kept: the one not used for longest is closed', async (t) => {
  const servers = await Promise.all([startPlainUpstream(), startPlainUpstream(), startPlainUpstream()]);
  t.teardown(() => Promise.all(servers.map((server) => server.close())));
  const upstream = open(t, { maxOrigins: 2 });
  for (const server of servers) await collect(upstream, { authority: at(server) });
  await until(() => servers[0]?.open === 0);
  t.same([servers[1]?.open, servers[2]?.open], [1, 1]);
});

t.test('a call that was sent is never sent again, not even when an idle connection proves dead', async (t) => {
  const server = await startRawUpstream((socket) => {
    if (server.connections === 1 && !server.received.includes('/second')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    else socket.resetAndDestroy();
  });
  t.teardown(() => server.close());
  const upstream = open(t);
  t.equal((await collect(upstream, { authority: at(server) })).body, 'ok');
  const outcome = await collect(upstream, { authority: at(server), method: 'POST', path: '/second', body: Buffer.from('once') });
  t.match(outcome.error, { code: 'upstream_unreachable', message: /closed the connection before it answered/ });
  t.equal(server.received.split('/second').length, 2);
  t.equal(server.connections, 1);
});

t.test('a connection that the upstream closes while idle is not used', async (t) => {
  const server = await startRawUpstream(MISBEHAVIOUR.halfCloses);
  t.teardown(() => server.close());
  const upstream = open(t);
  for (let i = 0; i < 3; i++) {
    t.match(await collect(upstream, { authority: at(server) }), { body: 'ok', error: undefined });
    await until(() => server.open === 0);
  }
});

t.test('broken upstreams are told apart, in words for people', async (t) => {
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
    const { error } = await collect(open(t), { authority: at(server) });
    t.match(error, { code, message }, name);
    t.notMatch(error?.message, /\n|\.[jt]s\b/, `${name}: no stack`);
  }
  const gone = await startPlainUpstream();
  await gone.close();
  t.match((await collect(open(t), { authority: at(gone) })).error, { code: 'upstream_unreachable', message: /refused the connection/ });
});

t.test('each fault of a certificate has its own message, and nothing was sent', async (t) => {
  const cases = [
    ['expired', /has expired/],
    ['not-yet-valid', /not valid yet/],
    ['wrong-host', /for another host/],
    ['self-signed', /self-signed/],
    ['untrusted', /not trusted/],
  ] as const;
  for (const [certificate, message] of cases) {
    const server = await startTlsUpstream({ certificate });
    t.teardown(() => server.close());
    const upstream = open(t, { caFile: server.caPem, lookup: async () => ['127.0.0.1'] });
    // Twice: a session of a refused certificate must not open the door the second time.
    for (const round of [1, 2]) {
      const { error } = await collect(upstream, { authority: at(server, 'localhost'), tls: true });
      t.match(error, { code: 'upstream_tls', message }, `${certificate} ${round}`);
    }
    t.equal(server.requests.length, 0, certificate);
  }
  const plain = createServer((socket) => socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).on('error', () => undefined));
  const port = await listenOnFreePort(plain);
  t.teardown(() => plain.close());
  t.match((await collect(open(t), { authority: at({ port }), tls: true })).error, { code: 'upstream_tls', message: /does not speak TLS/ });
});

t.test('a handshake that does not end is 504 after ten seconds', async (t) => {
  const clock = fakeClock();
  const server = createServer((socket) => void socket.on('error', () => undefined).resume());
  const port = await listenOnFreePort(server);
  t.teardown(() => server.close());
  const outcome = collect(open(t, { clock }), { authority: at({ port }), tls: true });
  await new Promise((resolve) => server.once('connection', (socket) => socket.once('data', resolve)));
  clock.advance(10_000);
  t.match((await outcome).error, { code: 'upstream_timeout', message: /TLS handshake within 10 seconds/ });
});

t.test('sessions are resumed, SNI is the host, and an address literal has none but is checked against the certificate', async (t) => {
  const server = await startTlsUpstream((_request, response) => {
    response.setHeader('Connection', 'close');
    response.end('ok');
  });
  t.teardown(() => server.close());
  const upstream = open(t, { caFile: server.caPem, lookup: async () => ['127.0.0.1'] });
  for (let i = 0; i < 3; i++) t.equal((await collect(upstream, { authority: at(server, 'localhost'), tls: true })).body, 'ok');
  t.equal(server.requests[0]?.servername, 'localhost');
  t.ok(server.resumed >= 1, 'a later handshake resumes');
  t.match(await collect(upstream, { authority: at(server), tls: true }), { body: 'ok' });
  t.notOk(server.requests[3]?.servername);
  const { certPem } = certificateOf('good', ['x.example']);
  t.throws(() => open(t, { caFile: `${certPem.slice(0, 60)}garbage` }));
});

t.test('abort closes the upstream connection at once, is silent, and dials nothing anew', async (t) => {
  const server = await startRawUpstream(MISBEHAVIOUR.stalls);
  t.teardown(() => server.close());
  const upstream = open(t);
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

t.test('abort before the connection stands sends nothing and leaves the connection to the next call', async (t) => {
  const server = await startPlainUpstream();
  t.teardown(() => server.close());
  const upstream = open(t);
  upstream.call(fill({ authority: at(server) }), events({ onHead: () => t.fail('was sent') })).abort();
  await until(() => server.open === 1);
  t.equal((await collect(upstream, { authority: at(server) })).body, '{"ok":true}');
  t.same([server.requests.length, server.connections], [1, 1]);
});

t.test('onData false stops the upstream until resume, also when resume comes from inside onData', async (t) => {
  const size = 16 * 1024 * 1024;
  let sent = 0;
  const server = await startPlainUpstream((_request, response) => {
    const piece = Buffer.alloc(65_536, 'x');
    const push = (): void => {
      while (sent < size) {
        sent += piece.length;
        if (!response.write(piece)) return void response.once('drain', push);
      }
      response.end();
    };
    push();
  });
  t.teardown(() => server.close());
  const upstream = open(t);
  let resume = (): void => undefined;
  let got = 0;
  const done = new Promise<void>((resolve, reject) => {
    upstream.call(
      fill({ authority: at(server) }),
      events({
        onHead: (_status, _headers, go) => {
          resume = go;
        },
        onData: (chunk) => {
          got += chunk.length;
          if (got > size / 2) resume();
          return false;
        },
        onEnd: () => resolve(),
        onError: reject,
      }),
    );
  });
  await until(() => got > 0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const first = got;
  t.ok(first <= 65_536, 'one chunk while paused');
  t.ok(sent < size, 'the upstream is held back');
  const pump = setInterval(() => (got > size / 2 ? clearInterval(pump) : resume()), 0);
  await done;
  t.equal(got, size);
});

t.test('two calls may resume each other from within their data', async (t) => {
  const server = await startPlainUpstream((_request, response) => {
    response.write('a');
    setTimeout(() => response.end('b'), 20);
  });
  t.teardown(() => server.close());
  const upstream = open(t);
  const resumes: (() => void)[] = [];
  const run = (pauses: boolean): Promise<void> =>
    new Promise((resolve, reject) => {
      upstream.call(
        fill({ authority: at(server) }),
        events({
          onHead: (_status, _headers, resume) => void resumes.push(resume),
          onData: () => {
            if (!pauses) for (const resume of resumes) resume();
            return !pauses;
          },
          onEnd: () => resolve(),
          onError: reject,
        }),
      );
    });
  const paused = run(true);
  await until(() => resumes.length === 1);
  const timer = setInterval(() => run(false), 30);
  await paused;
  clearInterval(timer);
});

t.test('a streamed body is sent as it comes, framed by its length when that is known', async (t) => {
  const server = await startPlainUpstream((_request, response, body) => void body.then(() => response.end('ok')));
  t.teardown(() => server.close());
  const upstream = open(t);
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('one');
    yield Buffer.from('');
    yield Buffer.from('two');
  }
  t.equal((await collect(upstream, { authority: at(server), method: 'POST', body: pieces() })).body, 'ok');
  t.equal((await collect(upstream, { authority: at(server), method: 'POST', body: pieces(), bodyLength: 6 })).body, 'ok');
  t.equal((await collect(upstream, { authority: at(server), method: 'POST' })).body, 'ok');
  t.same(
    server.requests.map((request) => [request.body.toString(), request.headers['transfer-encoding'], request.headers['content-length']]),
    [
      ['onetwo', 'chunked', undefined],
      ['onetwo', undefined, '6'],
      ['', undefined, '0'],
    ],
  );
  const short = await collect(upstream, { authority: at(server), method: 'POST', body: pieces(), bodyLength: 7 });
  t.match(short.error, { code: 'client_gone' });
});

t.test('a source that fails breaks the upstream call, and a call that is aborted lets go of its source', async (t) => {
  const server = await startPlainUpstream((_request, response, body) => void body.then(() => response.end('ok')));
  t.teardown(() => server.close());
  const upstream = open(t);
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

t.test('an upstream that answers before the body was sent is heard', async (t) => {
  const server = await startRawUpstream((socket) => void socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno'));
  t.teardown(() => server.close());
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) {
      yield Buffer.alloc(1024);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
  const outcome = await collect(open(t), { authority: at(server), method: 'POST', body: endless() });
  t.match(outcome, { status: 413, body: 'no', error: undefined });
});

t.test('silence before the head and inside the body is 504, measured from the last sign of life; a held-back client is no silence', async (t) => {
  const clock = fakeClock();
  const server = await startRawUpstream((socket, text) => (text.includes('/stalls') ? MISBEHAVIOUR.stalls(socket) : undefined));
  t.teardown(() => server.close());
  const upstream = open(t, { clock, headersTimeoutMs: 8_000, idleTimeoutMs: 4_000 });
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
});

t.test('what cannot be sent is refused after the call has returned', async (t) => {
  const server = await startPlainUpstream();
  t.teardown(() => server.close());
  const upstream = open(t);
  for (const bad of [{ path: 'no-slash' }, { headers: ['X-Bad', 'a\r\nb'] }, { method: 'GE T' }, { path: '/a b' }, { headers: ['Bad Name', 'x'] }, { headers: ['host', 'evil.example'] }]) {
    let returned = false;
    const error = await new Promise<GatewayError>((resolve) => {
      upstream.call(fill({ authority: at(server), ...bad }), events({ onError: (failure) => (t.ok(returned), resolve(failure)) }));
      returned = true;
    });
    t.match(error, { code: 'invalid_request', message: /cannot be sent/ }, JSON.stringify(bad));
  }
  t.equal(server.requests.length, 0);
});

t.test('close ends what is under way and refuses what comes after', async (t) => {
  const server = await startRawUpstream(MISBEHAVIOUR.stalls);
  t.teardown(() => server.close());
  const upstream = createUpstream({ clock: systemClock, headersTimeoutMs: 60_000, idleTimeoutMs: 60_000 });
  const running = collect(upstream, { authority: at(server) });
  await until(() => server.received !== '');
  await upstream.close();
  t.match((await running).error, { code: 'shutting_down' });
  t.match((await collect(upstream, { authority: at(server) })).error, { code: 'shutting_down' });
  await until(() => server.open === 0);
});

t.test('connect gives a raw socket through guard and table', async (t) => {
  const server = await startRawUpstream((socket) => void socket.end('hello'));
  t.teardown(() => server.close());
  const upstream = open(t, { connectTo: [{ host: 'tunnel.example', port: 443, toHost: '127.0.0.1', toPort: server.port }] });
  const socket = await upstream.connect({ host: 'tunnel.example', port: 443 });
  t.teardown(() => socket.destroy());
  socket.write('x\r\n\r\n');
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  t.equal(chunk.toString(), 'hello');
  await t.rejects(upstream.connect(at(server)), { code: 'egress_denied' });
});
