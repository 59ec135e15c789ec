import type { CapExchanged, CapSpeaker, CountedRange } from '../../storage/contract/cap-accounts.ts';

/*
 * What nodes share of caps. Where there is one node there is no ledger, and a cap is held against the sums in memory
 * alone. Where there are several, a node holds a part of what a cap leaves (`CapHolding`), spends it without asking
 * anybody, and says and asks in exchanges (`NodeCaps`, docs/adr/0019-exact-across-nodes.md).
 */

/** Where nodes say what they hold, and are granted more. */
export interface SharedLedger {
  /**
   * Ships what this node has stored, and with the last of it lets the node speak, in one transaction. One at a time.
   * @throws when nobody knows what became of it; the node is asked for all that it holds next time
   */
  exchange(speaker: CapSpeaker): Promise<CapExchanged>;
}

/** A window in which caps count something, as this node sees it. */
export interface CapWindow {
  /** Its kind: no two windows of one kind are open at the same time. */
  readonly name: string;
  /** What tells it from the windows of this kind before and after. */
  readonly start: number;
  readonly range: CountedRange;
  /** What this node believes to be settled, as it has read and counted it. */
  readonly settled: bigint;
  /** A limit looks at it, also one that only alerts. */
  readonly isWatched: boolean;
  /** Caps in force that hold whatever a call brings along. */
  readonly caps: readonly bigint[];
}

/** What a holding is of: sums that this node keeps anyway. Pico-dollars, or requests. */
export interface CapSource {
  /** What calls that are under way have set aside. */
  readonly reserved: bigint;
  /** Of what is counted, the part whose records are not stored yet. */
  readonly unstored: bigint;
  /** The windows that `hour` lies in: those of a kind that is named, or that a limit looks at. */
  windows(hour: number, named: ReadonlySet<string>): readonly CapWindow[];
  /** Nothing is held and nobody asks: the holding is forgotten, and made anew when it is needed. */
  forget(): void;
}

/**
 * What becomes of a call that needs more than its node holds. `granted`: it fits, as far as is known; whoever asks
 * looks again. `refused`: an exchange that asked for it has said that a cap would be passed. `unavailable`: nobody
 * could be asked.
 */
export type CapVerdict = 'granted' | 'refused' | 'unavailable';
