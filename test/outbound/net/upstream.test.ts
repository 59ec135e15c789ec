import { once } from 'node:events';
import { fakeClock } from '../../support/fake-clock.ts';
import { MISBEHAVIOUR, startRawUpstream } from '../../support/raw-upstream.ts';
import { startPlainUpstream, startTlsUpstream } from '../../support/tls-upstream.ts';
import { at, collect, eachClient, events, fill, until } from '../../support/upstream-calls.ts';

eachClient('a call over TLS arrives byte for byte, with Host and framing written here', async (t, openUpstream) => {
  const server = await startTlsUpstream({ hosts: ['api.openai.com'] });
  t.teardown(() => server.close());
  const connectTo = [{ host: 'api.openai.com', port: 443, toHost: '127.0.0.1', toPort: server.port }];
  const upstream = openUpstream(t, { connectTo, caFile: server.caPem });
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
    ...[
      'host',
      'api.openai.com',
      'connection',
      'keep-alive',
      'Content-Type',
      'application/json',
      'X-Twice',
      '1',
      'x-twice',
      '2',
      'X-Latin',
      '\xe9',
    ],
    ...['content-length', '7'],
  ]);
});

eachClient(
  "the answer's head keeps order, spelling, duplicates, empty values and bytes; 1xx come apart and trailers last",
  async (t, openUpstream) => {
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
    const outcome = await collect(openUpstream(t), { authority: at(server) });
    t.equal(outcome.error, undefined);
    t.same(outcome.infos, [[103, ['Link', '</a>']]]);
    t.same(outcome.rawHeaders, ['Set-Cookie', 'a=1', 'Empty', '', 'set-cookie', 'b=\xe9', 'Transfer-Encoding', 'chunked', 'X-Late', '1']);
    t.same([outcome.body, outcome.trailers], ['onetwo', ['X-Sum', '6', 'x-sum', '\xe9']]);
  },
);

eachClient('a head that arrives one byte at a time is the same head', async (t, openUpstream) => {
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
  const outcome = await collect(openUpstream(t), { authority: at(server) });
  t.same([outcome.rawHeaders, outcome.body], [['X-A', 'one two', 'x-a', '', 'Content-Length', '2'], 'ok']);
});

eachClient(
  'HEAD, 204 and 304 have no body whatever their length says, and a body without framing ends with the connection',
  async (t, openUpstream) => {
    const answers: Record<string, string> = {
      '/204': '204 No Content',
      '/304': '304 Not Modified\r\nContent-Length: 9',
      '/head': '200 OK\r\nContent-Length: 9',
    };
    const server = await startRawUpstream((socket, text) => {
      const path = text.split(' ')[1] ?? '';
      if (path === '/close') MISBEHAVIOUR.untilClose(socket);
      else socket.write(`HTTP/1.1 ${answers[path]}\r\n\r\n`);
    });
    t.teardown(() => server.close());
    const upstream = openUpstream(t);
    for (const [method, path] of [
      ['GET', '/204'],
      ['GET', '/304'],
      ['HEAD', '/head'],
    ] as const) {
      const outcome = await collect(upstream, { authority: at(server), method, path });
      t.same([outcome.error, outcome.body], [undefined, ''], path);
    }
    t.match(await collect(upstream, { authority: at(server), path: '/close' }), { status: 200, body: 'up to the end', error: undefined });
  },
);

eachClient('connections are kept and reused, calls at once get their own, and the limit makes the others wait', async (t, openUpstream) => {
  const server = await startPlainUpstream((_request, response) => void setTimeout(() => response.end('ok'), 10));
  t.teardown(() => server.close());
  const upstream = openUpstream(t, { maxConnections: 2 });
  for (let i = 0; i < 3; i++) t.equal((await collect(upstream, { authority: at(server) })).body, 'ok');
  t.equal(server.connections, 1);
  const all = await Promise.all(Array.from({ length: 6 }, () => collect(upstream, { authority: at(server) })));
  t.ok(all.every((outcome) => outcome.body === 'ok'));
  t.equal(server.connections, 2);
});

eachClient('an origin with a call under way is not closed to make room', async (t, openUpstream) => {
  const busy = await startRawUpstream(MISBEHAVIOUR.stalls);
  const other = await startPlainUpstream();
  t.teardown(() => Promise.all([busy.close(), other.close()]));
  const upstream = openUpstream(t, { maxOrigins: 1 });
  const log: string[] = [];
  const handle = upstream.call(
    fill({ authority: at(busy) }),
    events({ onData: () => log.push('data') > 0, onError: (error) => log.push(error.code) }),
  );
  await until(() => log.length === 1);
  t.equal((await collect(upstream, { authority: at(other) })).body, '{"ok":true}');
  t.same([log, busy.open], [['data'], 1]);
  handle.abort();
  await until(() => busy.open === 0);
});

eachClient('no timer runs while nothing is under way and no connection is kept', async (t, openUpstream, client) => {
  const clock = fakeClock();
  const server = await startPlainUpstream(
    (_request, response) => void response.setHeader('Keep-Alive', 'timeout=5').setHeader('Connection', 'keep-alive').end('ok'),
  );
  t.teardown(() => server.close());
  const upstream = openUpstream(t, { clock });
  await collect(upstream, { authority: at(server) });
  t.equal(clock.pending, 1);
  clock.advance(1_000);
  if (client === 'undici') {
    t.equal(clock.pending, 0, 'undici has a timer of its own for kept connections');
    return;
  }
  // The server says that it keeps connections for five seconds; they are given up one second before.
  clock.advance(2_000);
  t.equal(clock.pending, 1);
  clock.advance(2_000);
  t.equal(clock.pending, 0);
  await until(() => server.open === 0);
});

eachClient('only so many origins are kept: the one not used for longest is closed', async (t, openUpstream) => {
  const servers = await Promise.all([startPlainUpstream(), startPlainUpstream(), startPlainUpstream()]);
  t.teardown(() => Promise.all(servers.map((server) => server.close())));
  const upstream = openUpstream(t, { maxOrigins: 2 });
  for (const server of servers) await collect(upstream, { authority: at(server) });
  await until(() => servers[0]?.open === 0);
  t.same([servers[1]?.open, servers[2]?.open], [1, 1]);
});

eachClient('a connection that the upstream closes while idle is not used', async (t, openUpstream) => {
  const server = await startRawUpstream(MISBEHAVIOUR.halfCloses);
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
  for (let i = 0; i < 3; i++) {
    t.match(await collect(upstream, { authority: at(server) }), { body: 'ok', error: undefined });
    await until(() => server.open === 0);
  }
});

eachClient('onData false stops the upstream until resume, also when resume comes from inside onData', async (t, openUpstream) => {
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
  const upstream = openUpstream(t);
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

eachClient('two calls may resume each other from within their data', async (t, openUpstream) => {
  const server = await startPlainUpstream((_request, response) => {
    response.write('a');
    setTimeout(() => response.end('b'), 20);
  });
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
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
  const others: Promise<void>[] = [];
  const timer = setInterval(() => void others.push(run(false)), 30);
  await paused;
  clearInterval(timer);
  await Promise.all(others);
  t.ok(others.length > 0);
});

eachClient('a streamed body is sent as it comes, framed by its length when that is known', async (t, openUpstream) => {
  const server = await startPlainUpstream((_request, response, body) => void body.then(() => response.end('ok')));
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
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

eachClient('an upstream that answers before the body was sent is heard', async (t, openUpstream) => {
  const server = await startRawUpstream((socket) => void socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno'));
  t.teardown(() => server.close());
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) {
      yield Buffer.alloc(1024);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
  const outcome = await collect(openUpstream(t), { authority: at(server), method: 'POST', body: endless() });
  t.match(outcome, { status: 413, body: 'no', error: undefined });
});

eachClient('connect gives a raw socket through guard and table', async (t, openUpstream) => {
  const server = await startRawUpstream((socket) => void socket.end('hello'));
  t.teardown(() => server.close());
  const upstream = openUpstream(t, { connectTo: [{ host: 'tunnel.example', port: 443, toHost: '127.0.0.1', toPort: server.port }] });
  const socket = await upstream.connect({ host: 'tunnel.example', port: 443 });
  t.teardown(() => socket.destroy());
  socket.write('x\r\n\r\n');
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  t.equal(chunk.toString(), 'hello');
  await t.rejects(upstream.connect(at(server)), { code: 'egress_denied' });
});
