import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { SpaceWatchers, type WatchListener } from '../contract/space-watchers.ts';
import { withWholeKeys } from './long-keys.ts';
import type { EntityChange } from './queued-commit.ts';
import { inTransaction, type Sql, type SqlPool, type SqlRow, textArray } from './sql.ts';

const POLL_EVERY_MS = 500;
/** Who is further behind lists anew, which costs no more. */
const MAX_CHANGES = 10_000;
/** Who has not looked for so long lists anew. Intervals of PostgreSQL. */
const DELETIONS_FOR = '1 hour';
/** A writer that was not closed is remembered for as long as somebody may still ask what became of its batch. */
const WRITERS_FOR = '30 days';
const FORGOTTEN_AT_ONCE = 5_000;

export interface ChangePollOptions {
  readonly clock: Clock;
  readonly log: Pick<Logger, 'error'>;
  /** Runs reads as the store's own do: what it brings has been told by the store's writer, where that has made it. */
  readonly read: <T>(work: (sql: Sql) => Promise<T>) => Promise<T>;
}

/** What a look at the database has found. */
/** An entity that has changed; undefined for a value that is deleted. */
interface ChangedRow {
  readonly space: string;
  readonly key: string;
  /** The key as the tables have it. */
  readonly stored: string;
  readonly value: string | undefined;
  readonly change: bigint;
}

interface Look {
  readonly change: bigint;
  readonly rows: readonly ChangedRow[];
  readonly isLost: boolean;
}

/**
 * Tells watchers what becomes of entities: what the store's own writer does at once, what others do by a look at the
 * row of changes every half second. There is one poll for a store, and none while nobody watches.
 */
export class ChangePoll {
  readonly #options: ChangePollOptions;
  readonly #watchers: SpaceWatchers;
  /** Everything up to this change has been told; undefined: nobody watches. */
  #seen: bigint | undefined;
  /** Changes of the own writer behind that: they have been told. */
  readonly #own = new Set<bigint>();
  /** What the own writer has told since the look that is under way has begun: the change, by `space NUL key`. */
  readonly #toldMeanwhile = new Map<string, bigint>();
  #starting: Promise<void> | undefined;
  #cancel: (() => void) | undefined;
  #polling: Promise<void> | undefined;
  #closed = false;

  constructor(options: ChangePollOptions) {
    this.#options = options;
    this.#watchers = new SpaceWatchers(options.log);
  }

  /** @returns what ends it, once the listener is told of every change */
  async watch(space: string, listener: WatchListener): Promise<() => void> {
    while (this.#seen === undefined && !this.#closed) {
      this.#starting ??= this.#start().finally(() => {
        this.#starting = undefined;
      });
      await this.#starting;
    }
    const end = this.#watchers.add(space, listener);
    return () => {
      end();
      if (this.#watchers.isEmpty) this.#rest();
    };
  }

  /** What the own writer has made visible. Changes come in their order. */
  own(change: bigint, entities: readonly EntityChange[]): void {
    if (this.#seen === undefined) return;
    this.#own.add(change);
    for (const { id, space, key, long, text } of entities) {
      if (!this.#watchers.watches(space)) continue;
      if (this.#polling) this.#toldMeanwhile.set(id, change);
      this.#watchers.tell(space, long ?? key, text);
    }
  }

  /** Nobody is told anything from here on. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#watchers.close();
    this.#rest();
    await this.#polling;
  }

  /** A first look says from where on changes are told. */
  async #start(): Promise<void> {
    const { change } = await this.#options.read((sql) => look(sql, undefined, []));
    if (this.#closed) return;
    this.#seen = change;
    this.#later();
  }

  #rest(): void {
    this.#cancel?.();
    this.#seen = undefined;
    this.#own.clear();
  }

  #later(): void {
    this.#cancel?.();
    this.#cancel = this.#options.clock.after(POLL_EVERY_MS, () => {
      this.#polling ??= this.#poll().finally(() => {
        this.#polling = undefined;
        this.#toldMeanwhile.clear();
        if (this.#seen !== undefined) this.#later();
      });
    });
  }

  async #poll(): Promise<void> {
    const seen = this.#seen;
    let found: Look;
    try {
      found = await this.#options.read((sql) => look(sql, { seen: seen ?? 0n, own: this.#own }, this.#watchers.spaces));
    } catch {
      // The numbers say what was missed meanwhile.
      return;
    }
    if (this.#seen !== seen) return;
    this.#seen = found.change;
    const own = new Set(this.#own);
    for (const change of own) if (change <= found.change) this.#own.delete(change);
    if (found.isLost) this.#watchers.tellLost();
    else this.#tell(found, own);
  }

  #tell({ rows, change: last }: Look, own: ReadonlySet<bigint>): void {
    for (const { space, key, stored, value, change } of rows) {
      const told = this.#toldMeanwhile.get(`${space}\0${stored}`);
      // The next look tells of what came in the midst of this one.
      if (change > last) continue;
      // The own writer has told of it, or of what came behind it.
      if (own.has(change) || (told !== undefined && told >= change)) continue;
      this.#watchers.tell(space, key, value);
    }
  }
}

/** What happened in these spaces behind a change, the last thing of each key, in the order of changes. */
async function look(
  sql: Sql,
  from: { readonly seen: bigint; readonly own: ReadonlySet<bigint> } | undefined,
  spaces: readonly string[],
): Promise<Look> {
  const [state] = await sql.query('SELECT change::text, forgotten::text FROM gw_state');
  const change = BigInt(state?.['change'] ?? '0');
  if (from === undefined || change === from.seen) return { change, rows: [], isLost: false };
  // A database that was set back to an earlier moment; or deletions behind that change are not remembered any more.
  if (change < from.seen || BigInt(state?.['forgotten'] ?? '0') > from.seen) return { change, rows: [], isLost: true };
  if (isAllOwn(from.own, from.seen, change)) return { change, rows: [], isLost: false };
  const rows = await sql.query(
    `SELECT space, key, value, change::text FROM (
       SELECT space, key, value, change FROM gw_entities WHERE change > $1::text::bigint AND space = ANY ($2::text::text[])
       UNION ALL
       SELECT space, key, NULL, change FROM gw_deletions
       WHERE change > $1::text::bigint AND space = ANY ($2::text::text[])
         AND NOT EXISTS (SELECT FROM gw_entities now WHERE now.space = gw_deletions.space AND now.key = gw_deletions.key)
     ) AS changed ORDER BY changed.change LIMIT ${MAX_CHANGES + 1}`,
    [from.seen.toString(), textArray(spaces)],
  );
  const named = await withWholeKeys(sql, rows.map(changedRow));
  return { change, rows: named, isLost: rows.length > MAX_CHANGES };
}

function changedRow(row: SqlRow): ChangedRow {
  const key = row['key'] ?? '';
  return { space: row['space'] ?? '', key, stored: key, value: row['value'] ?? undefined, change: BigInt(row['change'] ?? '0') };
}

function isAllOwn(own: ReadonlySet<bigint>, seen: bigint, change: bigint): boolean {
  if (BigInt(own.size) < change - seen) return false;
  for (let number = seen + 1n; number <= change; number += 1n) if (!own.has(number)) return false;
  return true;
}

/**
 * Removes what is remembered of deletions that everybody who watches has seen by now, oldest first and some at a time,
 * and writers that have long been gone. The row of changes then says up to where deletions are forgotten.
 */
export async function forgetOldChanges(pool: SqlPool): Promise<void> {
  await inTransaction(pool, async (sql) => {
    await sql.query('SELECT 1::text AS locked FROM gw_state FOR UPDATE');
    await sql.query(
      `WITH oldest AS (
         SELECT space, key FROM gw_deletions WHERE at < now() - interval '${DELETIONS_FOR}' ORDER BY change LIMIT ${FORGOTTEN_AT_ONCE}
       ), gone AS (
         DELETE FROM gw_deletions USING oldest
         WHERE gw_deletions.space = oldest.space AND gw_deletions.key = oldest.key RETURNING change
       )
       UPDATE gw_state SET forgotten = greatest(forgotten, (SELECT max(gone.change) FROM gone))`,
    );
    await sql.query(`DELETE FROM gw_writers WHERE seen_at < now() - interval '${WRITERS_FOR}'`);
  });
}
