import { type IncomingHttpHeaders, type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { REQUEST_ID_HEADER, requestIdOf } from '../../base/lib/ids.ts';
import { isBroken, stopParsing } from '../../base/lib/sockets.ts';
import { stopping } from '../../base/lib/stopping.ts';
import type { ArrivalHead, Tunnel } from '../../base/model/arrival.ts';
import type { ByteChannel } from '../../base/model/channel.ts';
import { type Arrivals, refuseArrival, takeByHolder } from './arrivals.ts';
import { ArrivedBody } from './body-source.ts';
import { CallPlace } from './calls-under-way.ts';
import { paceTinyPieces } from './chunk-pace.ts';
import { rawErrorReply } from './error-reply.ts';
import { type Framing, framingOf } from './framing.ts';
import { type Http1Owner, Http1Reply } from './http1-reply.ts';
import type { ListenerLimits } from './limits.ts';
import { type Activity, ignore, isUnread, type Link } from './links.ts';
import { SocketUnread } from './unread.ts';
import { asksForProtocol, ClientChannel, isWebSocketHandshake } from './upgrade.ts';

export interface Http1ConnectionOptions {
  readonly link: Link;
  /** The socket that HTTP is spoken on: the link's own, or the TLS socket around it. */
  readonly transport: Socket;
  readonly tunnel?: Tunnel;
  readonly secure: boolean;
  readonly arrivals: Arrivals;
}

/** A request that is here, and whose turn has not come. */
interface Waiting {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: ArrivedBody;
  readonly refusal: GatewayError | undefined;
}

/** As in tunnels: finds out when the other side has vanished. */
const KEEP_ALIVE_PROBE_MS = 60_000;
const BODY_OF_HANDSHAKE = new GatewayError('bad_framing', 'The handshake of a WebSocket has no body.');
const ABSOLUTE_FORM = /^[a-z][a-z0-9+.-]*:\/\//i;

/**
 * One HTTP/1 connection, on a port of ours or inside a tunnel. One request at a time is worked on: a pipelined one
 * waits until the answer before it has left, so that who reads nothing has one answer waiting for him. Its deadlines
 * for heads, bodies and idleness are node:http's.
 */
export class Http1Connection implements Activity, Http1Owner {
  readonly #options: Http1ConnectionOptions;
  readonly unread: SocketUnread;
  /** The one that is being given, and one that was refused for what came behind it. */
  readonly #open: Http1Reply[] = [];
  /** In the order in which they came. */
  #waiting: Waiting[] = [];
  /** Of the heads of what waits. */
  #waitingBytes = 0;
  readonly #place: CallPlace;
  #closing = false;
  #draining = false;
  /** A request has come. */
  #used = false;
  /** The last answer is given while the client may still be writing. */
  #lingers = false;
  /** Monotonic milliseconds until which such a client, and one whose WebSocket was refused, may take to read why. */
  #lingersUntil = Number.POSITIVE_INFINITY;
  /** The body of the request that came last: a later one cannot begin before it is complete. */
  #arriving: ArrivedBody | undefined;
  /** A request was refused for its framing, or is not read to its end: nobody can say where the next one begins. */
  #lost = false;
  /** What waits for the last of the answers that are complete. */
  #onAnswered: (() => void) | undefined;

  constructor(options: Http1ConnectionOptions) {
    this.#options = options;
    this.unread = new SocketUnread(options.transport, { more: () => this.#open[0]?.left ?? 0 });
    this.#place = new CallPlace(options.arrivals.places, options.link.share);
    options.transport.once('close', () => {
      this.#waiting = [];
      for (const reply of [...this.#open]) reply.connectionClosed();
    });
  }

  get options(): Http1ConnectionOptions {
    return this.#options;
  }

  get closing(): boolean {
    return this.#closing && this.#waiting.length === 0;
  }

  get isIdle(): boolean {
    return this.#options.tunnel === undefined && this.unanswered === 0;
  }

  /** True when whatever still comes is thrown away. */
  get lingers(): boolean {
    return this.#lingers;
  }

  /** Requests whose answers are not complete. */
  get unanswered(): number {
    return this.#open.length + this.#waiting.length;
  }

  /**
   * Calls back when the answers that are complete have left; at once when there are none, or when what comes is thrown
   * away. False: some are still to be given. A client may have read an answer, and go on, before TLS says here that it
   * was written.
   */
  onceAnswered(listener: () => void): boolean {
    const replies = [...this.#open];
    if (!this.#lingers && (this.#waiting.length > 0 || !replies.every((reply) => reply.ended))) return false;
    if (this.#lingers || replies.length === 0) listener();
    else this.#onAnswered = listener;
    return true;
  }

  /** Takes one request. */
  accept(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const { link, arrivals } = this.#options;
    const { clock, limits } = arrivals;
    this.#used = true;
    if (this.#lost) {
      request.resume();
      stopParsing(request.socket);
      return;
    }
    const startedAt = clock.monotonic();
    const framing = judged(request, limits);
    const refusal = framing instanceof GatewayError ? framing : undefined;
    if (request.headers['transfer-encoding'] !== undefined) paceTinyPieces(request, link.share.tinyPieces(clock), clock);
    const body = new ArrivedBody({
      source: request,
      declaredLength: framing instanceof GatewayError ? undefined : framing.declaredLength,
      startedAt,
      isComplete: () => request.complete,
      trailers: () => request.rawTrailers,
      ...(expectsContinue ? { sendContinue: () => response.writeContinue() } : {}),
    });
    this.#arriving = body;
    const asks = request.headers.upgrade !== undefined && asksForProtocol(request);
    if (asks) ignoreProtocol(request, response);
    this.#lost = refusal !== undefined || asks;
    const next = { request, response, body, refusal };
    if (this.#open.length === 0) {
      this.#begin(next, startedAt);
      return;
    }
    this.#waiting.push(next);
    this.#waitingBytes += headBytes(request);
    if (this.unanswered <= limits.maxPipelined && this.#waitingBytes <= limits.maxHeaderBytes) return;
    // What else was read with it is nobody's.
    this.#lost = true;
    this.#waiting = [];
    link.reset();
  }

  /** @param now monotonic milliseconds */
  #begin({ request, response, body, refusal }: Waiting, now: number): void {
    const { link, arrivals } = this.#options;
    const { clock, limits } = arrivals;
    const reply = new Http1Reply({ request, response, body, link, owner: this, limits, clock });
    this.#open.push(reply);
    const head = this.#head(request, now);
    if (refusal === undefined) {
      const arrival = { head, body, reply };
      if (this.#place.enter()) arrivals.onArrival(arrival);
      else takeByHolder(arrival, this.#place, arrivals);
    } else {
      reply.closeAfterwards();
      refuseArrival({ head, reply }, refusal, arrivals);
    }
  }

  /**
   * Takes the opening handshake of a WebSocket; node:http has let go of the transport. `head` is what came behind it.
   * Unless it is accepted its answer is the last one of the connection.
   */
  acceptUpgrade(request: IncomingMessage, head: Buffer): void {
    const { link, transport, tunnel, arrivals } = this.#options;
    const { clock, limits, tunnels } = arrivals;
    if (this.#lingers) {
      transport.resume();
      return;
    }
    // An answer that is still on its way would end up inside the other protocol.
    if (this.#lost || this.unanswered > 0) {
      link.reset();
      return;
    }
    this.#closing = true;
    transport.setTimeout(0);
    if (head.length > 0) transport.unshift(head);
    const response = new ServerResponse(request);
    response.assignSocket(transport);
    response.shouldKeepAlive = false;
    transport.on('drain', () => response.emit('drain'));
    const body = new ArrivedBody({ source: request, declaredLength: 0, startedAt: 0, isComplete: () => true, trailers: () => [] });
    const takeOver = (switching: string): ByteChannel => this.#switch(response, reply, switching);
    const reply: Http1Reply = new Http1Reply({ request, response, body, link, owner: this, limits, clock, takeOver });
    this.#open.push(reply);
    response.once('finish', () => {
      if (tunnel === undefined) tunnels.leave(link);
      this.#lingersUntil = clock.monotonic() + limits.lingerMs;
      transport.once('end', () => transport.destroySoon());
      transport.resume();
    });
    const refusal = this.#refusalOfUpgrade(request);
    if (refusal === undefined) arrivals.onArrival({ head: this.#head(request, clock.monotonic()), body, reply });
    else refuseArrival({ head: this.#head(request, clock.monotonic()), reply }, refusal, arrivals);
  }

  /**
   * Ends the connection over what was no request, or no body: answered with `error`, unless that would land in the
   * middle of another answer. Requests that came whole before it are answered first, and are then the last ones.
   */
  refuse(error: GatewayError | undefined): void {
    const { transport, link, tunnel, arrivals } = this.#options;
    if (this.#lingers) return;
    const answers = [...this.#open];
    const [only] = answers;
    if (answers.length > 0 && this.#waiting.length === 0 && answers.every((reply) => reply.ended)) {
      this.#closing = true;
    } else if (error === undefined || !transport.writable) {
      transport.destroy();
    } else if (this.#arriving?.isArriving !== true && only !== undefined) {
      this.#closing = true;
      this.#lost = true;
    } else if (this.#waiting.length > 0 || only?.headSent === true || (only === undefined && this.#arriving?.isArriving === true)) {
      // The last case: a request that was answered before its body came. Another answer would be taken for that of the
      // next request.
      transport.destroy();
    } else {
      only?.connectionClosed();
      this.#lingers = true;
      this.#lost = true;
      const requestId = requestIdOf([]);
      transport.write(rawErrorReply(error, [REQUEST_ID_HEADER, requestId]));
      this.#hangUp();
      const { code, message } = error;
      arrivals.onRefused?.({ requestId, code, message, callerIp: tunnel?.callerIp ?? link.remoteAddress, trafficClass: link.trafficClass });
    }
  }

  done(reply: Http1Reply): void {
    // As a rule there is one.
    if (this.#open.length === 1 && this.#open[0] === reply) this.#open.pop();
    else this.#leave(reply);
    if (this.#open.length > 0) return;
    this.#place.leave();
    if (this.#waiting.length > 0 && this.#beginNext()) return;
    const listener = this.#onAnswered;
    this.#onAnswered = undefined;
    if (this.#closing) this.#hangUp();
    else listener?.();
  }

  /** Begins with the request whose turn it is; behind a last answer there is none. */
  #beginNext(): boolean {
    if (this.#lingers || !this.#options.transport.writable) this.#waiting = [];
    const next = this.#waiting.shift();
    if (next === undefined) return false;
    this.#waitingBytes -= headBytes(next.request);
    const now = this.#options.arrivals.clock.monotonic();
    next.body.begins(now);
    this.#begin(next, now);
    return true;
  }

  linger(request: IncomingMessage): void {
    const { transport, arrivals } = this.#options;
    this.#closing = true;
    this.#lost = true;
    this.#lingers = true;
    // That is how node:http closes behind a last answer: both directions at once.
    transport.destroySoon = ignore;
    let left = arrivals.limits.maxLingerBytes;
    request.on('data', (chunk: Uint8Array) => {
      left -= chunk.length;
      if (left < 0) request.pause();
    });
    request.resume();
  }

  drain(): void {
    this.#closing = true;
    this.#draining = true;
    const { transport, arrivals } = this.#options;
    const { clock, limits } = arrivals;
    // A request that was sent before its client could know is answered: one that is here already, and the first one of
    // who has just connected.
    if (this.#used || transport.readableEnded) setImmediate(() => setImmediate(() => this.#endIdle()));
    else clock.after(limits.firstRequestMs, () => this.#endIdle());
  }

  cut(): void {
    this.#waiting = [];
    this.#arriving?.cut(stopping());
    this.#endIdle();
  }

  sweep(now: number): void {
    const { link, transport, arrivals } = this.#options;
    const over = now > this.#lingersUntil || this.#arriving?.isOverdue(now, arrivals.limits) === true;
    if (over || (isUnread(transport) && isBroken(link.wire))) transport.destroy();
  }

  #leave(reply: Http1Reply): void {
    const at = this.#open.indexOf(reply);
    if (at !== -1) this.#open.splice(at, 1);
  }

  #endIdle(): void {
    const { link, transport } = this.#options;
    if (this.#open.length === 0 && link.activity === this) transport.end();
  }

  /**
   * Says that nothing follows. Who may still be writing is read from until it has read that and ends as well, or its
   * time is over: unread bytes would turn the close into a reset, which can overtake the answer (RFC 9112 §9.6).
   */
  #hangUp(): void {
    const { transport, arrivals } = this.#options;
    transport.end();
    if (!this.#lingers) return;
    this.#lingersUntil = arrivals.clock.monotonic() + arrivals.limits.lingerMs;
    const close = (): void => {
      if (transport.writableFinished) transport.destroy();
      else transport.once('finish', () => transport.destroy());
    };
    if (transport.readableEnded) close();
    else transport.once('end', close);
  }

  #refusalOfUpgrade(request: IncomingMessage): GatewayError | undefined {
    const { link, arrivals } = this.#options;
    const framing = judged(request, arrivals.limits);
    if (framing instanceof GatewayError) return framing;
    return arrivals.tunnels.enter(link) ? undefined : arrivals.tunnels.refusal();
  }

  #switch(response: ServerResponse, reply: Http1Reply, head: string): ByteChannel {
    const { link, transport } = this.#options;
    this.#leave(reply);
    response.detachSocket(transport);
    transport.setNoDelay(true);
    transport.setKeepAlive(true, KEEP_ALIVE_PROBE_MS);
    transport.write(head, 'latin1');
    const channel = new ClientChannel(transport, link);
    link.activity = channel;
    if (this.#draining) channel.drain();
    return channel;
  }

  #head(request: IncomingMessage, startedAt: number): ArrivalHead {
    const rawTarget = request.url ?? '';
    const { link, tunnel, secure } = this.#options;
    return {
      door: tunnel !== undefined ? 'connect' : ABSOLUTE_FORM.test(rawTarget) ? 'absolute' : 'origin',
      trafficClass: link.trafficClass,
      method: request.method ?? '',
      rawTarget,
      rawHeaders: request.rawHeaders,
      headers: flat(request.headers),
      httpVersion: request.httpVersion === '1.0' ? '1.0' : '1.1',
      secure,
      remoteAddress: link.remoteAddress,
      startedAt,
      ...(tunnel === undefined ? {} : { tunnel }),
    };
  }
}

/** About what a head takes. */
function headBytes({ rawHeaders, url = '' }: IncomingMessage): number {
  return rawHeaders.reduce((sum, { length }) => sum + length, url.length);
}

function judged(request: IncomingMessage, limits: ListenerLimits): Framing | GatewayError {
  const framing = tooManyFields(request, limits) ?? framingOf(request.rawHeaders, request.httpVersion);
  if (framing instanceof GatewayError || framing.declaredLength === 0) return framing;
  const isHandshake = request.headers.upgrade !== undefined && isWebSocketHandshake(request) && asksForProtocol(request);
  return isHandshake ? BODY_OF_HANDSHAKE : framing;
}

/**
 * Of a request with a body that asks for another protocol. It is the last one of its connection: what was read behind
 * its body node:http throws away, so that nobody can say where the next one begins.
 */
function ignoreProtocol({ headers }: IncomingMessage, response: ServerResponse): void {
  Reflect.deleteProperty(headers, 'upgrade');
  response.shouldKeepAlive = false;
}

/** node:http silently leaves out the fields beyond its limit. */
export function tooManyFields({ rawHeaders }: IncomingMessage, { maxHeaderFields }: ListenerLimits): GatewayError | undefined {
  if (rawHeaders.length < 2 * maxHeaderFields) return undefined;
  return new GatewayError('headers_too_large', `The request has ${maxHeaderFields} header fields or more.`);
}

/** node:http keeps one field as a list, Set-Cookie, which no client sends. */
function flat(headers: IncomingHttpHeaders): Readonly<Record<string, string | undefined>> {
  if (isFlat(headers)) return headers;
  const copy: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(headers)) copy[name] = Array.isArray(value) ? value.join(', ') : value;
  return copy;
}

function isFlat(headers: IncomingHttpHeaders): headers is Record<string, string | undefined> {
  return headers['set-cookie'] === undefined;
}
