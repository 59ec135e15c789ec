/*
 * The storage contract: what a driver MUST and MUST NOT do. Drivers are written natively, each in its own room; one conformance suite
 * (test/contract/storage.ts) runs against every one of them. All ports are asynchronous, so that a networked store can stand behind them.
 *
 * Words: a *commit* is one atomic unit (an optional record and a list of effects). *Stored* means that it survives the death of the process.
 */

/** A change that is committed together with a record, or alone. Keys and spaces are ASCII without NUL. */
export type Effect =
  /** Writes an entity; `value` is JSON data. */
  | { readonly op: 'put'; readonly space: string; readonly key: string; readonly value: unknown }
  | { readonly op: 'delete'; readonly space: string; readonly key: string }
  /** Adds to integer counters; amounts are signed and exact (pico-dollars do not fit in a double). */
  | { readonly op: 'add'; readonly space: string; readonly key: string; readonly amounts: Readonly<Record<string, bigint>> };

export interface RecordCommit {
  readonly record_id: string;
  /** Lower-case hex SHA-256. */
  readonly record_hash: string;
  /** The whole record, `record_hash` included, as canonical text (RFC 8785). */
  readonly text: string;
  /** Milliseconds since the epoch; retention counts from here. */
  readonly committed_at: number;
}

export interface StoredRecord {
  readonly text: string;
  /** Position in commit order: a record that was committed later has a larger position. Opaque otherwise. */
  readonly position: string;
}

export interface Store {
  /**
   * Commits atomically. The promise MUST resolve only when the commit is stored and MUST reject (`record_store_unavailable`) when it is not;
   * a rejected commit MUST NOT become visible later. Commits become visible in the order in which they were handed over.
   * After resolving, every read of this store MUST see the commit. Committing a `record_id` that exists MUST reject.
   */
  commit(record: RecordCommit | undefined, effects: readonly Effect[]): Promise<void>;

  /** False while writes fail (disk full); callers then refuse new work (decision 7.10). A driver MUST probe by itself and recover. */
  readonly writable: boolean;

  recordById(recordId: string): Promise<StoredRecord | undefined>;
  recordByHash(recordHash: string): Promise<StoredRecord | undefined>;
  /** Records in commit order; `after` is exclusive, `limit` at least 1. `newestFirst` walks backwards from `after` or from the end. */
  records(page: { readonly after?: string; readonly limit: number; readonly newestFirst?: boolean }): Promise<readonly StoredRecord[]>;

  get(space: string, key: string): Promise<unknown>;
  /** Entities of a space in key order (code units); `after` is exclusive. */
  list(space: string, page?: { readonly prefix?: string; readonly after?: string; readonly limit?: number }): Promise<readonly { readonly key: string; readonly value: unknown }[]>;

  counter(space: string, key: string): Promise<Readonly<Record<string, bigint>>>;
  counters(space: string, prefix?: string): Promise<readonly { readonly key: string; readonly amounts: Readonly<Record<string, bigint>> }[]>;

  /** Removes records committed before `epochMs` as far as whole segments allow; returns how many. MUST NOT touch entities or counters. */
  removeRecordsBefore(epochMs: number): Promise<number>;

  /** Forces everything stored so far to the medium (fsync). */
  sync(): Promise<void>;
  /** Waits for what is under way, syncs, releases files and locks. Idempotent. */
  close(): Promise<void>;
}
