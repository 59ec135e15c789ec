import type { Socket } from 'node:net';
import { Client } from 'undici';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { bracketHost, formatAuthority } from '../../base/lib/host.ts';
import type { Authority } from '../../base/model/arrival.ts';
import type { Call, CallLane } from './call.ts';
import { STOPPED } from './request-body.ts';
import { timeoutError } from './upstream-error.ts';

export interface OriginOptions {
  readonly authority: Authority;
  readonly tls: boolean;
  /** Connections at most; further calls wait for one. */
  readonly maxConnections: number;
  /** Makes a connection, TLS included; rejects with a GatewayError. */
  readonly connect: () => Promise<Socket>;
}

export interface SilenceLimits {
  /** Ticks without a sign of life after which a call fails, before its head and inside its body. */
  readonly headersTicks: number;
  readonly idleTicks: number;
  readonly waitTicks: number;
}

/** Calls that may wait for one of an origin's connections. */
const MAX_WAITING = 1_024;
/** Idle connections are closed after that long; the upstream's `Keep-Alive: timeout=` comes first, less a margin for what is under way. */
const KEEP_ALIVE_MS = 30_000;
const KEEP_ALIVE_MAX_MS = 60_000;
const KEEP_ALIVE_MARGIN_MS = 1_000;
/** Of an answer's head. */
const MAX_HEADER_BYTES = 65_536;

/**
 * The connections to one scheme, host and port. One undici Client is one connection here ("lane"), without pipelining, interceptors, redirects and retries.
 * undici's Pool is not used: it scans all its clients for each call, and a call that is aborted through undici makes it dial a connection that nobody
 * asked for.
 */
export class Origin {
  readonly #options: OriginOptions;
  readonly #url: URL;
  readonly #lanes = new Set<Lane>();
  /** The one used last is taken first, so that surplus connections fall idle and are closed. */
  readonly #idle: Lane[] = [];
  readonly #waiting = new Set<Call>();

  constructor(options: OriginOptions) {
    this.#options = options;
    this.#url = new URL(`${options.tls ? 'https' : 'http'}://${bracketHost(options.authority.host)}:${options.authority.port}`);
  }

  /** True while a call is under way. */
  get isBusy(): boolean {
    return this.#idle.length < this.#lanes.size || this.#waiting.size > 0;
  }

  /** Hands the call to a connection. Its events come later, never before this returns. */
  start(call: Call): void {
    const lane = this.#idle.pop() ?? this.#open();
    if (lane !== undefined) {
      lane.run(call);
      return;
    }
    if (this.#waiting.size < MAX_WAITING) {
      this.#waiting.add(call);
      return;
    }
    call.starting = true;
    call.fail(
      new GatewayError('overloaded', `Too many calls to ${formatAuthority(this.#options.authority)} are waiting for a connection.`),
    );
    call.starting = false;
  }

  /** Fails the calls that have been silent for too long. `limits` in ticks of the counter that the calls know, `texts` complete "host:port …". */
  failSilent(tick: number, limits: SilenceLimits, texts: { readonly headers: string; readonly idle: string }): void {
    const { authority } = this.#options;
    for (const { call } of this.#lanes) {
      if (call === undefined || call.paused) continue;
      const answering = call.phase === 'answering';
      if (tick - call.seenAt <= (answering ? limits.idleTicks : limits.headersTicks)) continue;
      call.fail(timeoutError(authority, answering ? texts.idle : texts.headers));
    }
    this.#failWaiting(tick, limits.waitTicks);
  }

  #failWaiting(tick: number, waitTicks: number): void {
    for (const call of this.#waiting) {
      if (!call.done && tick - call.seenAt <= waitTicks) continue;
      this.#waiting.delete(call);
      call.fail(timeoutError(this.#options.authority, 'has no free connection: too many calls are under way'));
    }
  }

  /** Fails what is under way with `error` and closes every connection. */
  async close(error: GatewayError): Promise<void> {
    for (const call of this.#waiting) call.fail(error);
    this.#waiting.clear();
    const lanes = [...this.#lanes];
    for (const { call } of lanes) call?.fail(error);
    this.#idle.length = 0;
    this.#lanes.clear();
    await Promise.all(lanes.map((lane) => lane.client.destroy()));
  }

  /** Called by a lane whose call is over. */
  free(lane: Lane, reusable: boolean): void {
    if (!this.#lanes.has(lane)) return;
    if (!reusable) this.#drop(lane);
    const next = this.#nextWaiting();
    if (next !== undefined) (reusable ? lane : this.#open())?.run(next);
    else if (reusable) this.#idle.push(lane);
  }

  /** Called by a lane whose connection is gone. A call that it has meanwhile been given makes it connect again. */
  disconnected(lane: Lane): void {
    if (lane.call !== undefined) return;
    const at = this.#idle.lastIndexOf(lane);
    if (at === -1) return;
    this.#idle.splice(at, 1);
    this.#drop(lane);
  }

  #open(): Lane | undefined {
    if (this.#lanes.size >= this.#options.maxConnections) return undefined;
    const lane = new Lane(this, this.#url, this.#options.connect);
    this.#lanes.add(lane);
    return lane;
  }

  #drop(lane: Lane): void {
    this.#lanes.delete(lane);
    // We are inside of a callback of this client.
    queueMicrotask(() => void lane.client.destroy());
  }

  #nextWaiting(): Call | undefined {
    for (const call of this.#waiting) {
      this.#waiting.delete(call);
      if (!call.done) return call;
    }
    return undefined;
  }
}

/** One connection and the call that it serves. */
class Lane implements CallLane {
  readonly client: Client;
  call: Call | undefined;
  fault: Error | undefined;

  readonly #origin: Origin;
  #socket: Socket | undefined;

  constructor(origin: Origin, url: URL, connect: () => Promise<Socket>) {
    this.#origin = origin;
    this.client = new Client(url, {
      connect: (_options, callback) => {
        connect().then(
          (socket) => {
            this.#socket = socket;
            this.fault = undefined;
            socket.once('error', (error) => {
              this.fault = error;
            });
            callback(null, socket);
          },
          (error: unknown) => callback(error as Error, null),
        );
      },
      pipelining: 1,
      // Silence is watched by ourselves: without a timer per call, and by the injected clock.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MAX_MS,
      keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
    });
    this.client.on('disconnect', () => {
      this.#socket = undefined;
      origin.disconnected(this);
    });
  }

  run(call: Call): void {
    this.call = call;
    call.lane = this;
    call.starting = true;
    this.client.dispatch(call.options, call);
    call.starting = false;
  }

  released(call: Call, reusable: boolean): void {
    if (this.call !== call) return;
    this.call = undefined;
    this.#origin.free(this, reusable);
  }

  breakConnection(): void {
    this.#socket?.destroy(STOPPED);
  }
}
