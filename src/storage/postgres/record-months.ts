import { isPassing, isWithoutPartition } from './database-errors.ts';
import { TABLES_LOCK } from './migrations.ts';
import { inTransaction, type Sql, type SqlPool } from './sql.ts';

/*
 * Records are in a partition for each month in UTC. Bounds are written out with their zone, so that the zone of a
 * session means nothing.
 */

/** Years 1 to 9999: what lies outside is kept in the first or last moment, as far as times are compared. */
const FIRST_MS = Date.UTC(2000, 0, 1) - 63_082_281_600_000;
const HOUR_MS = 3_600_000;
const TRIES = 5;
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** A time as the database keeps it, to the microsecond. @param ms since the epoch, not NaN */
export function storedTime(ms: number): string {
  const within = Math.min(Math.max(ms, FIRST_MS), LAST_MS);
  const whole = Math.floor(within);
  const micros = Math.floor((within - whole) * 1_000);
  return new Date(whole).toISOString().replace('Z', `${String(micros).padStart(3, '0')}Z`);
}

/** The same for a bound, which may lie outside of all times. */
export function boundTime(ms: number): string {
  if (ms > LAST_MS) return 'infinity';
  return ms < FIRST_MS ? '-infinity' : storedTime(ms);
}

/** The hour of a time, in hours since the epoch. */
export function hourOf(ms: number): number {
  return Math.floor(Math.min(Math.max(ms, FIRST_MS), LAST_MS) / HOUR_MS);
}

/** A month, as the names of partitions have it: `2026_11`. */
export function monthOf(ms: number): string {
  return storedTime(ms).slice(0, 7).replace('-', '_');
}

function following(month: string): string {
  const [year = 1, number = 1] = month.split('_').map(Number);
  return number === 12 ? `${String(year + 1).padStart(4, '0')}_01` : `${month.slice(0, -2)}${String(number + 1).padStart(2, '0')}`;
}

function begin(month: string): string {
  return `${month.replace('_', '-')}-01 00:00:00+00`;
}

/** When the month behind this one begins, milliseconds since the epoch. */
export function endOf(month: string): number {
  const [year = 1, number = 1] = month.split('_').map(Number);
  const date = new Date(0);
  date.setUTCFullYear(year, number, 1);
  return date.getTime();
}

/** The partition of a month. */
export function partitionOf(month: string): string {
  return `gw_records_${month}`;
}

/** The months that have a partition, the oldest one first. */
export async function monthsOf(sql: Sql): Promise<readonly string[]> {
  const rows = await sql.query(
    `SELECT child.relname::text AS name FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid
     WHERE inhparent = 'gw_records'::regclass`,
  );
  return rows.map(({ name }) => (name ?? '').slice(partitionOf('').length)).sort((a, b) => endOf(a) - endOf(b));
}

/** A commit, as far as it says in which month its record is. */
interface OfMonth {
  readonly record: { readonly month: string } | undefined;
}

/** Sees to it that records have a partition to go to. */
export class RecordMonths {
  readonly #pool: SqlPool;
  readonly #known = new Set<string>();

  constructor(pool: SqlPool) {
    this.#pool = pool;
  }

  /**
   * Makes the partitions of these months, and of those behind them, so that none is made in the last moment.
   * @param months as {@link monthOf} names them
   */
  async prepare(months: Iterable<string>): Promise<void> {
    const missing = new Set<string>();
    for (const month of months) for (const one of [month, following(month)]) if (!this.#known.has(one)) missing.add(one);
    if (missing.size === 0) return;
    await inTransaction(this.#pool, async (sql) => {
      if (hasAll(await monthsOf(sql), missing)) return;
      await sql.query(TABLES_LOCK);
      const there = new Set(await monthsOf(sql));
      for (const month of missing) if (!there.has(month)) await create(sql, month);
    });
    for (const month of missing) this.#known.add(month);
  }

  /**
   * Runs a transaction that stores these commits, and again when it was in the way of another one or when somebody has
   * removed a partition meanwhile.
   */
  async storing<T>(commits: readonly OfMonth[], transaction: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        await this.prepare(new Set(commits.flatMap(({ record }) => record?.month ?? [])));
        return await transaction();
      } catch (error) {
        if (isWithoutPartition(error)) this.forget();
        if (tries >= TRIES || !(isPassing(error) || isWithoutPartition(error))) throw error;
      }
    }
  }

  /** What is known may not be so any more: somebody has removed partitions. */
  forget(): void {
    this.#known.clear();
  }
}

function hasAll(months: readonly string[], wanted: ReadonlySet<string>): boolean {
  const there = new Set(months);
  return [...wanted].every((month) => there.has(month));
}

/** It becomes a partition when it is whole: reads do not wait for that, as they would for one that is made in place. */
async function create(sql: Sql, month: string): Promise<void> {
  const name = partitionOf(month);
  await sql.query(`CREATE TABLE ${name} (LIKE gw_records INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`);
  // By that the planner knows a facet that few records have.
  await sql.query(`ALTER TABLE ${name} ALTER COLUMN facets SET STATISTICS 500`);
  await sql.query(`ALTER TABLE gw_records ATTACH PARTITION ${name} FOR VALUES FROM ('${begin(month)}') TO ('${begin(following(month))}')`);
}
