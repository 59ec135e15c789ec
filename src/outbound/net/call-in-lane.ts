import type { GatewayError } from '../../base/lib/gateway-error.ts';
import { type ParentProxy, parentRefusal } from './parent-proxy.ts';
import { OutgoingBody } from './request-body.ts';
import type { UpstreamCall, UpstreamEvents, UpstreamHandle } from './upstream.ts';
import { answerError, type CallPhase, callError, ENDLESS_INTERIM, MAX_INTERIM, MAX_STATUS, NO_STATUS } from './upstream-error.ts';

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

  /** @param parent the proxy that takes this plain HTTP request in absolute form; undefined: the connection leads to the origin itself */
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
