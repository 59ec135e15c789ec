import { type ClientHttp2Session, type ClientHttp2Stream, constants, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2';
import { Readable } from 'node:stream';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import { GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import { bracketHost, formatAuthority } from '../../base/lib/host.ts';
import type { Seat } from '../../base/lib/roster.ts';
import { fieldListBytes, noFields } from '../../base/lib/sockets.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { MAX_HEADER_BYTES, type SlowCounter } from './lane.ts';
import { OutgoingBody, STOPPED } from './request-body.ts';
import type { UpstreamCall, UpstreamEvents, UpstreamHandle } from './upstream.ts';
import {
  answerError,
  type CallPhase,
  callError,
  ENDLESS_INTERIM,
  MAX_INTERIM,
  MAX_STATUS,
  NO_STATUS,
  TOO_LARGE,
} from './upstream-error.ts';

/** The connection that serves a call. */
export interface Http2Lane {
  readonly authority: Authority;
  readonly session: ClientHttp2Session;
  readonly fault: Error | undefined;
  /** Counts a piece of an answer. */
  pace(piece: Uint8Array): void;
  over(call: Http2Call): void;
}

const NO_TRAILERS: readonly string[] = [];

/** One call on an h2 connection: both directions at once, each at its own pace, trailers both ways. */
export class Http2Call implements UpstreamHandle {
  /** Tick of the last sign of life, in either direction. */
  seenAt: number;
  /** Among the calls of its connection. */
  seat: Seat<Http2Call> | undefined;
  readonly #request: UpstreamCall;
  readonly #events: UpstreamEvents;
  readonly #counter: SlowCounter;
  readonly #lane: Http2Lane;
  readonly #body: OutgoingBody | undefined;
  #stream: ClientHttp2Stream | undefined;
  #pieces: AnswerPieces | undefined;
  #phase: CallPhase = 'connecting';
  #trailers = NO_TRAILERS;
  #done = false;
  #paused = false;
  #resumedEarly = false;
  #interims = 0;

  constructor(request: UpstreamCall, events: UpstreamEvents, counter: SlowCounter, lane: Http2Lane) {
    const { body, bodyLength } = request;
    this.#request = request;
    this.#events = events;
    this.#counter = counter;
    this.#lane = lane;
    this.seenAt = counter.tick;
    this.#body = body === undefined || body instanceof Uint8Array || bodyLength === 0 ? undefined : new OutgoingBody(body);
  }

  get phase(): CallPhase {
    return this.#phase;
  }

  /** True while the client side holds back: silence is then not the upstream's. */
  get paused(): boolean {
    return this.#paused;
  }

  seen(): void {
    this.seenAt = this.#counter.tick;
  }

  /** Opens the stream. No event comes before this has returned. */
  start(): void {
    try {
      const stream = this.#open();
      this.#stream = stream;
      this.#pieces = new AnswerPieces({ stream, take: (bytes) => this.#take(bytes), seen: (piece) => this.#seen(piece) });
      this.#phase = 'sent';
      this.#listen(stream);
      this.#sendBody(stream);
    } catch (error) {
      queueMicrotask(() => this.fail(this.#startError(error), constants.NGHTTP2_REFUSED_STREAM));
    }
  }

  abort(): void {
    if (!this.#done) this.#finish(constants.NGHTTP2_CANCEL);
  }

  /** Ends the call from our side and tells its caller why. */
  fail(error: GatewayError, h2Code?: number): void {
    if (this.#done) return;
    this.#finish(constants.NGHTTP2_CANCEL);
    this.#events.onError(error, h2Code);
  }

  #open(): ClientHttp2Stream {
    const { authority, method, path, headers, body, bodyLength, trailers } = this.#request;
    const host = bracketHost(authority.host);
    const fields = noFields();
    fields[':method'] = method;
    fields[':scheme'] = 'https';
    fields[':authority'] = authority.port === 443 ? host : `${host}:${authority.port}`;
    fields[':path'] = path;
    append(fields, headers);
    const length = body instanceof Uint8Array ? body.length : bodyLength;
    if (body !== undefined && length !== undefined) fields['content-length'] = String(length);
    const hasBody = this.#body !== undefined || (body instanceof Uint8Array && body.length > 0);
    return this.#lane.session.request(fields, { endStream: !hasBody, waitForTrailers: hasBody && trailers !== undefined });
  }

  #listen(stream: ClientHttp2Stream): void {
    // The types leave out the last argument, which is the raw field list.
    stream.on('headers', (headers: IncomingHttpHeaders, _flags: number, ...more: readonly unknown[]) => {
      if (this.#done || this.#isTooLarge(more[0])) return;
      const status = Number(headers[':status']);
      if (++this.#interims > MAX_INTERIM) this.fail(answerError(this.#request.authority, ENDLESS_INTERIM));
      // A 100 was for us to wait for, and we did not.
      else if (status > 101) this.#events.onInfo?.(status, fieldsOf(more[0]));
    });
    stream.on('response', (headers: IncomingHttpHeaders, flags: number, ...more: readonly unknown[]) => {
      if (this.#done || this.#isTooLarge(more[0])) return;
      this.seen();
      this.#phase = 'answering';
      const status = Number(headers[':status']);
      if (!(status <= MAX_STATUS)) {
        this.fail(answerError(this.#request.authority, NO_STATUS));
        return;
      }
      const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
      this.#events.onHead(status, fieldsOf(more[0]), () => this.#resume(), isWhole);
      // Not before: node:http2 tells of a head in the next tick and of bytes at once, which is sooner when both are
      // read after a write had held reading up.
      this.#pieces?.open();
    });
    stream.on('trailers', (_headers: IncomingHttpHeaders, _flags: number, ...more: readonly unknown[]) => {
      if (!this.#done && !this.#isTooLarge(more[0])) this.#trailers = fieldsOf(more[0]);
    });
    stream.on('wantTrailers', () => this.#sendTrailers(stream));
    stream.once('end', () => this.#onEnd(stream));
    stream.once('error', () => undefined);
    stream.once('close', () => this.#onClose(stream));
  }

  /** The origin may not have acknowledged the limit; the call is over then, as on HTTP/1.1. */
  #isTooLarge(rawFields: unknown): boolean {
    if (fieldListBytes(rawFields) <= MAX_HEADER_BYTES) return false;
    this.fail(answerError(this.#request.authority, TOO_LARGE));
    return true;
  }

  #seen(piece: Uint8Array): void {
    if (this.#done) return;
    this.seen();
    this.#lane.pace(piece);
  }

  #take(bytes: Uint8Array): boolean {
    if (this.#done) return true;
    this.#resumedEarly = false;
    this.#paused = !this.#events.onData(bytes) && !this.#resumedEarly;
    return !this.#paused;
  }

  #resume(): void {
    this.#resumedEarly = true;
    if (!this.#paused) return;
    this.#paused = false;
    this.seen();
    this.#pieces?.open();
  }

  #onEnd(stream: ClientHttp2Stream): void {
    // One that was reset with an error is closed at once, with or without an end.
    if (this.#done || stream.rstCode !== constants.NGHTTP2_NO_ERROR) return;
    if (this.#phase !== 'answering' || this.#pieces?.endedByOrigin !== true) {
      this.#onClose(stream);
      return;
    }
    this.#finish(constants.NGHTTP2_NO_ERROR);
    this.#events.onEnd(this.#trailers);
  }

  /** Not complete: the origin reset the stream, or its connection broke. */
  #onClose(stream: ClientHttp2Stream): void {
    this.#pieces?.give();
    if (this.#done) return;
    const { authority, fault, session } = this.#lane;
    const code = stream.rstCode ?? constants.NGHTTP2_NO_ERROR;
    const isError = fault === undefined && code !== constants.NGHTTP2_NO_ERROR;
    const error =
      isError || (fault === undefined && !session.destroyed)
        ? new GatewayError('upstream_unreachable', `${formatAuthority(authority)} reset the stream (${nameOfCode(code)}).`)
        : callError(authority, this.#phase, fault ?? Object.assign(new Error('closed'), { code: 'ECONNRESET' }));
    // With NO_ERROR a client might take what it has for the whole answer.
    this.fail(error, isError ? code : undefined);
  }

  #sendBody(stream: ClientHttp2Stream): void {
    const { body } = this.#request;
    if (this.#body !== undefined) void this.#pump(stream, this.#body);
    else if (body instanceof Uint8Array && body.length > 0) stream.end(body);
  }

  async #pump(stream: ClientHttp2Stream, body: OutgoingBody): Promise<void> {
    try {
      for await (const chunk of body) {
        this.seen();
        if (stream.write(chunk)) continue;
        // A stream that is reset meanwhile stops the body, which ends the loop.
        await drained(stream);
      }
      stream.end();
    } catch (error) {
      if (error !== STOPPED) this.fail(callError(this.#lane.authority, this.#phase, error));
    }
  }

  #sendTrailers(stream: ClientHttp2Stream): void {
    const fields = noFields();
    try {
      append(fields, this.#request.trailers?.() ?? NO_TRAILERS);
      stream.sendTrailers(fields);
    } catch {
      // Trailers that cannot be written are left out: the body is whole without them.
      if (!stream.destroyed && !stream.closed) stream.sendTrailers({});
    }
  }

  #finish(code: number): void {
    this.#done = true;
    this.#body?.stop();
    this.#lane.over(this);
    const stream = this.#stream;
    if (stream === undefined || stream.destroyed || (code === constants.NGHTTP2_NO_ERROR && stream.writableFinished)) return;
    // An answer that has come whole is no longer closed by a reset, but kept until somebody reads it.
    if (stream.closed) stream.destroy();
    else stream.close(code);
  }

  #startError(error: unknown): GatewayError {
    const { authority, session } = this.#lane;
    const name = formatAuthority(authority);
    if (session.closed || session.destroyed)
      return new GatewayError('upstream_unreachable', `${name} has closed the connection.`, { cause: error });
    const reason = messageOf(error);
    return new GatewayError('invalid_request', `The request cannot be sent to ${name}: ${reason}.`, { cause: error });
  }
}

/** Resolves when the stream takes more, or never will. */
function drained(stream: ClientHttp2Stream): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}

/** Repeated fields become lists, which node:http2 sends as repeated fields. */
function append(fields: OutgoingHttpHeaders, flat: readonly string[]): void {
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = (flat[i] ?? '').toLowerCase();
    const value = flat[i + 1] ?? '';
    const present = fields[name];
    if (present === undefined) fields[name] = value;
    else if (Array.isArray(present)) present.push(value);
    else fields[name] = [String(present), value];
  }
}

/** node:http2 gives the raw fields as an untyped flat list, pseudo-headers included. */
function fieldsOf(raw: unknown): string[] {
  const fields: string[] = [];
  if (!Array.isArray(raw)) return fields;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name: unknown = raw[i];
    const value: unknown = raw[i + 1];
    if (typeof name === 'string' && typeof value === 'string' && !name.startsWith(':')) fields.push(name, value);
  }
  return fields;
}

const CODE_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(constants).flatMap(([name, value]) =>
    /^NGHTTP2_(?:NO_ERROR|[A-Z0-9_]+_ERROR|SETTINGS_TIMEOUT|STREAM_CLOSED|REFUSED_STREAM|CANCEL|ENHANCE_YOUR_CALM|INADEQUATE_SECURITY|HTTP_1_1_REQUIRED)$/.test(
      name,
    ) && typeof value === 'number'
      ? [[value, name.slice('NGHTTP2_'.length)] as const]
      : [],
  ),
);

function nameOfCode(code: number): string {
  return CODE_NAMES.get(code) ?? `code ${code}`;
}

export interface AnswerPiecesOptions {
  readonly stream: ClientHttp2Stream;
  /** Takes bytes of the body. False: no more until {@link AnswerPieces.open}. */
  take(bytes: Uint8Array): boolean;
  /** A DATA frame has come, taken or not. */
  seen(piece: Uint8Array): void;
}

/**
 * A piece that is shorter waits for the others that are read with it: to hand it on costs as much as to hand on
 * kilobytes.
 */
const SMALL_PIECE = 64;

/**
 * The body of an answer on HTTP/2, taken from node:http2 before its stream keeps it: that is an object for each DATA
 * frame, which costs more than a hundred times the byte that it may hold, while the windows count the bytes alone.
 * Small pieces are joined: those that are read at a time, and all that come while nobody takes them.
 */
class AnswerPieces {
  readonly #options: AnswerPiecesOptions;
  readonly #held = new ByteCollector();
  #isOpen = false;
  #isDue = false;
  #hasEnd = false;
  #endedByOrigin = false;

  constructor(options: AnswerPiecesOptions) {
    this.#options = options;
    options.stream.push = (piece: unknown) => this.#push(piece);
  }

  /**
   * Whether the origin has ended the stream by END_STREAM. node:http2 ends one that is reset with NO_ERROR as it ends
   * one that is complete, and tells of neither, except that the former is closed by then. Only END_STREAM makes an
   * answer complete, whatever follows it (RFC 9113 §8.1).
   */
  get endedByOrigin(): boolean {
    return this.#endedByOrigin;
  }

  /** What came is given, and what comes; called when the head was given, and when more is taken again. */
  open(): void {
    const { stream } = this.#options;
    this.#isOpen = true;
    this.give();
    if (!this.#isOpen || stream.destroyed) return;
    // It ends only when it flows; its window is opened by what it reads.
    if (stream.readableFlowing === true) stream._read(0);
    else stream.resume();
  }

  /** What has come is not waited with any longer. */
  give(): void {
    if (!this.#isOpen) return;
    if (this.#held.size > 0) this.#isOpen = this.#options.take(this.#held.take());
    if (this.#isOpen && this.#hasEnd) Readable.prototype.push.call(this.#options.stream, null);
  }

  #push(piece: unknown): boolean {
    const { stream, take, seen } = this.#options;
    if (!(piece instanceof Uint8Array)) {
      if (!stream.closed) this.#endedByOrigin = true;
      this.#hasEnd = true;
      // As long as nothing was given it does not flow, and tells of its end when it does; or it was reset before its
      // head came.
      if (this.#held.size === 0 && stream.readableFlowing !== true) return Readable.prototype.push.call(stream, null);
      this.give();
      return false;
    }
    seen(piece);
    const isSmall = piece.length < SMALL_PIECE;
    if (this.#isOpen && !isSmall && this.#held.size === 0) {
      this.#isOpen = take(piece);
      return this.#isOpen;
    }
    this.#held.push(piece);
    if (!isSmall) this.give();
    else if (!this.#isDue) this.#giveSoon();
    return this.#isOpen;
  }

  #giveSoon(): void {
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      this.give();
    });
  }
}
