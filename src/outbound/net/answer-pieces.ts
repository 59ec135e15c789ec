import type { ClientHttp2Stream } from 'node:http2';
import { Readable } from 'node:stream';
import { ByteCollector } from '../../base/lib/byte-collector.ts';

export interface AnswerPiecesOptions {
  readonly stream: ClientHttp2Stream;
  /** Takes bytes of the body. False: no more until {@link AnswerPieces.open}. */
  take(bytes: Uint8Array): boolean;
  /** A DATA frame has come, taken or not. */
  seen(piece: Uint8Array): void;
}

/** A piece that is shorter waits for the others that are read with it: to hand it on costs as much as to hand on kilobytes. */
const SMALL_PIECE = 64;

/**
 * The body of an answer on HTTP/2, taken from node:http2 before its stream keeps it: that is an object for each DATA frame, which costs more than a hundred times the byte that it may hold,
 * while the windows count the bytes alone. Small pieces are joined: those that are read at a time, and all that come while nobody takes them.
 */
export class AnswerPieces {
  readonly #options: AnswerPiecesOptions;
  readonly #held = new ByteCollector();
  #isOpen = false;
  #isDue = false;
  #hasEnd = false;
  #endedByOrigin = false;

  constructor(options: AnswerPiecesOptions) {
    this.#options = options;
    options.stream.push = (piece: unknown) => this.#push(piece);
  }

  /**
   * Whether the origin has ended the stream by END_STREAM. node:http2 ends one that is reset with NO_ERROR as it ends one that is complete, and tells of neither, except that the former is
   * closed by then. Only END_STREAM makes an answer complete, whatever follows it (RFC 9113 §8.1).
   */
  get endedByOrigin(): boolean {
    return this.#endedByOrigin;
  }

  /** What came is given, and what comes; called when the head was given, and when more is taken again. */
  open(): void {
    const { stream } = this.#options;
    this.#isOpen = true;
    this.give();
    if (!this.#isOpen || stream.destroyed) return;
    // It ends only when it flows; its window is opened by what it reads.
    if (stream.readableFlowing === true) stream._read(0);
    else stream.resume();
  }

  /** What has come is not waited with any longer. */
  give(): void {
    if (!this.#isOpen) return;
    if (this.#held.size > 0) this.#isOpen = this.#options.take(this.#held.take());
    if (this.#isOpen && this.#hasEnd) Readable.prototype.push.call(this.#options.stream, null);
  }

  #push(piece: unknown): boolean {
    const { stream, take, seen } = this.#options;
    if (!(piece instanceof Uint8Array)) {
      if (!stream.closed) this.#endedByOrigin = true;
      this.#hasEnd = true;
      // As long as nothing was given it does not flow, and tells of its end when it does; or it was reset before its head came.
      if (this.#held.size === 0 && stream.readableFlowing !== true) return Readable.prototype.push.call(stream, null);
      this.give();
      return false;
    }
    seen(piece);
    const isSmall = piece.length < SMALL_PIECE;
    if (this.#isOpen && !isSmall && this.#held.size === 0) {
      this.#isOpen = take(piece);
      return this.#isOpen;
    }
    this.#held.push(piece);
    if (!isSmall) this.give();
    else if (!this.#isDue) this.#giveSoon();
    return this.#isOpen;
  }

  #giveSoon(): void {
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      this.give();
    });
  }
}
