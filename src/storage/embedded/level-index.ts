import { Level } from 'level';
import { codeOf } from '../../base/lib/gateway-error.ts';

/**
 * What the index says about itself; written with every batch, so that rows and position can never disagree. Commits
 * before the position are in the rows.
 */
export interface IndexState {
  readonly format: number;
  readonly segment: number;
  readonly offset: number;
  /** The oldest segment that was not removed. */
  readonly first: number;
  /**
   * The journal was on the medium as far as the position when this was written: a journal that ends before it was
   * damaged, not cut by a crash.
   */
  readonly synced: boolean;
}

/** Letters that begin the keys of the index. */
export const ROW = { entity: 'e', counter: 'c', recordId: 'i', recordHash: 'h', segment: 's' } as const;

/** Sorts behind every key that begins with the same text: keys are ASCII. */
const BEHIND = '\u{10ffff}';
const STATE_KEY = 'm';
const BATCH_ROWS_PER_TURN = 512;
/** Four times LevelDB's own: record hashes are random keys, and every merge of a larger run saves one of a smaller. */
const WRITE_BUFFER_BYTES = 16 * 1024 * 1024;
/**
 * What one visit to the thread pool brings. LevelDB's own 16 KiB are 150 counters, and every visit waits for its turn.
 */
const READ_AHEAD_BYTES = 256 * 1024;

export type IndexRow = readonly [key: string, value: string | undefined];

/** LevelDB behind a few verbs. Its own file lock is the lock of the whole data folder. */
export class LevelIndex {
  readonly #db: Level<string, string>;

  private constructor(db: Level<string, string>) {
    this.#db = db;
  }

  /** Opens or creates the index. Rejects with LevelDB's error; see {@link isLocked}. */
  static async open(folder: string): Promise<LevelIndex> {
    const db = new Level<string, string>(folder, { keyEncoding: 'utf8', valueEncoding: 'utf8', writeBufferSize: WRITE_BUFFER_BYTES });
    await db.open();
    return new LevelIndex(db);
  }

  get isOpen(): boolean {
    return this.#db.status === 'open';
  }

  /** Undefined in a new index. */
  async state(): Promise<IndexState | undefined> {
    const text = await this.#db.get(STATE_KEY);
    return text === undefined ? undefined : parseState(text);
  }

  /**
   * One row, read in place: 2 µs, where handing it to the thread pool costs 20. Throws when the index is not open or
   * cannot be read.
   */
  get(key: string): string | undefined {
    return this.#db.getSync(key);
  }

  /**
   * Writes rows (an undefined value deletes) and the state in one atomic batch; yields to other work while it collects
   * the rows.
   */
  async write(rows: Iterable<IndexRow>, state: IndexState, options: { readonly sync: boolean }): Promise<void> {
    const batch = this.#db.batch();
    try {
      let turn = 0;
      for (const [key, value] of rows) {
        if (value === undefined) batch.del(key);
        else batch.put(key, value);
        turn += 1;
        if (turn % BATCH_ROWS_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      batch.put(STATE_KEY, JSON.stringify(state));
    } catch (error) {
      await batch.close();
      throw error;
    }
    await batch.write({ sync: options.sync });
  }

  /**
   * Rows whose key begins with `prefix` and is larger than `after`, in order, at most `limit`, as of the moment of the
   * call.
   */
  rows(prefix: string, after?: string, limit = Number.POSITIVE_INFINITY): AsyncIterable<readonly [key: string, value: string]> {
    const behind = after !== undefined && after >= prefix ? { gt: after } : { gte: prefix };
    return this.#db.iterator({ ...behind, lt: prefix + BEHIND, limit, highWaterMarkBytes: READ_AHEAD_BYTES });
  }

  /** The largest key that begins with `prefix`. */
  async lastKey(prefix: string): Promise<string | undefined> {
    for await (const key of this.#db.keys({ gte: prefix, lt: prefix + BEHIND, reverse: true, limit: 1 })) return key;
    return undefined;
  }

  /** After a failed write LevelDB takes no more writes until it is opened again. */
  async reopen(): Promise<void> {
    await this.#db.close();
    await this.#db.open();
  }

  async close(): Promise<void> {
    await this.#db.close();
  }
}

/** True when opening failed because another process, or another store of this one, has the folder. */
export function isLocked(error: unknown): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (codeOf(at) === 'LEVEL_LOCKED') return true;
  }
  return false;
}

function parseState(text: string): IndexState | undefined {
  const state: unknown = JSON.parse(text);
  if (typeof state !== 'object' || state === null) return undefined;
  const { format, segment, offset, first, synced } = { format: 0, segment: 0, offset: 0, first: 0, synced: false, ...state };
  if (![format, segment, offset, first].every((value) => Number.isSafeInteger(value) && value > 0)) return undefined;
  return { format, segment, offset, first, synced };
}
