/*
 * Limits as pure arithmetic: how many tokens a bucket holds, what a window of spend is, whether an amount fits under a
 * cap. Who owns a bucket or a sum is the services' business; nothing here keeps state or reads a clock.
 */

/** How a bucket fills (decision 6.1): continuously, up to its capacity, full at first. */
export interface BucketShape {
  readonly capacity: number;
  /** Tokens per millisecond. */
  readonly refill: number;
}

/** The state of one bucket at a moment. */
export interface Bucket {
  tokens: number;
  /** Monotonic milliseconds. */
  at: number;
}

/** Shape of a bucket that gets `tokens` per `windowMs`. */
export function bucketShape(capacity: number, tokens: number, windowMs: number): BucketShape {
  return { capacity, refill: tokens / windowMs };
}

/** Tokens in the bucket at `now`; a bucket that nobody has used is full. */
export function tokensAt(bucket: Bucket | undefined, shape: BucketShape, now: number): number {
  if (bucket === undefined) return shape.capacity;
  return Math.min(shape.capacity, bucket.tokens + Math.max(0, now - bucket.at) * shape.refill);
}

/** Milliseconds until a bucket that now holds `tokens` has a whole one; 0 when it has. */
export function waitForOne(tokens: number, shape: BucketShape): number {
  return tokens >= 1 ? 0 : (1 - tokens) / shape.refill;
}
