// Requests and answers of both protocols: framing, bodies, and the sink.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import type { Arrival } from '../../../src/base/model/arrival.ts';
import { DEFAULT_LIMITS } from '../../../src/inbound/listener/limits.ts';
import {
  errorCode,
  exchange,
  type Harness,
  type HasTeardown,
  h2Client,
  h2Request,
  openTunnel,
  rawClient,
  startListener,
  tlsInside,
  watch,
} from './harness.ts';

const BAD_FRAMING: Readonly<Record<string, string>> = {
  'no Host': 'GET / HTTP/1.1\r\n\r\n',
  'two Hosts': 'GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n',
  'two equal Hosts': 'GET / HTTP/1.1\r\nHost: a\r\nHOST: a\r\n\r\n',
  'an unknown Transfer-Encoding': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
  'several Transfer-Encoding values': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
  'chunked before another coding': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n',
  'several Transfer-Encoding fields':
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'Transfer-Encoding with Content-Length': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'Content-Length with Transfer-Encoding': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n',
  'two Content-Lengths': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello',
  'two equal Content-Lengths': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello',
  'a Content-Length list': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello',
  'a signed Content-Length': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello',
  'Transfer-Encoding on HTTP/1.0': 'POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'a folded field': 'GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n',
  'HTTP/2.0 in words': 'GET / HTTP/2.0\r\nHost: a\r\n\r\n',
  'HTTP/0.9': 'GET /\r\n\r\n',
};

t.test('every byte of an answer arrives as it is, whole or in pieces, small or large', async (t) => {
  const bytes = Buffer.from(Array.from({ length: 40_000 }, (_, at) => (at * 7 + (at >> 8)) & 0xff));
  for (const length of [1, 256, 16 * 1024, 16 * 1024 + 1, bytes.length]) {
    const body = bytes.subarray(0, length);
    for (const whole of [true, false]) {
      const { listener } = await startListener(t, {
        onArrival({ reply }) {
          if (whole) {
            reply.sendWhole(200, ['Content-Type', 'application/octet-stream'], body);
            return;
          }
          reply.head(200, ['Content-Type', 'application/octet-stream']);
          reply.write(body);
          reply.end();
        },
      });
      const response = await fetch(`http://127.0.0.1:${listener.port}/`);
      t.ok(Buffer.from(await response.arrayBuffer()).equals(body), `${length} bytes, ${whole ? 'whole' : 'in pieces'}`);
    }
  }
});

t.test('ambiguous framing is 400 bad_framing at every door, and nothing behind it is read as a request', async (t) => {
  const harness = await startListener(t);
  for (const [name, request] of Object.entries(BAD_FRAMING)) {
    const bytes = `${request}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`;
    const outside = await exchange(t, harness.listener.port, bytes);
    t.match(outside, /^HTTP\/1\.1 400 /, name);
    t.equal(errorCode(outside), 'bad_framing', name);
    const plain = watch(await openTunnel(t, harness.listener.port, 'example.com:80'));
    plain.socket.write(bytes);
    t.equal(errorCode((await plain.closed).text), 'bad_framing', `${name}, plain in a tunnel`);
    const secure = watch(await tlsInside(t, harness, await openTunnel(t, harness.listener.port)));
    secure.socket.write(bytes);
    t.equal(errorCode((await secure.closed).text), 'bad_framing', `${name}, TLS in a tunnel`);
  }
  t.equal(harness.arrivals.length, 0);
});

t.test('on h2 a Host that differs from :authority is 400, and pseudo-headers stay out of the fields', async (t) => {
  const harness = await startListener(t);
  const session = await h2Client(t, harness);
  const differs = await h2Request(session, { ':authority': 'api.openai.com', host: 'evil.example' });
  t.equal(differs.headers[':status'], 400);
  t.match(differs.body, /bad_framing/);
  await h2Request(session, {
    ':authority': 'api.openai.com',
    ':path': '/v1?x',
    host: 'api.openai.com',
    cookie: ['a=1', 'b=2'],
    'X-Two': ['1', '2'],
  });
  t.equal(harness.arrivals.length, 1);
  const head = harness.arrivals[0]?.head;
  t.equal(head?.rawTarget, '/v1?x');
  t.equal(head?.headers['host'], 'api.openai.com');
  t.equal(head?.headers['cookie'], 'a=1; b=2');
  t.equal(head?.headers['x-two'], '1, 2');
  t.notOk(head?.rawHeaders.some((field) => field.startsWith(':')));
  t.equal(head?.rawHeaders.filter((field) => field === 'x-two').length, 2, 'repeated fields are kept as received');
});

/** The same request over each protocol: answers status, fields as lines, and body. */
const PROTOCOLS: Readonly<
  Record<
    string,
    (
      t: HasTeardown,
      harness: Harness,
      method?: string,
    ) => Promise<{ status: number; body: string; fields: readonly string[]; clean: boolean }>
  >
> = {
  'HTTP/1.1': async (t, harness, method = 'GET') => {
    const client = watch(await tlsInside(t, harness, await openTunnel(t, harness.listener.port)));
    client.socket.write(`${method} / HTTP/1.1\r\nHost: api.openai.com\r\nConnection: close\r\n\r\n`);
    const { text } = await client.closed;
    const [head = '', ...rest] = text.split('\r\n\r\n');
    return {
      status: Number(head.slice(9, 12)),
      body: rest.join('\r\n\r\n'),
      fields: head
        .split('\r\n')
        .slice(1)
        .map((line) => line.toLowerCase()),
      clean: text !== '',
    };
  },
  h2: async (t, harness, method = 'GET') => {
    const answer = await h2Request(await h2Client(t, harness), { ':method': method });
    const fields = Object.entries(answer.headers).flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value]).map((text) => `${name}: ${text}`),
    );
    return { status: Number(answer.headers[':status'] ?? 0), body: answer.body, fields, clean: answer.rstCode === 0 };
  },
};

for (const [protocol, ask] of Object.entries(PROTOCOLS)) {
  t.test(`${protocol}: a whole answer keeps repeated fields and loses those of the connection`, async (t) => {
    const raw = [
      'Set-Cookie',
      'a=1',
      'Set-Cookie',
      'b=2',
      'Transfer-Encoding',
      'chunked',
      'Content-Length',
      '99',
      'Keep-Alive',
      'timeout=1',
      'X-A',
      'é',
      'Constructor',
      'plain',
    ];
    const harness = await startListener(t, { onArrival: ({ reply }) => reply.sendWhole(201, raw, Buffer.from('hello')) });
    const { status, body, fields } = await ask(t, harness);
    t.equal(status, 201);
    t.equal(body, 'hello');
    t.ok(fields.includes('set-cookie: a=1') && fields.includes('set-cookie: b=2'));
    t.ok(fields.includes('constructor: plain'), 'a name that objects have as well');
    t.ok(fields.includes('content-length: 5'));
    t.notOk(fields.some((field) => field.startsWith('transfer-encoding') || field.startsWith('keep-alive')));
  });

  t.test(`${protocol}: HEAD keeps the length of what a GET would bring, 204 and 304 have no body`, async (t) => {
    for (const [method, status, expected] of [
      ['HEAD', 200, 'content-length: 1234'],
      ['GET', 304, 'content-length: 1234'],
      ['GET', 204, undefined],
    ] as const) {
      for (const whole of [true, false]) {
        const harness = await startListener(t, {
          onArrival: ({ reply }) => {
            if (whole) return reply.sendWhole(status, ['Content-Length', '1234', 'ETag', '"x"'], new Uint8Array(0));
            reply.head(status, ['Content-Length', '1234', 'ETag', '"x"']);
            reply.write(Buffer.from('never'));
            reply.end();
          },
        });
        const answer = await ask(t, harness, method);
        t.equal(answer.status, status);
        t.equal(answer.body, '');
        t.ok(answer.clean);
        t.equal(
          answer.fields.find((field) => field.startsWith('content-length')),
          expected,
        );
      }
    }
  });

  t.test(`${protocol}: an answer that cannot be written throws before anything is sent, and another can take its place`, async (t) => {
    const codes: unknown[] = [];
    const attempts: [number, string[]][] = [
      [200, ['x', 'a\r\nb: c']],
      [200, ['bad name', 'x']],
      [1000, []],
      [200, ['x', 'smile \u{1f600}']],
    ];
    const harness = await startListener(t, {
      onArrival: ({ reply }) => {
        for (const [status, raw] of attempts) {
          for (const attempt of [() => reply.head(status, raw), () => reply.sendWhole(status, raw, Buffer.from('x'))]) {
            try {
              attempt();
            } catch (error) {
              codes.push(error instanceof GatewayError ? error.code : error);
            }
          }
        }
        codes.push(reply.headSent);
        reply.sendWhole(502, [], Buffer.from('sorry'));
      },
    });
    const answer = await ask(t, harness);
    t.same([answer.status, answer.body], [502, 'sorry']);
    t.same(codes, [...Array.from({ length: 8 }, () => 'upstream_protocol'), false]);
  });

  t.test(`${protocol}: until \`end\` the client cannot take an answer for complete`, async (t) => {
    const shapes: Readonly<Record<string, (arrival: Arrival) => void>> = {
      'of known length': ({ reply }) => {
        reply.head(200, [], 5);
        reply.write(Buffer.from('he'));
        reply.write(Buffer.from('llo'));
      },
      'without a body': ({ reply }) => reply.head(200, [], 0),
      'that has no body by its status': ({ reply }) => reply.head(204, []),
      'of unknown length': ({ reply }) => {
        reply.head(200, []);
        reply.write(Buffer.from('hello'));
      },
    };
    for (const [name, begin] of Object.entries(shapes)) {
      let release: Arrival | undefined;
      const harness = await startListener(t, {
        onArrival: (arrival) => {
          begin(arrival);
          release = arrival;
        },
      });
      let done = false;
      const answer = ask(t, harness).finally(() => {
        done = true;
      });
      while (release === undefined) await new Promise(setImmediate);
      for (let i = 0; i < 20; i++) await new Promise((resolve) => setTimeout(resolve, 1));
      t.equal(done, false, name);
      release.reply.end();
      t.match((await answer).status, /200|204/, name);
    }
  });

  t.test(`${protocol}: \`reset\` breaks off so that the client sees a failure`, async (t) => {
    const harness = await startListener(t, {
      onArrival: ({ reply }) => {
        reply.head(200, ['content-type', 'text/event-stream']);
        reply.write(Buffer.from('data: 1\n\n'));
        setImmediate(() => setImmediate(() => reply.reset()));
      },
    });
    if (protocol === 'h2') {
      const answer = await h2Request(await h2Client(t, harness), {});
      t.equal(answer.rstCode, 2, 'INTERNAL_ERROR');
    } else {
      const outside = await rawClient(t, harness.listener.port);
      outside.socket.write('GET / HTTP/1.0\r\n\r\n');
      t.equal((await outside.closed).reset, true, 'RST, since FIN would end an HTTP/1.0 answer properly');
      const raw = await openTunnel(t, harness.listener.port);
      const secure = await tlsInside(t, harness, raw);
      const failures: unknown[] = [];
      secure.on('error', (error) => failures.push('code' in error ? error.code : error));
      secure.resume().write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      await new Promise((resolve) => secure.once('close', resolve));
      t.same(failures, ['ECONNRESET'], 'RST inside TLS too');
    }
  });

  t.test(`${protocol}: chunks and trailers pass as they come, forbidden trailers do not`, async (t) => {
    const harness = await startListener(t, {
      onArrival: ({ reply }) => {
        reply.head(200, ['content-type', 'text/plain']);
        reply.write(Buffer.from('one '));
        setImmediate(() => {
          reply.write(Buffer.from('two'));
          reply.end(['grpc-status', '0', 'x-t', 'a', 'Content-Length', '7', 'transfer-encoding', 'chunked']);
        });
      },
    });
    if (protocol === 'h2') {
      const answer = await h2Request(await h2Client(t, harness), {});
      t.equal(answer.body, 'one two');
      t.same(Object.entries(answer.trailers), [
        ['grpc-status', '0'],
        ['x-t', 'a'],
      ]);
    } else {
      const { body } = await ask(t, harness);
      t.match(body, /^4\r\none \r\n3\r\ntwo\r\n0\r\ngrpc-status: 0\r\nx-t: a\r\n\r\n$/);
    }
  });

  t.test(`${protocol}: a client that leaves is told within a moment, once, and never after \`end\``, async (t) => {
    let gone = 0;
    let arrival: Arrival | undefined;
    const harness = await startListener(t, {
      onArrival: (arrived) => {
        arrival = arrived;
        arrived.reply.onGone(() => gone++);
        arrived.reply.head(200, []);
        arrived.reply.write(Buffer.from('x'));
      },
    });
    if (protocol === 'h2') {
      const session = await h2Client(t, harness);
      const stream = session.request({ ':path': '/' });
      stream.on('error', () => undefined);
      await once(stream, 'data');
      stream.close(8);
    } else {
      const client = await rawClient(t, harness.listener.port);
      client.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      await client.until(/x/);
      client.socket.destroy();
    }
    while (gone === 0) await new Promise(setImmediate);
    t.equal(gone, 1);
    t.equal(arrival?.reply.gone, true);
    t.equal(arrival?.reply.write(Buffer.from('nobody listens')), true, 'writing on neither fails nor waits');
    arrival?.reply.end();
    arrival?.reply.reset();
    let late = 0;
    arrival?.reply.onGone(() => late++);
    t.equal(late, 1, 'who asks later is told at once');
    t.equal(gone, 1);
  });

  t.test(`${protocol}: a window that is full says so, and drains`, async (t) => {
    const chunk = Buffer.alloc(65_536, 120);
    let drained = 0;
    const total = 160;
    const harness = await startListener(t, {
      onArrival: ({ reply }) => {
        let left = total;
        const pump = (): void => {
          while (left > 0) {
            left--;
            if (!reply.write(chunk)) return;
          }
          reply.end();
        };
        reply.onDrain(() => {
          drained++;
          pump();
        });
        reply.head(200, []);
        pump();
      },
    });
    let received = 0;
    const secure = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), {
      ALPNProtocols: [protocol === 'h2' ? 'h2' : 'http/1.1'],
    });
    if (protocol === 'h2') {
      const { connect } = await import('node:http2');
      const stream = connect('https://api.openai.com', { createConnection: () => secure }).request({ ':path': '/' });
      stream.on('data', (data: Buffer) => {
        received += data.length;
      });
      await once(stream, 'end');
      t.equal(received, total * chunk.length);
    } else {
      secure.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
      secure.on('data', (data: Buffer) => {
        received += data.length;
      });
      await once(secure, 'close');
      t.ok(received > total * chunk.length);
    }
    t.ok(drained > 0, 'it had to wait');
  });
}

t.test('head and body of a whole answer leave in one write', async (t) => {
  const { listener } = await startListener(t, {
    onArrival: ({ reply }) => reply.sendWhole(200, ['content-type', 'text/plain'], Buffer.from('hello')),
  });
  const client = await rawClient(t, listener.port);
  let packets = 0;
  client.socket.on('data', () => packets++);
  client.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await client.until(/hello$/);
  t.equal(packets, 1);
});

t.test('the head of a stream is sent although no byte of the body has come', async (t) => {
  const { listener } = await startListener(t, { onArrival: ({ reply }) => reply.head(200, ['content-type', 'text/event-stream']) });
  const client = await rawClient(t, listener.port);
  client.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  t.match(await client.until(/\r\n\r\n/), /text\/event-stream/);
});

t.test('103 passes on both protocols, 101 never', async (t) => {
  const harness = await startListener(t, {
    onArrival: ({ reply }) => {
      reply.info(101, ['Upgrade', 'websocket']);
      reply.info(103, ['Link', '</a.css>; rel=preload']);
      reply.sendWhole(200, [], Buffer.from('ok'));
    },
  });
  const text = await exchange(t, harness.listener.port, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  t.match(text, /^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a\.css>; rel=preload\r\n\r\nHTTP\/1\.1 200 /);
  const session = await h2Client(t, harness);
  const stream = session.request({ ':path': '/' });
  const informed: unknown[] = [];
  stream.on('headers', (headers) => informed.push(headers[':status']));
  stream.resume();
  await once(stream, 'close');
  t.same(informed, [103]);
});

t.test('100 Continue is sent when the body is first read, and not for a refusal', async (t) => {
  let refuse = false;
  const harness = await startListener(t, {
    onArrival: ({ body, reply }) => {
      if (refuse) return reply.sendWhole(401, [], Buffer.from('no'));
      void body.readAll(100).then((bytes) => reply.sendWhole(200, [], bytes));
    },
  });
  const head = 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n';
  for (const inTunnel of [false, true]) {
    refuse = false;
    const connect = async () =>
      inTunnel ? watch(await tlsInside(t, harness, await openTunnel(t, harness.listener.port))) : await rawClient(t, harness.listener.port);
    const client = await connect();
    client.socket.write(head);
    t.equal(await client.until(/\r\n\r\n/), 'HTTP/1.1 100 Continue\r\n\r\n');
    client.socket.write('hello');
    t.match(await client.until(/hello$/), / 200 OK/);
    refuse = true;
    const refused = await connect();
    refused.socket.write(head);
    t.match(await refused.until(/no$/), /^HTTP\/1\.1 401 .*Connection: close/s);
    refused.socket.end();
    await refused.closed;
  }
  for (const wanted of [true, false]) {
    refuse = !wanted;
    const stream = (await h2Client(t, harness)).request({ ':method': 'POST', ':path': '/', expect: '100-continue' });
    let continued = 0;
    stream.on('continue', () => {
      continued++;
      stream.end('hello');
    });
    stream.resume();
    const answer: unknown[] = await once(stream, 'response');
    t.match(answer[0], { ':status': wanted ? 200 : 401 });
    t.equal(continued, wanted ? 1 : 0);
    stream.close();
  }
});

t.test('a body that is too large is refused before, or while, it is read; the answer arrives', async (t) => {
  const harness = await startListener(t, {
    onArrival: ({ body, reply }) => {
      body.readAll(1_000).then(
        (bytes) => reply.sendWhole(200, [], bytes),
        (error: GatewayError) => reply.sendWhole(error.status, [], Buffer.from(error.code)),
      );
    },
  });
  const big = 'x'.repeat(3_000_000);
  for (const head of [
    `Content-Length: ${big.length}\r\n\r\n${big}`,
    `Transfer-Encoding: chunked\r\n\r\n${big.length.toString(16)}\r\n${big}\r\n0\r\n\r\n`,
  ]) {
    const client = await rawClient(t, harness.listener.port);
    client.socket.write(`POST / HTTP/1.1\r\nHost: x\r\n${head}`);
    t.match(await client.until(/body_too_large/), /^HTTP\/1\.1 413 .*Connection: close/s);
  }
  const session = await h2Client(t, harness);
  const answer = await h2Request(session, { ':method': 'POST' }, big);
  t.equal(answer.headers[':status'], 413);
  t.equal(answer.body, 'body_too_large');
  t.equal((await h2Request(session, { ':method': 'POST' }, 'small')).body, 'small', 'the other streams of the connection live on');
});

t.test('a small body that nobody reads is skipped, and the connection is used again', async (t) => {
  const harness = await startListener(t, { onArrival: ({ head, reply }) => reply.sendWhole(200, [], Buffer.from(head.rawTarget)) });
  const client = await rawClient(t, harness.listener.port);
  client.socket.write('POST /one HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET /two HTTP/1.1\r\nHost: x\r\n\r\n');
  t.match(await client.until(/\/two$/), /\/one/);
});

/** Frames by hand: clients that give up politely end the stream before they reset it. */
function h2Frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/**
 * Preface, SETTINGS and the HEADERS of a POST on stream 1 that does not end there; all fields as HPACK literals or
 * static entries.
 */
function h2Post(path: string, length: string | undefined): Buffer {
  const literal = (index: number, value: string): Buffer => Buffer.concat([Buffer.from([index, value.length]), Buffer.from(value)]);
  const fields = [Buffer.from([0x83, 0x87]), literal(0x04, path), literal(0x01, 'api.openai.com')];
  // Static entry 28, content-length, does not fit into the four bits of its first byte.
  if (length !== undefined) fields.push(Buffer.from([0x0f]), literal(0x0d, length));
  const head = h2Frame(1, 4, 1, Buffer.concat(fields));
  return Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), h2Frame(4, 0, 0, Buffer.alloc(0)), head]);
}

t.test('a request that was answered before its body broke off gets no second answer', async (t) => {
  const onArrival = ({ reply }: Arrival): void => reply.sendWhole(403, ['content-type', 'text/plain'], Buffer.from('no'));
  const { listener } = await startListener(t, { onArrival });
  const broken = ['Content-Length: 100\r\n\r\nten bytes.', 'Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n'];
  for (const rest of broken) {
    const client = await rawClient(t, listener.port);
    client.socket.write('POST / HTTP/1.1\r\nHost: a\r\n');
    client.socket.end(rest);
    const { text } = await client.closed;
    t.match(text, /^HTTP\/1\.1 403 [\s\S]*no$/, rest);
    t.equal(text.split('HTTP/1.1').length, 2, rest);
  }
});

t.test('a body that is no body is refused in words, once, and whoever was to answer learns that its client is gone', async (t) => {
  const gone: boolean[] = [];
  const harness = await startListener(t, {
    onArrival: ({ body, reply }) => {
      reply.onGone(() => gone.push(true));
      body.readAll(1_000).catch(() => undefined);
    },
  });
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
  const bodies = ['-1\r\nx\r\n0\r\n\r\n', '0x1\r\nx\r\n0\r\n\r\n', '1\nx\r\n0\r\n\r\n', `1\r\nx\r\n0\r\nContent-Length: 3\r\n\r\n`];
  for (const body of bodies) {
    const text = await exchange(t, harness.listener.port, `${head}${body}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`);
    t.match(text, /^HTTP\/1\.1 400 /, body);
    t.equal(errorCode(text), 'bad_framing', body);
    t.equal(text.match(/^HTTP/gm)?.length, 1, body);
  }
  t.equal(gone.length, bodies.length);
  t.equal(harness.arrivals.length, bodies.length, 'nothing behind it is read as a request');
});

t.test('what came whole before a malformed request is answered, and is the last thing that is', async (t) => {
  const held: Arrival[] = [];
  const { listener } = await startListener(t, { onArrival: (arrival) => held.push(arrival) });
  const client = await rawClient(t, listener.port);
  client.socket.write('GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\n Host: x\r\n\r\nGET /3 HTTP/1.1\r\nHost: x\r\n\r\n');
  while (held.length < 1) await new Promise(setImmediate);
  // What came with it has been looked at when the turn is over.
  await new Promise(setImmediate);
  t.equal(held[0]?.reply.gone, false);
  held[0]?.reply.sendWhole(200, [], Buffer.from('first'));
  const { text } = await client.closed;
  t.match(text, /^HTTP\/1\.1 200 [\s\S]*first$/);
  t.match(text, /connection: close/i);
  t.equal(held.length, 1);
});

t.test('an expectation other than 100-continue is no reason to refuse', async (t) => {
  const harness = await startListener(t);
  const request = 'GET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\nConnection: close\r\n\r\n';
  t.match(await exchange(t, harness.listener.port, request), /^HTTP\/1\.1 200 /);
  const secure = watch(await tlsInside(t, harness, await openTunnel(t, harness.listener.port)));
  secure.socket.write(request);
  t.match((await secure.closed).text, /^HTTP\/1\.1 200 /);
});

t.test('a body counts only when all of it came', async (t) => {
  const outcomes: unknown[] = [];
  let reading = 0;
  const harness = await startListener(t, {
    onArrival: ({ head, body }) => {
      reading++;
      const read = async (): Promise<string> => {
        if (head.rawTarget === '/all') return Buffer.from(await body.readAll(1_000)).toString();
        let text = '';
        for await (const chunk of body.stream()) text += Buffer.from(chunk).toString();
        return text;
      };
      read().then(
        (text) => outcomes.push(text),
        (error: GatewayError) => outcomes.push(error.code),
      );
    },
  });
  const settled = async (count: number): Promise<void> => {
    while (outcomes.length < count) await new Promise(setImmediate);
  };
  let count = 0;
  for (const path of ['/all', '/stream']) {
    const client = await rawClient(t, harness.listener.port);
    client.socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`);
    while (reading <= count) await new Promise(setImmediate);
    client.socket.destroy();
    await settled(++count);
    for (const [leave, together] of [
      ['stream', true],
      ['stream', false],
      ['connection', false],
      ['length', false],
    ] as const) {
      const secure = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), { ALPNProtocols: ['h2'] });
      secure.resume().write(h2Post(path, leave === 'length' ? '100' : undefined));
      const data = h2Frame(0, leave === 'length' ? 1 : 0, 1, Buffer.from('hello'));
      const cancel = h2Frame(3, 0, 1, Buffer.from([0, 0, 0, 8]));
      secure.write(together ? Buffer.concat([data, cancel]) : data);
      while (reading <= count) await new Promise(setImmediate);
      if (leave === 'connection') secure.destroy();
      else if (leave === 'stream' && !together) secure.write(cancel);
      await settled(++count);
    }
  }
  t.same(
    outcomes,
    Array.from({ length: 10 }, () => 'client_gone'),
  );
});

t.test('a body is read once, by one of both members; an empty one needs no reading', async (t) => {
  const seen: unknown[] = [];
  const harness = await startListener(t, {
    onArrival: ({ body, reply }) => {
      seen.push(body.declaredLength);
      const read = async (): Promise<void> => {
        await body.readAll(100);
        await body.readAll(100).catch((error: GatewayError) => seen.push(error.code));
        reply.sendWhole(200, [], Buffer.from('done'));
      };
      read().catch(() => undefined);
    },
  });
  await exchange(t, harness.listener.port, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  await exchange(
    t,
    harness.listener.port,
    'POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  );
  const session = await h2Client(t, harness);
  await h2Request(session, {});
  await h2Request(session, { ':method': 'POST', 'content-length': 5 }, 'hello');
  await h2Request(session, { ':method': 'POST' }, 'hello');
  t.same(seen, [0, 'internal', undefined, 'internal', 0, 'internal', 5, 'internal', undefined, 'internal']);
});

t.test('more than 32 unanswered pipelined requests end the connection, and so do 64 KiB of heads that wait', async (t) => {
  const held: Arrival[] = [];
  const { listener } = await startListener(t, { onArrival: (arrival) => held.push(arrival) });
  const long = `GET / HTTP/1.1\r\nHost: x\r\nX-A: ${'a'.repeat(30_000)}\r\n\r\n`;
  for (const [request, waits] of [
    ['GET / HTTP/1.1\r\nHost: x\r\n\r\n', 31],
    [long, 2],
  ] as const) {
    held.length = 0;
    const client = await rawClient(t, listener.port);
    client.socket.write(request.repeat(1 + waits));
    while (held.length < 1) await new Promise(setImmediate);
    const later = await rawClient(t, listener.port);
    later.socket.write('GET /later HTTP/1.1\r\nHost: x\r\n\r\n');
    while (held.length < 2) await new Promise(setImmediate);
    t.equal(client.socket.destroyed, false);
    client.socket.write(request);
    t.equal((await client.closed).reset, true);
    t.same(
      held.map(({ head, reply }) => [head.rawTarget, reply.gone]),
      [
        ['/', true],
        ['/later', false],
      ],
      'those that waited were never begun',
    );
    later.socket.destroy();
  }
});

t.test('behind the request that ended its connection, or of which nobody can say where it ends, none is read', async (t) => {
  let heads = 0;
  const count = (): void => {
    heads++;
  };
  subscribe('http.server.request.start', count);
  t.teardown(() => unsubscribe('http.server.request.start', count));
  const { listener } = await startListener(t, { onArrival: () => undefined });
  const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
  const twoHosts = 'GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n';
  for (const [first, most] of [
    [get, DEFAULT_LIMITS.maxPipelined + 2],
    [twoHosts, 2],
  ] as const) {
    heads = 0;
    const client = await rawClient(t, listener.port);
    client.socket.write(first + get.repeat(2_300));
    await client.closed;
    t.ok(heads >= 1 && heads <= most, `${heads} heads`);
  }
});

t.test(
  'on a connection that stays, a whole answer is written once it is valid, dated once, and the next request is answered',
  async (t) => {
    const faults: unknown[] = [];
    const answers: Record<string, [status: number, raw: string[]]> = {
      '/plain': [200, ['X-A', '\u00e9']],
      '/dated': [200, ['date', 'Sun, 22 Nov 2026 10:00:00 GMT']],
      '/upgrade': [426, ['Upgrade', 'websocket']],
      '/split': [200, ['x', 'a\r\nb: c']],
      '/name': [200, ['Date', 'x', 'bad name', 'x']],
      '/wide': [200, ['x', 'smile \u{1f600}']],
      '/status': [1000, []],
    };
    const harness = await startListener(t, {
      limits: { keepAliveMs: 42_000 },
      onArrival: ({ head, reply }) => {
        const [status, raw] = answers[head.rawTarget] ?? [500, []];
        try {
          reply.sendWhole(status, raw, Buffer.from('hello'));
        } catch (error) {
          faults.push(error instanceof GatewayError ? error.code : error, reply.headSent);
          reply.sendWhole(502, [], Buffer.from('sorry'));
        }
      },
    });
    const client = await rawClient(t, harness.listener.port);
    let seen = 0;
    const ask = async (path: string): Promise<string> => {
      client.socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
      const all = await client.until(new RegExp(`^[^]{${seen}}[^]*\r\n\r\n(hello|sorry)$`));
      const answer = all.slice(seen);
      seen = all.length;
      return answer;
    };
    t.match(
      await ask('/plain'),
      /^HTTP\/1.1 200 OK\r\nX-A: \u00e9\r\nContent-Length: 5\r\nDate: \w{3}, [^\r]+ GMT\r\nConnection: keep-alive\r\nKeep-Alive: timeout=42\r\n\r\nhello$/,
    );
    t.same((await ask('/dated')).match(/date: .*/gi), ['date: Sun, 22 Nov 2026 10:00:00 GMT']);
    t.same((await ask('/upgrade')).match(/connection: .*|keep-alive: .*/gi), ['Connection: upgrade']);
    for (const path of ['/split', '/name', '/wide', '/status']) t.match(await ask(path), /^HTTP\/1.1 502 Bad Gateway\r\n/, path);
    t.same(faults, Array.from({ length: 4 }, () => ['upstream_protocol', false]).flat());
    client.socket.end('GET /plain HTTP/1.1\r\nHost: a\r\n\r\n');
    t.match((await client.closed).text.slice(seen), /^HTTP\/1.1 200 OK\r\n/, 'a client that has said all gets its answer');
  },
);

t.test('pipelined requests are answered in their order', async (t) => {
  const held: Arrival[] = [];
  const { listener } = await startListener(t, { onArrival: (arrival) => held.push(arrival) });
  const client = await rawClient(t, listener.port);
  client.socket.write(
    'GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET /3 HTTP/1.1\r\nHost: x\r\n\r\n',
  );
  const other = await rawClient(t, listener.port);
  other.socket.write('GET /other HTTP/1.1\r\nHost: x\r\n\r\n');
  while (held.length < 2) await new Promise(setImmediate);
  t.same(
    held.map(({ head }) => head.rawTarget),
    ['/1', '/other'],
    'one at a time is begun',
  );
  held[0]?.reply.sendWhole(200, [], Buffer.from('first'));
  while (held.length < 3) await new Promise(setImmediate);
  held[2]?.reply.sendWhole(200, [], (await held[2].body.readAll(10)).subarray(0));
  while (held.length < 4) await new Promise(setImmediate);
  held[3]?.reply.sendWhole(200, [], Buffer.from('third'));
  t.match(await client.until(/third$/), /first.*hello.*third/s);
});

t.test('an application that throws is a 500 with our error body, or a reset once the head is sent', async (t) => {
  let sendHead = false;
  const { listener } = await startListener(t, {
    onArrival: ({ reply }) => {
      if (sendHead) reply.head(200, []);
      throw new Error('a fault with a secret in it');
    },
  });
  const request = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
  const text = await exchange(t, listener.port, request);
  t.match(text, /^HTTP\/1\.1 500 /);
  t.equal(errorCode(text), 'internal');
  t.notMatch(text, /secret/);
  sendHead = true;
  const client = await rawClient(t, listener.port);
  client.socket.write(request);
  t.equal((await client.closed).reset, true);
});
