import { networkOf } from '../../base/lib/ip.ts';
import { SharedLine } from '../../base/lib/shared-line.ts';
import { Shares } from '../../base/lib/shares.ts';
import { type CallingNode, hostOf, type Peer } from './peer.ts';

/** What one place of calls takes, bytes. */
const PLACE_BYTES = 32 * 1_024;

export interface CallRoomBounds {
  readonly strangerCalls: number;
  readonly nodeCalls: number;
  readonly largeAnswers: number;
}

/** What all calls under way hold together: places for what they send, and turns for answers that may be large. */
export class CallRoom {
  readonly #strangers: Shares;
  readonly #nodes: Shares;
  readonly #answers: SharedLine;

  constructor({ strangerCalls, nodeCalls, largeAnswers }: CallRoomBounds) {
    this.#strangers = new Shares(strangerCalls);
    this.#nodes = new Shares(nodeCalls);
    this.#answers = new SharedLine(largeAnswers);
  }

  /** Places that are held now, by strangers and by nodes, and calls that wait for their answer's turn. */
  get held(): { readonly strangers: number; readonly nodes: number; readonly waiting: number } {
    return { strangers: this.#strangers.taken, nodes: this.#nodes.taken, waiting: this.#answers.waiting };
  }

  /** A call begins. @returns undefined: there is no place for it */
  admit(caller: CallingNode | undefined, peer: Peer): HeldRoom | undefined {
    const [shares, org, id] =
      caller === undefined ? [this.#strangers, networkOf(hostOf(peer)), undefined] : [this.#nodes, caller.orgId, caller.nodeId];
    const places = new HeldRoom(shares, org, id);
    return places.hold(1) ? places : undefined;
  }

  /** As {@link SharedLine.enter}. */
  waitForAnswer({ orgId, nodeId }: CallingNode, begin: () => void): () => void {
    return this.#answers.enter(orgId, nodeId, begin);
  }
}

/** The places of one call. */
export class HeldRoom {
  readonly #shares: Shares;
  readonly #org: string;
  readonly #caller: string | undefined;
  #held = 0;

  constructor(shares: Shares, org: string, caller: string | undefined) {
    this.#shares = shares;
    this.#org = org;
    this.#caller = caller;
  }

  /** Takes what so many bytes need beside what is held. @returns false: there is no room for them */
  hold(bytes: number): boolean {
    while (this.#held * PLACE_BYTES < bytes) {
      if (this.#shares.full(this.#org, this.#caller) !== undefined) return false;
      this.#shares.take(this.#org, this.#caller);
      this.#held++;
    }
    return true;
  }

  /** Gives all of them back. */
  leave(): void {
    for (; this.#held > 0; this.#held--) this.#shares.give(this.#org, this.#caller);
  }
}
