/*
 * What a stream leaves unread goes back to the window of its connection (RFC 9113 §6.9), and what it leaves unsent to
 * the memory: however many streams of a connection break off, the next one is served.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createSecureServer,
  type Http2Session,
  type ServerHttp2Stream,
  type Settings,
} from 'node:http2';
import t from 'tap';
import { SMALL } from '../support/forms.ts';
import type { TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { gatewayFor, HOSTS, through } from '../support/non-ai.ts';
import { h2Request } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';

const BYTES = 400_000;
const ROUNDS = 100;
const TOGETHER = 8;
/**
 * Of a connection, in the direction to the gateway, on either side of it. It is told what is free again when that is
 * half of it (nghttp2).
 */
const CONNECTION_WINDOW = 1_048_576;
/**
 * Megabytes. node:http2 takes what a stream had not sent yet when it was reset for memory of its session, for good:
 * neither end of the test shall mind.
 */
const MEMORY = 1_000;
const AI = 'api.openai.com';
const OTHER = 'www.example.com';

for (const mode of ['inspect', 'govern']) {
  t.test(`${mode}: uploads that break off, whoever breaks them, leave the way open for the next`, async (t) => {
    const { gw, sessions } = await behind(t, mode);
    const session = await client(t, gw, OTHER);
    for (const path of ['/refuse', '/refuse-late', '/reset', '/stop', '/leave']) {
      await inTurn(ROUNDS, () => breakOff(session, path));
      t.ok(await opens(session), `${path}: the client may send again`);
      const answer = await h2Request(session, { method: 'POST', path: '/take', body: Buffer.alloc(BYTES, path) });
      t.match([answer.status, String(answer.body)], [200, String(BYTES)], path);
    }
    t.equal(sessions.length, 1, 'all on one connection');
  });

  t.test(`${mode}: answers that clients leave in the middle leave the way open for the next`, async (t) => {
    const { gw, sessions } = await behind(t, mode);
    // With a small window most of an answer waits inside the gateway.
    const session = await client(t, gw, OTHER, { initialWindowSize: 1_000 });
    for (const path of ['/pour', '/pour-endless']) {
      await inTurn(2 * ROUNDS, () => leaveAnswer(session, path));
      const [origin] = sessions;
      t.ok(origin && (await opens(origin)), `${path}: the origin may send again`);
      t.equal((await h2Request(session, { path: '/pour' })).body.length, BYTES);
    }
    t.equal(sessions.length, 1, 'all on one connection');
  });
}

t.test('uploads to an AI host that are refused as too large leave the way open for the next', async (t) => {
  const { gw } = await behind(t, 'pass');
  const session = await client(t, gw, AI);
  for (const length of [BYTES, undefined]) {
    const statuses = new Set<number>();
    await inTurn(ROUNDS, async () => statuses.add(await breakOff(session, '/v1/chat/completions', length)));
    t.same([...statuses], [413]);
    t.ok(await opens(session), `${length ?? 'no'} content-length: the client may send again`);
  }
});

/** A gateway and an h2 origin that breaks uploads off in all ways, or answers at length. */
async function behind(t: HasTeardown, mode: string) {
  const { caPem, certPem, keyPem } = certificateOf('good', HOSTS);
  const server = createSecureServer({ cert: certPem, key: keyPem, maxSessionMemory: MEMORY });
  const sessions: Http2Session[] = [];
  server.on('session', (session) => sessions.push(session));
  server.on('stream', (stream, headers) =>
    serve(
      stream.on('error', () => undefined),
      headers[':path'] ?? '',
    ),
  );
  const sockets = trackSockets(server);
  t.teardown(() => closeServer(server, sockets));
  const upstream = { port: await listenOnFreePort(server), caPem };
  return { sessions, ...(await gatewayFor(t, upstream, { ...SMALL, GW_PROXY_NON_AI: mode }, ALLOW_ALL)) };
}

async function client(t: HasTeardown, gw: TestGateway, host: string, settings: Settings = {}): Promise<ClientHttp2Session> {
  const socket = await through(t, gw, host, ['h2']);
  const session = connect(`https://${host}`, { createConnection: () => socket, settings, maxSessionMemory: MEMORY });
  session.on('error', () => undefined);
  t.teardown(() => session.destroy());
  return session;
}

function serve(stream: ServerHttp2Stream, path: string): void {
  switch (path) {
    case '/refuse':
      stream.respond({ ':status': 403 });
      stream.end('no');
      return;
    case '/refuse-late':
      stream.once('data', () => {
        stream.pause().respond({ ':status': 403 });
        stream.end('no');
      });
      return;
    case '/reset':
      stream.once('data', () => stream.pause().close(constants.NGHTTP2_CANCEL));
      return;
    case '/stop':
      stream.respond({ ':status': 403 });
      stream.end('no', () => stream.close(constants.NGHTTP2_NO_ERROR));
      return;
    case '/leave':
      stream.once('data', () => stream.pause().respond({ ':status': 200 }));
      return;
    case '/take': {
      let bytes = 0;
      stream.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      stream.on('end', () => {
        stream.respond({ ':status': 200 });
        stream.end(String(bytes));
      });
      return;
    }
    default:
      stream.respond({ ':status': 200 });
      if (path === '/pour') stream.end(Buffer.alloc(BYTES, 'x'));
      else stream.write(Buffer.alloc(BYTES, 'x'));
  }
}

/**
 * Sends an upload, as far as it is taken, and leaves at the answer where nobody else ends it. Resolves with the status
 * at the stream's end.
 */
async function breakOff(session: ClientHttp2Session, path: string, length?: number): Promise<number> {
  const fields = { ':method': 'POST', ':path': path, 'content-type': 'application/json' };
  const stream = session.request(length === undefined ? fields : { ...fields, 'content-length': length });
  stream.write(Buffer.alloc(BYTES, 'x'));
  let status = 0;
  stream.on('response', (head) => {
    status = head[':status'] ?? 0;
    if (path === '/leave') stream.close(constants.NGHTTP2_CANCEL);
    else stream.resume();
  });
  await over(stream);
  return status;
}

async function leaveAnswer(session: ClientHttp2Session, path: string): Promise<void> {
  const stream = session.request({ ':path': path });
  stream.once('data', () => stream.pause().close(constants.NGHTTP2_CANCEL));
  await over(stream);
}

/**
 * A stream that is reset with NO_ERROR stays open here for as long as its own upload is not through, which is never.
 */
async function over(stream: ClientHttp2Stream): Promise<void> {
  stream.on('error', () => undefined);
  await new Promise((resolve) => stream.once('end', resolve).once('close', resolve));
  stream.destroy();
}

async function inTurn(times: number, step: () => Promise<unknown>): Promise<void> {
  for (let done = 0; done < times; done += TOGETHER) await Promise.all(Array.from({ length: TOGETHER }, step));
}

/**
 * True once this side may send at least half of the window on the connection; false when a minute of asking change
 * nothing.
 */
async function opens(session: Http2Session): Promise<boolean> {
  const until = performance.now() + 60_000;
  while (performance.now() < until) {
    // What the other side has sent before its answer is known here.
    await new Promise((resolve) => session.ping(resolve));
    if ((session.state.remoteWindowSize ?? 0) >= CONNECTION_WINDOW / 2) return true;
  }
  return false;
}
