import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ReplySink } from '../../base/model/arrival.ts';
import type { ByteChannel } from '../../base/model/channel.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';
import type { ArrivedBody } from './body-source.ts';
import type { ListenerLimits } from './limits.ts';
import { ignore, type Link } from './links.ts';
import { http1Fields, isBodiless, refuseNoStatus, trailerPairs } from './reply-fields.ts';
import { switchingHead } from './upgrade.ts';
import { canWriteWhole, writeWhole } from './whole-answer.ts';

const PIECE = CONNECTION_BOUNDS.unreadOfAnswer.one;

/** The connection as its replies see it. */
export interface Http1Owner {
  /** True while draining: this answer is the connection's last. */
  readonly closing: boolean;
  /**
   * The rest of the request is not wanted: takes no further one, and stays behind the answer until the client has read
   * it.
   */
  linger(request: IncomingMessage): void;
  /** The answer has left, or its connection has. */
  done(reply: Http1Reply): void;
}

export interface Http1ReplyOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: ArrivedBody;
  readonly link: Link;
  readonly owner: Http1Owner;
  readonly limits: ListenerLimits;
  readonly clock: Clock;
  /** Sends the head that accepts a WebSocket and hands over the connection; only where the client asked for one. */
  readonly takeOver?: (head: string) => ByteChannel;
}

/** The way back of one HTTP/1 request. */
export class Http1Reply implements ReplySink {
  readonly #options: Http1ReplyOptions;
  readonly switchProtocols: ReplySink['switchProtocols'];
  #headSent = false;
  #ended = false;
  #gone = false;
  #close = false;
  #closes = false;
  /** It was written past `response`. */
  #whole = false;
  #bodiless = false;
  #length: number | undefined;
  #written = 0;
  /** What would complete the answer in the client's eyes waits here for `end`. */
  #last: Uint8Array | undefined;
  /** What is left of a whole answer that is given piece by piece. */
  #rest: Uint8Array | undefined;
  #goneListeners: (() => void)[] = [];

  constructor(options: Http1ReplyOptions) {
    this.#options = options;
    this.switchProtocols = options.takeOver && ((rawHeaders) => this.#switch(rawHeaders, options.takeOver));
    options.response.on('error', ignore);
    options.response.once('finish', () => options.owner.done(this));
  }

  get headSent(): boolean {
    return this.#headSent;
  }

  get gone(): boolean {
    return this.#gone;
  }

  /** The whole answer was given, though it may still be on its way. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Bytes of the answer that were not given to the connection. */
  get left(): number {
    return this.#rest?.length ?? 0;
  }

  /** Makes this answer the last one of its connection. */
  closeAfterwards(): void {
    this.#close = true;
  }

  /** The connection was closed, by whichever side. */
  connectionClosed(): void {
    this.#options.owner.done(this);
    if (this.#ended || this.#gone) return;
    this.#gone = true;
    for (const listener of this.#goneListeners) listener();
    this.#goneListeners = [];
  }

  info(status: number, rawHeaders: readonly string[]): void {
    const { request, response } = this.#options;
    if (this.#gone || this.#headSent || request.httpVersion === '1.0' || status === 101) return;
    if (status !== 103) return;
    // node:http has no public way to write an arbitrary 1xx; 103 is the only one in use, and its one meaningful field
    // is Link.
    const links: string[] = [];
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
      if (rawHeaders[i]?.toLowerCase() === 'link') links.push(rawHeaders[i + 1] ?? '');
    }
    if (links.length === 0) return;
    try {
      response.writeEarlyHints({ link: links });
    } catch {
      // An upstream's malformed hint is not worth an answer's failure.
    }
  }

  head(status: number, rawHeaders: readonly string[], length?: number): void {
    const fields = this.#fieldsOf(status, rawHeaders, length);
    if (fields === undefined) return;
    this.#writeHead(status, fields, length);
    if (this.#bodiless || length === 0) return;
    // With the first bytes when they are there in this turn; alone when they are not, since clients act on the head of
    // a stream.
    setImmediate(() => {
      if (this.#written === 0 && !this.#ended && !this.#gone) this.#options.response.flushHeaders();
    });
  }

  write(chunk: Uint8Array): boolean {
    if (this.#gone || this.#ended || this.#bodiless || chunk.length === 0) return true;
    this.#written += chunk.length;
    if (this.#length !== undefined && this.#written >= this.#length) {
      this.#last = chunk;
      return true;
    }
    return this.#options.response.write(chunk);
  }

  onDrain(listener: () => void): void {
    this.#options.response.on('drain', listener);
  }

  end(trailers?: readonly string[]): void {
    if (this.#gone || this.#ended) return;
    const { response } = this.#options;
    this.#ended = true;
    if (trailers !== undefined && response.chunkedEncoding) {
      try {
        response.addTrailers(trailerPairs(trailers));
      } catch {
        // Trailers that cannot be written are left out: the body is whole without them.
      }
    }
    this.#finish(this.#last);
  }

  sendWhole(status: number, rawHeaders: readonly string[], body: Uint8Array): void {
    const { response, clock, limits } = this.#options;
    const fields = this.#fieldsOf(status, rawHeaders, body.length);
    if (fields === undefined) return;
    if (this.#closes || this.#bodiless || !canWriteWhole(response, body)) {
      this.#writeHead(status, fields, body.length);
      this.#ended = true;
      if (this.#bodiless || body.length === 0) this.#finish(undefined);
      else this.#pour(body);
      return;
    }
    const answer = { status, fields, body, now: clock.now(), keepAliveMs: limits.keepAliveMs };
    try {
      writeWhole(response, answer);
    } catch (error) {
      throw notHttp(error);
    }
    this.#whole = true;
    this.#headSent = true;
    this.#ended = true;
  }

  reset(): void {
    const { response } = this.#options;
    if (response.writableFinished || (this.#whole && response.writableLength === 0)) return;
    this.#options.link.reset();
  }

  onGone(listener: () => void): void {
    if (this.#gone) listener();
    else if (!this.#ended) this.#goneListeners.push(listener);
  }

  #switch(rawHeaders: readonly string[], takeOver: Http1ReplyOptions['takeOver']): ByteChannel {
    if (this.#headSent || takeOver === undefined) throw new GatewayError('internal', 'The head of an answer was sent twice.');
    const head = switchingHead(rawHeaders);
    this.#headSent = true;
    this.#ended = true;
    return takeOver(head);
  }

  /**
   * The fields of the answer, and what follows from them for body and connection; undefined when the client has left.
   */
  #fieldsOf(status: number, rawHeaders: readonly string[], length: number | undefined): string[] | undefined {
    if (this.#headSent) throw new GatewayError('internal', 'The head of an answer was sent twice.');
    if (this.#gone) return undefined;
    try {
      refuseNoStatus(status);
    } catch (error) {
      throw notHttp(error);
    }
    const { request, response, body, limits, owner } = this.#options;
    this.#bodiless = isBodiless(request.method ?? '', status);
    const stuck = body.isUnread && !body.isSkippable(limits.maxDiscardedBytes);
    this.#closes = stuck || this.#close || owner.closing || !response.shouldKeepAlive;
    return http1Fields(rawHeaders, status, length, this.#bodiless, this.#closes);
  }

  #writeHead(status: number, fields: string[], length: number | undefined): void {
    try {
      this.#options.response.writeHead(status, fields);
    } catch (error) {
      throw notHttp(error);
    }
    this.#length = length;
    this.#headSent = true;
  }

  /**
   * Gives the connection as much as it may hold of an answer, and goes on when that has left: TLS makes a copy of what
   * it is given.
   */
  #pour(body: Uint8Array): void {
    const { response } = this.#options;
    let rest = body;
    while (rest.length > PIECE) {
      const hasRoom = response.write(rest.subarray(0, PIECE));
      rest = rest.subarray(PIECE);
      this.#rest = rest;
      if (hasRoom) continue;
      // node:http tells the answer of it only as long as it has the connection, which it lets go of when the client
      // asks for another protocol.
      response.socket?.once('drain', () => this.#pour(rest));
      return;
    }
    this.#rest = undefined;
    this.#finish(rest);
  }

  /**
   * Completes the answer. An upstream that is through before its request is leaves a body that nobody reads on, as a
   * refusal does.
   */
  #finish(last: Uint8Array | undefined): void {
    const { request, response, body, owner, limits } = this.#options;
    if (body.isUnread && (this.#closes || !body.isSkippable(limits.maxDiscardedBytes))) owner.linger(request);
    response.end(last);
  }
}

function notHttp(cause: unknown): GatewayError {
  return new GatewayError('upstream_protocol', 'The answer has a status or header fields that cannot be passed on.', { cause });
}
