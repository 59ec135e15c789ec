import type { Socket } from 'node:net';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { type ParentProxy, parentRefusal } from './parent-proxy.ts';
import { OutgoingBody } from './request-body.ts';
import type { UpstreamCall, UpstreamEvents, UpstreamHandle } from './upstream.ts';
import { answerError, type CallPhase, callError, ENDLESS_INTERIM, MAX_INTERIM, MAX_STATUS, NO_STATUS } from './upstream-error.ts';

/** One connection to an origin, which serves one call at a time. */
export interface Lane extends CallLane {
  /** The call that it serves. */
  readonly call: CallInLane | undefined;
  /** Monotonic milliseconds from which on it may not be given a call; undefined: the lane itself sees to that. */
  readonly expiresAt: number | undefined;
  /**
   * Serves `call`: connects where that is needed, sends once, and tells the call. Nothing is told before this returns.
   */
  run(call: CallInLane): void;
  /** Closes the connection and tells nobody. */
  close(): Promise<void>;
}

/** What a lane tells its origin. */
export interface LaneOwner {
  /** The lane's call is over; `reusable`: its connection is whole. */
  free(lane: Lane, reusable: boolean): void;
  /** The lane's connection is gone. */
  disconnected(lane: Lane): void;
}

/** What every lane of one origin is made with. */
export interface LaneOptions {
  readonly authority: Authority;
  readonly tls: boolean;
  /** Takes the requests in absolute form. */
  readonly parent: ParentProxy | undefined;
  /** Makes a connection, TLS included; rejects with a GatewayError. */
  readonly connect: () => Promise<Socket>;
}

/** Makes a lane that has no connection yet. */
export type OpenLane = (owner: LaneOwner, options: LaneOptions) => Lane;

/**
 * Idle connections are closed after that long; the upstream's `Keep-Alive: timeout=` comes first, less a margin for
 * what is under way.
 */
export const KEEP_ALIVE_MS = 30_000;
export const KEEP_ALIVE_MAX_MS = 60_000;
export const KEEP_ALIVE_MARGIN_MS = 1_000;
/** Of an answer's head. */
export const MAX_HEADER_BYTES = 65_536;

/** Counts up slowly; a call remembers the count at each sign of life. */
export interface SlowCounter {
  readonly tick: number;
}

/** The connection that serves a call, as the call knows it. */
export interface CallLane {
  /** The call that was sent has ended from our side: its connection must go. */
  breakConnection(): void;
  /** The caller takes data again. */
  resume(): void;
}

const NO_TRAILERS: readonly string[] = [];

/** One call: what its caller and the connection that serves it know of each other. */
export class CallInLane implements UpstreamHandle {
  /** Without its body, which a stream of an hour would hold otherwise. */
  readonly request: UpstreamCall;
  readonly stream: OutgoingBody | undefined;
  /** A body that is held, until it has left. */
  held: Uint8Array | undefined;
  /** Tick of the last sign of life. */
  seenAt: number;
  /** The connection that serves this call, once it has been given one. */
  lane: CallLane | undefined;
  /** Set while the call is handed over: its caller has no handle yet, so an error waits for the end of the turn. */
  starting = false;

  readonly #events: UpstreamEvents;
  readonly #counter: SlowCounter;
  readonly #parent: ParentProxy | undefined;
  phase: CallPhase = 'connecting';
  done = false;
  /** True while the client side holds back: silence is then not the upstream's. */
  paused = false;
  #resumedEarly = false;
  #interims = 0;

  /**
   * @param parent the proxy that takes this plain HTTP request in absolute form; undefined: the connection leads to the
   * origin itself
   */
  constructor(request: UpstreamCall, events: UpstreamEvents, counter: SlowCounter, parent: ParentProxy | undefined) {
    this.request = request.body === undefined ? request : { ...request, body: undefined };
    this.#parent = parent;
    this.#events = events;
    this.#counter = counter;
    this.seenAt = counter.tick;
    const { body, bodyLength } = request;
    this.held = body instanceof Uint8Array && body.length > 0 ? body : undefined;
    this.stream = body === undefined || body instanceof Uint8Array || bodyLength === 0 ? undefined : new OutgoingBody(body);
  }

  /** The connection has taken all of the held body. */
  bodyLeft(): void {
    if (this.held === undefined) return;
    this.held = undefined;
    this.request.onBodyGone?.();
  }

  abort(): void {
    if (this.done) return;
    this.#stop();
  }

  /** Ends the call from our side and tells its caller why. */
  fail(error: GatewayError): void {
    if (this.done) return;
    this.#stop();
    this.#tell(error);
  }

  /** The request is being written. */
  sent(): void {
    this.phase = 'sent';
    this.seenAt = this.#counter.tick;
  }

  /** A part of the body has left. */
  moved(): void {
    this.seenAt = this.#counter.tick;
  }

  informed(status: number, rawHeaders: readonly string[]): void {
    if (this.done) return;
    this.seenAt = this.#counter.tick;
    if (++this.#interims > MAX_INTERIM) this.fail(answerError(this.request.authority, ENDLESS_INTERIM));
    else this.#events.onInfo?.(status, rawHeaders);
  }

  headed(status: number, rawHeaders: readonly string[]): void {
    if (this.done) return;
    this.seenAt = this.#counter.tick;
    // No origin speaks of itself as a proxy: this is the parent's refusal.
    if (status === 407 && this.#parent !== undefined) {
      this.fail(parentRefusal(this.request.authority, status));
      return;
    }
    if (status > MAX_STATUS) {
      this.fail(answerError(this.request.authority, NO_STATUS));
      return;
    }
    this.phase = 'answering';
    this.#events.onHead(status, rawHeaders, () => this.#resume());
  }

  /** @returns false when nothing more may come until {@link CallLane.resume} */
  received(bytes: Uint8Array): boolean {
    if (this.done) return false;
    this.seenAt = this.#counter.tick;
    this.#resumedEarly = false;
    if (this.#events.onData(bytes) || this.#resumedEarly) return true;
    this.paused = true;
    return false;
  }

  ended(trailers: readonly string[] = NO_TRAILERS): void {
    if (this.done) return;
    this.done = true;
    this.stream?.stop();
    this.#events.onEnd(trailers);
  }

  /** The connection or the answer broke. */
  broke(error: unknown): void {
    if (this.done) return;
    this.done = true;
    this.stream?.stop();
    this.#tell(callError(this.request.authority, this.phase, error));
  }

  /** The lane of a call that still waits to be written stays busy until it has taken note. */
  #stop(): void {
    this.done = true;
    this.stream?.stop();
    if (this.phase !== 'connecting') this.lane?.breakConnection();
  }

  #tell(error: GatewayError): void {
    if (this.starting) queueMicrotask(() => this.#events.onError(error));
    else this.#events.onError(error);
  }

  #resume(): void {
    if (!this.paused) {
      this.#resumedEarly = true;
      return;
    }
    this.paused = false;
    this.seenAt = this.#counter.tick;
    if (!this.done) this.lane?.resume();
  }
}

/** What waits for the end of this turn of the event loop. */
export interface Waiting {
  turned(): void;
}

/**
 * Runs things once everything that the event loop has at hand is read: a connection that is used again has told by then
 * whether its upstream has closed it, or sent bytes that nobody asked for. One callback serves all that wait in a turn.
 */
export class NextTurn {
  #waiting: Waiting[] = [];

  add(one: Waiting): void {
    if (this.#waiting.push(one) === 1) setImmediate(this.#run);
  }

  readonly #run = (): void => {
    const due = this.#waiting;
    this.#waiting = [];
    for (const one of due) one.turned();
  };
}
