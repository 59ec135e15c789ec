import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { Server, Socket } from 'node:net';
import { type ClientOptions, WebSocket, WebSocketServer } from 'ws';
import { testCa } from './certificates.ts';
import type { HasTeardown } from './temp-dir.ts';
import { closeServer, listenOnFreePort, trackSockets } from './tls-upstream.ts';

export interface SocketUpstream {
  readonly port: number;
  /** The root to trust; empty for a plain one. */
  readonly caPem: string;
  /** Handshakes that arrived, accepted or not. */
  readonly handshakes: readonly IncomingMessage[];
  /** Sockets that were accepted, oldest first. */
  readonly sockets: readonly WebSocket[];
  /** TCP connections that are open now. */
  readonly open: number;
  /** The next socket that is accepted. */
  next(): Promise<WebSocket>;
}

export interface SocketUpstreamOptions {
  /** Names of the certificate; without any it is plain HTTP. */
  readonly hosts?: readonly string[];
  onSocket?(socket: WebSocket, request: IncomingMessage): void;
  /** Answers a handshake in place of 101 when it returns true. */
  refuse?(request: IncomingMessage, socket: Socket): boolean;
  readonly perMessageDeflate?: boolean;
}

/** A real WebSocket server (`ws`) on a free port; of the subprotocols that are asked for it takes the last one. */
export async function startSocketUpstream(t: HasTeardown, options: SocketUpstreamOptions = {}): Promise<SocketUpstream> {
  const ca = options.hosts ? testCa() : undefined;
  const leaf = ca?.leaf({ hosts: options.hosts ?? [] });
  const server: Server = leaf ? createHttpsServer({ cert: leaf.certPem, key: leaf.keyPem }) : createServer();
  const wss = new WebSocketServer({
    noServer: true,
    handleProtocols: (protocols) => [...protocols].at(-1) ?? false,
    perMessageDeflate: options.perMessageDeflate ?? false,
    maxPayload: 0,
  });
  const handshakes: IncomingMessage[] = [];
  const sockets: WebSocket[] = [];
  const waiting: ((socket: WebSocket) => void)[] = [];
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    handshakes.push(request);
    if (options.refuse?.(request, socket)) return;
    wss.handleUpgrade(request, socket, head, (accepted) => {
      sockets.push(accepted);
      accepted.on('error', () => undefined);
      options.onSocket?.(accepted, request);
      waiting.shift()?.(accepted);
    });
  });
  server.on('tlsClientError', () => undefined);
  const open = trackSockets(server);
  const port = await listenOnFreePort(server);
  t.teardown(() => closeServer(server, open));
  return {
    port,
    caPem: ca?.certPem ?? '',
    handshakes,
    sockets,
    get open() {
      return open.size;
    },
    next: () => new Promise((resolve) => waiting.push(resolve)),
  };
}

export interface SocketClientOptions {
  readonly protocols?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
  /** The request target in place of the path: a proxy is given the whole URL. */
  readonly target?: string;
  readonly perMessageDeflate?: boolean;
}

/** A `ws` client on a connection that stands already. */
export function webSocketOn(t: HasTeardown, connection: Socket, host: string, path: string, options: SocketClientOptions = {}): WebSocket {
  const { target } = options;
  const more: ClientOptions = {
    createConnection: () => connection,
    headers: { ...options.headers },
    perMessageDeflate: options.perMessageDeflate ?? false,
    maxPayload: 0,
    ...(target === undefined
      ? {}
      : {
          finishRequest: (request) => {
            request.path = target;
            request.end();
          },
        }),
  };
  const socket = new WebSocket(`ws://${host}${path}`, [...(options.protocols ?? [])], more);
  socket.on('error', () => undefined);
  const opening = new Promise<IncomingMessage['headers']>((resolve, reject) => {
    let headers: IncomingMessage['headers'] = {};
    socket.once('upgrade', (answer) => {
      headers = answer.headers;
    });
    socket.once('open', () => resolve(headers));
    socket.once('error', reject);
  });
  opening.catch(() => undefined);
  openings.set(socket, opening);
  t.teardown(() => socket.terminate());
  return socket;
}

/** How the handshakes of clients come out: watched from the start, since one may be over before a test asks. */
const openings = new WeakMap<WebSocket, Promise<IncomingMessage['headers']>>();

/**
 * Resolves with the fields of the answer when the handshake is through; rejects when it was refused. `socket`: of
 * {@link webSocketOn}.
 */
export async function opened(socket: WebSocket): Promise<IncomingMessage['headers']> {
  const opening = openings.get(socket);
  if (opening === undefined) throw new Error('not a client that webSocketOn made');
  return opening;
}

export interface SocketRefusal {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** The answer to a handshake that must be refused. */
export function refused(socket: WebSocket): Promise<SocketRefusal> {
  return new Promise((resolve, reject) => {
    socket.once('open', () => reject(new Error('the handshake was accepted')));
    socket.once('error', reject);
    socket.once('unexpected-response', (_request, answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks).toString() }));
      answer.on('error', reject);
    });
  });
}

/** The next text or binary message. */
export async function nextMessage(socket: WebSocket): Promise<{ data: Buffer; binary: boolean }> {
  const [data, binary] = (await once(socket, 'message')) as [Buffer, boolean];
  return { data, binary };
}

/** How the socket was closed; that its connection was reset is one way, and no error. */
export function closing(socket: WebSocket): Promise<{ code: number; reason: string }> {
  return new Promise((resolve) => socket.once('close', (code, reason) => resolve({ code, reason: reason.toString() })));
}
