import type { Socket } from 'node:net';
import { fakeClock } from '../../support/fake-clock.ts';
import { startRawUpstream } from '../../support/raw-upstream.ts';
import { startPlainUpstream } from '../../support/tls-upstream.ts';
import { at, collect, eachClient, events, fill, until } from '../../support/upstream-calls.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const EVIL = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil';

eachClient(
  "an answer that comes by itself on a kept connection is nobody's, also when a call is given at that moment",
  async (t, openUpstream) => {
    for (const isRead of [false, true]) {
      let socket: Socket | undefined;
      const server = await startRawUpstream((from) => {
        socket = from;
        from.write(OK);
      });
      t.teardown(() => server.close());
      const upstream = openUpstream(t);
      t.equal((await collect(upstream, { authority: at(server) })).body, 'ok');
      await new Promise<void>((resolve) => void socket?.write(EVIL, () => resolve()));
      // The bytes are in the kernel now, and read when the event loop polls next.
      if (isRead) await until(() => server.open === 0);
      else await new Promise((resolve) => setImmediate(resolve));
      t.match(await collect(upstream, { authority: at(server) }), { body: 'ok', error: undefined });
      t.equal(server.connections, 2);
    }
  },
);

eachClient('a connection ends with HEAD, and with a body on a method that has none by nature', async (t, openUpstream) => {
  const server = await startPlainUpstream((_request, response, body) => void body.then((bytes) => response.end(`${bytes.length}`)));
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
  const body = Buffer.from('abc');
  async function* stream(): AsyncGenerator<Uint8Array> {
    yield body;
  }
  for (const [call, connections] of [
    [{ method: 'HEAD' }, 1],
    [{ method: 'GET', body }, 2],
    [{ method: 'DELETE', body: stream() }, 3],
    [{ method: 'DELETE', body: stream(), bodyLength: 3 }, 4],
    [{ method: 'POST', body }, 5],
    [{ method: 'PATCH', body: stream() }, 5],
    [{ method: 'DELETE' }, 5],
    [{ method: 'OPTIONS', body: new Uint8Array(0) }, 5],
    [{ method: 'GET' }, 5],
  ] as const) {
    t.match(await collect(upstream, { authority: at(server), ...call }), { status: 200, error: undefined }, call.method);
    t.equal(server.connections, connections, JSON.stringify(call));
  }
  t.same(
    server.requests.map(({ method, headers, body }) => [method, headers['content-length'], headers['transfer-encoding'], body.length]),
    [
      ['HEAD', undefined, undefined, 0],
      ['GET', '3', undefined, 3],
      ['DELETE', undefined, 'chunked', 3],
      ['DELETE', '3', undefined, 3],
      ['POST', '3', undefined, 3],
      ['PATCH', undefined, 'chunked', 3],
      ['DELETE', undefined, undefined, 0],
      ['OPTIONS', undefined, undefined, 0],
      ['GET', undefined, undefined, 0],
    ],
  );
});

eachClient('an upstream that does not read holds its source back, and one that answers meanwhile ends it', async (t, openUpstream) => {
  for (const length of [undefined, 1_000_000_000]) {
    let socket: Socket | undefined;
    const server = await startRawUpstream((from) => {
      socket = from;
      from.pause();
    });
    t.teardown(() => server.close());
    let pulled = 0;
    let released = false;
    const source: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({
        next: async () => {
          pulled += 65_536;
          return { done: false, value: Buffer.alloc(65_536) };
        },
        return: async () => {
          released = true;
          return { done: true, value: undefined };
        },
      }),
    };
    const call = { authority: at(server), method: 'POST', body: source, ...(length === undefined ? {} : { bodyLength: length }) };
    const outcome = collect(openUpstream(t), call);
    await until(() => pulled > 0);
    let before = -1;
    // Until the buffers of both sides are full.
    while (before !== pulled) {
      before = pulled;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    t.ok(pulled > 0 && pulled < 100_000_000, `${pulled} bytes were asked for`);
    socket?.write('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno');
    t.match(await outcome, { status: 413, body: 'no', error: undefined });
    t.ok(released);
    socket?.resume();
    await until(() => server.open === 0);
  }
});

eachClient('heads are bounded in bytes, and by our own client in fields; so are trailers', async (t, openUpstream, client) => {
  const long = `X-A: ${'x'.repeat(8_000)}\r\n`.repeat(9);
  const many = 'a:\r\n'.repeat(1_001);
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n';
  const cases = [`HTTP/1.1 200 OK\r\n${long}\r\n`, `HTTP/1.1 200 OK\r\nX-A: ${'x'.repeat(70_000)}`, `${chunked}${long}\r\n`];
  if (client === 'direct') cases.push(`HTTP/1.1 200 OK\r\n${many}\r\n`, `${chunked}${many}\r\n`);
  for (const bytes of cases) {
    const server = await startRawUpstream((socket) => void socket.write(bytes));
    t.teardown(() => server.close());
    const { error } = await collect(openUpstream(t), { authority: at(server) });
    t.match(error, { code: 'upstream_protocol', message: /head that is too large/ }, bytes.slice(0, 30));
    await until(() => server.open === 0);
  }
});

eachClient('a call that is aborted at any of its events leaves no connection and hears nothing more', async (t, openUpstream) => {
  const answer = 'HTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n';
  const server = await startRawUpstream((socket) => void socket.write(answer));
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
  for (const moment of ['info', 'head', 'data'] as const) {
    const log: string[] = [];
    await new Promise<void>((resolve) => {
      const note = (event: string): void => {
        log.push(event);
        if (event !== moment) return;
        handle.abort();
        resolve();
      };
      const handle = upstream.call(
        fill({ authority: at(server) }),
        events({
          onInfo: () => note('info'),
          onHead: () => note('head'),
          onData: () => {
            note('data');
            return true;
          },
          onEnd: () => note('end'),
          onError: () => note('error'),
        }),
      );
    });
    await until(() => server.open === 0);
    t.equal(log.at(-1), moment);
  }
  t.equal((await collect(upstream, { authority: at(server) })).body, 'x');
});

eachClient('the end of an answer waits for a reader that holds back', async (t, openUpstream) => {
  const server = await startRawUpstream((socket) => void socket.write(OK));
  t.teardown(() => server.close());
  const upstream = openUpstream(t);
  const log: string[] = [];
  let resume = (): void => undefined;
  const done = new Promise<void>((resolve, reject) => {
    upstream.call(
      fill({ authority: at(server) }),
      events({
        onHead: (_status, _headers, go) => {
          resume = go;
        },
        onData: () => {
          log.push('data');
          return false;
        },
        onEnd: () => {
          log.push('end');
          resolve();
        },
        onError: reject,
      }),
    );
  });
  await until(() => log.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 20));
  t.same(log, ['data']);
  resume();
  await done;
  t.equal((await collect(upstream, { authority: at(server) })).body, 'ok');
  t.equal(server.connections, 1, 'the connection is kept');
});

eachClient('our own client takes no answer for whole that only a reset ends', async (t, openUpstream, client) => {
  if (client === 'undici') return;
  const server = await startRawUpstream(
    (socket) => void socket.write('HTTP/1.1 200 OK\r\n\r\nup to', () => setTimeout(() => socket.resetAndDestroy(), 20)),
  );
  t.teardown(() => server.close());
  const { status, error } = await collect(openUpstream(t), { authority: at(server) });
  t.match({ status, error }, { status: 200, error: { code: 'upstream_unreachable', message: /in the middle of its answer/ } });
});

eachClient(
  'a call that is given up before it was sent leaves its connection to the next, for as long as any',
  async (t, openUpstream, client) => {
    if (client === 'undici') return;
    const clock = fakeClock();
    const server = await startRawUpstream((socket) => void socket.write(OK));
    t.teardown(() => server.close());
    const upstream = openUpstream(t, { clock });
    upstream.call(fill({ authority: at(server) }), events({ onHead: () => t.fail('was sent') })).abort();
    await until(() => server.open === 1);
    // The connection is free once our side has heard of it: then no limit of dialling runs any more, only the look at
    // what is kept.
    await until(() => clock.pending === 1);
    clock.advance(31_000);
    await until(() => server.open === 0);
  },
);

eachClient('our own client closes a kept connection after thirty seconds, and takes none that is due', async (t, openUpstream, client) => {
  if (client === 'undici') return;
  const clock = fakeClock();
  const server = await startRawUpstream((socket) => void socket.write(OK));
  t.teardown(() => server.close());
  const upstream = openUpstream(t, { clock });
  await collect(upstream, { authority: at(server) });
  clock.advance(29_900);
  await collect(upstream, { authority: at(server) });
  t.equal(server.connections, 1);
  clock.advance(29_000);
  t.equal(server.open, 1);
  clock.advance(2_000);
  await until(() => server.open === 0);
  t.equal(clock.pending, 0);
});
