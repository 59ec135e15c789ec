import { createServer, type IncomingMessage, type Server } from 'node:http';
import { createSecureServer, type Http2SecureServer, type ServerHttp2Session, type ServerOptions } from 'node:http2';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import { SESSION_MEMORY_MB } from '../../base/lib/sockets.ts';
import type { Tunnel } from '../../base/model/arrival.ts';
import type { Arrivals } from './arrivals.ts';
import { closeIdle } from './close-idle.ts';
import { errorOfClient } from './error-reply.ts';
import { Http1Connection, tooManyFields } from './http1.ts';
import { Http2Connection, NESTED_CONNECT } from './http2.ts';
import { deadlineCheckMs, type ListenerLimits } from './limits.ts';
import { ignore, type Link } from './links.ts';
import { headWithoutUpgrade, isWebSocketHandshake, UPGRADES } from './upgrade.ts';

const MAX_LOCAL_WINDOW = 1_048_576;
const STREAM_WINDOW = 262_144;
/**
 * The head of an answer, as large as any upstream may send it, with ours and what each field may cost beside its own
 * bytes; the default of nghttp2 is less.
 */
const MAX_SENT_HEAD = 131_072;

/**
 * What a session of a client is made with. Only the number of streams and of fields is kept to before the client has
 * acknowledged it.
 */
export function http2Options({ maxStreams, maxHeaderBytes, maxHeaderFields }: ListenerLimits): ServerOptions {
  return {
    settings: { maxConcurrentStreams: maxStreams, maxHeaderListSize: maxHeaderBytes, initialWindowSize: STREAM_WINDOW },
    maxHeaderListPairs: maxHeaderFields,
    maxSessionMemory: SESSION_MEMORY_MB,
    maxSendHeaderBlockLength: MAX_SENT_HEAD,
  };
}

/**
 * The servers that speak HTTP inside tunnels, and h2 on ports that have TLS. Neither ever listens: connections are put
 * into them.
 */
export class InnerServers {
  readonly h2: Http2SecureServer;
  readonly #http1: Server;
  readonly #arrivals: Arrivals;
  /** By the socket that HTTP/1 is spoken on. */
  readonly #connections = new WeakMap<object, Http1Connection>();

  constructor(arrivals: Arrivals) {
    this.#arrivals = arrivals;
    this.#http1 = this.#createHttp1();
    this.h2 = createSecureServer(http2Options(arrivals.limits));
    this.h2.on('sessionError', ignore);
  }

  /** Speaks HTTP/1 on a connection: plain on the link's own socket, or inside TLS. */
  acceptHttp1(link: Link, transport: Socket | TLSSocket, tunnel: Tunnel | undefined, secure: boolean): void {
    const connection = new Http1Connection({ link, transport, ...(tunnel ? { tunnel } : {}), secure, arrivals: this.#arrivals });
    link.activity = connection;
    this.#serve(connection);
  }

  /**
   * Takes a request that asks for another protocol, from here or from a port: a WebSocket, or an ordinary request once
   * its `Upgrade` is left out.
   */
  acceptUpgrade(connection: Http1Connection, request: IncomingMessage, head: Buffer): void {
    const { link, transport } = connection.options;
    const answered = connection.onceAnswered(() => {
      if (!transport.destroyed) this.#upgrade(connection, request, head);
    });
    // Requests that were sent before their answers came. One that is still on its way would end up inside the other
    // protocol.
    if (!answered) link.reset();
  }

  #upgrade(connection: Http1Connection, request: IncomingMessage, head: Buffer): void {
    if (connection.lingers || isWebSocketHandshake(request)) {
      connection.acceptUpgrade(request, head);
      return;
    }
    const { transport } = connection.options;
    const refusal = tooManyFields(request, this.#arrivals.limits);
    if (refusal !== undefined) {
      // Read once more it would be another request: those fields that were left out would not be missed.
      connection.refuse(refusal);
      return;
    }
    transport.unshift(Buffer.concat([headWithoutUpgrade(request), head]));
    // The same connection, however often: another one would know nothing of a drain, and listen to the socket for as
    // long as that lives.
    this.#serve(connection);
  }

  /** node:http takes the transport, for the first time or after it has let go of it. */
  #serve(connection: Http1Connection): void {
    const { transport } = connection.options;
    this.#connections.set(transport, connection);
    this.#http1.emit('connection', transport);
    transport.resume();
  }

  /** Speaks h2 inside TLS. @param arrivals takes the requests; default: those of the ports that carry traffic */
  acceptHttp2(link: Link, transport: TLSSocket, tunnel: Tunnel | undefined, arrivals = this.#arrivals): void {
    const onSession = (session: ServerHttp2Session): void => {
      link.activity = new Http2Connection({ link, session, tunnel, arrivals });
      if (!session.destroyed) session.setLocalWindowSize(MAX_LOCAL_WINDOW);
    };
    // The session is made, and announced, before `emit` returns.
    this.h2.on('session', onSession);
    this.h2.emit('secureConnection', transport);
    this.h2.off('session', onSession);
  }

  close(): void {
    this.#http1.close();
    this.h2.close(ignore);
  }

  #createHttp1(): Server {
    const { limits } = this.#arrivals;
    const server = createServer({
      maxHeaderSize: limits.maxHeaderBytes,
      headersTimeout: limits.headersMs,
      requestTimeout: 0,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: deadlineCheckMs(limits),
      requireHostHeader: false,
      ...UPGRADES,
    });
    server.maxHeadersCount = limits.maxHeaderFields;
    closeIdle(server);
    server.on('request', (request, response) => {
      this.#connections.get(request.socket)?.accept(request, response, false);
    });
    server.on('checkContinue', (request, response) => {
      this.#connections.get(request.socket)?.accept(request, response, true);
    });
    // As on the ports.
    server.on('checkExpectation', (request, response) => {
      this.#connections.get(request.socket)?.accept(request, response, false);
    });
    server.on('upgrade', (request, socket, head) => {
      const connection = this.#connections.get(socket);
      if (connection === undefined) socket.destroy();
      else this.acceptUpgrade(connection, request, head);
    });
    server.on('connect', (_request, socket) => this.#refuse(socket, NESTED_CONNECT));
    server.on('clientError', (error, socket) => this.#refuse(socket, errorOfClient(error)));
    // Starts the timer of the deadlines, which only a listening server has.
    server.emit('listening');
    return server;
  }

  #refuse(socket: Duplex, error: GatewayError | undefined): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) socket.destroy();
    else connection.refuse(error);
  }
}
