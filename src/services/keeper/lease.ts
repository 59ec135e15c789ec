import type { Clock } from '../../base/lib/clock.ts';
import { every, type Job, type RunningJob } from '../../base/lib/every.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type Maybe, when } from '../../base/lib/maybe.ts';
import { TurnPerKey } from '../../base/lib/turn.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { unlessConflict } from '../registers/commit.ts';

const SPACE = 'lease';
/** How long a holder that is not heard of keeps a lease. */
export const LEASE_MS = 60_000;
const RENEW_MS = LEASE_MS / 3;
/** A writer that is there holds the lease of this name and its own. */
const WRITER = 'writer/';

/** A lease as it is stored under its name. */
interface StoredLease {
  /** The writer that has it. */
  readonly holder: string;
  /** Epoch milliseconds. */
  readonly until: number;
}

export interface LeaseOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** This writer, the same after a restart: what it left behind when it was killed is its own at once. */
  readonly holder: string;
  /** Other processes may have this store open. Where none can, this one holds every lease, and nothing is stored. */
  readonly isShared: boolean;
}

/** A job that runs where its lease is held. */
export interface LeasedJob extends Omit<Job, 'run'> {
  /** @param isHeld false as soon as another process may have the lease: what runs long asks before each step */
  readonly run: (isHeld: () => boolean) => Maybe<unknown>;
}

/**
 * What this process holds of the leases of a store. A lease has a name and one holder, which renews it every 20
 * seconds; a minute after it was last renewed any process may take it. A holder counts that minute by its own monotonic
 * clock, from before it asked for the renewal, so that it never believes longer than others do.
 */
export class Leases {
  /** This writer. */
  readonly holder: string;
  readonly #options: LeaseOptions;
  /** Monotonic milliseconds until which each lease of this process is its own. */
  readonly #held = new Map<string, number>();
  readonly #turns = new TurnPerKey();
  #renewal: RunningJob | undefined;
  #closed = false;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.holder = options.holder;
  }

  /** Other processes may have this store open. */
  get isShared(): boolean {
    return this.#options.isShared;
  }

  /**
   * Whether this process holds the lease; takes it where it is free, has run out, or is this writer's own from an
   * earlier life.
   * @throws GatewayError `record_store_unavailable`
   */
  hold(name: string): Maybe<boolean> {
    return this.has(name) || this.#turns.take(name, async () => this.has(name) || (await this.#take(name)));
  }

  /** Whether the lease is held now, as far as this process can know. */
  has(name: string): boolean {
    if (!this.#options.isShared) return true;
    const until = this.#held.get(name);
    return until !== undefined && this.#options.clock.monotonic() < until;
  }

  /**
   * Says that this writer is there, until {@link close}.
   * @throws GatewayError `record_store_unavailable`
   */
  announce(): Maybe<boolean> {
    return this.hold(WRITER + this.holder);
  }

  /** The writers that have announced themselves and were heard of within a minute, this one among them. */
  async writers(): Promise<ReadonlySet<string>> {
    return new Set([...(await this.taken(WRITER))].map((name) => name.slice(WRITER.length)));
  }

  /** The names of leases that begin so and that some process holds now. */
  async taken(prefix: string): Promise<ReadonlySet<string>> {
    const now = this.#options.clock.now();
    const rows = await this.#options.store.list(SPACE, { prefix });
    return new Set(rows.filter(({ value }) => (value as StoredLease).until > now).map(({ key }) => key));
  }

  /**
   * Runs a job again and again, as {@link every} does, in the one process of a store that holds the lease of this name.
   */
  every(name: string, job: LeasedJob): RunningJob {
    const run = () => when(this.hold(name), (isMine) => (isMine ? job.run(() => this.has(name)) : undefined));
    return every(this.#options, { ...job, run });
  }

  /**
   * Gives everything up, so that another process can take it at once. Call it when the jobs have stopped. Never
   * rejects.
   */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#renewal?.stop();
    for (const name of [...this.#held.keys()]) {
      try {
        await this.#turns.take(name, () => this.#release(name));
      } catch (error) {
        this.#options.log.warn({ err: error, lease: name }, 'a lease could not be given up; it runs out within a minute');
      }
    }
  }

  async #take(name: string): Promise<boolean> {
    const { store, clock } = this.#options;
    const { holder } = this;
    if (this.#closed) return false;
    const asked = clock.monotonic();
    const found = await store.entity(SPACE, name);
    const lease = found?.value as StoredLease | undefined;
    if (lease !== undefined && lease.holder !== holder && lease.until > clock.now()) {
      this.#lost(name);
      return false;
    }
    const value: StoredLease = { holder, until: clock.now() + LEASE_MS };
    if (!(await this.#change({ op: 'put', space: SPACE, key: name, value }, found?.version))) {
      this.#lost(name);
      return false;
    }
    this.#held.set(name, asked + LEASE_MS);
    this.#renewal ??= every(this.#options, {
      everyMs: RENEW_MS,
      run: () => this.#renew(),
      failed: 'what this process holds of the store could not be renewed',
    });
    return true;
  }

  async #renew(): Promise<void> {
    for (const name of [...this.#held.keys()]) await this.#turns.take(name, () => this.#take(name));
  }

  async #release(name: string): Promise<void> {
    const found = await this.#options.store.entity(SPACE, name);
    this.#held.delete(name);
    if ((found?.value as StoredLease | undefined)?.holder !== this.holder) return;
    await this.#change({ op: 'delete', space: SPACE, key: name }, found?.version);
  }

  #change(effect: Effect & { readonly op: 'put' | 'delete' }, version: string | undefined): Promise<boolean> {
    return unlessConflict(this.#options.store.commit(undefined, [effect], [{ space: SPACE, key: effect.key, version }]));
  }

  #lost(name: string): void {
    if (this.#held.delete(name)) this.#options.log.warn({ lease: name }, 'another process has taken over what this one did for the store');
  }
}
