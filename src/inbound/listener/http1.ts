import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Arrival, ArrivalHead, Tunnel } from '../../base/model/arrival.ts';
import { RequestBody } from './body-source.ts';
import { sendError } from './error-reply.ts';
import { type Framing, framingOf } from './framing.ts';
import { type Http1Owner, Http1Reply } from './http1-reply.ts';
import type { ListenerLimits } from './limits.ts';
import type { Activity, Link } from './links.ts';

/** What both protocols need to turn exchanges into arrivals. */
export interface Arrivals {
  readonly clock: Clock;
  readonly limits: ListenerLimits;
  /** Never throws. */
  onArrival(arrival: Arrival): void;
}

export interface Http1ConnectionOptions {
  readonly link: Link;
  /** The socket that HTTP is spoken on: the link's own, or the TLS socket around it. */
  readonly transport: Duplex;
  readonly tunnel?: Tunnel;
  readonly secure: boolean;
  readonly arrivals: Arrivals;
}

const ABSOLUTE_FORM = /^[a-z][a-z0-9+.-]*:\/\//i;

/** One HTTP/1 connection, on a port of ours or inside a tunnel. Its deadlines for heads, bodies and idleness are node:http's. */
export class Http1Connection implements Activity, Http1Owner {
  readonly #options: Http1ConnectionOptions;
  readonly #open = new Set<Http1Reply>();
  #closing = false;
  /** A request was refused for its framing: nobody can say where the next one begins. */
  #lost = false;

  constructor(options: Http1ConnectionOptions) {
    this.#options = options;
    options.transport.once('close', () => {
      for (const reply of [...this.#open]) reply.connectionClosed();
    });
  }

  get closing(): boolean {
    return this.#closing;
  }

  /** Requests whose answers are not complete. */
  get unanswered(): number {
    return this.#open.size;
  }

  /** Takes one request; `rawTarget` as it was sent. */
  accept(request: IncomingMessage, response: ServerResponse, rawTarget: string, expectsContinue: boolean): void {
    const { link, arrivals } = this.#options;
    const { clock, limits } = arrivals;
    if (this.#lost) return;
    if (this.#open.size >= limits.maxPipelined) {
      link.reset();
      return;
    }
    const framing = judged(request, limits);
    const refused = framing instanceof GatewayError;
    const body = new RequestBody({
      source: request,
      declaredLength: refused ? undefined : framing.declaredLength,
      isComplete: () => request.complete,
      ...(expectsContinue ? { sendContinue: () => response.writeContinue() } : {}),
    });
    const reply = new Http1Reply({ request, response, body, link, owner: this, clock, limits });
    this.#open.add(reply);
    if (refused) {
      this.#lost = true;
      reply.closeAfterwards();
      sendError(reply, framing);
    } else {
      arrivals.onArrival({ head: this.#head(request, rawTarget), body, reply });
    }
  }

  /** Ends the connection over what was no request: answered with `message`, unless that would land in the middle of another answer. */
  refuse(message: string | undefined): void {
    const { transport } = this.#options;
    const answers = [...this.#open];
    if (answers.length > 0 && answers.every((reply) => reply.ended)) {
      this.#closing = true;
      for (const reply of answers) reply.bodyLost();
    } else if (answers.length > 0 || message === undefined || !transport.writable) {
      transport.destroy();
    } else {
      transport.end(message, () => transport.destroy());
    }
  }

  done(reply: Http1Reply): void {
    this.#open.delete(reply);
    if (this.#closing && this.#open.size === 0) this.#options.transport.end();
  }

  drain(): void {
    this.#closing = true;
    if (this.#open.size === 0) this.#options.transport.end();
  }

  sweep(): void {}

  #head(request: IncomingMessage, rawTarget: string): ArrivalHead {
    const { link, tunnel, secure, arrivals } = this.#options;
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
      startedAt: arrivals.clock.monotonic(),
      ...(tunnel === undefined ? {} : { tunnel }),
    };
  }
}

function judged(request: IncomingMessage, limits: ListenerLimits): Framing | GatewayError {
  // node:http silently leaves out the fields beyond its limit.
  if (request.rawHeaders.length >= 2 * limits.maxHeaderFields) {
    return new GatewayError('headers_too_large', `The request has ${limits.maxHeaderFields} header fields or more.`);
  }
  return framingOf(request.rawHeaders, request.httpVersion);
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
