import { constants, type IncomingHttpHeaders, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { ReadingHold } from '../../base/lib/reading-hold.ts';
import { Roster, type Seat } from '../../base/lib/roster.ts';
import { fieldListBytes, hasWrittenAll, isBroken } from '../../base/lib/sockets.ts';
import { stopping } from '../../base/lib/stopping.ts';
import type { Arrival, ArrivalHead, Tunnel } from '../../base/model/arrival.ts';
import { type Arrivals, refuseArrival, takeByHolder } from './arrivals.ts';
import { ArrivedBody } from './body-source.ts';
import { CallPlace } from './calls-under-way.ts';
import { Http2Reply } from './http2-reply.ts';
import { type Activity, ignore, type Link } from './links.ts';
import type { Unread } from './unread.ts';
import { watchPieces } from './waiting-pieces.ts';

const PIECES_PILE_UP = new GatewayError('bad_framing', 'The body comes in pieces of a few bytes, faster than they are taken.');

export const NESTED_CONNECT = new GatewayError('invalid_target', 'CONNECT is not accepted inside a tunnel.');
const CONTENT_ENCODING = 'content-encoding';
const CONNECT_BY_HTTP1 = new GatewayError('invalid_target', 'CONNECT is taken by HTTP/1.1 here: offer http/1.1 (ALPN) to the proxy.');

export interface Http2ConnectionOptions {
  readonly link: Link;
  readonly session: ServerHttp2Session;
  /** Undefined: it is spoken on a port of ours that has TLS (decision 12.1). */
  readonly tunnel?: Tunnel | undefined;
  readonly arrivals: Arrivals;
}

interface Arriving {
  readonly stream: ServerHttp2Stream;
  readonly body: ArrivedBody;
}

interface Answering {
  readonly stream: ServerHttp2Stream;
  readonly reply: Http2Reply;
}

/**
 * What the client has not taken of all streams. A stream that nobody reads is as old as it is, however fast others are
 * read.
 */
class SessionUnread implements Unread {
  readonly #answering: Roster<Answering>;
  since = 0;

  constructor(answering: Roster<Answering>) {
    this.#answering = answering;
  }

  look(now: number): number {
    let bytes = 0;
    this.since = now;
    for (const { reply } of this.#answering) {
      const since = reply.unreadSince(now);
      if (since === undefined) continue;
      bytes += reply.unread;
      this.since = Math.min(this.since, since);
    }
    return bytes;
  }
}

/** With fewer streams a connection cannot hold too much. */
const FEW_STREAMS = 16;
/**
 * Many answers at once are not too many for who takes them: only those count of which next to nothing was taken for so
 * long, milliseconds.
 */
const TAKEN_WITHIN_MS = 10_000;

/**
 * One h2 connection, inside a tunnel or on a port that speaks TLS. It listens to streams themselves: the compatibility
 * layer of node:http2 costs as much as the rest of an exchange. node:http2 has no deadlines at all, so that all of them
 * are kept here.
 */
export class Http2Connection implements Activity {
  readonly #options: Http2ConnectionOptions;
  /** Streams whose request has not arrived in full. */
  readonly #arriving = new Roster<Arriving>();
  readonly #answering = new Roster<Answering>();
  readonly unread: Unread = new SessionUnread(this.#answering);
  readonly #hold: ReadingHold;
  #open = 0;
  /** Of heads and trailers of open streams, decoded. */
  #fieldBytes = 0;
  #idleSince: number;
  /** The `#idleSince` for which the connection was found to be there. */
  #settledSince: number | undefined;
  /** What the client had sent when it was last looked at, and since when it has sent nothing more. */
  #bytesRead = 0;
  #silentSince: number;
  /** A PING was to have left since the client was last heard of. */
  #asked = false;
  #stuckSince: number | undefined;

  constructor(options: Http2ConnectionOptions) {
    this.#options = options;
    this.#hold = new ReadingHold(options.link.wire, options.arrivals.clock);
    this.#idleSince = options.arrivals.clock.monotonic();
    this.#silentSince = this.#idleSince;
    const { wire, share } = options.link;
    share.begins.enter(this.#hold);
    wire.once('close', () => share.begins.leave(this.#hold));
    options.session.on('error', ignore);
    // The types leave out the fourth argument, which is the raw field list.
    const onStream = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, flags: number, ...more: readonly unknown[]): void => {
      this.#accept(stream, headers, flags, more[0]);
    };
    options.session.on('stream', onStream);
  }

  drain(): void {
    // Sends GOAWAY; the connection closes when its last stream has.
    this.#options.session.close();
  }

  cut(): void {
    for (const { body } of this.#arriving) body.cut(stopping());
  }

  get isIdle(): boolean {
    return this.#options.tunnel === undefined && this.#open === 0;
  }

  sweep(now: number): void {
    const { link, session, arrivals } = this.#options;
    const { limits } = arrivals;
    const idleMs = this.#open === 0 ? now - this.#idleSince : 0;
    const expired = idleMs > limits.keepAliveMs;
    // A session without streams reads on; but it may have been broken before the last of them was over. Who has sent
    // something was there.
    const settled = idleMs > limits.lingerMs && this.#settledSince !== this.#idleSince;
    if (!this.#isHeard(now)) {
      if (this.#isGone(now, this.#open > 0 || settled || expired)) {
        link.wire.destroy();
        return;
      }
      if (settled || (this.#open > 0 && now - this.#silentSince > limits.lingerMs)) this.#ask(now);
    }
    if (settled) this.#settledSince = this.#idleSince;
    if (expired) session.close();
    // A client that reads nothing does not even take the GOAWAY.
    if (idleMs > limits.keepAliveMs + limits.lingerMs) link.wire.destroy();
    this.#closeOverdue(now);
  }

  #closeOverdue(now: number): void {
    const { limits } = this.#options.arrivals;
    for (const { stream, body } of this.#arriving) {
      if (body.isOverdue(now, limits)) stream.close(constants.NGHTTP2_CANCEL);
    }
    if (this.#open === 0) return;
    const before = now - limits.unreadMs;
    for (const { stream, reply } of this.#answering) {
      if (stream.closed || (reply.unreadSince(now) ?? now) >= before) continue;
      this.#options.arrivals.counts.unread++;
      stream.close(constants.NGHTTP2_CANCEL);
    }
  }

  /** Whether so much waits for the client that he is given nothing more. */
  #isFull(now: number): boolean {
    if (this.#answering.size < FEW_STREAMS) return false;
    let bytes = 0;
    for (const { reply } of this.#answering) if (now - (reply.unreadSince(now) ?? now) > TAKEN_WITHIN_MS) bytes += reply.unread;
    return bytes > this.#options.arrivals.limits.maxSessionUnreadBytes;
  }

  #isHeard(now: number): boolean {
    const { bytesRead } = this.#options.link.wire;
    if (bytesRead === this.#bytesRead) return false;
    this.#bytesRead = bytesRead;
    this.#silentSince = now;
    this.#asked = false;
    this.#stuckSince = undefined;
    return true;
  }

  /** Sweeps look then whether the PING has left. */
  #ask(now: number): void {
    const { session } = this.#options;
    this.#silentSince = now;
    if (session.destroyed) return;
    session.ping(ignore);
    // node:http2 writes before that, unless something is in its way.
    setImmediate(() => {
      this.#asked = true;
    });
  }

  /**
   * Whether the client has broken the connection, or its session is over. After a fault of the connection (RFC 9113
   * §5.4.1) node:http2 sends GOAWAY, and then neither writes nor reads, so that it does not see its client close, and
   * closes nothing itself. What tells such a session from others is that what it is given to send stays where it is,
   * although nothing is in its way; for a moment that is so of any session.
   */
  #isGone(now: number, isSuspect: boolean): boolean {
    const { link, session, arrivals } = this.#options;
    if (isSuspect && isBroken(link.wire)) return true;
    const isStuck = this.#asked && !session.destroyed && (session.state.outboundQueueSize ?? 0) > 0 && hasWrittenAll(link.wire);
    this.#stuckSince = isStuck ? (this.#stuckSince ?? now) : undefined;
    return this.#stuckSince !== undefined && now - this.#stuckSince > arrivals.limits.lingerMs;
  }

  #accept(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, flags: number, rawHeaders: unknown): void {
    const { arrivals } = this.#options;
    const { clock } = arrivals;
    const hasBody = (flags & constants.NGHTTP2_FLAG_END_STREAM) === 0;
    const startedAt = clock.monotonic();
    let fieldBytes = fieldListBytes(rawHeaders);
    let seat: Seat<Arriving> | undefined;
    let answering: Seat<Answering> | undefined;
    const { share } = this.#options.link;
    const { begins } = share;
    const place = new CallPlace(arrivals.places, share);
    this.#open++;
    stream.once('close', () => {
      this.#open--;
      this.#fieldBytes -= fieldBytes;
      this.#idleSince = clock.monotonic();
      if (seat !== undefined) this.#arriving.remove(seat);
      if (answering !== undefined) this.#answering.remove(answering);
      place.leave();
    });
    if (!this.#holds(stream, fieldBytes)) return;
    if (this.#isFull(startedAt)) {
      stream.on('error', ignore);
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return;
    }
    stream.once('aborted', () => {
      letGo(stream);
      begins.countReset();
    });
    let trailers: readonly string[] = [];
    const method = headers[':method'] ?? '';
    const body = new ArrivedBody({
      source: stream,
      declaredLength: hasBody ? declaredLength(headers['content-length']) : 0,
      startedAt,
      // A stream that the client reset ends as well, but then it is closed.
      isComplete: () => stream.readableEnded && !stream.aborted && !stream.closed && !stream.destroyed,
      trailers: () => trailers,
      ...(headers.expect?.toLowerCase() === '100-continue' ? { sendContinue: () => sendContinue(stream) } : {}),
    });
    if (hasBody) {
      const onTooMany = (): void => {
        body.cut(PIECES_PILE_UP);
        stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      };
      watchPieces(stream, { tiny: share.tinyPieces(clock), hold: this.#hold, onTooMany });
      // A relayed stream may send and receive for hours; the net room sees to it that neither side is silent for too
      // long.
      if (this.#options.tunnel?.dialled === undefined) {
        const arriving = this.#arriving.add({ stream, body });
        seat = arriving;
        stream.once('end', () => this.#arriving.remove(arriving));
      }
      stream.once('trailers', (_headers: IncomingHttpHeaders, _flags: number, ...more: readonly unknown[]) => {
        const bytes = fieldListBytes(more[0]);
        fieldBytes += bytes;
        if (this.#holds(stream, bytes)) trailers = withoutPseudo(more[0]);
      });
    }
    const reply = new Http2Reply(stream, method, body);
    answering = this.#answering.add({ stream, reply });
    const refusal = refusalOf(method, headers, this.#options.tunnel);
    const arrival = { head: this.#head(method, headers, rawHeaders, startedAt), body, reply };
    if (begins.take()) this.#begin(arrival, place, refusal);
    else begins.later({ stream, begin: () => this.#begin(arrival, place, refusal) });
  }

  #begin(arrival: Arrival, place: CallPlace, refusal: GatewayError | undefined): void {
    const { arrivals } = this.#options;
    if (refusal !== undefined) refuseArrival(arrival, refusal, arrivals);
    else if (place.enter()) arrivals.onArrival(arrival);
    else takeByHolder(arrival, place, arrivals);
  }

  /**
   * Counts the fields that came on a stream. False when they are too many: the stream is reset, as node:http2 does it
   * for a client that has acknowledged the limit of a head; a connection whose streams hold more than theirs together
   * is ended.
   */
  #holds(stream: ServerHttp2Stream, fieldBytes: number): boolean {
    const { session, arrivals } = this.#options;
    const { maxHeaderBytes, maxSessionHeaderBytes } = arrivals.limits;
    this.#fieldBytes += fieldBytes;
    if (fieldBytes <= maxHeaderBytes && this.#fieldBytes <= maxSessionHeaderBytes) return true;
    stream.on('error', ignore);
    if (this.#fieldBytes > maxSessionHeaderBytes) session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
    else stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    return false;
  }

  #head(method: string, headers: IncomingHttpHeaders, rawHeaders: unknown, startedAt: number): ArrivalHead {
    const { link, tunnel } = this.#options;
    const path = headers[':path'] ?? '';
    // Whoever asks for plain HTTP on a connection of TLS asks a proxy: what HTTP/1.1 says by the absolute form.
    const isProxied = tunnel === undefined && headers[':scheme'] === 'http';
    return {
      door: tunnel !== undefined ? 'connect' : isProxied ? 'absolute' : 'origin',
      trafficClass: link.trafficClass,
      method,
      rawTarget: isProxied ? `http://${headers[':authority'] ?? headers.host ?? ''}${path}` : path,
      rawHeaders: withoutPseudo(rawHeaders),
      headers: flat(headers, rawHeaders),
      httpVersion: '2',
      secure: true,
      remoteAddress: link.remoteAddress,
      startedAt,
      ...(tunnel === undefined ? {} : { tunnel }),
    };
  }
}

/**
 * node:http2 keeps a stream that was reset without an error until its body is read to the end, which nobody may be
 * about to do.
 */
function letGo(stream: ServerHttp2Stream): void {
  // A reset of ours goes out first.
  if (stream.rstCode === constants.NGHTTP2_NO_ERROR) setImmediate(() => stream.destroy());
}

/**
 * A host that is said twice must be the same twice (decision 3.16). CONNECT, extended or not, opens no tunnel inside a
 * tunnel, and on a port of ours it is HTTP/1.1's (decision 12.1).
 */
function refusalOf(method: string, headers: IncomingHttpHeaders, tunnel: Tunnel | undefined): GatewayError | undefined {
  if (method === 'CONNECT') return tunnel === undefined ? CONNECT_BY_HTTP1 : NESTED_CONNECT;
  const authority = headers[':authority'];
  const host = headers.host;
  if (authority === undefined && host === undefined) return new GatewayError('bad_framing', 'The request has neither :authority nor Host.');
  if (authority !== undefined && host !== undefined && authority.toLowerCase() !== host.toLowerCase()) {
    return new GatewayError('bad_framing', 'The request has an :authority and a Host that differ.');
  }
  return undefined;
}

function declaredLength(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function sendContinue(stream: ServerHttp2Stream): void {
  if (!stream.headersSent && !stream.destroyed && !stream.closed) stream.additionalHeaders({ ':status': 100 });
}

/**
 * node:http2 gives the raw fields as an untyped flat list; pseudo-headers stand first by protocol. The pieces of a
 * cookie, which may come as fields of their own, are one field everywhere else (RFC 9113 §8.2.3).
 */
function withoutPseudo(rawHeaders: unknown): string[] {
  const fields: string[] = [];
  if (!Array.isArray(rawHeaders)) return fields;
  let cookie = 0;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name: unknown = rawHeaders[i];
    const value: unknown = rawHeaders[i + 1];
    if (typeof name !== 'string' || typeof value !== 'string' || name.startsWith(':')) continue;
    if (name === 'cookie' && cookie > 0) {
      fields[cookie] += `; ${value}`;
      continue;
    }
    fields.push(name, value);
    if (name === 'cookie') cookie = fields.length - 1;
  }
  return fields;
}

function valuesOf(rawHeaders: unknown, name: string): readonly unknown[] {
  return Array.isArray(rawHeaders) ? rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1] === name) : [];
}

function flat(headers: IncomingHttpHeaders, rawHeaders: unknown): Record<string, string | undefined> {
  const copy: Record<string, string | undefined> = { host: headers[':authority'] ?? headers.host };
  for (const name in headers) {
    if (name.startsWith(':') || name === 'host') continue;
    const value = headers[name];
    copy[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  // Of several node:http2 takes the first, and the body would be read by less than its provider is told.
  if (copy[CONTENT_ENCODING] !== undefined) copy[CONTENT_ENCODING] = valuesOf(rawHeaders, CONTENT_ENCODING).join(', ');
  return copy;
}
