import { HOLD_CHANGE } from './apply-batch.ts';
import { inTransaction, type Sql, type SqlPool } from './sql.ts';

/** Who was heard of in that time may go on, and is not forgotten. */
const ALIVE_SECONDS = 60;
/** No window of a cap is longer than a month; a delegation counts for its life. */
const KEEP_MS = 40 * 24 * 3_600_000;

/** What a node holds of shared caps. */
export interface NodeHoldings {
  /** Scopes, delegations and orgs' months of which it holds something. */
  readonly accounts: number;
  /** Of the spend of scopes, pico-dollars. */
  readonly pico: bigint;
}

/** What becomes of a node that a person wants forgotten. */
export type NodeFate = 'unknown' | 'alive' | 'forgotten';

/** Of nodes that hold something, by name. */
export async function nodeHoldings(sql: Sql): Promise<ReadonlyMap<string, NodeHoldings>> {
  const rows = await sql.query(
    `SELECT node, count(*)::text AS accounts, coalesce(sum(amount) FILTER (WHERE account LIKE 'spend|%'), 0)::text AS pico
     FROM gw_leases GROUP BY node`,
  );
  return new Map(rows.map(({ node, accounts, pico }) => [node ?? '', { accounts: Number(accounts), pico: BigInt(pico ?? 0) }]));
}

const IS_ALIVE = `seen_at > now() - interval '${ALIVE_SECONDS} seconds'`;

/** Whether a node was heard of so lately that it is not forgotten, by the clock of the database. */
export async function isAlive(sql: Sql, node: string): Promise<boolean> {
  return (await sql.query(`SELECT node FROM gw_nodes WHERE node = $1::text AND ${IS_ALIVE}`, [node])).length > 0;
}

/**
 * Forgets a node that nobody has heard of for a minute. What it held is what it may have spent beyond what it has
 * carried: that is charged in the present hour, so that it counts in every window which is open now, and in none that
 * begins later. So no cap is passed as long as the node spends nothing more, for which the person answers who says so;
 * a process that goes on all the same finds out at its next exchange, and stops taking calls.
 * @param epochMs now, by the clock by which windows begin
 */
export function forgetNode(pool: SqlPool, node: string, epochMs: number): Promise<NodeFate> {
  return inTransaction(pool, async (sql) => {
    await sql.query(HOLD_CHANGE);
    const [row] = await sql.query(`SELECT (${IS_ALIVE})::text AS alive FROM gw_nodes WHERE node = $1::text FOR UPDATE`, [node]);
    if (row === undefined) return 'unknown';
    if (row['alive'] === 'true') return 'alive';
    await sql.query(`DELETE FROM gw_charges WHERE account NOT LIKE 'spend\\_delegation|%' AND hour < $1::text`, [
      hourText(epochMs - KEEP_MS),
    ]);
    await sql.query(
      `INSERT INTO gw_charges (account, node, hour, amount)
       SELECT account, node, $2::text, amount FROM gw_leases WHERE node = $1::text
       ON CONFLICT (account, node, hour) DO UPDATE SET amount = gw_charges.amount + excluded.amount`,
      [node, hourText(epochMs)],
    );
    await sql.query('DELETE FROM gw_nodes WHERE node = $1::text', [node]);
    return 'forgotten';
  });
}

function hourText(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 13);
}
