import type { Clock } from '../../base/lib/clock.ts';
import { Lru } from '../../base/lib/lru.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import { type Bucket, bucketShape, tokensAt } from '../../decide/limits/token-bucket.ts';

/** Bytes a second. */
const RATE = CONTROL_BOUNDS.longRecords.org;
/** Bytes at once. */
const BURST = 8 * 1_048_576;
const SHAPE = bucketShape(BURST, RATE, 1_000);
/** Orgs whose budgets are remembered; that which came longest ago has a full one again. */
const MAX_ORGS = 10_000;

/**
 * How many bytes of long records of refused calls the keys and tokens of one org may leave (decision 7.11): each org
 * has a budget of its own.
 */
export class LongRecordBudget {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #orgs = new Lru<string, Bucket>({ max: MAX_ORGS });

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /**
   * Takes a record of so many bytes from the budget of its org. False: it has no room for it, and nothing was taken.
   */
  take(orgId: string, bytes: number): boolean {
    const now = this.#clock.monotonic();
    const tokens = tokensAt(this.#orgs.get(orgId), SHAPE, now);
    const fits = tokens >= bytes;
    this.#orgs.set(orgId, { tokens: fits ? tokens - bytes : tokens, at: now });
    return fits;
  }
}
