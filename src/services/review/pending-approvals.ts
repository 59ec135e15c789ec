import type { Clock } from '../../base/lib/clock.ts';
import { newestFirst } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type FullFor, Shares } from '../../base/lib/shares.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { Sharer } from '../registers/sharers.ts';
import type { WaitingApproval } from './waiting-approval.ts';

/** A store that fails is left alone for so long. */
const EXPIRE_AGAIN_MS = 10_000;
/** A timer longer than that would wrap around. */
const LONGEST_TIMER_MS = 86_400_000;

interface Ground {
  readonly store: Pick<Store, 'watch' | 'list'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Approvals that may wait, of all orgs. */
  readonly maxPending: number;
}

/** Approvals that wait, whichever writer of the store has opened them, and the timer that has each of them expire. */
export class PendingApprovals {
  readonly #ground: Ground;
  readonly #space: string;
  readonly #expire: (id: string) => Promise<void>;
  readonly #waiting = new Map<string, WaitingApproval>();
  readonly #shares: Shares;
  #cancelTimer: () => void = () => undefined;
  /** Epoch milliseconds. */
  #wakesAt = Number.POSITIVE_INFINITY;
  #closed = false;

  /**
   * @param space holds each of them, by its id
   * @param expire has one expire, unless it was decided meanwhile
   */
  constructor(ground: Ground, space: string, expire: (id: string) => Promise<void>) {
    this.#ground = ground;
    this.#space = space;
    this.#expire = expire;
    this.#shares = new Shares(ground.maxPending);
  }

  get size(): number {
    return this.#waiting.size;
  }

  /**
   * Takes a place for one that is about to wait, until {@link release}; once it waits, {@link learn} has taken its own.
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
    const keys: string[] = [];
    for (const [id, { org_id: org }] of this.#waiting) if (orgId === undefined || org === orgId) keys.push(newestFirst(id));
    return keys.sort();
  }

  async open(): Promise<void> {
    const { store, log } = this.#ground;
    await store.watch(this.#space, (event) => {
      if (event.lost === true)
        this.#read().catch((error: unknown) =>
          log.error({ err: error }, 'approvals that wait could not be read; their number may be wrong'),
        );
      else this.learn(event.key, event.value as WaitingApproval | undefined);
    });
    await this.#read();
  }

  /** @param one undefined: it does not wait any more */
  learn(id: string, one: WaitingApproval | undefined): void {
    const before = this.#waiting.get(id);
    if (before !== undefined) this.release(before.share);
    if (one === undefined) {
      this.#waiting.delete(id);
      return;
    }
    this.#waiting.set(id, one);
    this.#shares.take(one.share.org, one.share.caller);
    this.#wakeAt(one.due);
  }

  close(): void {
    this.#closed = true;
    this.#cancelTimer();
  }

  async #read(): Promise<void> {
    const rows = await this.#ground.store.list(this.#space);
    const stored = new Set(rows.map(({ key }) => key));
    for (const id of [...this.#waiting.keys()]) if (!stored.has(id)) this.learn(id, undefined);
    for (const { key, value } of rows) this.learn(key, value as WaitingApproval);
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
    const { clock, log } = this.#ground;
    let earliest = 0;
    try {
      for (const [id, { due }] of [...this.#waiting]) {
        if (due > clock.now()) continue;
        await this.#expire(id);
        this.learn(id, undefined);
      }
    } catch (error) {
      log.error({ err: error }, 'approvals could not be expired; they count as expired all the same');
      earliest = clock.now() + EXPIRE_AGAIN_MS;
    }
    for (const { due } of this.#waiting.values()) this.#wakeAt(Math.max(due, earliest));
  }
}
