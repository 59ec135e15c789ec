import { type BodyKind, streamFraming } from '../../base/catalogue/stream-types.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ReplySink } from '../../base/model/arrival.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { type AnswerHead, governedHeaders, headOfKind, readAnswerHead } from '../../inbound/reply/answer-head.ts';
import { filterResponseHeaders, filterResponseTrailers } from '../../outbound/net/header-filter.ts';
import type { UpstreamEvents, UpstreamHandle } from '../../outbound/net/upstream.ts';
import { CALLS_STOPPED } from '../../services/review/running-calls.ts';
import { AnswerTimes } from '../parts/answer-times.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { CapReached } from '../parts/cap-reached.ts';
import type { Delivered } from '../parts/delivered.ts';
import type { ForwardedCall } from '../parts/parts.ts';
import { isCut } from '../parts/refusal.ts';
import { type AnswerMeter, createAnswerMeter } from './answer-meter.ts';
import { type BodyDoubt, doubtOf } from './body-doubt.ts';
import { ClientBytes, HeldBytes } from './client-bytes.ts';
import { type FollowedStream, followStream } from './followed-stream.ts';
import { intendAnswer } from './intent.ts';
import { cutEvent, markOf, passesAtOnce, sendHeld, stopEvent } from './send.ts';

const CR = 0x0d;
const LF = Buffer.from('\n');
const NO_EVENTS: readonly Uint8Array[] = [];

/**
 * Carries one upstream answer to the client: small ones whole, streams as they come. What an application acts on (the
 * terminal event, the end of the body) is kept back until `release`, which the runner calls when the record is stored.
 */
export class Delivery implements UpstreamEvents, Delivered {
  readonly #call: ForwardedCall;
  readonly #pipeline: Pipeline;
  readonly #reply: ReplySink;
  readonly times: AnswerTimes;
  #handle: UpstreamHandle | undefined;
  #resume: () => void = () => undefined;
  #head: AnswerHead | undefined;
  /** Set for a stream of which is known what it costs while it runs. */
  #followed: FollowedStream | undefined;
  #streaming = false;
  /** Set until the first bytes have said what the answer is. */
  #doubt: BodyDoubt | undefined;
  /** The upstream's h2 head ended the answer. */
  #empty = false;
  /** With which the upstream reset the stream. */
  #h2Code: number | undefined;
  #finished = false;
  readonly #bytes: ClientBytes;
  readonly #opening = new Opening();
  #trailers: readonly string[] = [];
  #end: StreamEnd | undefined;
  #decoding: Promise<void> | undefined;
  #settle: (nothing: undefined) => void = () => undefined;
  /** Resolves, never rejects, when nothing more will come from upstream. */
  readonly over: Promise<undefined>;

  /** The upstream's status. */
  status: number | undefined;
  meter: AnswerMeter | undefined;
  responseSha256: string | undefined;
  headLatencyMs: number | undefined;
  failure: GatewayError | undefined;
  clientGone = false;
  bodyWaits: boolean | undefined;
  stopped: CapReached | undefined;

  constructor(call: ForwardedCall, pipeline: Pipeline, reply: ReplySink) {
    this.#call = call;
    this.#pipeline = pipeline;
    this.#reply = reply;
    const held = new HeldBytes(pipeline.settings.maxBodyBytes, () => pipeline.buffers.hold(call.client));
    this.#bytes = new ClientBytes(reply, held, call.copy, (fits) => this.#tailCame(fits));
    this.times = new AnswerTimes(pipeline.clock, call.arrival.trace?.own?.sampled === true);
    this.over = new Promise((resolve) => {
      this.#settle = resolve;
    });
    reply.onGone(() => this.#clientLeft());
  }

  get answer(): AnswerHead | undefined {
    return this.#head;
  }

  get responseBytes(): number {
    return this.#bytes.count;
  }

  get streamOutcome(): ExecutionRecord['stream_outcome'] {
    const answeredAsStream = this.#head ? this.#head.eventStream : this.#call.route.stream;
    if (!answeredAsStream) return undefined;
    if (this.clientGone) return 'aborted';
    if (this.failure) return isCut(this.failure) ? 'aborted' : 'error';
    if (this.stopped) return 'aborted';
    const seen = this.meter?.outcome ?? 'open';
    return seen === 'open' ? 'aborted' : seen;
  }

  /** Gives the handle that stops the call. */
  attach(handle: UpstreamHandle): void {
    this.#handle = handle;
    if (this.clientGone && !this.#outlivesClient()) handle.abort();
  }

  onInfo(status: number, rawHeaders: readonly string[]): void {
    if (this.#call.arrival.line === 'proxied' && !this.#reply.headSent) this.#reply.info(status, filterResponseHeaders(rawHeaders).headers);
  }

  onHead(status: number, rawHeaders: readonly string[], resume: () => void, empty = false): void {
    if (this.#finished) return;
    this.#resume = resume;
    this.headLatencyMs = this.#pipeline.clock.monotonic() - this.times.sentAt;
    const { method, stream, operation } = this.#call.route;
    const head = readAnswerHead(status, rawHeaders, method, stream && operation?.dialect?.streaming?.orJsonArray === true);
    this.#empty = empty;
    this.#takeHead(head);
    if (empty) return;
    this.#doubt = doubtOf(this.#call, head);
    // An answer of the structured API that turns out to be no stream belongs into an envelope (decision 7.8).
    if (this.#doubt === undefined || (head.eventStream && this.#call.arrival.line !== 'direct')) this.#openIfPassing(head);
  }

  #takeHead(head: AnswerHead): void {
    this.#head = head;
    this.status = head.status;
    this.#followed = head.eventStream ? followStream(this.#call, this.#pipeline) : undefined;
    this.meter = createAnswerMeter(this.#call, head, this.#followed);
  }

  #openIfPassing(head: AnswerHead): void {
    if (head.eventStream || passesAtOnce(this.#call, head)) this.#open();
  }

  onData(chunk: Uint8Array): boolean {
    if (this.#finished) return true;
    this.times.firstAt ??= this.#pipeline.clock.monotonic();
    if (this.#opening.isWaiting) return this.#opening.later(() => this.onData(chunk));
    if (this.#doubt) return this.#ask(chunk, this.#doubt);
    const { meter } = this;
    const isPlain = this.#streaming && meter !== undefined && !meter.asynchronous;
    const more = isPlain ? this.#forwardMetered(chunk, meter) : this.#take(chunk, meter);
    if (this.clientGone && !this.#outlivesClient()) this.#endCall();
    return more;
  }

  /** What is held, or streams and cannot be looked at as it passes. */
  #take(chunk: Uint8Array, meter: AnswerMeter | undefined): boolean {
    this.#bytes.note(chunk);
    if (!this.#streaming) return this.#hold(chunk);
    if (!meter) return this.#bytes.pass(chunk, -1);
    // So that a terminal event is not sent too early.
    return this.#decode(chunk, meter, (terminalAt) => {
      if (meter.stopsAt !== -1) this.#stop();
      else if (this.#bytes.pass(chunk, terminalAt)) this.#resume();
    });
  }

  /** Asks the first bytes what they are, encoded ones beside the event loop. */
  #ask(chunk: Uint8Array, doubt: BodyDoubt): boolean {
    if (!doubt.isEncoded) return this.#answered(doubt, doubt.push(chunk));
    const asked = doubt.pushEncoded(chunk);
    this.#opening.wait(asked, {
      on: (replay, kind) => {
        const more = this.#answered(doubt, kind);
        if (replay() && more) this.#resume();
      },
      failed: (error) => this.#fail(error),
    });
    return false;
  }

  /** Goes on as if the head had said what the answer is. @returns as `onData` */
  #answered(doubt: BodyDoubt, kind: BodyKind | undefined): boolean {
    const head = this.#head;
    if (kind === undefined || head === undefined || this.#finished) return true;
    this.#doubt = undefined;
    const known = headOfKind(head, kind, this.#call.arrival.line === 'direct');
    if (known !== head) this.#takeHead(known);
    if (!this.#streaming) this.#openIfPassing(known);
    else if (!known.eventStream) this.#bytes.holdBody();
    const bytes = doubt.take();
    return bytes.length === 0 || this.onData(bytes);
  }

  onEnd(trailers: readonly string[]): void {
    if (this.#doubt && !this.#opening.isWaiting) this.#answered(this.#doubt, this.#doubt.end());
    if (this.#opening.isWaiting) {
      this.#opening.later(() => this.onEnd(trailers));
      return;
    }
    this.#trailers = filterResponseTrailers(trailers);
    if (this.#decoding) void this.#decoding.then(() => this.#finish());
    else this.#finish();
  }

  onError(error: GatewayError, h2Code?: number): void {
    if (this.#finished) return;
    if (this.#opening.isWaiting) {
      this.#opening.later(() => this.onError(error, h2Code));
      return;
    }
    this.#h2Code = h2Code;
    // What breaks after the terminal event takes nothing from the client.
    if (!(this.#streaming && this.meter?.outcome === 'complete')) this.failure = error;
    this.#finish();
  }

  release(record: ExecutionRecord): void {
    const { held } = this.#bytes;
    held.giveBack();
    if (this.clientGone) return;
    const head = this.#head;
    // An encoding has no place for one more event: such a stream is broken off, so that nobody takes it for complete.
    if (this.failure) this.#endBroken(this.failure, record);
    else if (this.stopped && head?.contentEncoding !== undefined) this.#reply.reset(this.#h2Code);
    else if (this.stopped && head) this.#bytes.finish([], stopEvent(this.#call, record, head.mediaType, this.stopped));
    else if (this.#streaming) this.#bytes.finish(this.#trailers);
    else if (head) {
      const answer = { head, body: held.whole, trailers: this.#trailers, empty: this.#empty };
      sendHeld(this.#call, this.#reply, record, answer);
    }
  }

  /**
   * Ends an answer that was broken off as one that nobody takes for complete. Where people have stopped it, and it is a
   * stream whose last event is whole, the client is told why.
   */
  #endBroken(failure: GatewayError, record: ExecutionRecord): void {
    const told = failure.code === CALLS_STOPPED ? this.#toldCut(failure, record) : NO_EVENTS;
    if (told.length === 0) this.#reply.reset(this.#h2Code);
    else this.#bytes.finish([], told);
  }

  #toldCut(failure: GatewayError, record: ExecutionRecord): readonly Uint8Array[] {
    const head = this.#head;
    const rule = this.#call.route.operation?.dialect?.streaming;
    if (!this.#streaming || head === undefined || rule === undefined || head.contentEncoding !== undefined) return NO_EVENTS;
    if (!this.#bytes.endsWithEvent(streamFraming(rule, head.mediaType))) return NO_EVENTS;
    return cutEvent(this.#call, record, head.mediaType, failure);
  }

  /** Ends the call before its time. */
  cut(error: GatewayError): void {
    if (!this.#finished) this.#fail(error);
  }

  abandon(): void {
    this.#bytes.held.giveBack();
    this.#endCall();
  }

  get started(): boolean {
    return this.#streaming;
  }

  /**
   * Begins to send the answer, when it is certain that the id in its head leads to a record (decision 6.8).
   * @returns as `onData`
   */
  #open(): boolean {
    const intent = intendAnswer(this.#call, this.#pipeline.settings);
    if (intent === undefined) return this.#sendBegun();
    this.#opening.wait(intent, {
      on: (replay) => {
        const more = this.#sendBegun();
        if (replay() && more) this.#resume();
      },
      failed: (error) => this.#fail(error),
    });
    return false;
  }

  #sendBegun(): boolean {
    if (this.#finished || !this.#startStreaming()) return true;
    return this.#bytes.writeFirst();
  }

  /** The call ends, as 502 with a record (decision 3.22), or as what the store says. */
  #fail(cause: unknown): void {
    this.#handle?.abort();
    this.onError(cause instanceof GatewayError ? cause : this.#fault(cause));
  }

  /** A fault of ours, which ends this call alone. */
  #fault(cause: unknown): GatewayError {
    this.#pipeline.log.error({ err: cause }, 'handling an answer failed unexpectedly');
    return new GatewayError('internal', 'The gateway failed to handle this answer; its log has the details.', { cause });
  }

  /** @returns false when the head cannot be written: the call ends then, and whoever reads the upstream goes on */
  #startStreaming(): boolean {
    const head = this.#head;
    if (!head) return false;
    const headers = governedHeaders(markOf(this.#call, undefined), head.headers);
    try {
      this.#reply.head(head.status, headers, head.eventStream ? undefined : head.contentLength);
    } catch (error) {
      this.#fail(error);
      return false;
    }
    this.#streaming = true;
    this.#reply.onDrain(() => this.#resume());
    this.#bytes.begin(this.#call.hidesUsage && head.eventStream && this.meter?.asynchronous === false);
    return true;
  }

  #hold(chunk: Uint8Array): boolean {
    const meter = this.meter;
    if (!meter?.asynchronous) {
      meter?.push(chunk);
      return this.#keep(chunk);
    }
    const more = this.#keep(chunk);
    return this.#decode(chunk, meter, () => {
      if (more) this.#resume();
    });
  }

  /**
   * Keeps a part of an answer that is no stream; of a larger one only where the structured API's envelope needs the
   * whole body.
   */
  #keep(chunk: Uint8Array): boolean {
    const { held } = this.#bytes;
    if (this.#call.arrival.line === 'direct') {
      if (!held.pushCounted(chunk))
        this.#fail(
          new GatewayError(
            'upstream_protocol',
            'The upstream answer is too large for an envelope; ask for a stream or use a proxied door.',
          ),
        );
      return true;
    }
    held.push(chunk);
    return held.isLarge ? this.#open() : true;
  }

  #forwardMetered(chunk: Uint8Array, meter: AnswerMeter): boolean {
    const terminalAt = meter.push(chunk);
    const { stopsAt } = meter;
    const passed = stopsAt === -1 ? chunk : chunk.subarray(0, stopsAt);
    const more = this.#bytes.carry(passed, terminalAt);
    if (stopsAt !== -1) {
      // Its LF did not come any more.
      if (passed.at(-1) === CR) this.#bytes.held.push(LF);
      this.#stop();
    }
    return more;
  }

  /**
   * The stream would pass its cap: nothing more is taken from upstream, and the client is told when the record is
   * stored.
   */
  #stop(): void {
    this.stopped = this.#followed?.reached;
    this.#endCall();
  }

  /** A piece of what is held from the terminal event on. */
  #tailCame(fits: boolean): void {
    this.#end ??= new StreamEnd(this.#pipeline.clock, () => this.#endCall());
    if (fits) this.#end.came(this.meter?.outcome !== 'open');
    else this.#fail(new GatewayError('upstream_protocol', 'The upstream sent more than can be kept of the end of its stream.'));
  }

  /**
   * Bytes of an encoded answer are looked at beside the event loop, in their order; the next ones are not asked for
   * before that.
   */
  #decode(chunk: Uint8Array, meter: AnswerMeter, then: (terminalAt: number) => void): false {
    this.#decoding = this.#decodeBehind(this.#decoding, chunk, meter, then);
    return false;
  }

  async #decodeBehind(before: unknown, chunk: Uint8Array, meter: AnswerMeter, then: (terminalAt: number) => void): Promise<void> {
    await before;
    try {
      const terminalAt = await meter.pushEncoded(chunk);
      if (!this.#finished) then(terminalAt);
    } catch (error) {
      this.#fail(error);
    }
  }

  #clientLeft(): void {
    if (this.#finished) return;
    this.clientGone = true;
    if (this.#outlivesClient()) this.#resume();
    else this.#endCall();
  }

  #endCall(): void {
    this.#handle?.abort();
    this.#finish();
  }

  /**
   * A response that is made after its answer goes on without its client. What it costs could never be known without its
   * name, so that is waited for.
   */
  #outlivesClient(): boolean {
    if (this.#head && (this.#head.status >= 300 || this.meter?.state?.id !== undefined)) return false;
    return this.#call.deferring;
  }

  #finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.times.end();
    this.#end?.cancel();
    try {
      this.#close();
    } catch (error) {
      this.failure ??= this.#fault(error);
    }
    this.#settle(undefined);
  }

  #close(): void {
    // What broke off before anybody could say what it is, is what its head calls it.
    const unknown = this.#doubt?.take();
    if (unknown) this.#bytes.keep(unknown);
    if (unknown && this.meter?.asynchronous === false) this.meter.push(unknown);
    // Also of an answer that broke off: what it reported until then was used.
    this.meter?.end();
    this.#bytes.end();
    if (this.#head) this.responseSha256 = this.#bytes.sha256;
  }
}

/**
 * Keeps what an upstream says while something is waited for without which nothing of its answer may leave, and says it
 * again in its order.
 */
class Opening {
  #said: (() => unknown)[] | undefined;

  /** True: what is said now is for {@link later}. */
  isWaiting = false;

  /** @returns the answer of `onData` to an upstream that is to wait */
  later(event: () => unknown): false {
    this.#said?.push(event);
    return false;
  }

  /** @param go on either way; `replay` says what came meanwhile, and whether more is wanted by now */
  wait<T>(
    pending: Promise<T>,
    go: { readonly on: (replay: () => boolean, what: T) => void; readonly failed: (error: unknown) => void },
  ): void {
    const said: (() => unknown)[] = [];
    this.#said = said;
    this.isWaiting = true;
    const replay = () => said.reduce<boolean>((_, event) => event() !== false, true);
    const opened = pending.then((what) => {
      this.#said = undefined;
      this.isWaiting = false;
      go.on(replay, what);
    });
    // What is thrown while it is said again included: nobody else would hear of it.
    opened.catch((error: unknown) => {
      this.#said = undefined;
      this.isWaiting = false;
      go.failed(error);
    });
  }
}

/**
 * How long a stream's end is waited for after its terminal event (decision 7.9), and how long that may be silent once
 * it has begun.
 */
const END_GRACE_MS = 250;

/**
 * Waits for the end of a stream whose terminal event has begun. That may be long, and its way slow: the time runs from
 * its last byte.
 */
export class StreamEnd {
  readonly #clock: Clock;
  readonly #onOver: () => void;
  #isWhole = false;
  #cancel: (() => void) | undefined;

  /** @param onOver the end did not come in time */
  constructor(clock: Clock, onOver: () => void) {
    this.#clock = clock;
    this.#onOver = onOver;
  }

  /** Bytes came. @param isWhole the terminal event is here to its end */
  came(isWhole: boolean): void {
    if (this.#isWhole) return;
    this.#isWhole = isWhole;
    this.#cancel?.();
    this.#cancel = this.#clock.after(END_GRACE_MS, this.#onOver);
  }

  cancel(): void {
    this.#cancel?.();
  }
}
