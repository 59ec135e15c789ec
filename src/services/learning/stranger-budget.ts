import type { Clock } from '../../base/lib/clock.ts';
import { networkOf } from '../../base/lib/ip.ts';
import { Lru } from '../../base/lib/lru.ts';
import { STRANGER_BOUNDS } from '../../base/model/traffic-bounds.ts';
import { type BucketShape, bucketShape, tokensAt } from '../../decide/limits/token-bucket.ts';

/** `GW_STRANGER_RECORDS`. */
export interface RecordRate {
  readonly perSecond: number;
  /** Records at once. */
  readonly burst: number;
}

const SECOND_MS = 1_000;
/** Bytes that go with each record of the budget: most records of refused calls are shorter. */
const BYTES_PER_RECORD = STRANGER_BOUNDS.recordBytesEach.one;
/** All addresses together have so many times the budget of one. */
const ADDRESSES = STRANGER_BOUNDS.recordsInAll.all;

interface Shape {
  readonly records: BucketShape;
  readonly bytes: BucketShape;
}

/** What is left for one address, or for all. */
interface Left {
  records: number;
  bytes: number;
  /** Monotonic milliseconds. */
  at: number;
}

/**
 * How many records, and how many bytes of them, callers who have shown nothing may leave (decision 7.11): a budget for
 * each address (of IPv6 for each network of 64 bits), and one for all of them, which holds whoever has many addresses.
 * What is known of an address is forgotten when others come; the budget for all is not.
 */
export class StrangerBudget {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #one: Shape;
  readonly #everybody: Shape;
  readonly #all: Left;
  readonly #addresses = new Lru<string, Left>({ max: STRANGER_BOUNDS.addresses.all });

  constructor(clock: Pick<Clock, 'monotonic'>, rate: RecordRate) {
    this.#clock = clock;
    this.#one = shapeOf(rate, 1);
    this.#everybody = shapeOf(rate, ADDRESSES);
    this.#all = full(this.#everybody, clock.monotonic());
  }

  /** Takes a record of so many bytes from the budgets. False: one of them has no room for it, and nothing was taken. */
  take(address: string, bytes: number): boolean {
    const now = this.#clock.monotonic();
    const network = networkOf(address);
    const own = this.#addresses.get(network) ?? full(this.#one, now);
    refill(own, this.#one, now);
    refill(this.#all, this.#everybody, now);
    if (!fits(own, bytes) || !fits(this.#all, bytes)) return false;
    for (const left of [own, this.#all]) {
      left.records -= 1;
      left.bytes -= bytes;
    }
    this.#addresses.set(network, own);
    return true;
  }
}

function shapeOf({ perSecond, burst }: RecordRate, times: number): Shape {
  return {
    records: bucketShape(burst * times, perSecond * times, SECOND_MS),
    bytes: bucketShape(burst * times * BYTES_PER_RECORD, perSecond * times * BYTES_PER_RECORD, SECOND_MS),
  };
}

function full({ records, bytes }: Shape, at: number): Left {
  return { records: records.capacity, bytes: bytes.capacity, at };
}

function refill(left: Left, { records, bytes }: Shape, now: number): void {
  left.records = tokensAt({ tokens: left.records, at: left.at }, records, now);
  left.bytes = tokensAt({ tokens: left.bytes, at: left.at }, bytes, now);
  left.at = now;
}

function fits({ records, bytes }: Left, wanted: number): boolean {
  return records >= 1 && bytes >= wanted;
}
