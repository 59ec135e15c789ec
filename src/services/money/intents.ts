import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { canonicalRecord, type UnhashedRecord } from '../../record/canonical-record.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { LEASE_MS, type Leases } from '../keeper/lease.ts';
import { unlessConflict } from '../registers/commit.ts';
import type { RecordCounters } from '../reports/record-counters.ts';

const INTENTS = 'intent';

/** What is stored of a call that is under way. */
interface Intent {
  /** The writer that has the call. */
  readonly owner: string;
  /** That the call will have if nothing else is ever heard of it. */
  readonly record: UnhashedRecord;
}

export interface IntentOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly counters: Pick<RecordCounters, 'effects'>;
  readonly leases: Leases;
}

/**
 * The records that calls under way will have if the process ends before they do (decision 6.8). Each belongs to the
 * writer that has the call: recovery makes records of a writer's own, at its start, and of those whose writer has not
 * been heard of for a minute, so that none charges the running calls of another.
 */
export class Intents {
  readonly #options: IntentOptions;
  #sweep: RunningJob | undefined;

  private constructor(options: IntentOptions) {
    this.#options = options;
  }

  /**
   * Makes records of what was under way when this writer last ended. On a shared store it holds a lease from now on,
   * and makes the records of writers that hold none.
   */
  static async open(options: IntentOptions): Promise<Intents> {
    const intents = new Intents(options);
    const { leases } = options;
    const { isShared, holder: own } = leases;
    await leases.announce();
    await intents.#recover((owner) => owner === undefined || owner === own || !isShared);
    if (isShared)
      intents.#sweep = every(options, {
        everyMs: LEASE_MS,
        run: () => intents.#recoverForgotten(),
        failed: 'calls of a writer that is gone could not be recorded; it is tried again',
      });
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

  async close(): Promise<void> {
    await this.#sweep?.stop();
  }

  #put(record: UnhashedRecord): Effect {
    const value: Intent = { owner: this.#options.leases.holder, record };
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

  async #recoverForgotten(): Promise<void> {
    const there = await this.#options.leases.writers();
    await this.#recover((owner) => owner !== undefined && !there.has(owner));
  }
}

/** Before owners were named an intent was its record. */
function ownedIntent(value: unknown): Partial<Intent> & Pick<Intent, 'record'> {
  const stored = value as Intent | UnhashedRecord;
  return 'owner' in stored ? stored : { record: stored };
}
