import { FrameReader, OPCODE, type WebSocketMessage } from '../../base/lib/websocket-frames.ts';
import type { ByteChannel } from '../../base/model/channel.ts';
import type { BufferHold } from '../body/buffer-budget.ts';

/** Messages that may wait behind one that waits for a person. */
const MOST_KEPT = 16;

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
  /** The message that is under way waits for a person, perhaps for minutes. */
  #isHeld = false;
  /** What came meanwhile. */
  readonly #kept: WebSocketMessage[] = [];
  #keptBytes = 0;
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

  /**
   * The message that is under way waits for a person: until it is done with, control frames go on, so that a client
   * that leaves is seen, and a few messages behind it are kept.
   */
  held(): void {
    if (!this.#busy) return;
    this.#isHeld = true;
    this.#options.from.resume();
    this.#drain();
  }

  /** Takes nothing more. */
  stop(): void {
    this.#stopped = true;
    this.#options.hold.resize(0);
  }

  #drain(): void {
    try {
      while (this.#takes) {
        const message = this.#nextKept() ?? this.#reader.next();
        if (message === undefined) break;
        const pending = this.#options.onMessage(message);
        if (pending) this.#wait(pending);
      }
      if (this.#isHeld) this.#readAhead();
      if (!this.#stopped) this.#options.hold.resize(this.#reader.held + this.#keptBytes);
    } catch (error) {
      this.#options.onFault(error);
    }
    if (!(this.#takes || (this.#isHeld && !this.#stopped)) || !this.#ended) return;
    this.#stopped = true;
    this.#options.onEnd();
  }

  /** While a message waits for a person. */
  #readAhead(): void {
    while (!this.#stopped && this.#kept.length < MOST_KEPT) {
      const message = this.#reader.next();
      if (message === undefined) return;
      if (message.opcode >= OPCODE.close) void this.#options.onMessage(message);
      else {
        this.#kept.push(message);
        this.#keptBytes += message.payload.length;
      }
    }
    this.#options.from.pause();
  }

  #nextKept(): WebSocketMessage | undefined {
    const message = this.#kept.shift();
    if (message !== undefined) this.#keptBytes -= message.payload.length;
    return message;
  }

  get #takes(): boolean {
    return !this.#busy && !this.#blocked && !this.#stopped;
  }

  #wait(pending: Promise<void>): void {
    this.#busy = true;
    this.#options.from.pause();
    const next = (): void => {
      this.#busy = false;
      this.#isHeld = false;
      this.#drain();
      this.#resume();
    };
    pending.then(next, (error: unknown) => {
      this.#options.onFault(error);
      next();
    });
  }

  #resume(): void {
    const readsAhead = this.#isHeld && !this.#blocked && !this.#stopped && this.#kept.length < MOST_KEPT;
    if (this.#takes || readsAhead) this.#options.from.resume();
  }
}
