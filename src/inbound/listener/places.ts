import type { Maybe } from '../../base/lib/maybe.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import { type AddressShare, CallsUnderWay, type Holder } from './client-shares.ts';

/** Who has shown by a head who he is; `own`: a route of the gateway itself is asked for, whose answer is there at once; undefined: nobody. */
export type HolderOf = (head: ArrivalHead) => Maybe<Holder | 'own' | undefined>;

/** The places of calls under way (decision 7.12): who has none is answered 503 before anything is looked at. */
export class Places {
  readonly calls: CallsUnderWay;
  readonly #holderOf: HolderOf;

  /** @param holderOf asked where an address holds its share */
  constructor(max: number, holderOf: HolderOf) {
    this.calls = new CallsUnderWay(max);
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
export class Place {
  readonly #places: Places;
  readonly #share: AddressShare;
  #held: AddressShare | Holder | undefined;

  constructor(places: Places, share: AddressShare) {
    this.#places = places;
    this.#share = share;
  }

  enter(): boolean {
    if (!this.#places.calls.enter(this.#share)) return false;
    this.#held = this.#share;
    return true;
  }

  enterAs(holder: Holder): boolean {
    if (!this.#places.calls.enterAs(holder)) return false;
    this.#held = holder;
    return true;
  }

  /** Where it holds none nothing happens. */
  leave(): void {
    const held = this.#held;
    this.#held = undefined;
    if (held === undefined) return;
    if (held === this.#share) this.#places.calls.leave(this.#share);
    else if ('org' in held) this.#places.calls.leaveAs(held);
  }
}
