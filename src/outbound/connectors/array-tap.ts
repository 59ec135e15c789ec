import { ELEMENT, type JsonPicker } from '../../base/json/json-picker.ts';
import type { Usage } from '../../base/model/usage.ts';
import { latin1 } from './answer-reader.ts';
import type { EventReader } from './event-reader.ts';
import { endsHere, type StreamWatch } from './seen-usage.ts';
import type { StreamTap } from './stream-tap.ts';

/**
 * Taps a stream that is one JSON array of chunks, as Gemini sends it without `alt=sse`. The bracket that closes the array is its terminal event. An error
 * may come as an array with one element or as a bare object.
 */
export class ArrayTap implements StreamTap {
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
