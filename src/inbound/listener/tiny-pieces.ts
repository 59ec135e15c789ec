import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../base/lib/clock.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';
import { type Bucket, bucketShape, tokensAt, waitForOne } from '../../decide/limits/token-bucket.ts';

/** Bytes below which a piece of a body is tiny: to take it costs as much as to take kilobytes. */
const TINY = 16;
const PER_SECOND = 200_000;
const SHAPE = bucketShape(CONNECTION_BOUNDS.tinyPieces.one, PER_SECOND, 1_000);

/** How many tiny pieces of bodies the clients of one address may still send (decision 7.12). */
export class TinyPieces {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #bucket: Bucket;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
    this.#bucket = { tokens: SHAPE.capacity, at: clock.monotonic() };
  }

  /** Counts a piece of a body. False: it is one too many. */
  take(piece: unknown): boolean {
    if (!(piece instanceof Uint8Array) || piece.length >= TINY) return true;
    if (this.#bucket.tokens < 1) this.#refill();
    this.#bucket.tokens -= 1;
    return this.#bucket.tokens >= 0;
  }

  /** Milliseconds until one more is taken. */
  get waitMs(): number {
    return Math.ceil(waitForOne(this.#bucket.tokens, SHAPE));
  }

  #refill(): void {
    const now = this.#clock.monotonic();
    this.#bucket.tokens = tokensAt(this.#bucket, SHAPE, now);
    this.#bucket.at = now;
  }
}

/**
 * Reads a chunked body no faster than its address may send tiny pieces. What is read from a connection at a time holds ten thousand chunks of one byte, and node goes on reading as long as
 * there is something: nobody else would have a turn meanwhile.
 */
export function paceTinyPieces(request: IncomingMessage, tiny: TinyPieces, clock: Pick<Clock, 'after'>): void {
  const push = request.push.bind(request);
  const read = request._read.bind(request);
  let isHeld = false;
  let isWanted = false;
  const release = (): void => {
    isHeld = false;
    if (isWanted && !request.destroyed && !request.complete) read(0);
    isWanted = false;
  };
  request.push = (piece: unknown): boolean => {
    const more = push(piece);
    if (tiny.take(piece)) return more;
    if (!isHeld) clock.after(tiny.waitMs, release);
    isHeld = true;
    // The connection is read no further until more is asked for.
    return false;
  };
  request._read = (size: number): void => {
    if (isHeld) isWanted = true;
    else read(size);
  };
}
