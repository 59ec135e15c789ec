import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/lib/clock.ts';
import { networkOf } from '../../base/lib/ip.ts';
import { stopParsing } from '../../base/lib/sockets.ts';
import { UnreadAnswers, UnreadMark } from '../../base/lib/unread-answers.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';

type OnRequest = (request: IncomingMessage, response: ServerResponse) => void;

/** How often it is looked at who reads, milliseconds. */
const LOOK_MS = 1_000;

/**
 * What is left of a body whose request has been answered is read up to this, and only where its length was said: a
 * client may be sending it already.
 */
const LEFT_BYTES = 65_536;

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** It expects what nobody here does. */
  readonly unmet: boolean;
}

interface Connection {
  readonly socket: Socket;
  readonly share: string;
  readonly mark: UnreadMark;
  busy: boolean;
  /** In the order in which they came. */
  readonly waiting: Exchange[];
}

/**
 * What the small servers of `node:http` beside the gateway's ports have in common (the control plane's, and that of
 * `gw-mcp`): of a connection one request at a time is worked on, since node:http would begin with all that are
 * pipelined and keep their answers, and connections that nobody reads are closed (decision 7.12).
 */
export class Turns {
  readonly #onRequest: OnRequest;
  readonly #clock: Pick<Clock, 'after' | 'monotonic'>;
  readonly #connections = new Map<Socket, Connection>();
  readonly #unread = new UnreadAnswers(CONNECTION_BOUNDS.unreadOfSmallServer.all);
  #cancel: () => void;

  /** @param onRequest begins with one request */
  constructor(clock: Pick<Clock, 'after' | 'monotonic'>, onRequest: OnRequest) {
    this.#clock = clock;
    this.#onRequest = onRequest;
    this.#cancel = clock.after(LOOK_MS, () => this.#look());
  }

  /** Takes the requests of a server. */
  serve(server: Server): void {
    server.on('request', (request, response) => this.#accept({ request, response, unmet: false }));
    // node:http would answer these itself, as many as there are, read or not.
    server.on('checkExpectation', (request, response) => this.#accept({ request, response, unmet: true }));
  }

  /** Nobody is looked after any more. */
  close(): void {
    this.#cancel();
  }

  #accept(exchange: Exchange): void {
    const { request } = exchange;
    // What else was read with a request that was one too many.
    if (request.socket.destroyed) {
      stopParsing(request.socket);
      return;
    }
    const connection = this.#connections.get(request.socket) ?? this.#connected(request.socket);
    if (!connection.busy) {
      this.#begin(connection, exchange);
      return;
    }
    request.on('error', () => undefined);
    connection.waiting.push(exchange);
    if (connection.waiting.length >= CONNECTION_BOUNDS.pipelined.one) request.socket.resetAndDestroy();
  }

  #connected(socket: Socket): Connection {
    const connection: Connection = {
      socket,
      share: networkOf(socket.remoteAddress ?? ''),
      mark: new UnreadMark(),
      busy: false,
      waiting: [],
    };
    this.#connections.set(socket, connection);
    socket.once('close', () => {
      this.#connections.delete(socket);
      connection.waiting.length = 0;
    });
    return connection;
  }

  #begin(connection: Connection, { request, response, unmet }: Exchange): void {
    connection.busy = true;
    response.once('finish', () => {
      if (!request.complete && bytesLeft(request) > LEFT_BYTES) connection.socket.destroySoon();
    });
    response.once('close', () => {
      connection.busy = false;
      const next = connection.socket.writable ? connection.waiting.shift() : undefined;
      if (next !== undefined) this.#begin(connection, next);
    });
    if (unmet) response.writeHead(417, { Connection: 'close' }).end();
    else this.#onRequest(request, response);
  }

  #look(): void {
    const now = this.#clock.monotonic();
    for (const { socket, share, mark } of this.#connections.values()) {
      const { writableLength } = socket;
      const bytes = mark.look(writableLength, socket.bytesWritten - writableLength, now);
      if (bytes === 0) continue;
      if (now - mark.since > CONNECTION_BOUNDS.unreadFor.one) socket.destroy();
      else this.#unread.note({ share, bytes, since: mark.since, close: () => socket.destroy() });
    }
    this.#unread.settle();
    this.#cancel = this.#clock.after(LOOK_MS, () => this.#look());
  }
}

/** What may still come of a body, bytes. */
function bytesLeft({ headers: { 'content-length': length, 'transfer-encoding': coding } }: IncomingMessage): number {
  if (coding !== undefined) return Number.POSITIVE_INFINITY;
  return length === undefined ? 0 : Number(length);
}
