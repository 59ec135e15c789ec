import { isDeepStrictEqual } from 'node:util';
import type { Effect, EntityEvent, Expectation, Store } from '../../storage/contract/store.ts';
import { entityRows } from '../../storage/contract/store-pages.ts';
import { unlessConflict } from '../registers/commit.ts';
import { Register } from '../registers/register.ts';
import { DomainCallers } from './domain-callers.ts';
import {
  absorb,
  type DomainEntry,
  type DomainTable,
  type ForgottenDomains,
  forgottenOf,
  readForgotten,
  type StoredDomain,
  storedDomain,
} from './domain-table.ts';

const SPACE = 'discovered_domain';
const OTHER_SPACE = 'discovered_other';
const OTHER_KEY = 'other';
const EFFECTS_PER_COMMIT = 500;
/** So often another writer may have saved first; then the next save brings it in. */
const MOST_TRIES = 5;

/** A domain whose state is brought into the store; without an entry it is taken away. */
interface DomainWrite {
  readonly key: string;
  readonly entry?: DomainEntry;
}

interface Prepared {
  readonly effects: Effect[];
  readonly expect: Expectation[];
  /** What each domain is with it. */
  readonly written: Map<string, StoredDomain>;
}

/**
 * What is told of domains while they are written: whether it is what was written is known when the commit has settled.
 */
interface InFlight {
  readonly keys: ReadonlySet<string>;
  readonly told: Map<string, unknown>;
}

const NOTHING_IN_FLIGHT: InFlight = { keys: new Set(), told: new Map() };

/**
 * How the table of domains stands in the store. Several writers may count there: each adds what it has counted, and
 * takes in what the others have.
 */
export class StoredDomains {
  readonly #store: Store;
  readonly #table: DomainTable;
  readonly #namedLike: (host: string) => string | undefined;
  /** The counts of those that were let go, of all writers, without what this one has counted since its last save. */
  readonly #other: Register<ForgottenDomains>;
  /**
   * Left the table and may still be in the store, so that there are never more of them than fit into the table: clients
   * can make up any number of names between two saves.
   */
  readonly #gone: Set<string>;
  #inFlight = NOTHING_IN_FLIGHT;

  private constructor(
    store: Store,
    table: DomainTable,
    gone: Set<string>,
    namedLike: (host: string) => string | undefined,
    other: Register<ForgottenDomains>,
  ) {
    this.#store = store;
    this.#table = table;
    this.#gone = gone;
    this.#namedLike = namedLike;
    this.#other = other;
  }

  /**
   * Watches what other writers save, and reads what is there.
   * @param gone takes those that leave the table and may be stored
   * @param namedLike the provider that a name looks like
   */
  static async open(
    store: Store,
    table: DomainTable,
    gone: Set<string>,
    namedLike: (host: string) => string | undefined,
  ): Promise<StoredDomains> {
    const changed = (_key: string, now: ForgottenDomains | undefined): void => {
      if (now === undefined) table.clearForgotten();
    };
    const other = await Register.open(store, OTHER_SPACE, { read: readForgotten, changed });
    const stored = new StoredDomains(store, table, gone, namedLike, other);
    await store.watch(SPACE, (event) => stored.#hear(event));
    await stored.#read();
    return stored;
  }

  /** The counts of what was let go, of all writers. */
  get forgotten(): ForgottenDomains {
    return forgottenOf(this.#other.get(OTHER_KEY), this.#table.forgotten);
  }

  /**
   * Forgets every domain, in the store too; the other writers hear of it.
   * @throws GatewayError `record_store_unavailable` when the store cannot write
   */
  async reset(): Promise<void> {
    this.#table.clear();
    for (const { key } of await this.#store.list(SPACE)) this.#gone.add(key);
    await this.#other.remove(OTHER_KEY);
    await this.save();
  }

  /**
   * Brings what changed into the store.
   * @throws GatewayError `record_store_unavailable`; what was not stored is tried again the next time
   */
  async save(): Promise<void> {
    const gone = [...this.#gone];
    const changed = [...this.#table.values()].filter(({ dirty }) => dirty);
    const writes: readonly DomainWrite[] = [...gone.map((key) => ({ key })), ...changed.map((entry) => ({ key: entry.domain, entry }))];
    this.#gone.clear();
    for (const entry of changed) {
      entry.dirty = false;
      entry.isStored = true;
    }
    try {
      await this.#saveForgotten();
      for (let at = 0; at < writes.length; at += EFFECTS_PER_COMMIT) await this.#write(writes.slice(at, at + EFFECTS_PER_COMMIT));
    } catch (error) {
      for (const key of gone) {
        const again = this.#table.get(key);
        if (again === undefined) this.#gone.add(key);
        else again.isStored = true;
      }
      for (const entry of changed) if (this.#table.get(entry.domain) === entry) entry.dirty = true;
      throw error;
    }
  }

  async #saveForgotten(): Promise<void> {
    const own = { ...this.#table.forgotten };
    if (own.domains === 0) return;
    this.#table.clearForgotten();
    try {
      await this.#other.change(OTHER_KEY, (stored): ForgottenDomains => forgottenOf(stored, own));
    } catch (error) {
      this.#table.addForgotten(own);
      throw error;
    }
  }

  async #write(writes: readonly DomainWrite[]): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      const { effects, expect, written } = await this.#prepare(writes);
      if (effects.length === 0) return;
      const told = new Map<string, unknown>();
      this.#inFlight = { keys: new Set(writes.map(({ key }) => key)), told };
      const commit = this.#store.commit(undefined, effects, expect);
      const done = tries < MOST_TRIES ? unlessConflict(commit) : commit.then(() => true);
      const isDone = await done.finally(() => {
        this.#inFlight = NOTHING_IN_FLIGHT;
      });
      if (isDone) for (const { key, entry } of writes) settle(entry, written.get(key));
      this.#learnOthers(told, isDone ? written : undefined);
      if (isDone) return;
    }
  }

  /**
   * Takes in what was told during a write, without what that write has stored.
   * @param own undefined: it has stored nothing
   */
  #learnOthers(told: ReadonlyMap<string, unknown>, own: Prepared['written'] | undefined): void {
    for (const [key, value] of told) if (own === undefined || !isDeepStrictEqual(value, own.get(key))) this.#learn(key, value);
  }

  async #prepare(writes: readonly DomainWrite[]): Promise<Prepared> {
    const prepared: Prepared = { effects: [], expect: [], written: new Map() };
    const rows = await Promise.all(writes.map(async ({ key, entry }) => entry && (await this.#store.entity(SPACE, key))));
    for (const [at, { key, entry }] of writes.entries()) {
      const row = rows[at];
      if (entry === undefined) prepared.effects.push({ op: 'delete', space: SPACE, key });
      else if (this.#takeIn(entry, storedDomain(row?.value))) {
        const value = kept(entry);
        prepared.written.set(key, value);
        prepared.effects.push({ op: 'put', space: SPACE, key, value });
        prepared.expect.push({ space: SPACE, key, version: row?.version });
      }
    }
    return prepared;
  }

  /** Brings in what others have stored of a domain that is about to be written. False: another has taken it away. */
  #takeIn(entry: DomainEntry, stored: StoredDomain | undefined): boolean {
    if (stored === undefined) {
      if (entry.stored === undefined || entry.isAnew) return true;
      this.#table.drop(entry.domain);
      return false;
    }
    // Its counts of before are among those of what was let go.
    if (entry.isAnew) entry.stored = stored;
    else absorb(entry, stored);
    return true;
  }

  #hear(event: EntityEvent): void | Promise<void> {
    if (event.lost === true) return this.#read();
    if (this.#inFlight.keys.has(event.key)) this.#inFlight.told.set(event.key, event.value);
    else this.#learn(event.key, event.value);
  }

  #learn(key: string, value: unknown): void {
    const entry = this.#table.get(key);
    const stored = storedDomain(value);
    if (stored === undefined) {
      // Another has let it go, and has counted that.
      if (entry?.stored !== undefined && !entry.isAnew) this.#table.drop(key);
    } else if (entry !== undefined) {
      if (!entry.isAnew) absorb(entry, stored);
    } else if (!this.#gone.has(key)) this.#table.add(this.#fresh(key, stored));
  }

  #fresh(domain: string, stored: StoredDomain): DomainEntry {
    const { firstSeen, lastSeen } = stored;
    const counts = { connections: 0, requests: 0, developer: 0, ambient: 0, firstSeen, lastSeen };
    const marks = { pinned: false, wantsClientCertificate: false, namedLike: this.#namedLike(domain), dirty: false };
    const entry = { domain, ...counts, ...marks, isStored: true, isAnew: false, stored: undefined, callers: new DomainCallers() };
    absorb(entry, stored);
    return entry;
  }

  async #read(): Promise<void> {
    const there = new Set<string>();
    for await (const { key, value } of entityRows(this.#store, SPACE)) {
      there.add(key);
      this.#learn(key, value);
    }
    for (const { domain } of [...this.#table.values()]) if (!there.has(domain)) this.#learn(domain, undefined);
  }
}

/** It is stored as it was written. */
function settle(entry: DomainEntry | undefined, written: StoredDomain | undefined): void {
  if (entry === undefined || written === undefined) return;
  entry.stored = written;
  entry.isAnew = false;
}

function kept({
  domain: _domain,
  dirty: _dirty,
  isStored: _isStored,
  isAnew: _isAnew,
  stored: _stored,
  namedLike: _namedLike,
  from: _from,
  callers,
  ...value
}: DomainEntry): StoredDomain {
  return { ...value, callers: callers.stored() };
}
