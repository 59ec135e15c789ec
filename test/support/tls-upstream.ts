import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createSecureServer } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Server as NetServer, Socket } from 'node:net';
import { type CertificateAndKey, FAR_AWAY, LONG_OVER, selfSigned, testCa } from './certificates.ts';

/** One request as the upstream saw it. */
export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: string;
  /** Flat name, value list as received. */
  readonly rawHeaders: readonly string[];
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Grows while the body arrives; whole once the promise `complete` has resolved. */
  readonly body: Buffer;
  /** Resolves with true when the request came whole, false when it was cut. */
  readonly complete: Promise<boolean>;
  /** Number of the connection it came on, from 1. */
  readonly connection: number;
  /** SNI of the connection; false or undefined without one. */
  readonly servername: string | false | undefined;
}

export type UpstreamHandler = (request: IncomingMessage, response: ServerResponse, body: Promise<Buffer>) => void;

export interface TestUpstream {
  readonly port: number;
  /** The root to trust; empty for a plain upstream. */
  readonly caPem: string;
  readonly requests: readonly SeenRequest[];
  /** Connections accepted so far (behind TLS: completed handshakes). */
  readonly connections: number;
  /** Connections that are open now. */
  readonly open: number;
  /** Handshakes that resumed an earlier session. */
  readonly resumed: number;
  /** Ends every connection, as a server does with idle ones. */
  endConnections(): void;
  close(): Promise<void>;
}

/** How the certificate is made: `good`, or one fault. `untrusted` is signed by a root that `caPem` is not. */
export type CertificateKind =
  | 'good'
  | 'expired'
  | 'not-yet-valid'
  | 'wrong-host'
  | 'self-signed'
  | 'untrusted'
  | 'common-name-only'
  | 'odd-extension';

export interface TlsUpstreamOptions {
  /** Names and addresses of the certificate; default localhost, 127.0.0.1 and ::1. */
  readonly hosts?: readonly string[];
  readonly certificate?: CertificateKind;
  /** Refuse clients without a certificate of its own root. */
  readonly clientCertificate?: true;
  readonly maxVersion?: 'TLSv1.2';
  /** Offer h2 beside http/1.1. */
  readonly h2?: boolean;
  readonly handler?: UpstreamHandler;
}

const DEFAULT_HOSTS = ['localhost', '127.0.0.1', '::1'];

/** Answers 200 with a small JSON object. */
export const answerOk: UpstreamHandler = (_request, response) => {
  response.setHeader('Content-Type', 'application/json');
  response.end('{"ok":true}');
};

/** Real TLS on a free port of 127.0.0.1, with a root of its own. */
export async function startTlsUpstream(given: UpstreamHandler | TlsUpstreamOptions = {}): Promise<TestUpstream> {
  const options = typeof given === 'function' ? { handler: given } : given;
  const { caPem, certPem, keyPem } = certificateOf(options.certificate ?? 'good', options.hosts ?? DEFAULT_HOSTS);
  const tls = {
    cert: certPem,
    key: keyPem,
    ...(options.clientCertificate ? { requestCert: true, rejectUnauthorized: true, ca: caPem } : {}),
    ...(options.maxVersion ? { maxVersion: options.maxVersion } : {}),
  };
  const server = options.h2 ? createSecureServer({ ...tls, allowHTTP1: true }) : createHttpsServer(tls);
  return listen(server as unknown as Server, 'secureConnection', options.handler ?? answerOk, caPem);
}

/** Plain HTTP/1.1 on a free port of 127.0.0.1. */
export async function startPlainUpstream(handler: UpstreamHandler = answerOk): Promise<TestUpstream> {
  return listen(createServer(), 'connection', handler, '');
}

/** Certificate and key of one kind, with the root that a client is told to trust. */
export function certificateOf(kind: CertificateKind, hosts: readonly string[]): CertificateAndKey & { readonly caPem: string } {
  const ca = testCa();
  const leaves: Record<CertificateKind, () => CertificateAndKey> = {
    good: () => ca.leaf({ hosts }),
    expired: () => ca.leaf({ hosts, ...LONG_OVER }),
    'not-yet-valid': () => ca.leaf({ hosts, ...FAR_AWAY }),
    'wrong-host': () => ca.leaf({ hosts: ['somebody-else.example'] }),
    'self-signed': () => selfSigned(hosts),
    untrusted: () => testCa('Somebody else').leaf({ hosts }),
    'common-name-only': () => ca.leaf({ hosts, commonNameOnly: true }),
    'odd-extension': () => ca.leaf({ hosts, oddExtension: true }),
  };
  return { ...leaves[kind](), caPem: ca.certPem };
}

async function listen(server: Server, connectionEvent: string, handler: UpstreamHandler, caPem: string): Promise<TestUpstream> {
  const requests: SeenRequest[] = [];
  const numbers = new WeakMap<object, number>();
  let connections = 0;
  let resumed = 0;
  const sockets = trackSockets(server);
  // An origin that closes what is idle may do so in the moment of the next call, and then that call has no answer.
  server.keepAliveTimeout = 120_000;
  server.on(connectionEvent, (socket: Socket & { isSessionReused?(): boolean }) => {
    connections++;
    numbers.set(socket, connections);
    if (socket.isSessionReused?.()) resumed++;
  });
  server.on('tlsClientError', () => undefined);
  server.on('clientError', (_error, socket) => socket.destroy());
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { seen, whole } = watch(request, numbers.get(request.socket) ?? connections);
    requests.push(seen);
    response.on('error', () => undefined);
    handler(request, response, whole);
  });
  const port = await listenOnFreePort(server);
  return {
    port,
    caPem,
    requests,
    get connections() {
      return connections;
    },
    get open() {
      return sockets.size;
    },
    get resumed() {
      return resumed;
    },
    endConnections: () => {
      for (const socket of sockets) socket.end();
    },
    close: () => closeServer(server, sockets),
  };
}

function watch(request: IncomingMessage, connection: number): { seen: SeenRequest; whole: Promise<Buffer> } {
  let body = Buffer.alloc(0);
  const complete = new Promise<boolean>((resolve) => {
    request.on('data', (chunk: Buffer) => {
      body = Buffer.concat([body, chunk]);
    });
    request.on('end', () => resolve(true));
    request.on('error', () => undefined);
    request.on('close', () => resolve(request.complete));
  });
  const socket = request.socket as Socket & { servername?: string | false };
  const seen: SeenRequest = {
    method: request.method ?? '',
    url: request.url ?? '',
    httpVersion: request.httpVersion,
    rawHeaders: request.rawHeaders,
    headers: request.headers,
    get body() {
      return body;
    },
    complete,
    connection,
    servername: socket.servername,
  };
  return { seen, whole: complete.then(() => body) };
}

/** Every socket of a server that is open at the moment. */
export function trackSockets(server: NetServer): Set<Socket> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
  });
  return sockets;
}

/** Port 0 of `address`; resolves with the real port. */
export function listenOnFreePort(server: NetServer, address = '127.0.0.1'): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, address, () => {
      server.off('error', reject);
      resolve((server.address() as AddressInfo).port);
    });
  });
}

/** Stops listening and breaks what is open. */
export function closeServer(server: NetServer, sockets: Iterable<Socket>): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    for (const socket of sockets) socket.destroy();
  });
}
