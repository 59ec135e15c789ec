import { streamFraming } from '../../base/catalogue/stream-types.ts';
import type { Dialect } from '../../base/catalogue/types.ts';
import { ELEMENT, type JsonPicker } from '../../base/json/json-picker.ts';
import type { Usage } from '../../base/model/usage.ts';
import { latin1 } from './answer-reader.ts';
import { AwsEventTap } from './aws-event-tap.ts';
import { EventReader, type StreamTap } from './event-reader.ts';
import { LineTap } from './line-tap.ts';
import { endsHere, type StreamWatch } from './seen-usage.ts';
import type { ResponseState } from './stream-finish.ts';

/**
 * A tap for one streamed answer. Without a dialect, or with one that does not stream, nothing is read from the bytes:
 * there is no terminal event, and the outcome is `complete` when the body ended.
 * @param contentType of the answer, as received
 * @param watch follows what the stream says and may end it
 * @param state is told which response the stream is of, and whether it has ended
 */
export function createStreamTap(
  dialect: Dialect | undefined,
  contentType: string | undefined,
  watch?: StreamWatch,
  state?: ResponseState,
): StreamTap {
  const rule = dialect?.streaming;
  if (dialect === undefined || rule === undefined) return new OpaqueTap();
  const framing = streamFraming(rule, contentType);
  const events = new EventReader(dialect, rule, watch?.seen, state);
  if (framing === 'aws_event_stream') return new AwsEventTap(events, rule.payloadPath, watch);
  return framing === 'json_array' ? new ArrayTap(events, watch) : new LineTap(events, framing, watch);
}

class OpaqueTap implements StreamTap {
  readonly usage = undefined;
  readonly model = undefined;
  readonly stopsAt = -1;
  #ended = false;

  get outcome(): 'open' | 'complete' {
    return this.#ended ? 'complete' : 'open';
  }

  push(): number {
    return -1;
  }

  end(): void {
    this.#ended = true;
  }
}

/**
 * Taps a stream that is one JSON array of chunks, as Gemini sends it without `alt=sse`. The bracket that closes the
 * array is its terminal event. An error may come as an array with one element or as a bare object.
 */
class ArrayTap implements StreamTap {
  readonly #events: EventReader;
  /** Chosen by the first byte that is no white space. */
  #picker: JsonPicker | undefined;
  readonly #watch: StreamWatch | undefined;
  #isList = false;
  #closed = false;
  #ended = false;
  stopsAt = -1;

  constructor(events: EventReader, watch: StreamWatch | undefined) {
    this.#events = events;
    this.#watch = watch;
  }

  get outcome(): 'open' | 'complete' | 'error' {
    if (this.#events.failed) return 'error';
    return this.#closed || (this.#ended && this.#lacksNothing) ? 'complete' : 'open';
  }

  /** All but the bracket at its end. */
  get #lacksNothing(): boolean {
    return this.#isList && this.#events.finished && this.#picker?.depth === 1;
  }

  get usage(): Usage | undefined {
    return this.#events.usage;
  }

  get model(): string | undefined {
    return this.#events.model;
  }

  push(chunk: Uint8Array): number {
    if (this.#closed) return 0;
    const text = latin1(chunk);
    if (this.#picker === undefined) {
      const first = /[^\s]/.exec(text)?.[0];
      if (first === undefined) return -1;
      this.#isList = first === '[';
      this.#picker = this.#isList ? this.#events.picker([ELEMENT]) : this.#events.picker();
      const watch = this.#watch;
      if (watch) this.#picker.onElement = () => this.#mayGoOn(watch);
    }
    this.#picker.push(text);
    this.stopsAt = this.#picker.stoppedAt;
    this.#closed = this.#picker.closedAt !== -1;
    return this.#picker.closedAt;
  }

  end(): void {
    this.#ended = true;
  }

  #mayGoOn(watch: StreamWatch): boolean {
    watch.seen.report(this.#events.usage);
    return !endsHere(watch);
  }
}
