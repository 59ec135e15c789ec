import type { Clock } from '../../base/lib/clock.ts';
import { CONTROL_PLANE_BOUNDS } from '../../base/model/control-plane-bounds.ts';
import { type Bucket, type BucketShape, bucketShape, tokensAt } from '../../decide/limits/token-bucket.ts';
import { ProtocolError } from '../proto/protocol-error.ts';
import { keyIn } from '../state/control-plane-spaces.ts';
import type { NodeId } from '../state/enrolled-nodes.ts';

/** So many buckets are remembered before those that are full again are forgotten. */
const SWEPT = 4_096;
const SECOND_MS = 1_000;

/** Per second, and at once, of each of these. */
export interface NodeRate {
  readonly perSecond: number;
  readonly burst: number;
}

export interface NodeRateBounds {
  readonly node: NodeRate;
  readonly org: NodeRate;
  readonly all: NodeRate;
}

const { hashes, hashesOfOrg, hashesOfNode, changesOfOrg, changesOfNode } = CONTROL_PLANE_BOUNDS;
const HASH_BURST_S = 32;
const CHANGE_BURST_S = 20;
/** Hashes of records. */
export const HASH_RATES: NodeRateBounds = {
  node: rate(hashesOfNode.one, HASH_BURST_S),
  org: rate(hashesOfOrg.org, HASH_BURST_S),
  all: rate(hashes.all, HASH_BURST_S),
};
/** Calls that have something stored. */
export const CHANGE_RATES: NodeRateBounds = {
  node: rate(changesOfNode.one, CHANGE_BURST_S),
  org: rate(changesOfOrg.org, CHANGE_BURST_S),
  all: { perSecond: Number.MAX_SAFE_INTEGER, burst: Number.MAX_SAFE_INTEGER },
};

/** How much of one thing nodes may do: each, those of an org together, and all (decision 13.15). */
export class NodeRates {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #what: string;
  readonly #levels: readonly Level[];

  /** @param what in words, such as `hashes` */
  constructor(clock: Pick<Clock, 'monotonic'>, what: string, { node, org, all }: NodeRateBounds) {
    this.#clock = clock;
    this.#what = what;
    this.#levels = [
      new Level(({ orgId, nodeId }) => keyIn(orgId, nodeId), node),
      new Level(({ orgId }) => orgId, org),
      new Level(() => '', all),
    ];
  }

  /**
   * Takes so many for a node.
   * @throws ProtocolError RESOURCE_EXHAUSTED with the time after which there are so many; nothing is taken then
   */
  take(node: NodeId, amount = 1): void {
    const now = this.#clock.monotonic();
    const wait = Math.max(...this.#levels.map((level) => level.wait(node, amount, now)));
    if (wait > 0)
      throw new ProtocolError(
        'RESOURCE_EXHAUSTED',
        `more ${this.#what} come from here than are taken; try again in ${Math.ceil(wait)} ms`,
        {
          retryAfterMs: wait,
        },
      );
    for (const level of this.#levels) level.take(node, amount, now);
  }
}

class Level {
  readonly #keyOf: (node: NodeId) => string;
  readonly #shape: BucketShape;
  readonly #buckets = new Map<string, Bucket>();
  #sweepAt = SWEPT;

  constructor(keyOf: (node: NodeId) => string, { perSecond, burst }: NodeRate) {
    this.#keyOf = keyOf;
    this.#shape = bucketShape(burst, perSecond, SECOND_MS);
  }

  /** Milliseconds until it holds so many. */
  wait(node: NodeId, amount: number, now: number): number {
    const tokens = tokensAt(this.#buckets.get(this.#keyOf(node)), this.#shape, now);
    return tokens >= amount ? 0 : (amount - tokens) / this.#shape.refill;
  }

  take(node: NodeId, amount: number, now: number): void {
    const key = this.#keyOf(node);
    const bucket = this.#buckets.get(key);
    const tokens = tokensAt(bucket, this.#shape, now) - amount;
    if (bucket === undefined) this.#buckets.set(key, { tokens, at: now });
    else Object.assign(bucket, { tokens, at: now });
    if (this.#buckets.size > this.#sweepAt) this.#sweep(now);
  }

  #sweep(now: number): void {
    for (const [key, bucket] of this.#buckets) if (tokensAt(bucket, this.#shape, now) >= this.#shape.capacity) this.#buckets.delete(key);
    this.#sweepAt = Math.max(SWEPT, this.#buckets.size * 2);
  }
}

function rate(perSecond: number, seconds: number): NodeRate {
  return { perSecond, burst: perSecond * seconds };
}
