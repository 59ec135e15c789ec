import { once } from 'node:events';
import { type ClientHttp2Session, connect as connectH2, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { Arrival } from '../../../src/base/model/arrival.ts';
import { type CertificateAuthority, openCertificateAuthority } from '../../../src/inbound/ca/certificate-authority.ts';
import { type Listener, type ListenerOptions, openListener } from '../../../src/inbound/listener/listener.ts';
import { certificateClock } from '../../support/certificate-clock.ts';
import { runningClock } from '../../support/fake-clock.ts';
import { tempDir } from '../../support/temp-dir.ts';

export interface HasTeardown {
  teardown(callback: () => unknown): unknown;
}

export interface Harness {
  readonly listener: Listener;
  readonly ca: CertificateAuthority;
  readonly caDir: string;
  /** Every request that was handed over, in order. */
  readonly arrivals: Arrival[];
}

/**
 * A listener on free ports that intercepts every CONNECT and answers every request with its body, unless told
 * otherwise.
 */
export async function startListener(
  t: HasTeardown,
  options: Partial<ListenerOptions> = {},
  { interception = true } = {},
): Promise<Harness> {
  const caDir = tempDir(t);
  const arrivals: Arrival[] = [];
  const { onArrival = echo } = options;
  const ca = await openCertificateAuthority({ dir: caDir, clock: certificateClock, log: silentLogger });
  const listener = await openListener({
    host: '127.0.0.1',
    port: 0,
    ambientPort: 0,
    clock: runningClock,
    log: silentLogger,
    connectPorts: [443, 80],
    ...(interception ? { ca } : {}),
    onTunnel: (request) => Promise.resolve({ kind: 'intercept', tunnel: { authority: request.authority } }),
    dial: () => Promise.reject(new Error('nothing is dialled in this test')),
    dialOrigin: () => Promise.reject(new Error('nothing is dialled in this test')),
    ...options,
    onArrival: (arrival) => {
      arrivals.push(arrival);
      onArrival(arrival);
    },
  });
  t.teardown(() => listener.close());
  return { listener, ca, caDir, arrivals };
}

/** Answers 200 with the request's body. */
export function echo(arrival: Arrival): void {
  arrival.body.readAll(1_048_576).then(
    (body) => arrival.reply.sendWhole(200, ['content-type', 'application/octet-stream'], body),
    () => undefined,
  );
}

/** Tells the end of a promise that is only awaited later, so that its failure is never unhandled. */
export interface RawClient {
  readonly socket: Socket;
  /** All that came so far. */
  text(): string;
  /** Resolves as soon as `pattern` matches what came; rejects when the connection closes before. */
  until(pattern: RegExp): Promise<string>;
  /** Resolves with everything when the connection is closed; `reset` tells whether by RST. */
  closed: Promise<{ text: string; reset: boolean }>;
}

export async function rawClient(t: HasTeardown, port: number, host = '127.0.0.1'): Promise<RawClient> {
  const socket = connect({ port, host });
  t.teardown(() => socket.destroy());
  const client = watch(socket);
  await once(socket, 'connect');
  return client;
}

export function watch(socket: Socket): RawClient {
  let text = '';
  let reset = false;
  const waiting = new Set<() => void>();
  const wake = (): void => {
    for (const check of [...waiting]) check();
  };
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    wake();
  });
  socket.on('error', () => {
    reset = true;
  });
  const closed = new Promise<{ text: string; reset: boolean }>((resolve) => {
    socket.once('close', () => {
      resolve({ text, reset });
      wake();
    });
  });
  const until = (pattern: RegExp): Promise<string> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (!pattern.test(text) && !socket.destroyed) return;
        waiting.delete(check);
        if (pattern.test(text)) resolve(text);
        else reject(new Error(`closed before ${pattern} came: ${text}`));
      };
      waiting.add(check);
      check();
    });
  return { socket, text: () => text, until, closed };
}

/** Sends one request as text and gives all that comes until the server closes. */
export async function exchange(t: HasTeardown, port: number, request: string): Promise<string> {
  const client = await rawClient(t, port);
  client.socket.write(request, 'latin1');
  return (await client.closed).text;
}

/** A CONNECT that was answered 200; what the client now writes is inside the tunnel. */
export async function openTunnel(t: HasTeardown, port: number, authority = 'api.openai.com:443', fields = ''): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  socket.on('error', () => undefined);
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${fields}\r\n`);
  const answer: unknown[] = await once(socket, 'data');
  const text = String(answer[0]);
  if (text !== 'HTTP/1.1 200 Connection Established\r\n\r\n') throw new Error(`not established: ${text}`);
  return socket;
}

/** TLS inside a tunnel, verified against our root. */
export async function tlsInside(t: HasTeardown, harness: Harness, socket: Socket, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const secure = connectTls({ socket, ca: harness.ca.rootPem, servername: 'api.openai.com', ...options });
  t.teardown(() => secure.destroy());
  await once(secure, 'secureConnect');
  secure.on('error', () => undefined);
  return secure;
}

/** An h2 client inside a fresh tunnel. */
export async function h2Client(t: HasTeardown, harness: Harness): Promise<ClientHttp2Session> {
  const secure = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), { ALPNProtocols: ['h2'] });
  const session = connectH2('https://api.openai.com', { createConnection: () => secure });
  t.teardown(() => session.destroy());
  session.on('error', () => undefined);
  return session;
}

export interface H2Answer {
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  readonly body: string;
  /** Code of RST_STREAM, 0 when there was none. */
  readonly rstCode: number;
}

/** One exchange; resolves when its stream is closed. */
export function h2Request(session: ClientHttp2Session, headers: OutgoingHttpHeaders, body?: string): Promise<H2Answer> {
  return new Promise((resolve) => {
    const stream = session.request({ ':path': '/', ...headers }, { endStream: body === undefined });
    let answer: IncomingHttpHeaders = {};
    let trailers: IncomingHttpHeaders = {};
    let text = '';
    stream.on('response', (fields) => {
      answer = fields;
    });
    stream.on('trailers', (fields) => {
      trailers = fields;
    });
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    stream.on('error', () => undefined);
    stream.on('close', () => resolve({ headers: answer, trailers, body: text, rstCode: stream.rstCode }));
    if (body !== undefined) stream.end(body);
  });
}

/** A TCP server on loopback, for the far end of blind tunnels. */
export async function tcpServer(t: HasTeardown, onConnection: (socket: Socket) => void): Promise<{ server: Server; port: number }> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined);
    t.teardown(() => socket.destroy());
    onConnection(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no address');
  return { server, port: address.port };
}

export async function dialTo(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' });
  await once(socket, 'connect');
  return socket;
}

/** The JSON error code in a raw answer. */
export function errorCode(text: string): unknown {
  const body: unknown = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4));
  if (typeof body !== 'object' || body === null || !('error' in body)) return undefined;
  const { error } = body;
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
}
