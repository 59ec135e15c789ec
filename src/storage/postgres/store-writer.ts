import { type Clock, pause } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { unavailable } from '../contract/commit-rules.ts';
import { knownState, type LockedChange, lockedChange, TAKE_CHANGE, writeBatch } from './apply-batch.ts';
import { forgetOldChanges } from './change-poll.ts';
import { isOfValues, isPassing } from './database-errors.ts';
import { isAllConflict, type JudgedBatch, judgeBatch } from './judge-batch.ts';
import type { EntityChange, QueuedCommit } from './queued-commit.ts';
import type { ReadGate } from './read-gate.ts';
import type { RecordMonths } from './record-months.ts';
import { BEGIN, inTransaction, onConnection, type SqlConnection, type SqlPool } from './sql.ts';

export interface StoreWriterOptions {
  readonly pool: SqlPool;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'error'>;
  readonly gate: ReadGate;
  readonly months: RecordMonths;
  /** Its name in the database: no other writer, then or later, has it. ASCII letters, digits and hyphens. */
  readonly writer: string;
  /** Told what has become visible, in the order of changes, once its commits have resolved. MUST NOT throw. */
  readonly onVisible: (change: bigint, entities: readonly EntityChange[]) => void;
}

/** A commit that was handed over. */
interface Waiting {
  readonly commit: QueuedCommit;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** One transaction has no more than that. */
const BATCH_COMMITS = 500;
const BATCH_BYTES = 4 * 1024 * 1024;
/** What waits for a slow database; more is refused. */
const MAX_WAITING = 50_000;
const PROBE_EVERY_MS = 500;
const TIDY_EVERY_MS = 60_000;
/** How often a store that is closed asks once more what became of its last batch. */
const TRIES_AT_CLOSE = 3;

/**
 * The one writer of an opened store. Commits queue up and go in order, many in one transaction. When one cannot be
 * stored, all that wait behind it are refused too, and so is what comes, until a probe has shown that the database
 * takes writes again.
 */
export class StoreWriter {
  readonly #options: StoreWriterOptions;
  readonly #waiting: Waiting[] = [];
  #running: Promise<void> | undefined;
  #failed = false;
  /** Nobody knows what became of a batch. */
  #inDoubt = false;
  #closed = false;
  #batches = 0;
  #tidyAt: number;
  #cancelProbe: (() => void) | undefined;
  #probing: Promise<void> | undefined;

  constructor(options: StoreWriterOptions) {
    this.#options = options;
    this.#tidyAt = options.clock.monotonic() + TIDY_EVERY_MS;
  }

  /** False from a failed write until a probe has succeeded, and once it is closed. */
  get healthy(): boolean {
    return !this.#failed && !this.#inDoubt && !this.#closed;
  }

  /** Resolves when the commit is stored and visible. */
  push(commit: QueuedCommit): Promise<void> {
    if (!this.healthy) return Promise.reject(unavailable());
    if (this.#waiting.length >= MAX_WAITING) return Promise.reject(unavailable(new Error('too many commits wait for the database')));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ commit, resolve, reject });
      this.#running ??= this.#run();
    });
  }

  /** Resolves when everything that was handed over is settled. */
  async drained(): Promise<void> {
    while (this.#running) await this.#running;
  }

  /** Takes nothing more. Resolves when nothing is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.drained();
    this.#cancelProbe?.();
    await this.#probing;
    if (!this.#failed) await this.#forgetWriter().catch(() => undefined);
  }

  async #run(): Promise<void> {
    // What is handed over in one turn of the event loop goes together.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      await this.#store(this.#nextBatch());
      if (!this.#failed) await this.#tidy();
    }
    this.#running = undefined;
  }

  /** From time to time what nobody needs any more is removed. Never throws. */
  async #tidy(): Promise<void> {
    const now = this.#options.clock.monotonic();
    if (now < this.#tidyAt) return;
    this.#tidyAt = now + TIDY_EVERY_MS;
    await forgetOldChanges(this.#options.pool).catch(() => undefined);
  }

  #nextBatch(): readonly Waiting[] {
    let bytes = 0;
    let count = 0;
    for (const { commit } of this.#waiting) {
      bytes += commit.bytes;
      if (count > 0 && (bytes > BATCH_BYTES || count >= BATCH_COMMITS)) break;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  /** Stores a batch, or rejects what of it cannot be stored. Never throws. */
  async #store(batch: readonly Waiting[]): Promise<void> {
    const commits = batch.map(({ commit }) => commit);
    try {
      await this.#options.months.storing(commits, () => this.#try(batch, commits));
    } catch (error) {
      if (isOfValues(error)) await this.#apart(batch, error);
      else this.#fail(batch, error);
    }
  }

  /** Something in a batch is what no database keeps: it alone is refused. */
  async #apart(batch: readonly Waiting[], cause: unknown): Promise<void> {
    if (batch.length === 1) return batch[0]?.reject(unavailable(cause));
    for (const one of batch) {
      if (this.#failed) this.#fail([one], cause);
      else await this.#store([one]);
    }
  }

  async #try(batch: readonly Waiting[], commits: readonly QueuedCommit[]): Promise<void> {
    const { pool, gate } = this.#options;
    this.#batches += 1;
    const work = () => onConnection(pool, (connection) => this.#transaction(connection, batch, commits));
    // Where reads wait for the transaction, it must not wait for them.
    await (pool.isSerial === true ? gate.shut(work) : work());
  }

  async #transaction(connection: SqlConnection, batch: readonly Waiting[], commits: readonly QueuedCommit[]): Promise<void> {
    const { pool, gate, writer } = this.#options;
    const [row] = await connection.query(
      `${BEGIN}INSERT INTO gw_writers (writer, batch) VALUES ('${writer}', ${this.#batches})
       ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, seen_at = now(); ${TAKE_CHANGE}`,
    );
    const locked = lockedChange(row);
    const judged = judgeBatch(commits, await knownState(connection, commits, locked));
    if (isAllConflict(judged)) {
      await connection.query('ROLLBACK');
      return settle(batch, judged);
    }
    await writeBatch(connection, judged, locked);
    const end = () => this.#end(connection, batch, judged, locked);
    await (pool.isSerial === true ? end() : gate.shut(end));
  }

  /** Makes a batch visible and tells everybody. */
  async #end(connection: SqlConnection, batch: readonly Waiting[], judged: JudgedBatch, { change }: LockedChange): Promise<void> {
    try {
      await connection.query('COMMIT');
    } catch (error) {
      if (isPassing(error) || isOfValues(error)) throw error;
      // Anything else may have come when the transaction was over. If it is not, it ends with its connection.
      connection.release(true);
      if (!(await this.#isStored(error))) throw error;
    }
    settle(batch, judged);
    this.#options.onVisible(change, judged.told);
  }

  /**
   * Whether the last batch is stored, whose end nobody has heard of. The row of changes tells when: its transaction
   * holds that row, so that who gets it knows that the transaction is over. Throws once the store is closed and cannot
   * find out.
   */
  async #isStored(cause: unknown): Promise<boolean> {
    const { pool, clock, log, writer } = this.#options;
    log.error({ err: cause }, 'The connection broke while commits were stored; the database is asked what became of them');
    this.#inDoubt = true;
    let triesLeft = TRIES_AT_CLOSE;
    try {
      for (;;) {
        try {
          const [row] = await inTransaction(pool, async (sql) => {
            await sql.query('SELECT 1::text AS locked FROM gw_state FOR UPDATE');
            return sql.query('SELECT batch::text FROM gw_writers WHERE writer = $1::text', [writer]);
          });
          return row?.['batch'] === `${this.#batches}`;
        } catch (error) {
          if (this.#closed) triesLeft -= 1;
          if (triesLeft === 0) throw error;
          await pause(clock, PROBE_EVERY_MS);
        }
      }
    } finally {
      this.#inDoubt = false;
    }
  }

  /** Nothing of the batch is stored, and what came behind it would only fail too. */
  #fail(batch: readonly Waiting[], cause: unknown): void {
    const refused = [...batch, ...this.#waiting.splice(0)];
    if (!this.#failed)
      this.#options.log.error({ err: cause, commits: refused.length }, 'The database takes no commits; nothing is accepted until it does');
    this.#failed = true;
    this.#probeLater();
    for (const { reject } of refused) reject(unavailable(cause));
  }

  #probeLater(): void {
    this.#cancelProbe?.();
    if (this.#closed) return;
    this.#cancelProbe = this.#options.clock.after(PROBE_EVERY_MS, () => {
      this.#probing ??= this.#probe().finally(() => {
        this.#probing = undefined;
      });
    });
  }

  async #probe(): Promise<void> {
    const { pool, writer, log } = this.#options;
    try {
      await inTransaction(pool, (sql) =>
        sql.query(
          `INSERT INTO gw_writers (writer, batch) VALUES ($1::text, $2::text::bigint) ON CONFLICT (writer) DO UPDATE SET seen_at = now()`,
          [writer, `${this.#batches}`],
        ),
      );
    } catch {
      return this.#probeLater();
    }
    this.#failed = false;
    log.info({}, 'The database takes commits again');
  }

  async #forgetWriter(): Promise<void> {
    const { pool, writer } = this.#options;
    await inTransaction(pool, (sql) => sql.query('DELETE FROM gw_writers WHERE writer = $1::text', [writer]));
  }
}

function settle(batch: readonly Waiting[], { conflicts }: JudgedBatch): void {
  for (const [at, { resolve, reject }] of batch.entries()) {
    const conflict = conflicts[at];
    if (conflict) reject(conflict);
    else resolve();
  }
}
