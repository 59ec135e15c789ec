import type { Socket } from 'node:net';
import type { Client, Dispatcher } from 'undici';
import { codeOf } from '../../src/base/lib/gateway-error.ts';
import { undiciClient } from '../../src/outbound/net/exchange.ts';
import type { CallInLane, Lane, LaneOptions, LaneOwner } from '../../src/outbound/net/lane.ts';
import { STOPPED } from '../../src/outbound/net/request-body.ts';
import { hostHeader, targetOf } from '../../src/outbound/net/request-head.ts';
import { undiciError } from '../../src/outbound/net/upstream-error.ts';
import { decodeRawHeaders } from './raw-headers.ts';

/**
 * How many of our callbacks undici's parser is inside of. undici has one parser instance for all connections and
 * asserts that nothing resumes a connection from within it.
 */
let parsing = 0;

/**
 * The judge of our own client (ADR 11): the same calls over the same connections, spoken by undici. One Client, without
 * pipelining, interceptors, redirects and retries. undici's Pool is not used: it scans all its clients for each call,
 * and a call that is aborted through undici makes it dial a connection that nobody asked for. The lane takes undici 7's
 * older handler form (`onConnect`, `onHeaders`, …): that one gets the raw header bytes and no wrapper, controller or
 * parsed header object per request.
 */
export class UndiciLane implements Lane, Dispatcher.DispatchHandler {
  readonly expiresAt = undefined;
  call: CallInLane | undefined;

  readonly #owner: LaneOwner;
  readonly #options: LaneOptions;
  readonly #client: Client;
  #socket: Socket | undefined;
  /** The first error of the socket; undici keeps the last one. */
  #fault: Error | undefined;
  #status = 0;
  #resumeUpstream: (() => void) | undefined;

  constructor(owner: LaneOwner, options: LaneOptions) {
    const { authority, tls } = options;
    this.#owner = owner;
    this.#options = options;
    // Silence is watched by ourselves: without a timer per call, and by the injected clock.
    this.#client = undiciClient(authority, tls, async () => this.#watch(await options.connect()));
    this.#client.on('disconnect', () => {
      this.#socket = undefined;
      owner.disconnected(this);
    });
  }

  run(call: CallInLane): void {
    this.call = call;
    call.lane = this;
    call.starting = true;
    this.#status = 0;
    this.#client.dispatch(this.#dispatchOptions(call), this);
    call.starting = false;
  }

  /** We may be inside of a callback of this client. */
  async close(): Promise<void> {
    await Promise.resolve();
    await this.#client.destroy();
  }

  breakConnection(): void {
    this.#socket?.destroy(STOPPED);
  }

  resume(): void {
    if (parsing === 0) this.#resumeNow();
    else queueMicrotask(() => this.#resumeNow());
  }

  onConnect(): void {
    // Thrown before anything was written, which leaves the connection whole for the next call.
    if (this.call === undefined || this.call.done) throw STOPPED;
    this.call.sent();
  }

  onBodySent(): void {
    this.call?.moved();
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void): boolean {
    const { call } = this;
    if (call === undefined || call.done) return false;
    this.#status = status;
    this.#resumeUpstream = resume;
    parsing++;
    try {
      const headers = decodeRawHeaders(raw);
      if (status < 200) call.informed(status, headers);
      else {
        // When undici has written all of a body it does not say.
        call.bodyLeft();
        call.headed(status, headers);
      }
    } finally {
      parsing--;
    }
    return !call.done;
  }

  onData(chunk: Buffer): boolean {
    parsing++;
    try {
      return this.call?.received(chunk) ?? false;
    } finally {
      parsing--;
    }
  }

  onComplete(trailers: Buffer[] | string[] | null): void {
    const call = this.#release((released) => !released.done);
    parsing++;
    try {
      call?.ended(trailers === null || trailers.length === 0 ? undefined : decodeRawHeaders(trailers as Buffer[]));
    } finally {
      parsing--;
    }
  }

  onError(error: unknown): void {
    const status = this.#status;
    const call = this.#release(({ phase }) => error === STOPPED && phase === 'connecting');
    // A 304 has the length of the body that a 200 would have had (RFC 9110 §8.6); undici misses that body and gives the
    // connection up.
    if (status === 304 && codeOf(error) === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') call?.ended();
    // TLS 1.3 refuses a client without a certificate only when the handshake is over, by an alert before the end.
    else if (call !== undefined) {
      const fault = call.phase === 'sent' && codeOf(error) === 'UND_ERR_SOCKET' ? (this.#fault ?? error) : error;
      call.broke(undiciError(call.request.authority, call.phase, fault));
    }
  }

  /** undici is through with the call. */
  #release(isReusable: (call: CallInLane) => boolean): CallInLane | undefined {
    const { call } = this;
    this.call = undefined;
    if (call !== undefined) this.#owner.free(this, isReusable(call));
    return call;
  }

  #watch(socket: Socket): Socket {
    this.#socket = socket;
    this.#fault = undefined;
    socket.once('error', (error) => {
      this.#fault = error;
    });
    return socket;
  }

  #resumeNow(): void {
    if (this.call !== undefined && !this.call.done) this.#resumeUpstream?.();
  }

  #dispatchOptions({ request, stream, held }: CallInLane): Dispatcher.DispatchOptions {
    const { parent } = this.#options;
    const { bodyLength } = request;
    // Named here, so that a Host that slipped into `headers` is a duplicate, which undici refuses.
    const headers = ['Host', hostHeader(request), ...request.headers];
    if (stream !== undefined && bodyLength !== undefined) headers.push('Content-Length', String(bodyLength));
    if (parent?.authorization !== undefined) headers.push('Proxy-Authorization', parent.authorization);
    return {
      path: targetOf(request, parent),
      method: request.method,
      headers,
      // undici reads any async iterable; its types know only streams and bytes.
      body: (stream ?? held ?? null) as Exclude<Dispatcher.DispatchOptions['body'], undefined>,
      blocking: false,
    };
  }
}
