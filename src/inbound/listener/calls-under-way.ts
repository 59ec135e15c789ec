import type { Maybe } from '../../base/lib/maybe.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import { type AddressShare, CallCounts, type Holder } from './client-shares.ts';

/**
 * Who has shown by a head who he is; `own`: a route of the gateway itself is asked for, whose answer is there at once;
 * undefined: nobody.
 */
export type HolderOf = (head: ArrivalHead) => Maybe<Holder | 'own' | undefined>;

/** The places of calls under way (decision 7.12): who has none is answered 503 before anything is looked at. */
export class Places {
  readonly calls: CallCounts;
  readonly #holderOf: HolderOf;

  /** @param holderOf asked where an address holds its share */
  constructor(max: number, holderOf: HolderOf) {
    this.calls = new CallCounts(max);
    this.#holderOf = holderOf;
  }

  /** Who has shown by a head who he is; asked where his address has no place left. */
  holderOf(head: ArrivalHead): ReturnType<HolderOf> {
    try {
      return this.#holderOf(head);
    } catch {
      // What is wrong with the head is said to who has a place.
      return undefined;
    }
  }
}

/** The place of one call, and of the one behind it. */
export class CallPlace {
  readonly #calls: CallCounts;
  readonly #share: AddressShare;
  #held: AddressShare | Holder | undefined;

  constructor({ calls }: Places, share: AddressShare) {
    this.#calls = calls;
    this.#share = share;
  }

  /** @returns false: the address holds its share, or all are taken */
  enter(): boolean {
    const calls = this.#calls;
    const share = this.#share;
    // The rule of shares, in one comparison: each call asks it.
    if (calls.taken + (share.isProxy ? calls.kept : share.calls) >= calls.max) return false;
    calls.taken++;
    share.calls++;
    this.#held = share;
    return true;
  }

  /** The same for who has shown who he is. */
  enterAs(holder: Holder): boolean {
    const { taken, max, holders } = this.#calls;
    if (taken >= max || holders.full(holder.org, holder.caller) !== undefined) return false;
    this.#calls.taken++;
    holders.take(holder.org, holder.caller);
    this.#held = holder;
    return true;
  }

  /** Where it holds none nothing happens. */
  leave(): void {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    this.#calls.taken--;
    if (held === this.#share) this.#share.calls--;
    else if ('org' in held) this.#calls.holders.give(held.org, held.caller);
  }
}
