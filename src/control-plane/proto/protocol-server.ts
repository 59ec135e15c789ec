import {
  createSecureServer,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import { type Clock, systemClock } from '../../base/lib/clock.ts';
import { BACKLOG, ConnectionShares, type HeldConnection } from '../../base/lib/connection-shares.ts';
import type { Logger } from '../../base/lib/log.ts';
import { SESSION_MEMORY_MB } from '../../base/lib/sockets.ts';
import { CONTROL_PLANE_BOUNDS } from '../../base/model/control-plane-bounds.ts';
import { CallRoom } from './call-room.ts';
import type { CallingNode, Peer } from './peer.ts';
import type { ProtocolService } from './protocol.ts';
import { type CallGuard, type CallKind, refuseStream, ServerCall, type ServerCallGround } from './server-call.ts';

type AnyCall = { readonly request: unknown; readonly response: unknown };

/**
 * What carries out a call. A rejection that is no `ProtocolError` is a fault of ours: the caller is told INTERNAL and
 * no more.
 */
export type Handlers<Calls, Streams extends keyof Calls = never> = {
  readonly [K in Exclude<keyof Calls, Streams>]: Calls[K] extends AnyCall
    ? (request: Calls[K]['request'], peer: Peer) => Promise<Calls[K]['response']>
    : never;
} & {
  /** Sends until the signal is aborted, which it is when the caller leaves; `send` resolves when more may be sent. */
  readonly [K in Streams]: Calls[K] extends AnyCall
    ? (
        request: Calls[K]['request'],
        peer: Peer,
        out: { send(message: Calls[K]['response']): Promise<void>; readonly signal: AbortSignal },
      ) => Promise<void>
    : never;
};

export interface ServerIdentity {
  /** PEM: the CA whose client certificates are believed. */
  readonly ca: string;
  /** PEM. */
  readonly certificate: string;
  /** PEM. */
  readonly key: string;
}

export interface ProtocolServerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly identity: ServerIdentity;
  readonly log: Logger;
  /**
   * Whose certificate this is; undefined: nobody's that counts. Asked once for each connection, which then holds no
   * place of strangers.
   */
  readonly callerOf?: (certificate: Uint8Array) => CallingNode | undefined;
  /** For what connections and messages may take; default: that of the machine. */
  readonly clock?: Pick<Clock, 'after'>;
  /** Default: the rows of the table of bounds. */
  readonly bounds?: Partial<ServerBounds>;
}

interface ServerBounds {
  readonly strangerConnections: number;
  readonly nodeConnections: number;
  readonly connectionsOfNode: number;
  readonly strangerCalls: number;
  readonly nodeCalls: number;
  readonly largeAnswers: number;
}

const BOUNDS: ServerBounds = {
  strangerConnections: CONTROL_PLANE_BOUNDS.strangerConnections.all,
  nodeConnections: CONTROL_PLANE_BOUNDS.nodeConnections.all,
  connectionsOfNode: CONTROL_PLANE_BOUNDS.nodeConnections.one,
  strangerCalls: CONTROL_PLANE_BOUNDS.strangerCalls.all,
  nodeCalls: CONTROL_PLANE_BOUNDS.nodeCalls.all,
  largeAnswers: CONTROL_PLANE_BOUNDS.largeAnswers.all,
};
const HANDSHAKE_MS = 10_000;
/** Of a caller who has shown no certificate of a node: enrolling takes no longer. */
const STRANGER_MS = 30_000;
const KEEPALIVE_MS = 30_000;
const KEEPALIVE_ANSWER_MS = 10_000;
const MAX_STREAMS = 64;
const MAX_FIELDS = 64;
const MAX_HEAD_BYTES = 16_384;

/** One connection, and who shows himself on it. */
interface Line {
  readonly connection: HeldConnection;
  peer: Peer;
  session: ServerHttp2Session | undefined;
}

/**
 * The side of the control plane: one port, on which callers with and without a client certificate come in. gRPC over
 * HTTP/2, spoken here itself: so that who calls is asked before a message is read, and what is kept of callers is
 * bounded one by one and together (decision 13.15).
 */
export class ProtocolServer {
  readonly #options: ProtocolServerOptions;
  readonly #server;
  readonly #clock: Pick<Clock, 'after'>;
  readonly #connections: ConnectionShares;
  readonly #lines = new Map<string, Line>();
  readonly #calls = new Map<string, CallKind>();
  readonly #ground: ServerCallGround;
  #closing = false;

  constructor(options: ProtocolServerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    const bounds = { ...BOUNDS, ...options.bounds };
    this.#connections = new ConnectionShares({
      strangers: bounds.strangerConnections,
      known: bounds.nodeConnections,
      each: bounds.connectionsOfNode,
      clock: this.#clock,
      strangerMs: STRANGER_MS,
    });
    this.#ground = { log: options.log, clock: this.#clock, room: new CallRoom(bounds) };
    this.#server = createSecureServer({
      ...contextOptions(options.identity),
      requestCert: true,
      // One that the CA has not signed, or that has expired, counts as not shown.
      rejectUnauthorized: false,
      handshakeTimeout: HANDSHAKE_MS,
      settings: { maxConcurrentStreams: MAX_STREAMS, maxHeaderListSize: MAX_HEAD_BYTES },
      maxHeaderListPairs: MAX_FIELDS,
      maxSessionMemory: SESSION_MEMORY_MB,
    });
    this.#listen();
  }

  /** Connections that are open, and what became of those that found no place. */
  get connections(): Pick<ConnectionShares, 'open' | 'openOfStrangers' | 'counts'> {
    return this.#connections;
  }

  /** @param guard who may call, asked before anything is read of the call */
  add<Calls, Streams extends keyof Calls = never>(
    service: ProtocolService<Calls>,
    handlers: Handlers<Calls, Streams>,
    guard: CallGuard<string & keyof Calls>,
  ): void {
    for (const [name, method] of Object.entries(service.definition)) {
      const handler: unknown = Reflect.get(handlers, name);
      if (typeof handler !== 'function') throw new TypeError(`nothing carries out ${name}`);
      this.#calls.set(method.path, { name, method, handler: handler as CallKind['handler'], guard });
    }
  }

  /** @returns the port @throws Error when the address cannot be bound */
  open(): Promise<number> {
    const { host, port } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ port, host, backlog: BACKLOG }, () => {
        this.#server.off('error', reject);
        this.#server.on('error', (error: Error) => this.#options.log.error({ err: error }, 'the gRPC port failed'));
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  /** New connections see this certificate from now on. */
  renew(identity: ServerIdentity): void {
    this.#server.setSecureContext(contextOptions(identity));
  }

  /** Takes no new call; those under way have until the signal is aborted. */
  close(signal: AbortSignal): Promise<void> {
    this.#closing = true;
    return new Promise((resolve) => {
      const cut = () => {
        for (const { socket } of this.#connections) socket.destroy();
      };
      signal.addEventListener('abort', cut, { once: true });
      this.#server.close(() => {
        signal.removeEventListener('abort', cut);
        resolve();
      });
      for (const { session, connection } of this.#lines.values()) {
        if (session === undefined) connection.socket.destroy();
        else session.close();
      }
      if (signal.aborted) cut();
    });
  }

  #listen(): void {
    const server = this.#server;
    server.on('connection', (socket: Socket) => this.#arrive(socket));
    server.on('secureConnection', (socket: TLSSocket) => this.#secured(socket));
    server.on('session', (session: ServerHttp2Session) => this.#begin(session));
    server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => this.#call(stream, headers));
    server.on('sessionError', ignore);
    server.on('tlsClientError', ignore);
  }

  #arrive(socket: Socket): void {
    const key = placeOf(socket);
    socket.on('error', ignore);
    if (key === undefined || this.#closing) {
      socket.destroy();
      return;
    }
    const connection = this.#connections.arrive(socket);
    const line: Line = { connection, peer: { address: key, certificate: undefined }, session: undefined };
    this.#lines.set(key, line);
    // A port that its client uses again at once may have come before the end of the connection that had it is told.
    socket.once('close', () => {
      if (this.#lines.get(key) === line) this.#lines.delete(key);
    });
  }

  /** A connection of a node leaves the places of strangers before it has asked for anything. */
  #secured(socket: TLSSocket): void {
    socket.on('error', ignore);
    const line = this.#lineOf(socket);
    const certificate = socket.authorized ? socket.getPeerCertificate().raw : undefined;
    if (line === undefined || certificate === undefined) return;
    line.peer = { ...line.peer, certificate };
    const caller = this.#options.callerOf?.(certificate);
    if (caller !== undefined) this.#connections.recognise(line.connection, caller.orgId, caller.nodeId);
  }

  #begin(session: ServerHttp2Session): void {
    session.on('error', ignore);
    const line = this.#lineOf(session.socket);
    if (line === undefined) {
      session.destroy();
      return;
    }
    line.session = session;
    if (this.#closing) session.close();
    keepAlive(session, this.#clock);
  }

  #call(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    stream.on('error', ignore);
    const line = stream.session === undefined ? undefined : this.#lineOf(stream.session.socket);
    if (line === undefined) {
      stream.close();
      return;
    }
    const kind = this.#calls.get(String(headers[':path']));
    if (kind === undefined) refuseStream(stream, headers, 'there is no such call');
    else new ServerCall(this.#ground, kind, stream, line.peer).begin(headers);
  }

  #lineOf(socket: Pick<Socket, 'remoteAddress' | 'remotePort'>): Line | undefined {
    return this.#lines.get(placeOf(socket) ?? '');
  }
}

/** Who never answers is gone, whatever his connection looks like. */
function keepAlive(session: Http2Session, clock: Pick<Clock, 'after'>): void {
  let cancel: () => void = () => undefined;
  const ask = () => {
    cancel = clock.after(KEEPALIVE_ANSWER_MS, () => session.destroy());
    if (!session.destroyed && session.ping(() => next())) return;
    cancel();
  };
  const next = () => {
    cancel();
    if (!session.destroyed) cancel = clock.after(KEEPALIVE_MS, ask);
  };
  next();
  session.once('close', () => cancel());
}

/** As it tells the two sides of TLS that they are one; a connection that has gone already has none. */
function placeOf({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string | undefined {
  if (remoteAddress === undefined || remotePort === undefined) return undefined;
  return remoteAddress.includes(':') ? `[${remoteAddress}]:${remotePort}` : `${remoteAddress}:${remotePort}`;
}

function contextOptions({ ca, certificate, key }: ServerIdentity): SecureContextOptions {
  return { ca, cert: certificate, key, minVersion: 'TLSv1.3' };
}

function ignore(): void {
  // A connection or a call that breaks ends by itself.
}
