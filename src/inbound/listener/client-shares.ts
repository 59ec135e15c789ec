import type { Clock } from '../../base/lib/clock.ts';
import { networkOf } from '../../base/lib/ip.ts';
import { Shares } from '../../base/lib/shares.ts';
import { TinyPieces } from '../../outbound/net/tiny-pieces.ts';
import { Begins } from './begins.ts';

/**
 * Who has shown who he is: the org of his API key and the key or workload in it, or a workload of which more is not
 * known.
 */
export interface Holder {
  readonly org: string;
  readonly caller?: string | undefined;
}

/** Of the places that clients of a trusted proxy may take, what they leave to who shows who he is. */
export function keptFromProxies(places: number): number {
  return places >> 2;
}

/** What the clients of one address hold: of IPv6 of one network of 64 bits. */
export class AddressShare {
  readonly key: string;
  /** A proxy that the operator trusts stands for many clients, and shares with nobody. */
  readonly isProxy: boolean;
  /** Of its HTTP/2 connections. */
  readonly begins = new Begins();
  connections = 0;
  calls = 0;
  #tiny: TinyPieces | undefined;

  constructor(key: string, isProxy: boolean) {
    this.key = key;
    this.isProxy = isProxy;
  }

  /** How many tiny pieces of bodies may still come from there. */
  tinyPieces(clock: Pick<Clock, 'monotonic'>): TinyPieces {
    this.#tiny ??= new TinyPieces(clock);
    return this.#tiny;
  }
}

/** The shares of all addresses that have connections. */
export class AddressShares {
  readonly #shares = new Map<string, AddressShare>();
  readonly #isProxy: (address: string) => boolean;

  /** @param isProxy whether an address is that of a proxy whom the operator trusts */
  constructor(isProxy: (address: string) => boolean) {
    this.#isProxy = isProxy;
  }

  /** Of a connection that has come: it counts until it is given to {@link leave}. */
  enter(address: string): AddressShare {
    const key = networkOf(address);
    let share = this.#shares.get(key);
    if (share === undefined) {
      share = new AddressShare(key, this.#isProxy(address));
      this.#shares.set(key, share);
    }
    share.connections++;
    return share;
  }

  leave(share: AddressShare): void {
    share.connections--;
    if (share.connections === 0) this.#shares.delete(share.key);
  }

  /** The one that has most connections. */
  largest(): AddressShare | undefined {
    let largest: AddressShare | undefined;
    for (const share of this.#shares.values()) if (largest === undefined || share.connections > largest.connections) largest = share;
    return largest;
  }
}

/**
 * HTTP calls under way, on all connections (decision 7.12). They count for the address that they come from; where that
 * holds its share, who shows who he is has one of his own. So nothing is looked up as long as there is room.
 */
export class CallCounts {
  readonly max: number;
  /** The last places, which are not for those who come by a proxy and show nothing. */
  readonly kept: number;
  /** Of addresses and of holders. */
  taken = 0;
  readonly holders: Shares;

  constructor(max: number) {
    this.max = max;
    this.kept = keptFromProxies(max);
    this.holders = new Shares(max);
  }
}
