import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { networkOf } from '../../base/lib/ip.ts';
import { Lru } from '../../base/lib/lru.ts';
import { STRANGER_BOUNDS } from '../../base/model/traffic-bounds.ts';

/** Wrong keys of an address that are answered at once: a person who has pasted the wrong one is not held up. */
const FREE = 5;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5_000;
/** After so long without a wrong key an address begins anew. */
const FORGOTTEN_AFTER_MS = 60_000;
/** Answers that are held back at a time, for one address and for all. */
const { one: MAX_WAITING, all: MAX_WAITING_IN_ALL } = STRANGER_BOUNDS.wrongKeys;
const MAX_ADDRESSES = STRANGER_BOUNDS.wrongKeyAddresses.all;

interface Address {
  failures: number;
  waiting: number;
  /** Monotonic milliseconds. */
  last: number;
}

/**
 * Slows down whoever tries keys: the answer to each further wrong one of an address waits twice as long, up to five
 * seconds, and more than a few at a time are refused. Right keys are never held up, whoever shares their address.
 */
export class WrongKeys {
  readonly #clock: Clock;
  readonly #addresses = new Lru<string, Address>({ max: MAX_ADDRESSES });
  #waiting = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Notes a wrong key; resolves when that may be answered.
   * @param callerIp of IPv6 its network counts
   * @throws GatewayError `too_many_attempts`
   */
  async answerable(callerIp: string): Promise<void> {
    const address = networkOf(callerIp);
    const now = this.#clock.monotonic();
    const before = this.#addresses.get(address);
    const known =
      before === undefined || now - before.last > FORGOTTEN_AFTER_MS ? { failures: 0, waiting: before?.waiting ?? 0, last: now } : before;
    known.failures += 1;
    known.last = now;
    if (known !== before) this.#addresses.set(address, known);
    if (known.failures <= FREE) return;
    if (known.waiting >= MAX_WAITING || this.#waiting >= MAX_WAITING_IN_ALL)
      throw new GatewayError('too_many_attempts', 'Too many wrong keys came from this address.');
    known.waiting += 1;
    this.#waiting += 1;
    await new Promise<void>((resolve) => this.#clock.after(waitOf(known.failures), resolve));
    known.waiting -= 1;
    this.#waiting -= 1;
  }
}

function waitOf(failures: number): number {
  return Math.min(FIRST_WAIT_MS * 2 ** (failures - FREE - 1), LONGEST_WAIT_MS);
}
