/*
 * The storage contract: what a driver MUST and MUST NOT do. Drivers are written natively, each in its own room; one
 * conformance suite (test/contract/storage.ts) runs against every one of them. All ports are asynchronous, so that a
 * networked store can stand behind them.
 *
 * A store may have several writers, in one process or in many: nothing may rely on its own commits being the only ones,
 * and what must not happen twice is told by `expect`. What one driver alone can mean (files, their sizes, forcing them
 * to the medium) is a method of that driver, and `app`, which chose it, calls it.
 *
 * Words: a *commit* is one atomic unit (an optional record and a list of effects). *Stored* means that it survives the
 * death of the process. A commit is *visible* when reads see it. A *writer* is a `Store` that was opened.
 */

import type { RecordMembers, RecordQuery } from './record-query.ts';

/**
 * A change that is committed together with a record, or alone. Spaces, keys and the names of counters are ASCII without
 * NUL and not empty.
 */
export type Effect =
  /** Writes an entity; `value` is JSON data. */
  | { readonly op: 'put'; readonly space: string; readonly key: string; readonly value: unknown }
  | { readonly op: 'delete'; readonly space: string; readonly key: string }
  /**
   * Adds to integer counters; amounts are signed and exact (pico-dollars do not fit in a double). Counters and entities
   * do not share keys.
   */
  | { readonly op: 'add'; readonly space: string; readonly key: string; readonly amounts: Readonly<Record<string, bigint>> };

export interface RecordCommit {
  /** 1 to 128 visible ASCII characters (decision 4.7). */
  readonly record_id: string;
  /** Lower-case hex SHA-256. */
  readonly record_hash: string;
  /** The whole record, `record_hash` included, as canonical text (RFC 8785). */
  readonly text: string;
  /** Milliseconds since the epoch; retention counts from here. */
  readonly committed_at: number;
  /**
   * The record that `text` is the text of, for whoever has it at hand: drivers that keep what queries ask for need not
   * read the text. It MUST say what the text says, and stay as it is until the commit has settled.
   */
  readonly members?: RecordMembers;
}

export interface StoredRecord {
  readonly text: string;
  /**
   * Where it stands in commit order. Opaque: it goes back to this store as `after` of a query, and nothing outside of
   * the driver compares it or reads it.
   */
  readonly position: string;
}

/**
 * An entity with the version that it has. A version is opaque text: nothing outside of a driver may compare it but for
 * being the same, and nothing may make one. Other values MUST have other versions, and an entity that is not written
 * MUST keep its own, also when the store is opened again. Whether writing an equal value again makes another version is
 * up to the driver.
 */
export interface Entity {
  /** A copy. */
  readonly value: unknown;
  readonly version: string;
}

/** What must be true of an entity for a commit to take place. */
export interface Expectation {
  readonly space: string;
  readonly key: string;
  /** The version that it has; undefined: there is no such entity. */
  readonly version: string | undefined;
}

/**
 * What a watcher of a space is told: that an entity was put, or deleted (then value and version are undefined), or that
 * something it was not told of may have been.
 */
export type EntityEvent =
  | { readonly lost?: undefined; readonly key: string; readonly value: unknown; readonly version: string | undefined }
  | { readonly lost: true };

/** One counter key and its named totals. */
export interface CounterRow {
  readonly key: string;
  readonly amounts: Readonly<Record<string, bigint>>;
}

/**
 * Why a store does not open, or cannot read what it holds. A driver that refuses to open MUST change nothing. `message`
 * is one line for the operator. `in_use`: another process has it. `newer_format`: written by a newer version.
 * `corrupt`: what is there is damaged; the message says where.
 */
export class StoreError extends Error {
  readonly code: 'in_use' | 'newer_format' | 'corrupt' | 'closed';

  /** Of the process that has the store, where it is known. */
  readonly pid: number | undefined;

  constructor(code: StoreError['code'], message: string, options?: { cause?: unknown; pid?: number | undefined }) {
    super(message, options);
    this.name = 'StoreError';
    this.code = code;
    this.pid = options?.pid;
  }
}

/** Which entities of a space a list holds; `after` is exclusive. */
export interface EntityPage {
  readonly prefix?: string;
  readonly after?: string;
  readonly limit?: number;
}

export interface Store {
  /**
   * Commits atomically, effects in their order. The promise MUST resolve only when the commit is stored and MUST reject
   * (`record_store_unavailable`) when it is not; a rejected commit MUST NOT become visible later. After resolving,
   * every read of this store MUST see the commit. Before, none may. What was handed over is copied: changing it later
   * MUST NOT change what is stored. Committing a `record_id` that exists MUST reject (`conflict`). A commit that breaks
   * the rules of its types MUST reject with a TypeError.
   *
   * Order is that of a writer. Its commits MUST become visible in the order in which they were handed over to it, also
   * those that nobody waits for; of what was under way when its process died, the first ones are there and nothing
   * behind the first that is not. How the commits of two writers lie to each other is not said: neither time nor ids
   * tell it, and nothing may rely on it. Only of one entity all see the same changes in the same order.
   *
   * With `expect` a commit MUST take place only if all of it is true, judged together with the commit as one step: of
   * commits that expect the same and change it, from whichever writer, one takes place. The others MUST reject
   * (`conflict`) and change nothing, and MUST NOT do so before reads see what they conflict with. What was handed over
   * before and is not stored yet counts as if it were; where it turns out not to be, the commit MUST reject
   * (`record_store_unavailable`).
   */
  commit(record: RecordCommit | undefined, effects: readonly Effect[], expect?: readonly Expectation[]): Promise<void>;

  /**
   * False while writes fail (disk full); callers then refuse new work (decision 7.10). A driver MUST probe by itself
   * and recover. False when closed.
   */
  readonly writable: boolean;

  recordById(recordId: string): Promise<StoredRecord | undefined>;
  recordByHash(recordHash: string): Promise<StoredRecord | undefined>;
  /**
   * The records of which all filters of the query are true, in commit order or with `newestFirst` in the opposite one;
   * a page with fewer than `limit` is the last. In commit order those of one writer stand as it handed them over, and a
   * record MUST stand behind all that were visible before it was: who goes on behind the last one that he has read
   * follows all writers, each in its order, and misses nothing. A driver MUST do the choosing and ordering itself: what
   * a query costs follows from what it brings, not from reading records that it does not. Nor may it keep other work
   * waiting for long.
   *
   * `after` takes the position of any record that this store has given out, from whichever query, and goes on behind
   * it. It stays valid when its record is removed: forwards the page begins at the oldest record left, backwards it is
   * empty. A position that the store never gave out MUST reject (`invalid_request`); a limit that is no integer of at
   * least 1, or a time or cost that is none, MUST reject with a TypeError.
   */
  records(query: RecordQuery): Promise<readonly StoredRecord[]>;

  /**
   * A copy of the entity's value; undefined when there is none: also of a key that none can have, since callers ask for
   * what strangers name.
   */
  get(space: string, key: string): Promise<unknown>;
  /** The same with its version. */
  entity(space: string, key: string): Promise<Entity | undefined>;
  /** Entities of a space in key order (code units). One consistent state, whatever is committed meanwhile. */
  list(space: string, page?: EntityPage): Promise<readonly { readonly key: string; readonly value: unknown }[]>;
  /** The same with their versions. */
  entities(space: string, page?: EntityPage): Promise<readonly (Entity & { readonly key: string })[]>;

  /**
   * From when it has resolved, `listener` is told of every entity of the space that is put or deleted, by whichever
   * writer: once reads see it, and of one key in the order of its changes; `value` is a copy. It returns what ends
   * that. A listener that throws or rejects MUST harm nobody: neither the commit nor other listeners.
   *
   * Who watches first, then lists, and then lets what he is told of (also while he was listing) take the place of what
   * the list said, in the order in which it came, ends with what is stored. A driver that cannot say what it missed (a
   * connection broke) MUST tell `{ lost: true }` when it can go on: what is known is stale then until the space is
   * listed again in the same way. After `close` nobody is told anything.
   */
  watch(space: string, listener: (event: EntityEvent) => void | Promise<void>): Promise<() => void>;

  /** Totals by name; empty when nothing was ever added. */
  counter(space: string, key: string): Promise<Readonly<Record<string, bigint>>>;
  /**
   * A page of a space's counters in key order (code units); `after` is exclusive, `limit` at least 1, and a page with
   * fewer rows MUST be the last. It is one consistent state; the next page is one of its own, with everything that is
   * visible by then. There may be any number of counters: who wants all of them takes `counterPages`, which lets other
   * work go on between two pages.
   */
  counters(
    space: string,
    page: { readonly prefix?: string; readonly after?: string; readonly limit: number },
  ): Promise<readonly CounterRow[]>;

  /**
   * Removes records committed before `epochMs`; returns how many. A driver may keep some of them longer, for a time
   * that it states. It MUST NOT remove a younger record, MUST NOT touch entities or counters, and MUST NOT remove a
   * record while an older one stays.
   */
  removeRecordsBefore(epochMs: number): Promise<number>;

  /**
   * Waits for what is under way and releases what is held. Idempotent. Afterwards a commit MUST reject
   * (`record_store_unavailable`) and a read MUST reject.
   */
  close(): Promise<void>;
}
