import type { Dispatcher } from 'undici';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import { bracketHost } from '../../base/lib/host.ts';
import { absoluteForm, type ParentProxy, parentRefusal } from './parent-proxy.ts';
import { decodeRawHeaders } from './raw-headers.ts';
import { RequestBody, STOPPED } from './request-body.ts';
import type { UpstreamCall, UpstreamEvents, UpstreamHandle } from './upstream.ts';
import { type CallPhase, callError, codeOf } from './upstream-error.ts';

/** Counts up slowly; a call remembers the count at each sign of life. */
export interface SlowCounter {
  readonly tick: number;
}

/** The connection that serves a call. */
export interface CallLane {
  /** The first error of the connection's socket; undici keeps the last one. */
  readonly fault: Error | undefined;
  /** undici is through with the call; `reusable`: the connection is whole. */
  released(call: Call, reusable: boolean): void;
  breakConnection(): void;
}

/**
 * How many of our callbacks undici's parser is inside of. undici has one parser instance for all connections and asserts that nothing resumes a connection
 * from within it.
 */
let parsing = 0;

/**
 * One call: undici's handler and the caller's handle in one object. It takes undici 7's older handler form (`onConnect`, `onHeaders`, …): that one gets the
 * raw header bytes and no wrapper, controller or parsed header object per request.
 */
export class Call implements Dispatcher.DispatchHandler, UpstreamHandle {
  readonly request: UpstreamCall;
  readonly options: Dispatcher.DispatchOptions;
  /** Tick of the last sign of life. */
  seenAt: number;
  /** The connection that serves this call, once it has been given one. */
  lane: CallLane | undefined;
  /** Set while the call is handed over: its caller has no handle yet, so an error waits for the end of the turn. */
  starting = false;

  readonly #events: UpstreamEvents;
  readonly #counter: SlowCounter;
  readonly #body: RequestBody | undefined;
  readonly #parent: ParentProxy | undefined;
  #phase: CallPhase = 'connecting';
  #status = 0;
  #done = false;
  #paused = false;
  #resumedEarly = false;
  #resumeUpstream: (() => void) | undefined;

  /** @param parent the proxy that takes this plain HTTP request in absolute form; undefined: the connection leads to the origin itself */
  constructor(request: UpstreamCall, events: UpstreamEvents, counter: SlowCounter, parent: ParentProxy | undefined) {
    this.request = request;
    this.#parent = parent;
    this.#events = events;
    this.#counter = counter;
    this.seenAt = counter.tick;
    const { body, bodyLength } = request;
    this.#body = body === undefined || body instanceof Uint8Array || bodyLength === 0 ? undefined : new RequestBody(body);
    // Named here, so that a Host that slipped into `headers` is a duplicate, which undici refuses.
    const headers = ['Host', hostHeader(request), ...request.headers];
    if (this.#body !== undefined && bodyLength !== undefined) headers.push('Content-Length', String(bodyLength));
    if (parent?.authorization !== undefined) headers.push('Proxy-Authorization', parent.authorization);
    this.options = {
      path: parent === undefined ? request.path : absoluteForm(request.authority, request.path),
      method: request.method,
      headers,
      // undici reads any async iterable; its types know only streams and bytes.
      body: (this.#body ?? (body instanceof Uint8Array ? body : null)) as Exclude<Dispatcher.DispatchOptions['body'], undefined>,
      blocking: false,
    };
  }

  get phase(): CallPhase {
    return this.#phase;
  }

  /** True while the client side holds back: silence is then not the upstream's. */
  get paused(): boolean {
    return this.#paused;
  }

  get done(): boolean {
    return this.#done;
  }

  abort(): void {
    if (this.#done) return;
    this.#stop();
  }

  /** Ends the call from our side and tells its caller why. */
  fail(error: GatewayError): void {
    if (this.#done) return;
    this.#stop();
    this.#tell(error);
  }

  /** The request may be written now. */
  onConnect(): void {
    // Thrown before anything was written, which leaves the connection whole for the next call.
    if (this.#done) throw STOPPED;
    this.#phase = 'sent';
    this.seenAt = this.#counter.tick;
  }

  onBodySent(): void {
    this.seenAt = this.#counter.tick;
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void): boolean {
    if (this.#done) return false;
    this.seenAt = this.#counter.tick;
    parsing++;
    try {
      const headers = decodeRawHeaders(raw);
      if (status < 200) {
        this.#events.onInfo?.(status, headers);
        return true;
      }
      // No origin speaks of itself as a proxy: this is the parent's refusal.
      if (status === 407 && this.#parent !== undefined) {
        this.fail(parentRefusal(this.request.authority, status));
        return false;
      }
      this.#phase = 'answering';
      this.#status = status;
      this.#resumeUpstream = resume;
      this.#events.onHead(status, headers, () => this.#resume());
      return true;
    } finally {
      parsing--;
    }
  }

  onData(chunk: Buffer): boolean {
    if (this.#done) return false;
    this.seenAt = this.#counter.tick;
    this.#resumedEarly = false;
    parsing++;
    try {
      if (this.#events.onData(chunk) || this.#resumedEarly) return true;
      this.#paused = true;
      return false;
    } finally {
      parsing--;
    }
  }

  onComplete(trailers: Buffer[] | string[] | null): void {
    this.lane?.released(this, !this.#done);
    if (this.#done) return;
    this.#done = true;
    this.#body?.stop();
    parsing++;
    try {
      this.#events.onEnd(trailers === null || trailers.length === 0 ? NO_TRAILERS : decodeRawHeaders(trailers as Buffer[]));
    } finally {
      parsing--;
    }
  }

  onError(error: unknown): void {
    this.lane?.released(this, error === STOPPED && this.#phase === 'connecting');
    if (this.#done) return;
    this.#done = true;
    this.#body?.stop();
    // A 304 has the length of the body that a 200 would have had (RFC 9110 §8.6); undici misses that body and gives the connection up.
    if (this.#status === 304 && codeOf(error) === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') {
      this.#events.onEnd(NO_TRAILERS);
      return;
    }
    // TLS 1.3 refuses a client without a certificate only when the handshake is over, by an alert before the end.
    const cause = this.#phase === 'sent' && codeOf(error) === 'UND_ERR_SOCKET' ? (this.lane?.fault ?? error) : error;
    this.#tell(callError(this.request.authority, this.#phase, cause));
  }

  /** The lane of a call that still waits to be written stays busy until undici has taken note. */
  #stop(): void {
    this.#done = true;
    this.#body?.stop();
    if (this.#phase !== 'connecting') this.lane?.breakConnection();
  }

  #tell(error: GatewayError): void {
    if (this.starting) queueMicrotask(() => this.#events.onError(error));
    else this.#events.onError(error);
  }

  #resume(): void {
    if (!this.#paused) {
      this.#resumedEarly = true;
      return;
    }
    this.#paused = false;
    this.seenAt = this.#counter.tick;
    if (parsing === 0) this.#resumeNow();
    else queueMicrotask(() => this.#resumeNow());
  }

  #resumeNow(): void {
    if (!this.#done) this.#resumeUpstream?.();
  }
}

const NO_TRAILERS: readonly string[] = [];

/** The default port of the scheme is left out, as every client does. */
export function hostHeader({ authority, tls }: Pick<UpstreamCall, 'authority' | 'tls'>): string {
  const host = bracketHost(authority.host);
  return authority.port === (tls ? 443 : 80) ? host : `${host}:${authority.port}`;
}
