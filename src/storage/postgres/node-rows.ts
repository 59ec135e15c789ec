import { OpeningRefused } from './database-errors.ts';
import type { CarriedNode } from './journal-carrier.ts';
import { inTransaction, isoTime, onConnection, type Sql, type SqlPool, textArray } from './sql.ts';

/** A start of a node on its data folder. */
export interface NodeClaim extends CarriedNode {
  /** The names that the folder had at earlier starts. */
  readonly known: readonly string[];
  /** A database has taken one of them. */
  readonly hasHistory: boolean;
  /** Machine and folder. */
  readonly place: string;
  /** Of the program. */
  readonly version: string;
}

/** What a node has not carried yet. */
export interface NodeBacklog {
  readonly records: number;
  /** Since when the oldest of it waits, whole seconds. */
  readonly seconds: number;
}

/** A node as the database knows it. */
export interface NodeRow {
  readonly node: string;
  /** Of its data folder. */
  readonly incarnation: string;
  /** Of the program. */
  readonly version: string;
  /** Up to where the database has its journal: opaque text; empty: nothing of it. */
  readonly position: string;
  /** ISO 8601, by the clock of the database. */
  readonly registeredAt: string;
  readonly seenAt: string;
  readonly backlog: NodeBacklog;
}

/** Starts come one after the other, also where there is no row yet; who holds this keeps all of them waiting. */
export const ONE_START = 'SELECT pg_advisory_xact_lock(5302, 1)';

/** Who was not heard of for that long may be replaced by a start at another place. */
const SILENT_SECONDS = 10;

/**
 * Makes this start the one that stands behind the node's name; what an earlier one still sends is refused from then on.
 * A folder whose node had another name before takes its row along: the name of a container changes with each start.
 * @throws OpeningRefused where the name is that of another data folder or one that runs elsewhere, where the database
 * has forgotten a folder that was its node, and while a store is moved into it
 */
export function claimNode(pool: SqlPool, claim: NodeClaim): Promise<void> {
  return inTransaction(pool, async (sql) => {
    const { node, incarnation, place, version } = claim;
    await sql.query(ONE_START);
    await refuseWhileMoving(sql);
    const own = await ownRow(sql, claim);
    if (own === undefined)
      await sql.query(`INSERT INTO gw_nodes (node, incarnation, place, version) VALUES ($1::text, $2::text, $3::text, $4::text)`, [
        node,
        incarnation,
        place,
        version,
      ]);
    else
      await sql.query(
        `UPDATE gw_nodes SET node = $1::text, incarnation = $2::text, place = $3::text, version = $4::text, seen_at = now()
         WHERE node = $5::text`,
        [node, incarnation, place, version, own],
      );
  });
}

/** A store is moved into a database that nobody else has. @throws OpeningRefused */
async function refuseWhileMoving(sql: Sql): Promise<void> {
  const [moved] = await sql.query('SELECT node FROM gw_moves WHERE finished_at IS NULL LIMIT 1');
  if (moved === undefined) return;
  throw new OpeningRefused(
    `the store of the node ${moved['node'] ?? ''} is being moved into the database: wait until its "gw storage move" is over, and run that again where it broke off`,
  );
}

/** The name that the row of this folder has; undefined: there is none yet. @throws OpeningRefused */
async function ownRow(sql: Sql, { node, known, hasHistory, place }: NodeClaim): Promise<string | undefined> {
  const rows = await sql.query(
    `SELECT node, incarnation, place, floor(extract(epoch FROM now() - seen_at))::bigint::text AS silent
     FROM gw_nodes WHERE node = $1::text OR incarnation = ANY ($2::text::text[]) FOR UPDATE`,
    [node, textArray(known)],
  );
  if (rows.some((row) => row['node'] === node && !known.includes(row['incarnation'] ?? '')))
    throw new OpeningRefused(
      `the database knows the node ${node} by another data folder: two nodes have this name, or this folder is a copy of one that went on. Give this node a GW_NODE_ID of its own, and a copy an empty GW_DATA_DIR`,
    );
  const [own] = rows;
  if (own === undefined) {
    if (!hasHistory) return undefined;
    throw new OpeningRefused(
      `the database does not know the node of this data folder, whose journal was carried into a database before: the node was forgotten, or this is another database, or an older state of it`,
    );
  }
  const silent = Number(own['silent']);
  if (own['place'] !== place && silent < SILENT_SECONDS)
    throw new OpeningRefused(
      `the node of this data folder runs elsewhere, at ${own['place'] ?? ''}, and was heard of ${silent} s ago: stop it there first`,
    );
  return own['node'] ?? node;
}

/**
 * Says that the node is there, and what it has not carried.
 * @returns false: another start stands behind its name
 */
export async function noteNode(pool: SqlPool, { node, incarnation }: CarriedNode, backlog: NodeBacklog): Promise<boolean> {
  const rows = await onConnection(pool, (sql) =>
    sql.query(
      `UPDATE gw_nodes SET seen_at = now(), backlog_records = $3::text::bigint, backlog_seconds = $4::text::bigint
       WHERE node = $1::text AND incarnation = $2::text RETURNING node`,
      [node, incarnation, `${backlog.records}`, `${backlog.seconds}`],
    ),
  );
  return rows.length > 0;
}

/** All nodes, by name. */
export async function nodeRows(sql: Sql): Promise<readonly NodeRow[]> {
  const rows = await sql.query(
    `SELECT node, incarnation, version, position, ${isoTime('registered_at')} AS registered, ${isoTime('seen_at')} AS seen,
            backlog_records::text AS records, backlog_seconds::text AS seconds
     FROM gw_nodes ORDER BY node`,
  );
  return rows.map((row) => ({
    node: row['node'] ?? '',
    incarnation: row['incarnation'] ?? '',
    version: row['version'] ?? '',
    position: row['position'] ?? '',
    registeredAt: row['registered'] ?? '',
    seenAt: row['seen'] ?? '',
    backlog: { records: Number(row['records']), seconds: Number(row['seconds']) },
  }));
}
