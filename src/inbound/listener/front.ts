// The two ports. This is the only file that knows http-mitm-proxy, so that a bare http.Server could stand here
// tomorrow. Of the library are used: one `onConnect` handler whose callback is never called, so that it hands over the
// socket whole; both certificate hooks, which fail closed; a private folder that is thrown away; `httpServer`, before
// it listens and after; and `_onError`, replaced because it prints. Requests and upgrades it never sees: its listeners
// make a context of twenty closures per request (a tenth of what a call may cost), throw out of the event loop for
// `Host: http://[::1`, answer a request without Host in HTML, and dial past policy. What must stay unreachable besides:
// its certificate store (`CONNECT ca:443` overwrites its authority), its routing by the inner Host, its forwarding (no
// back-pressure, no aborts), its listening server per host.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { type AddressInfo, type ListenOptions, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { Proxy as MitmProxy } from 'http-mitm-proxy';
import { BACKLOG } from '../../base/lib/connection-shares.ts';
import { throwAwayAuthority } from '../ca/throw-away-authority.ts';
import { closeIdle } from './close-idle.ts';
import { deadlineCheckMs, type ListenerLimits } from './limits.ts';
import { ignore } from './links.ts';
import { UPGRADES } from './upgrade.ts';
import { type Anteroom, WaitingRoom } from './waiting-room.ts';

export interface FrontOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Descriptor of a socket that listens already; host and port are then its own. */
  readonly descriptor?: number | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly limits: ListenerLimits;
  /** Given where the port speaks TLS: HTTP, and `onConnection`, get what comes out of it. */
  readonly anteroom?: Anteroom | undefined;
  onConnection(socket: Socket): void;
  onConnect(request: IncomingMessage, socket: Socket, head: Buffer): void;
  /** `expectsContinue`: the client waits for a 100 before it sends the body. */
  onRequest(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void;
  /** A request that asks for another protocol; node:http has let go of the socket. */
  onUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  onClientError(error: Error, socket: Duplex): void;
}

export interface Front {
  readonly server: Server;
  /** Where it listens. */
  readonly address: string;
  readonly port: number;
  /** Begins to serve; connections that come before wait, unread. */
  open(): void;
  /** Stops listening, and ends what waits. */
  close(): void;
}

/**
 * Takes a port, and keeps everybody who comes waiting until it is opened.
 * @throws Error of `listen` (EADDRINUSE, EACCES, …; EINVAL and ENOTSOCK for a descriptor that is no socket)
 */
export async function openFront(options: FrontOptions): Promise<Front> {
  const folder = await privateFolder(options.now);
  try {
    const { server, waiting } = await listen(options, folder);
    const address = server.address();
    if (!isTcp(address)) {
      server.close();
      throw Object.assign(new Error('not a TCP socket'), { code: 'ENOTSOCK' });
    }
    return {
      server,
      address: address.address,
      port: address.port,
      open: () => waiting.open(),
      close: () => {
        server.close();
        waiting.close();
      },
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function listen(options: FrontOptions, folder: string): Promise<{ server: Server; waiting: WaitingRoom }> {
  const proxy = new MitmProxy();
  failClosed(proxy);
  const { host, port, descriptor: fd } = options;
  listenOn(proxy, fd === undefined ? { host, port } : { fd });
  proxy.onConnect((request, socket, head: Buffer) => {
    // Node has taken its own listener off the socket; the one that is there belongs to the library and prints.
    socket.removeAllListeners('error').on('error', ignore);
    if (socket instanceof Socket) options.onConnect(request, socket, head);
    else socket.destroy();
  });
  const opened = await new Promise<{ server: Server; waiting: WaitingRoom }>((resolve, reject) => {
    proxy._onError = (_kind, _context, error) => reject(error);
    proxy.listen({ host, port, sslCaDir: folder, keepAlive: true }, (error) => {
      if (error) reject(error);
      else if (proxy.httpServer === undefined) reject(new Error('the proxy library started no server'));
      else resolve({ server: prepare(proxy.httpServer, options), waiting: new WaitingRoom(proxy.httpServer, options.anteroom) });
    });
  });
  const { server } = opened;
  server.removeAllListeners('request').on('request', (request, response) => options.onRequest(request, response, false));
  server.removeAllListeners('upgrade').on('upgrade', (request, socket, head) => options.onUpgrade(request, socket, head));
  return opened;
}

/**
 * The library makes its server in `listen`, for a host and a port: it is taken as it is made, and listens where and how
 * it should.
 */
function listenOn(proxy: MitmProxy, where: ListenOptions | { readonly fd: number }): void {
  let server: Server | undefined;
  Object.defineProperty(proxy, 'httpServer', {
    get: () => server,
    set: (made: Server) => {
      server = made;
      const listen = (_where: unknown, done: () => void): Server => {
        Reflect.deleteProperty(made, 'listen');
        return made.listen(where, BACKLOG, done);
      };
      Object.assign(made, { listen });
    },
  });
}

function prepare(server: Server, options: FrontOptions): Server {
  const { limits } = options;
  server.timeout = 0;
  server.headersTimeout = limits.headersMs;
  // Of bodies the connection keeps the deadlines.
  server.requestTimeout = 0;
  server.keepAliveTimeout = limits.keepAliveMs;
  closeIdle(server);
  server.maxHeadersCount = limits.maxHeaderFields;
  // Options of the constructor, read again for each connection and request; the interval when a server begins to
  // listen.
  Object.assign(server, {
    maxHeaderSize: limits.maxHeaderBytes,
    requireHostHeader: false,
    connectionsCheckingInterval: deadlineCheckMs(limits),
    ...UPGRADES,
  });
  // The deadlines of heads and bodies are looked at every 30 s otherwise.
  server.emit('listening');
  server.on('connection', (socket) => options.onConnection(socket));
  server.on('clientError', (error, socket) => options.onClientError(error, socket));
  server.on('checkContinue', (request, response) => options.onRequest(request, response, true));
  // Without it node:http answers 417 by itself. Any other expectation may be ignored (RFC 9110 §10.1.1), as on h2, and
  // goes no further.
  server.on('checkExpectation', (request, response) => options.onRequest(request, response, false));
  return server;
}

/** Nothing asks for a certificate as long as `onConnect` takes every CONNECT; should that change, there is none. */
function failClosed(proxy: MitmProxy): void {
  const refusal = new Error('certificates are not made here');
  const nothing = { keyFile: '', certFile: '' };
  proxy.onCertificateRequired = (_hostname, callback) => callback(refusal, nothing);
  proxy.onCertificateMissing = (_context, _files, callback) => callback(refusal);
}

/** The library reads an RSA authority from its folder, or makes one there: give it a worthless one. */
async function privateFolder(now: number): Promise<string> {
  const authority = await throwAwayAuthority(now);
  const folder = await mkdtemp(join(tmpdir(), 'gw-front-'));
  const mode = 0o600;
  await mkdir(join(folder, 'certs'), { mode: 0o700 });
  await mkdir(join(folder, 'keys'), { mode: 0o700 });
  await writeFile(join(folder, 'certs', 'ca.pem'), authority.certificatePem, { mode });
  await writeFile(join(folder, 'keys', 'ca.private.key'), authority.privateKeyPem, { mode });
  await writeFile(join(folder, 'keys', 'ca.public.key'), authority.publicKeyPem, { mode });
  return folder;
}

function isTcp(address: string | AddressInfo | null): address is AddressInfo {
  return typeof address === 'object' && address !== null;
}
