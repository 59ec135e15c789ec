import type { IncomingMessage, ServerResponse } from 'node:http';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ReplySink } from '../../base/model/arrival.ts';
import type { ByteChannel } from '../../base/model/channel.ts';
import type { RequestBody } from './body-source.ts';
import type { ListenerLimits } from './limits.ts';
import { ignore, type Link } from './links.ts';
import { http1Fields, isBodiless, trailerPairs } from './reply-fields.ts';
import { switchingHead } from './upgrade.ts';

/** The connection as its replies see it. */
export interface Http1Owner {
  /** True while draining: this answer is the connection's last. */
  readonly closing: boolean;
  /** The rest of the request is not wanted: takes no further one, and stays behind the answer until the client has read it. */
  linger(request: IncomingMessage): void;
  /** The answer has left, or its connection has. */
  done(reply: Http1Reply): void;
}

export interface Http1ReplyOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: RequestBody;
  readonly link: Link;
  readonly owner: Http1Owner;
  readonly limits: ListenerLimits;
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
  #bodiless = false;
  #length: number | undefined;
  #written = 0;
  /** What would complete the answer in the client's eyes waits here for `end`. */
  #last: Uint8Array | undefined;
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
    // node:http has no public way to write an arbitrary 1xx; 103 is the only one in use, and its one meaningful field is Link.
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
    this.#writeHead(status, rawHeaders, length);
    if (this.#gone || this.#bodiless || length === 0) return;
    // With the first bytes when they are there in this turn; alone when they are not, since clients act on the head of a stream.
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
    this.#writeHead(status, rawHeaders, body.length);
    if (this.#gone) return;
    this.#ended = true;
    this.#finish(this.#bodiless || body.length === 0 ? undefined : body);
  }

  reset(): void {
    if (this.#options.response.writableFinished) return;
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

  #writeHead(status: number, rawHeaders: readonly string[], length: number | undefined): void {
    if (this.#headSent) throw new GatewayError('internal', 'The head of an answer was sent twice.');
    if (this.#gone) return;
    const { request, response, body, limits, owner } = this.#options;
    this.#bodiless = isBodiless(request.method ?? '', status);
    const stuck = body.isUnread && !body.isSkippable(limits.maxDiscardedBytes);
    this.#closes = stuck || this.#close || owner.closing || !response.shouldKeepAlive;
    const fields = http1Fields(rawHeaders, status, length, this.#bodiless, this.#closes);
    try {
      response.writeHead(status, fields);
    } catch (error) {
      // biome-ignore lint/style/useErrorCause: the cause is in the third argument
      throw new GatewayError('upstream_protocol', 'The answer has a status or header fields that cannot be passed on.', { cause: error });
    }
    this.#length = length;
    this.#headSent = true;
  }

  /** Completes the answer. An upstream that is through before its request is leaves a body that nobody reads on, as a refusal does. */
  #finish(last: Uint8Array | undefined): void {
    const { request, response, body, owner, limits } = this.#options;
    if (body.isUnread && (this.#closes || !body.isSkippable(limits.maxDiscardedBytes))) owner.linger(request);
    endWith(response, last);
  }
}

/** As one text with its head a small body leaves by a plain write, which costs 2 µs less than one that gathers. */
const MAX_ONE_TEXT = 16 * 1024;

function endWith(response: ServerResponse, last: Uint8Array | undefined): void {
  if (last === undefined || last.length > MAX_ONE_TEXT) response.end(last);
  else response.end(Buffer.from(last.buffer, last.byteOffset, last.length).toString('latin1'), 'latin1');
}
