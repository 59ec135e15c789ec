import type { OutgoingHttpHeaders } from 'node:http';
import { constants, type ServerHttp2Stream } from 'node:http2';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { UnreadMark } from '../../base/lib/unread-answers.ts';
import type { ReplySink } from '../../base/model/arrival.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';
import type { ArrivedBody } from './body-source.ts';
import { http2Fields, http2Trailers, isBodiless, refuseNoStatus } from './reply-fields.ts';

const PIECE = CONNECTION_BOUNDS.unreadOfAnswer.one;

interface HeadWay {
  /** It is sent by what ends the answer. */
  readonly held: boolean;
  /** Nothing follows it. */
  readonly endsHere: boolean;
}

/** The way back of one h2 request. */
export class Http2Reply implements ReplySink {
  readonly #stream: ServerHttp2Stream;
  readonly #method: string;
  readonly #body: ArrivedBody;
  #headSent = false;
  #ended = false;
  #gone = false;
  #bodiless = false;
  #length: number | undefined;
  #written = 0;
  /**
   * A head that would already complete the answer, or the bytes that would, wait here for `end`. It is known by then
   * that the head can be written.
   */
  #heldHead: (() => void) | undefined;
  #last: Uint8Array | undefined;
  #trailers: readonly string[] = [];
  /** What is left of a whole answer that is given piece by piece. */
  #rest: Uint8Array | undefined;
  /** Bytes that were given to the stream. */
  #given = 0;
  #mark: UnreadMark | undefined;
  #goneListeners: (() => void)[] = [];

  constructor(stream: ServerHttp2Stream, method: string, body: ArrivedBody) {
    this.#stream = stream;
    this.#method = method;
    this.#body = body;
    stream.once('close', () => this.#closed());
  }

  get headSent(): boolean {
    return this.#headSent;
  }

  get gone(): boolean {
    return this.#gone;
  }

  /** Bytes of the answer that the client has not taken. */
  get unread(): number {
    return this.#stream.writableLength + (this.#rest?.length ?? 0);
  }

  /** Since when the client has taken next to nothing, monotonic milliseconds; undefined: nothing waits for him. */
  unreadSince(now: number): number | undefined {
    const bytes = this.unread;
    if (bytes === 0) {
      this.#mark = undefined;
      return undefined;
    }
    this.#mark ??= new UnreadMark();
    this.#mark.look(bytes, this.#given - this.#stream.writableLength, now);
    return this.#mark.since;
  }

  info(status: number, rawHeaders: readonly string[]): void {
    if (!this.#isOpen() || this.#headSent || status === 101) return;
    try {
      this.#stream.additionalHeaders(http2Fields(rawHeaders, status, undefined, false));
    } catch {
      // An upstream's malformed hint is not worth an answer's failure.
    }
  }

  head(status: number, rawHeaders: readonly string[], length?: number, empty = false): void {
    this.#writeHead(status, rawHeaders, length, { held: length === 0 || empty, endsHere: length === 0 || empty });
  }

  write(chunk: Uint8Array): boolean {
    if (!this.#isOpen() || this.#ended || this.#bodiless || chunk.length === 0) return true;
    this.#written += chunk.length;
    if (this.#length !== undefined && this.#written >= this.#length) {
      this.#last = chunk;
      return true;
    }
    this.#given += chunk.length;
    return this.#stream.write(chunk);
  }

  onDrain(listener: () => void): void {
    this.#stream.on('drain', listener);
  }

  end(trailers?: readonly string[]): void {
    if (this.#gone || this.#ended) return;
    this.#ended = true;
    if (trailers !== undefined) this.#trailers = trailers;
    if (!this.#isOpen()) return;
    this.#endWith(this.#last);
  }

  sendWhole(status: number, rawHeaders: readonly string[], body: Uint8Array): void {
    this.#writeHead(status, rawHeaders, body.length, { held: true, endsHere: body.length === 0 });
    if (!this.#isOpen()) return;
    this.#ended = true;
    this.#endWith(this.#bodiless || body.length === 0 ? undefined : body);
  }

  reset(h2Code: number = constants.NGHTTP2_INTERNAL_ERROR): void {
    if (!this.#stream.destroyed) this.#stream.close(h2Code);
  }

  onGone(listener: () => void): void {
    if (this.#gone) listener();
    else if (!this.#ended) this.#goneListeners.push(listener);
  }

  #writeHead(status: number, rawHeaders: readonly string[], length: number | undefined, way: HeadWay): void {
    if (this.#headSent) throw new GatewayError('internal', 'The head of an answer was sent twice.');
    if (!this.#isOpen()) return;
    const stream = this.#stream;
    // node:http2 ends a 205 with its head.
    this.#bodiless = isBodiless(this.#method, status) || status === constants.HTTP_STATUS_RESET_CONTENT;
    const held = way.held || this.#bodiless;
    const endStream = way.endsHere || this.#bodiless;
    const fields = this.#fields(rawHeaders, status, length);
    const send = (): void => {
      this.#heldHead = undefined;
      stream.respond(fields, held ? { endStream } : { waitForTrailers: true });
    };
    if (held) {
      this.#heldHead = send;
      stream.once('finish', () => this.#stopUpload());
    } else {
      stream.once('wantTrailers', () => this.#sendTrailers());
      try {
        send();
      } catch (error) {
        throw notHttp(error);
      }
    }
    this.#length = length;
    this.#headSent = true;
  }

  #fields(rawHeaders: readonly string[], status: number, length: number | undefined): OutgoingHttpHeaders {
    try {
      refuseNoStatus(status);
      return http2Fields(rawHeaders, status, length, this.#bodiless);
    } catch (error) {
      throw notHttp(error);
    }
  }

  /** Completes the answer. Nobody is there any more who could give another one in its place. */
  #endWith(last: Uint8Array | undefined): void {
    try {
      this.#heldHead?.();
    } catch {
      this.reset();
      return;
    }
    if (last === undefined) this.#stream.end();
    else this.#pour(last);
  }

  /** As much as a stream may hold, and the rest when that has left. */
  #pour(body: Uint8Array): void {
    let rest = body;
    while (rest.length > PIECE) {
      this.#given += PIECE;
      const hasRoom = this.#stream.write(rest.subarray(0, PIECE));
      rest = rest.subarray(PIECE);
      this.#rest = rest;
      if (hasRoom) continue;
      this.#stream.once('drain', () => {
        if (this.#isOpen()) this.#pour(rest);
      });
      return;
    }
    this.#rest = undefined;
    this.#given += rest.length;
    this.#stream.end(rest);
  }

  #sendTrailers(): void {
    try {
      this.#stream.sendTrailers(http2Trailers(this.#trailers));
    } catch {
      // Trailers that cannot be written are left out: the body is whole without them.
      if (!this.#stream.destroyed) this.#stream.close(constants.NGHTTP2_NO_ERROR);
    }
    this.#stopUpload();
  }

  /**
   * After a complete answer a body that nobody reads is stopped without an error (RFC 9113 §8.1). What has come of it
   * is thrown away: node:http2 lets go of a stream whose body was begun only when that is read, and of the connection
   * only when its streams are gone.
   */
  #stopUpload(): void {
    if (!this.#body.isUnread || this.#stream.destroyed) return;
    this.#stream.close(constants.NGHTTP2_NO_ERROR);
    this.#stream.resume();
  }

  #isOpen(): boolean {
    return !this.#stream.destroyed && !this.#stream.closed;
  }

  #closed(): void {
    if (this.#ended || this.#gone) return;
    this.#gone = true;
    for (const listener of this.#goneListeners) listener();
    this.#goneListeners = [];
  }
}

function notHttp(cause: unknown): GatewayError {
  return new GatewayError('upstream_protocol', 'The answer has a status or header fields that cannot be passed on.', { cause });
}
