import { FrameReader, type WebSocketMessage } from '../../base/lib/websocket-frames.ts';
import type { ByteChannel } from '../../base/model/channel.ts';
import type { BufferHold } from '../body/buffer-budget.ts';

export interface SocketLaneOptions {
  readonly from: ByteChannel;
  /** The sender is a client. */
  readonly masked: boolean;
  readonly maxBytes: number;
  /** Counts what is kept of an unfinished message. */
  readonly hold: BufferHold;
  /** Takes one message; while a promise is pending the next ones wait, and so does the sender. */
  onMessage(message: WebSocketMessage): Promise<void> | undefined;
  /** The sender has said all, and all of it has been taken. */
  onEnd(): void;
  /** What came cannot be read or kept. */
  onFault(error: unknown): void;
}

/**
 * One direction of a metered WebSocket: bytes in, whole messages out, one after the other. A message is read when the
 * one before is done with, and when the receiver takes more: what waits here are the bytes of one chunk.
 */
export class SocketLane {
  readonly #options: SocketLaneOptions;
  readonly #reader: FrameReader;
  #busy = false;
  #stopped = false;
  #ended = false;
  /** The receiver of what this lane sends on is full. */
  #blocked = false;

  constructor(options: SocketLaneOptions) {
    this.#options = options;
    this.#reader = new FrameReader(options.masked, options.maxBytes);
  }

  push(chunk: Uint8Array): void {
    if (this.#stopped) return;
    this.#reader.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    this.#drain();
  }

  end(): void {
    this.#ended = true;
    this.#drain();
  }

  /** Holds the sender back until `unblock`. */
  block(): void {
    this.#blocked = true;
    this.#options.from.pause();
  }

  unblock(): void {
    this.#blocked = false;
    this.#drain();
    this.#resume();
  }

  /** Takes nothing more. */
  stop(): void {
    this.#stopped = true;
    this.#options.hold.resize(0);
  }

  #drain(): void {
    try {
      while (this.#takes) {
        const message = this.#reader.next();
        if (message === undefined) break;
        const pending = this.#options.onMessage(message);
        if (pending) this.#wait(pending);
      }
      if (!this.#stopped) this.#options.hold.resize(this.#reader.held);
    } catch (error) {
      this.#options.onFault(error);
    }
    if (!this.#takes || !this.#ended) return;
    this.#stopped = true;
    this.#options.onEnd();
  }

  get #takes(): boolean {
    return !this.#busy && !this.#blocked && !this.#stopped;
  }

  #wait(pending: Promise<void>): void {
    this.#busy = true;
    this.#options.from.pause();
    const next = (): void => {
      this.#busy = false;
      this.#drain();
      this.#resume();
    };
    pending.then(next, (error: unknown) => {
      this.#options.onFault(error);
      next();
    });
  }

  #resume(): void {
    if (this.#takes) this.#options.from.resume();
  }
}
