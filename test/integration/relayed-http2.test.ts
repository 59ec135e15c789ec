// Opened tunnels to hosts that are no AI hosts speak on both sides the protocol that the origin chose (decision 3.11).
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { constants, createSecureServer, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import { pipeline, Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { WebSocket } from 'ws';
import { END_HEADERS, END_STREAM, FRAME_HEAD_BYTES, type Frames, startFramedOrigin } from '../support/framed-origin.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { grpcCall, grpcChat, grpcClient, grpcHang, startGrpcUpstream } from '../support/grpc.ts';
import { domains, gatewayFor, HOSTS, h2Through, scene, through } from '../support/non-ai.ts';
import { h1Request, h2Request, h2Session } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';
import { startSocketUpstream } from '../support/websockets.ts';

for (const mode of ['inspect', 'govern']) {
  t.test(`${mode}: a real gRPC client and server talk as if nobody stood between them`, async (t) => {
    const grpc = await startGrpcUpstream(t, HOSTS);
    const { gw, recorded } = await gatewayFor(t, grpc, { GW_PROXY_NON_AI: mode }, ALLOW_ALL);
    const client = grpcClient(t, gw.port, 'www.example.com:443', gw.caPem);
    t.match(await grpcCall(client, 'Unary', 'hello', { 'x-asked': 'me' }), {
      code: 0,
      messages: ['hello'],
      initial: { 'x-initial': 'me' },
      final: { 'x-final': 'yes' },
    });
    t.match(await grpcCall(client, 'Fail', 'x'), { code: 5, details: 'no such thing: ü', messages: [] });
    t.match(await grpcCall(client, 'Count', '500'), { code: 0, messages: { length: 500, 499: '499' } });
    t.same(await grpcChat(client, 20), { heard: Array.from({ length: 20 }, (_, i) => `echo turn ${i}`), code: 0 });

    const cancel = grpc.nextCancel();
    const hung = await grpcHang(client);
    hung.cancel();
    t.equal(await hung.code(), 1, 'CANCELLED');
    await cancel;
    const late = grpc.nextCancel();
    t.equal(await (await grpcHang(client, 4_000)).code(), 4, 'DEADLINE_EXCEEDED');
    await late;
    t.equal(grpc.cancelled(), 2, 'the server hears of both');

    const again = await grpcHang(client);
    grpc.server.forceShutdown();
    t.ok([1, 13, 14].includes(await again.code()), 'a server that dies ends its streams');
    t.match(await domains(gw), [{ domain: 'www.example.com', connections: 1, requests: 7 }]);
    if (mode === 'inspect') t.same(recorded(), []);
  });
}

for (const mode of ['inspect', 'govern']) {
  // Holds: tunnels-speak-the-origins-protocol
  t.test(`${mode}: the client gets the protocol that the origin chose, on one connection per tunnel`, async (t) => {
    const { gw, upstream } = await scene(t, { GW_PROXY_NON_AI: mode }, { h2: true, bundle: ALLOW_ALL });
    const both = await through(t, gw, 'www.example.com', ['h2', 'http/1.1']);
    t.equal(both.alpnProtocol, 'h2');
    const session = h2Session(both, 'www.example.com');
    await Promise.all([h2Request(session), h2Request(session), h2Request(session)]);
    session.close();
    const old = await through(t, gw, 'www.example.com', ['http/1.1']);
    for (let i = 0; i < 3; i++) t.equal((await h1Request(old, 'www.example.com')).status, 200);
    t.same(
      upstream.requests.map(({ httpVersion, connection }) => [httpVersion, connection]),
      [...Array.from({ length: 3 }, () => ['2.0', 1]), ...Array.from({ length: 3 }, () => ['1.1', 2])],
    );
    t.match(upstream.requests[0]?.headers, { via: /^1\.1 gw-/ });
    const plain = await scene(t, { GW_PROXY_NON_AI: mode }, { bundle: ALLOW_ALL });
    t.equal((await through(t, plain.gw, 'www.example.com', ['h2', 'http/1.1'])).alpnProtocol, 'http/1.1');
    t.match(await h2Request(await h2Through(t, plain.gw)), { status: 502, body: /none of the protocols/ });
  });

  t.test(`${mode}: an h1 connection that the origin has closed between two requests is made anew`, async (t) => {
    const { gw, upstream } = await scene(
      t,
      { GW_PROXY_NON_AI: mode },
      {
        bundle: ALLOW_ALL,
        handler: (request, response) => response.setHeader('Connection', 'close').end(request.url),
      },
    );
    const socket = await through(t, gw, 'www.example.com', ['http/1.1']);
    for (const path of ['/1', '/2', '/3'])
      t.match(await h1Request(socket, 'www.example.com', { path }), { status: 200, body: Buffer.from(path) });
    t.equal(upstream.connections, 3);
  });

  t.test(`${mode}: a WebSocket is relayed on the connection that was dialled`, async (t) => {
    const site = await startSocketUpstream(t, {
      hosts: HOSTS,
      onSocket: (socket) => socket.on('message', (text) => socket.send(`echo ${String(text)}`)),
    });
    const { gw, recorded } = await gatewayFor(t, site, { GW_PROXY_NON_AI: mode }, ALLOW_ALL);
    const transport = await through(t, gw, 'www.example.com', ['http/1.1']);
    t.equal(site.open, 1, 'the origin came first');
    const socket = new WebSocket('wss://www.example.com/chat', { createConnection: () => transport });
    socket.once('open', () => socket.send('hello'));
    t.equal(String((await once(socket, 'message'))[0]), 'echo hello');
    t.equal(site.open, 1, 'and is the only connection');
    t.equal(recorded().length, mode === 'govern' ? 1 : 0);
    socket.terminate();
  });

  t.test(`${mode}: trailers, interim answers and lengths pass both ways`, async (t) => {
    const { gw, upstream } = await scene(
      t,
      { GW_PROXY_NON_AI: mode },
      {
        h2: true,
        bundle: ALLOW_ALL,
        handler: (request, response, body) =>
          void body.then((bytes) => {
            response.writeEarlyHints({ link: '</a.css>; rel=preload', 'x-gw-decision': 'deny', 'alt-svc': 'h3' });
            response.setHeader('Trailer', 'x-sum');
            response.write(bytes);
            response.addTrailers({
              'x-sum': String(bytes.length),
              'x-asked': String(request.trailers['x-after']),
              'x-gw-record-id': 'forged',
            });
            response.end();
          }),
      },
    );
    const session = await h2Through(t, gw);
    const stream = session.request({ ':method': 'POST', te: 'trailers', 'x-gw-secret': 'no' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-after': 'yes', 'x-token': 'gwk_never' }));
    const infos: unknown[] = [];
    stream.on('headers', (head) => infos.push(Object.entries(head)));
    const trailers = once(stream, 'trailers') as Promise<[object]>;
    stream.end('12345');
    stream.resume();
    t.same(Object.keys((await trailers)[0]), ['x-sum', 'x-asked'], 'nobody speaks in our name');
    t.same(infos, [
      [
        [':status', 103],
        ['link', '</a.css>; rel=preload'],
      ],
    ]);
    const seen = upstream.requests[0];
    t.equal(seen?.headers['te'], 'trailers');
    t.same([seen?.headers['x-gw-secret'], seen?.headers['x-token']], [undefined, undefined]);
  });

  t.test(
    `${mode}: a client that leaves stops the origin, an origin that breaks off breaks off the client, each with its code`,
    async (t) => {
      const closed: (() => void)[] = [];
      let refuse: () => void = () => undefined;
      const { gw } = await scene(
        t,
        { GW_PROXY_NON_AI: mode },
        {
          h2: true,
          bundle: ALLOW_ALL,
          handler(request, response) {
            const { stream } = response as unknown as { stream: ServerHttp2Stream };
            stream.on('error', () => undefined);
            response.write('begun');
            if (request.url === '/refuse') refuse = () => stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
            else response.once('close', () => closed.shift()?.());
          },
        },
      );
      const session = await h2Through(t, gw);
      const leaving = session.request({ ':path': '/hang' });
      leaving.on('error', () => undefined);
      await once(leaving, 'data');
      const stopped = new Promise<void>((resolve) => closed.push(resolve));
      leaving.close(constants.NGHTTP2_CANCEL);
      await stopped;
      const refused = session.request({ ':path': '/refuse' });
      refused.on('error', () => undefined);
      // A reset in the same turn as the head may overtake it (Node 24).
      await once(refused, 'data');
      refuse();
      await new Promise((resolve) => refused.once('close', resolve));
      t.equal(refused.rstCode, constants.NGHTTP2_ENHANCE_YOUR_CALM);
      t.notOk(session.closed, 'other streams of the tunnel go on');
    },
  );

  // Holds: upstreams-speak-in-their-own-name
  t.test(`${mode}: interim answers without an end are 502, and the tunnel goes on`, async (t) => {
    const { gw } = await scene(
      t,
      { GW_PROXY_NON_AI: mode },
      {
        h2: true,
        bundle: ALLOW_ALL,
        handler: (request, response) => {
          for (let i = 0; request.url === '/endless' && i < 1_000; i++) response.writeEarlyHints({ link: '</a.css>; rel=preload' });
          response.end('ok');
        },
      },
    );
    const session = await h2Through(t, gw);
    const flooded = await h2Request(session, { path: '/endless' });
    t.match([flooded.status, flooded.body.toString()], [502, /upstream_protocol/]);
    t.equal(flooded.infos.length, 32);
    t.equal((await h2Request(session, { path: '/' })).body.toString(), 'ok');
  });

  t.test(`${mode}: only END_STREAM completes an answer, and a reset behind it takes nothing away`, async (t) => {
    const origin = await startFramedOrigin(t, HOSTS);
    const { gw, recorded } = await gatewayFor(t, origin, { GW_PROXY_NON_AI: mode }, ALLOW_ALL);
    const session = await h2Through(t, gw);
    const ask = async (method: string, ...frames: Frames) => {
      origin.answer(frames);
      const stream = session.request({ ':method': method }, { endStream: method === 'GET' });
      if (method !== 'GET') stream.write('some of it');
      let status: unknown;
      let text = '';
      stream.on('error', () => undefined);
      stream.on('response', (head) => (status = head[':status']));
      stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
      await new Promise((resolve) => stream.once('close', resolve));
      return { status, text, code: stream.rstCode };
    };
    const { NGHTTP2_INTERNAL_ERROR: broken, NGHTTP2_NO_ERROR: fine } = constants;
    for (const method of ['GET', 'POST']) {
      t.match(await ask(method, HEAD, DATA, RESET), { code: broken }, `${method}: cut in its body`);
      t.match(await ask(method, HEAD, RESET), { code: broken }, `${method}: cut behind its head`);
      t.match(await ask(method, RESET), { status: 502, text: /reset the stream \(NO_ERROR\)/, code: fine }, `${method}: none`);
      t.match(await ask(method, HEAD, LAST_DATA, RESET), { status: 200, text: 'said', code: fine }, `${method}: whole`);
      t.match(await ask(method, HEAD, DATA, TRAILERS, RESET), { status: 200, text: 'said', code: fine }, `${method}: whole with trailers`);
      t.match(await ask(method, LAST_HEAD, RESET), { status: 200, text: '', code: fine }, `${method}: whole and empty`);
      const long = await ask(method, LONG_HEAD, DATA, RESET);
      t.match(long, mode === 'govern' ? { status: 502, code: fine } : { status: 200, code: broken }, `${method}: shorter than its length`);
    }
    t.notOk(session.closed, 'the tunnel goes on');
    if (mode === 'inspect') return;
    const records = await Promise.all(recorded().map((id) => gw.record(id)));
    const lost = { code: 'upstream_unreachable', message: 'www.example.com:443 reset the stream (NO_ERROR).' };
    const errors = [lost, lost, lost, undefined, undefined, undefined, lost];
    t.same(
      records.map(({ error }) => error),
      [...errors, ...errors],
    );
  });

  t.test(`${mode}: an answer whose beginning comes while the connection is written to arrives in its order`, async (t) => {
    const origin = await startFramedOrigin(t, HOSTS);
    const { gw } = await gatewayFor(t, origin, { GW_PROXY_NON_AI: mode }, ALLOW_ALL);
    const session = await h2Through(t, gw);
    origin.answer([HEAD]);
    const other = session.request().resume();
    await once(other, 'response');
    // Answering the PING of the first TLS record holds node:http2 up in the middle of the second, before the head.
    origin.answer([PING, FILLING, BEGINNING, HEAD, DATA]);
    const stream = session.request();
    let text = '';
    stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
    const [head] = (await once(stream, 'response')) as [{ ':status': number }];
    origin.goOn([[0, END_STREAM, Buffer.from(', and more')]]);
    await once(stream, 'close');
    t.same([head[':status'], text, stream.rstCode], [200, 'said, and more', constants.NGHTTP2_NO_ERROR]);
    other.close();
  });

  t.test(`${mode}: an answer in frames of one byte comes whole, and in few frames`, async (t) => {
    const PIECES = 20_000;
    const origin = await startFramedOrigin(t, HOSTS);
    const { gw } = await gatewayFor(t, origin, { GW_PROXY_NON_AI: mode }, ALLOW_ALL);
    const session = await h2Through(t, gw);
    const text = 'abcdefghij'.repeat(PIECES / 10);
    origin.answer([HEAD, ...[...text].map((byte) => [0, 0, Buffer.from(byte)] as const), [0, END_STREAM, Buffer.alloc(0)]]);
    for (const waits of [false, true]) {
      const stream = session.request();
      await once(stream, 'response');
      if (waits) for (let i = 0; i < 100; i++) await setImmediate();
      let frames = 0;
      let came = '';
      stream.on('data', (chunk: Buffer) => {
        frames += 1;
        came += chunk.toString();
      });
      await once(stream, 'end');
      t.equal(came, text);
      t.ok(frames < PIECES / 10, `${frames} frames`);
    }
  });

  t.test(`${mode}: a tunnel ends when its h2 connection to the origin does`, async (t) => {
    const sessions: Http2Session[] = [];
    const { gw } = await scene(
      t,
      { GW_PROXY_NON_AI: mode },
      {
        h2: true,
        bundle: ALLOW_ALL,
        handler(_request, response) {
          const { stream } = response as unknown as { stream: ServerHttp2Stream };
          if (stream.session) sessions.push(stream.session);
          response.end('x');
        },
      },
    );
    const session = await h2Through(t, gw);
    t.equal((await h2Request(session)).status, 200);
    const goaway = once(session, 'goaway');
    sessions[0]?.close();
    await goaway;
    await once(session, 'close');
    t.pass('the client was told and left');
  });

  t.test(`${mode}: fifty megabytes pass in each direction at the pace of the reader`, async (t) => {
    const size = 50 * 1024 * 1024;
    let received = 0;
    let sent = 0;
    const upstream = await startPump(t, {
      down: (response) =>
        pipeline(
          megabytes(size, (bytes) => (sent += bytes)),
          response,
          () => undefined,
        ),
      up: (bytes) => (received += bytes),
    });
    const { gw, recorded } = await gatewayFor(t, upstream, { GW_PROXY_NON_AI: mode }, ALLOW_ALL);
    const session = await h2Through(t, gw);
    const down = session.request({ ':path': '/down' });
    const hash = createHash('sha256');
    await once(down, 'response');
    await setImmediate();
    down.pause();
    for (let before = -1; before !== sent; ) {
      before = sent;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    t.ok(sent < 16 * 1024 * 1024, `a reader that stands still holds the origin: ${sent}`);
    let got = 0;
    down.on('data', (chunk: Buffer) => {
      got += chunk.length;
      hash.update(chunk);
    });
    down.resume();
    await once(down, 'end');
    t.equal(got, size);
    const up = session.request({ ':method': 'POST', ':path': '/up' });
    pipeline(megabytes(size), up, () => undefined);
    up.resume();
    await once(up, 'end');
    t.equal(received, size);
    if (mode === 'inspect') return;
    const records = await Promise.all(recorded().map((id) => gw.record(id)));
    const sum = hash.digest('hex');
    t.match(records, [
      { connector_id: 'generic_http', action_type: 'http.request', response_bytes: size, response_sha256: sum, record_tier: 'action' },
      { request_bytes: size, request_sha256: sum, action_method: 'POST', target_path: '/up' },
    ]);
  });
}

/** So many bytes of zeros, made as they are read. */
function megabytes(size: number, made: (bytes: number) => void = () => undefined): Readable {
  const chunk = Buffer.alloc(65_536);
  let left = size;
  return new Readable({
    read() {
      const bytes = Math.min(chunk.length, left);
      left -= bytes;
      made(bytes);
      this.push(bytes === 0 ? null : chunk.subarray(0, bytes));
    },
  });
}

/** An h2 origin that keeps nothing of what it is sent. */
async function startPump(t: HasTeardown, { down, up }: { down: (response: ServerHttp2Stream) => void; up: (bytes: number) => void }) {
  const { caPem, certPem, keyPem } = certificateOf('good', HOSTS);
  const server = createSecureServer({ cert: certPem, key: keyPem });
  server.on('stream', (stream, headers) => {
    stream.respond({ ':status': 200 });
    if (headers[':method'] === 'GET') {
      // A stream of node:http2 whose request nobody reads is reset when its answer was written, which may be before
      // END_STREAM has left.
      stream.resume();
      down(stream);
    } else {
      stream.on('data', (chunk: Buffer) => up(chunk.length));
      stream.on('end', () => stream.end('done'));
    }
  });
  const sockets = trackSockets(server);
  t.teardown(() => closeServer(server, sockets));
  return { port: await listenOnFreePort(server), caPem };
}

const OK = Buffer.from([0x88]);
const HEAD = [1, END_HEADERS, OK] as const;
const LAST_HEAD = [1, END_HEADERS | END_STREAM, OK] as const;
/** With a content-length of 10. */
const LONG_HEAD = [1, END_HEADERS, Buffer.concat([OK, Buffer.from([0x0f, 0x0d, 2]), Buffer.from('10')])] as const;
const TRAILERS = [
  1,
  END_HEADERS | END_STREAM,
  Buffer.concat([Buffer.from([0, 3]), Buffer.from('sum'), Buffer.from([1]), Buffer.from('4')]),
] as const;
const DATA = [0, 0, Buffer.from('said')] as const;
const LAST_DATA = [0, END_STREAM, Buffer.from('said')] as const;
/** NO_ERROR. */
const RESET = [3, 0, Buffer.alloc(4)] as const;
const PING = [6, 0, Buffer.alloc(8), 0] as const;
/** What a TLS record holds at most. */
const RECORD_BYTES = 16_384;
/** Fills the first record of an answer behind a PING, and begins the second: on the first stream of the connection. */
const FILLING = [0, 0, Buffer.alloc(RECORD_BYTES - 17 - FRAME_HEAD_BYTES), 1] as const;
const BEGINNING = [0, 0, Buffer.from('x'), 1] as const;
