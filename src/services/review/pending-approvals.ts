import type { Clock } from '../../base/lib/clock.ts';
import { newestFirst } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type FullFor, Shares } from '../../base/lib/shares.ts';
import type { Store } from '../../storage/contract/store.ts';
import { Register } from '../registers/register.ts';
import type { Sharer } from '../registers/sharers.ts';
import { entityWith } from '../registers/watched-space.ts';
import type { WaitingApproval } from './waiting-approval.ts';

/** A store that fails is left alone for so long. */
const EXPIRE_AGAIN_MS = 10_000;
/** A timer longer than that would wrap around. */
const LONGEST_TIMER_MS = 86_400_000;

interface Ground {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** Approvals that may wait, of all orgs. */
  readonly maxPending: number;
  /** Has one expire, unless it was decided meanwhile. */
  readonly expire: (id: string) => Promise<unknown>;
  /** Told of each that waits no longer, whoever has ended it. */
  readonly ended: (id: string) => void;
}

/** Approvals that wait, whichever writer of the store has opened them, and the timer that has each of them expire. */
export class PendingApprovals {
  readonly #ground: Ground;
  /** By their ids. */
  readonly waiting: Register<WaitingApproval>;
  readonly #shares: Shares;
  #cancelTimer: () => void = () => undefined;
  /** Epoch milliseconds. */
  #wakesAt = Number.POSITIVE_INFINITY;
  #closed = false;

  private constructor(ground: Ground, waiting: Register<WaitingApproval>) {
    this.#ground = ground;
    this.waiting = waiting;
    this.#shares = new Shares(ground.maxPending);
    for (const one of waiting.values()) this.#learn(one, undefined);
  }

  /** @param space holds each of them, by its id */
  static async open(ground: Ground, space: string): Promise<PendingApprovals> {
    let pending: PendingApprovals | undefined;
    const changed = (id: string, one: WaitingApproval | undefined, before: WaitingApproval | undefined): void => {
      if (pending !== undefined) pending.#learn(one, before);
      if (one === undefined) ground.ended(id);
    };
    const read = entityWith<WaitingApproval>('org_id');
    pending = new PendingApprovals(ground, await Register.open(ground.store, space, { read, orgOf: (one) => one.org_id, changed }));
    return pending;
  }

  /**
   * Takes a place for one that is about to wait, until {@link release}; once it waits it has one of its own.
   * @returns who has no place left
   */
  reserve({ org, caller }: Sharer): FullFor | undefined {
    const full = this.#shares.full(org, caller);
    if (full === undefined) this.#shares.take(org, caller);
    return full;
  }

  release({ org, caller }: Sharer): void {
    this.#shares.give(org, caller);
  }

  /** The keys (`newestFirst`) of those of an org, or of all orgs, the newest first. */
  keysOf(orgId: string | undefined): readonly string[] {
    return (orgId === undefined ? [...this.waiting.keys()] : this.waiting.keysOfOrg(orgId)).map(newestFirst).sort();
  }

  close(): void {
    this.#closed = true;
    this.#cancelTimer();
  }

  #learn(one: WaitingApproval | undefined, before: WaitingApproval | undefined): void {
    if (before !== undefined) this.release(before.share);
    if (one === undefined) return;
    this.#shares.take(one.share.org, one.share.caller);
    this.#wakeAt(one.due);
  }

  /** Sets the timer, unless it is set to an earlier time. */
  #wakeAt(due: number): void {
    if (this.#closed || due >= this.#wakesAt) return;
    const { clock } = this.#ground;
    this.#cancelTimer();
    this.#wakesAt = due;
    const wait = Math.max(0, Math.min(due - clock.now(), LONGEST_TIMER_MS));
    this.#cancelTimer = clock.after(wait, () => {
      this.#wakesAt = Number.POSITIVE_INFINITY;
      void this.#expireDue();
    });
  }

  async #expireDue(): Promise<void> {
    const { clock, log, expire } = this.#ground;
    let earliest = 0;
    try {
      for (const [id, { due }] of [...this.waiting.entries()]) {
        if (due > clock.now()) continue;
        await expire(id);
        await this.waiting.refresh(id);
      }
    } catch (error) {
      log.error({ err: error }, 'approvals could not be expired; they count as expired all the same');
      earliest = clock.now() + EXPIRE_AGAIN_MS;
    }
    for (const { due } of this.waiting.values()) this.#wakeAt(Math.max(due, earliest));
  }
}
