import type { Clock } from '../../base/lib/clock.ts';
import { CONNECTION_BOUNDS } from '../../base/model/traffic-bounds.ts';
import { type Bucket, bucketShape, tokensAt, waitForOne } from '../../decide/limits/token-bucket.ts';

/** Bytes below which a piece of a body is tiny: to take it costs as much as to take kilobytes. */
const TINY = 16;
const PER_SECOND = 200_000;
const SHAPE = bucketShape(CONNECTION_BOUNDS.tinyPieces.one, PER_SECOND, 1_000);

/** How many tiny pieces of bodies may still come from one address (decision 7.12). */
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
