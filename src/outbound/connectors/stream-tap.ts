import type { Usage } from '../../base/model/usage.ts';

/** Watches the decoded bytes of one streamed answer go by; never changes them. Never throws on any input. */
export interface StreamTap {
  /**
   * Feeds bytes. Returns the offset in `chunk` from which bytes belong to the dialect's terminal event (`[DONE]`, `message_stop`, …) or lie behind it,
   * or -1 while it has not begun in this or an earlier chunk. Once it returned an offset, later calls return 0.
   */
  push(chunk: Uint8Array): number;
  /** The upstream's body ended. */
  end(): void;
  /** Complete: a terminal event was seen, or the dialect has none and the body ended cleanly. Error: an error object was in the stream. */
  readonly outcome: 'open' | 'complete' | 'error';
  /** Usage so far; undefined when the provider gave none. */
  readonly usage: Usage | undefined;
  /** The model that the answer names. */
  readonly model: string | undefined;
  /** Offset in the last chunk behind the event at which the stream is to end (see StreamWatch); -1 while it may go on. Nothing behind it is read. */
  readonly stopsAt: number;
}
