import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import type { Store } from '../storage/contract/store.ts';

/** A store that fails is left alone for so long. */
const EXPIRE_AGAIN_MS = 10_000;
/** A timer longer than that would wrap around. */
const LONGEST_TIMER_MS = 86_400_000;

interface Ground {
  readonly store: Pick<Store, 'watch' | 'list'>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Approvals that wait, whichever writer of the store has opened them, and the timer that has each of them expire. */
export class PendingApprovals {
  readonly #ground: Ground;
  readonly #space: string;
  readonly #expire: (id: string) => Promise<void>;
  /** When each of them expires, epoch milliseconds. */
  readonly #due = new Map<string, number>();
  #cancelTimer: () => void = () => undefined;
  /** Epoch milliseconds. */
  #wakesAt = Number.POSITIVE_INFINITY;
  #closed = false;

  /**
   * @param space holds when each of them expires, by its id
   * @param expire has one expire, unless it was decided meanwhile
   */
  constructor(ground: Ground, space: string, expire: (id: string) => Promise<void>) {
    this.#ground = ground;
    this.#space = space;
    this.#expire = expire;
  }

  get size(): number {
    return this.#due.size;
  }

  async open(): Promise<void> {
    const { store, log } = this.#ground;
    await store.watch(this.#space, (event) => {
      if (event.lost === true)
        this.#read().catch((error: unknown) =>
          log.error({ err: error }, 'approvals that wait could not be read; their number may be wrong'),
        );
      else this.learn(event.key, event.value as number | undefined);
    });
    await this.#read();
  }

  /** @param due epoch milliseconds; undefined: it does not wait any more */
  learn(id: string, due: number | undefined): void {
    if (due === undefined) {
      this.#due.delete(id);
      return;
    }
    this.#due.set(id, due);
    this.#wakeAt(due);
  }

  close(): void {
    this.#closed = true;
    this.#cancelTimer();
  }

  async #read(): Promise<void> {
    const rows = await this.#ground.store.list(this.#space);
    const stored = new Set(rows.map(({ key }) => key));
    for (const id of [...this.#due.keys()]) if (!stored.has(id)) this.#due.delete(id);
    for (const { key, value } of rows) this.learn(key, value as number);
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
      for (const [id, due] of [...this.#due]) {
        if (due > clock.now()) continue;
        await this.#expire(id);
        this.#due.delete(id);
      }
    } catch (error) {
      log.error({ err: error }, 'approvals could not be expired; they count as expired all the same');
      earliest = clock.now() + EXPIRE_AGAIN_MS;
    }
    for (const due of this.#due.values()) this.#wakeAt(Math.max(due, earliest));
  }
}
