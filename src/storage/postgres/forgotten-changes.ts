import { inTransaction, type SqlPool } from './sql.ts';

/** Who has not looked for so long lists anew. Intervals of PostgreSQL. */
const DELETIONS_FOR = '1 hour';
/** A writer that was not closed is remembered for as long as somebody may still ask what became of its batch. */
const WRITERS_FOR = '30 days';
const AT_ONCE = 5_000;

/**
 * Removes what is remembered of deletions that everybody who watches has seen by now, oldest first and some at a time,
 * and writers that have long been gone. The row of changes then says up to where deletions are forgotten.
 */
export async function forgetOldChanges(pool: SqlPool): Promise<void> {
  await inTransaction(pool, async (sql) => {
    await sql.query('SELECT 1::text AS locked FROM gw_state FOR UPDATE');
    await sql.query(
      `WITH oldest AS (
         SELECT space, key FROM gw_deletions WHERE at < now() - interval '${DELETIONS_FOR}' ORDER BY change LIMIT ${AT_ONCE}
       ), gone AS (
         DELETE FROM gw_deletions USING oldest
         WHERE gw_deletions.space = oldest.space AND gw_deletions.key = oldest.key RETURNING change
       )
       UPDATE gw_state SET forgotten = greatest(forgotten, (SELECT max(gone.change) FROM gone))`,
    );
    await sql.query(`DELETE FROM gw_writers WHERE seen_at < now() - interval '${WRITERS_FOR}'`);
  });
}
