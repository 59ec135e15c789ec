import { createDecoder } from '../../base/lib/decoder.ts';
import type { Decoder } from '../../base/lib/decoder-gate.ts';
import type { Usage } from '../../base/model/usage.ts';
import type { AnswerHead } from '../../inbound/reply/answer-head.ts';
import { type AnswerReader, createAnswerReader } from '../../outbound/connectors/answer-reader.ts';
import { createStreamTap } from '../../outbound/connectors/create-stream-tap.ts';
import type { StreamTap } from '../../outbound/connectors/event-reader.ts';
import type { SeenUsage, StreamWatch } from '../../outbound/connectors/seen-usage.ts';
import { ResponseState } from '../../outbound/connectors/stream-finish.ts';
import { usageOfHeaders } from '../../outbound/connectors/usage-reader.ts';
import type { ForwardedCall } from '../parts/parts.ts';
import { tellsOfResponse } from './used.ts';

/** Watches an answer go by, decoded if it must be, and knows in the end what it used. */
export interface AnswerMeter {
  /** True when the answer is encoded in spite of what was asked for: then only `pushEncoded` may be used. */
  readonly asynchronous: boolean;
  /** Offset in the chunk from which bytes belong to the terminal event, -1 before it (see StreamTap). */
  push(chunk: Uint8Array): number;
  /** The same for encoded bytes; the offset is 0 for the chunk in which the terminal event came to light. */
  pushEncoded(chunk: Uint8Array): Promise<number>;
  end(): void;
  readonly outcome: StreamTap['outcome'];
  readonly usage: Usage | undefined;
  readonly model: string | undefined;
  /**
   * Offset in the last chunk behind which the stream is to end (see StreamTap); for encoded bytes anything but -1 says
   * that it is.
   */
  readonly stopsAt: number;
  /** What a followed stream has said so far. */
  readonly seen: SeenUsage | undefined;
  /** The response that the answer tells of, where that may go on behind it. */
  readonly state: ResponseState | undefined;
}

/** An answer that decodes to more is not looked at any further (decision 3.22). */
const MAX_DECODED_BYTES = 64 * 1024 * 1024;

/**
 * The meter for the answer to an `ai.*` call; undefined when there is nothing to meter.
 * @param watch may end a stream
 */
export function createAnswerMeter(call: ForwardedCall, head: AnswerHead, watch?: StreamWatch): AnswerMeter | undefined {
  const { operation, actionType } = call.route;
  const dialect = operation?.dialect;
  const state = dialect?.deferred && tellsOfResponse(call) ? new ResponseState(dialect.deferred) : undefined;
  if (head.bodiless || (actionType === 'http.request' && !head.eventStream && !state)) return undefined;
  const watcher = head.eventStream
    ? createStreamTap(dialect, head.mediaType, watch, state)
    : new WholeAnswer(createAnswerReader(dialect ?? operation?.answerDialect, state), usageOfHeaders(dialect?.usage, head.headers));
  return new Meter(watcher, head.contentEncoding, head.eventStream ? watch?.seen : undefined, state);
}

/** An answer that is no stream, seen as one: it has no terminal event. */
class WholeAnswer implements StreamTap {
  readonly #reader: AnswerReader;
  outcome: StreamTap['outcome'] = 'open';
  usage: Usage | undefined;
  model: string | undefined;
  readonly stopsAt = -1;

  /** @param inHead what the head of the answer tells; the body says more */
  constructor(reader: AnswerReader, inHead: Usage | undefined) {
    this.#reader = reader;
    this.usage = inHead;
  }

  push(chunk: Uint8Array): number {
    this.#reader.push(chunk);
    return -1;
  }

  end(): void {
    const { usage, model, failed } = this.#reader.end();
    this.usage = usage ?? this.usage;
    this.model = model;
    this.outcome = failed ? 'error' : 'complete';
  }
}

class Meter implements AnswerMeter {
  readonly #watcher: StreamTap;
  /** Undefined for identity, and for an encoding that cannot be decoded: such an answer passes unmetered. */
  readonly #decoder: Decoder | undefined;
  readonly #blind: boolean;
  readonly asynchronous: boolean;
  stopsAt = -1;
  #terminal = false;
  /** Thrown where decoded bytes are looked at, beside everything that waits for it. */
  #fault: { readonly error: unknown } | undefined;
  readonly seen: SeenUsage | undefined;
  readonly state: ResponseState | undefined;

  constructor(watcher: StreamTap, contentEncoding: string | undefined, seen: SeenUsage | undefined, state: ResponseState | undefined) {
    this.#watcher = watcher;
    this.seen = seen;
    this.state = state;
    this.#decoder =
      contentEncoding === undefined
        ? undefined
        : createDecoder(contentEncoding, {
            maxBytes: MAX_DECODED_BYTES,
            onData: (plain) => this.#watch(plain),
          });
    this.#blind = contentEncoding !== undefined && this.#decoder === undefined;
    this.asynchronous = this.#decoder !== undefined;
  }

  push(chunk: Uint8Array): number {
    if (this.#blind) return -1;
    const terminalAt = this.#watcher.push(chunk);
    this.stopsAt = this.#watcher.stopsAt;
    return terminalAt;
  }

  async pushEncoded(chunk: Uint8Array): Promise<number> {
    await this.#decoder?.push(chunk);
    if (this.#fault) throw this.#fault.error;
    return this.#terminal ? 0 : -1;
  }

  #watch(plain: Uint8Array): void {
    const watcher = this.#watcher;
    if (watcher.stopsAt !== -1 || this.#fault) return;
    try {
      this.#terminal = watcher.push(plain) >= 0 || this.#terminal;
      this.stopsAt = watcher.stopsAt;
    } catch (error) {
      this.#fault = { error };
    }
  }

  end(): void {
    this.#decoder?.abort();
    this.#watcher.end();
  }

  get outcome(): StreamTap['outcome'] {
    return this.#watcher.outcome;
  }

  get usage(): Usage | undefined {
    return this.#watcher.usage;
  }

  get model(): string | undefined {
    return this.#watcher.model;
  }
}
