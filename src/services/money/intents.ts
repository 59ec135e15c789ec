import { type Clock, timestamp } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { canonicalRecord, type UnhashedRecord } from '../../record/canonical-record.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { unlessConflict } from '../registers/commit.ts';
import type { RecordCounters } from '../reports/record-counters.ts';

const INTENTS = 'intent';
const LEASES = 'intent_lease';
/** How long a node that is not heard of is taken to be there. */
const LEASE_MS = 60_000;
const RENEW_MS = LEASE_MS / 3;

/** What is stored of a call that is under way. */
interface Intent {
  /** The node that has the call. */
  readonly owner: string;
  /** That the call will have if nothing else is ever heard of it. */
  readonly record: UnhashedRecord;
}

/** A node says that it is there. */
interface Lease {
  /** Epoch milliseconds. */
  readonly until: number;
}

export interface IntentOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly counters: Pick<RecordCounters, 'effects'>;
  /** The name of this node, the same after a restart. */
  readonly owner: string;
  /** Other nodes may have this store open. */
  readonly isShared: boolean;
}

/**
 * The records that calls under way will have if the process ends before they do (decision 6.8). Each belongs to the node that has the call: recovery makes records of a
 * node's own, at its start, and of those whose node has not been heard of for a minute, so that none charges the running calls of another.
 */
export class Intents {
  readonly #options: IntentOptions;
  #cancelRenewal: () => void = () => undefined;
  #cancelSweep: () => void = () => undefined;

  private constructor(options: IntentOptions) {
    this.#options = options;
  }

  /** Makes records of what was under way when this node last ended. On a store that others share, it says from now on that it is there, and looks after those that are not. */
  static async open(options: IntentOptions): Promise<Intents> {
    const intents = new Intents(options);
    if (options.isShared) await intents.#lease();
    await intents.#recover((owner) => owner === undefined || owner === options.owner || !options.isShared);
    if (options.isShared) {
      intents.#renewLater();
      intents.#sweepLater();
    }
    return intents;
  }

  /** Stores what the call will leave. @throws GatewayError `record_store_unavailable` */
  async write(record: UnhashedRecord): Promise<void> {
    await this.#options.store.commit(undefined, [this.#put(record)]);
  }

  /** The call will cost more than was stored. Nobody waits for that: the commit that settles it comes behind. */
  grow(record: UnhashedRecord): void {
    this.#options.store.commit(undefined, [this.#put(record)]).catch((error: unknown) => {
      this.#options.log.warn({ err: error, record_id: record.record_id }, 'what a stream has cost so far could not be stored');
    });
  }

  /** To be committed with the record that settles the call. */
  settlement(recordId: string): Effect {
    return { op: 'delete', space: INTENTS, key: recordId };
  }

  /** The call was not made, and leaves no record. */
  remove(recordId: string): void {
    this.#options.store.commit(undefined, [this.settlement(recordId)]).catch((error: unknown) => {
      this.#options.log.warn({ err: error, record_id: recordId }, 'an intent could not be removed; the next start charges it');
    });
  }

  close(): Promise<void> {
    this.#cancelRenewal();
    this.#cancelSweep();
    return Promise.resolve();
  }

  #put(record: UnhashedRecord): Effect {
    const value: Intent = { owner: this.#options.owner, record };
    return { op: 'put', space: INTENTS, key: record.record_id, value };
  }

  /** @param mayRecover of which owner; undefined: of a version that named none */
  async #recover(mayRecover: (owner: string | undefined) => boolean): Promise<void> {
    const { store, clock, log, counters } = this.#options;
    let calls = 0;
    for (const { key, value, version } of await store.entities(INTENTS)) {
      const { owner, record: kept } = ownedIntent(value);
      if (!mayRecover(owner)) continue;
      const now = clock.now();
      const unhashed = { ...kept, completed_at: timestamp(now) };
      const { text, hash } = canonicalRecord(unhashed);
      const record = { ...unhashed, record_hash: hash } as ExecutionRecord;
      const commit = { record_id: key, record_hash: hash, text, committed_at: now, members: record };
      // Of two nodes that find it only one makes its record, and none when its own node settled it meanwhile.
      const expect = [{ space: INTENTS, key, version }];
      const isMade = await unlessConflict(store.commit(commit, [...counters.effects(record), this.settlement(key)], expect));
      if (isMade) calls += 1;
    }
    if (calls > 0) log.warn({ calls }, 'calls were under way when the gateway last ended; they are charged at what was set aside for them');
  }

  async #lease(): Promise<void> {
    const { store, clock, owner } = this.#options;
    const value: Lease = { until: clock.now() + LEASE_MS };
    await store.commit(undefined, [{ op: 'put', space: LEASES, key: owner, value }]);
  }

  #renewLater(): void {
    this.#cancelRenewal = this.#options.clock.after(RENEW_MS, () => {
      this.#lease()
        .catch((error: unknown) => this.#options.log.warn({ err: error }, 'this node could not say that it is there'))
        .finally(() => this.#renewLater());
    });
  }

  #sweepLater(): void {
    this.#cancelSweep = this.#options.clock.after(LEASE_MS, () => {
      this.#recoverForgotten()
        .catch((error: unknown) =>
          this.#options.log.warn({ err: error }, 'calls of a node that is gone could not be recorded; it is tried again'),
        )
        .finally(() => this.#sweepLater());
    });
  }

  async #recoverForgotten(): Promise<void> {
    const { store, clock, owner } = this.#options;
    const alive = new Set([owner]);
    for (const { key, value } of await store.list(LEASES)) if ((value as Lease).until > clock.now()) alive.add(key);
    await this.#recover((of) => of !== undefined && !alive.has(of));
  }
}

/** Before owners were named an intent was its record. */
function ownedIntent(value: unknown): Partial<Intent> & Pick<Intent, 'record'> {
  const stored = value as Intent | UnhashedRecord;
  return 'owner' in stored ? stored : { record: stored };
}
