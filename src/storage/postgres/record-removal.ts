import { endOf, monthsOf, partitionOf, storedTime } from './record-months.ts';
import { inTransaction, onConnection, type SqlPool } from './sql.ts';

/** Rows that are deleted in one statement. */
const AT_ONCE = 5_000;

/**
 * Removes records committed before `epochMs`, the oldest ones first: months that lie wholly before it with their
 * partition, the rest row by row. What has begun and fails has removed the oldest ones.
 * @returns how many
 */
export async function removeOldRecords(pool: SqlPool, epochMs: number): Promise<number> {
  if (Number.isNaN(epochMs)) return 0;
  let removed = 0;
  for (const month of await onConnection(pool, monthsOf)) {
    if (endOf(month) <= epochMs) removed += await dropMonth(pool, month);
    else {
      removed += await deleteRows(pool, month, epochMs);
      break;
    }
  }
  return removed;
}

/** Nothing is written to the partition from when it is counted. Reads go on until it is gone. */
async function dropMonth(pool: SqlPool, month: string): Promise<number> {
  const partition = partitionOf(month);
  return inTransaction(pool, async (sql) => {
    await sql.query(`LOCK TABLE ${partition} IN SHARE ROW EXCLUSIVE MODE`);
    const [row] = await sql.query(`SELECT count(*)::text AS records FROM ${partition}`);
    await sql.query(`DROP TABLE ${partition}`);
    return Number(row?.['records'] ?? 0);
  });
}

async function deleteRows(pool: SqlPool, month: string, epochMs: number): Promise<number> {
  const partition = partitionOf(month);
  let removed = 0;
  for (;;) {
    const [row] = await onConnection(pool, (sql) =>
      sql.query(
        `WITH oldest AS (
           SELECT place FROM ${partition} WHERE committed_at < $1::text::timestamptz ORDER BY committed_at, place LIMIT ${AT_ONCE}
         ), gone AS (DELETE FROM ${partition} USING oldest WHERE ${partition}.place = oldest.place RETURNING 1)
         SELECT count(*)::text AS records FROM gone`,
        [storedTime(epochMs)],
      ),
    );
    const count = Number(row?.['records'] ?? 0);
    removed += count;
    if (count < AT_ONCE) return removed;
  }
}
