import { type DatabaseName, openingError } from './database-errors.ts';
import { MIGRATIONS } from './migrations.ts';
import { type NodeRow, nodeRows } from './node-rows.ts';
import { openPgPools } from './pg-pools.ts';
import { countRecords } from './row-counts.ts';
import { isoTime, onConnection, type Sql, type SqlPools, type SqlRow } from './sql.ts';
import { CONTENT } from './store-mover.ts';

/** A store that is, or was, moved into the database. */
export interface KnownMove {
  readonly node: string;
  /** The incarnation of its data folder. */
  readonly folder: string;
  readonly stage: string;
  /** ISO 8601; undefined: it is not over. */
  readonly finishedAt: string | undefined;
}

/** What a look shows. */
export interface DatabaseLook {
  readonly name: DatabaseName;
  /** Of its tables; 0: there are none. */
  readonly version: number;
  /** Up to which this program knows them. */
  readonly knows: number;
  readonly nodes: readonly NodeRow[];
  readonly moves: readonly KnownMove[];
  readonly records: number;
  /** What keeps a store from being moved into it, in a word each. */
  readonly holds: readonly string[];
  /** That its tables take on the server's disk. */
  readonly bytes: number;
}

export interface LookOptions {
  /** Stands in no message. */
  readonly url: string;
  /** What connects; tests have their own. */
  readonly openPools?: (url: string) => Promise<SqlPools & { readonly name: DatabaseName }>;
}

/**
 * Looks at a database, and makes nothing in it.
 * @throws OpeningRefused in one line that says what is wrong and what to do
 */
export async function lookAtDatabase({ url, openPools = openPgPools }: LookOptions): Promise<DatabaseLook> {
  const { reads, writes, name } = await openPools(url);
  try {
    const seen = await onConnection(reads, lookedAt);
    return { ...seen, name, knows: MIGRATIONS.length, records: seen.holds.includes(RECORDS) ? await countRecords(reads) : 0 };
  } catch (error) {
    throw openingError(error, name);
  } finally {
    await Promise.allSettled([reads.end(), writes.end()]);
  }
}

const [[, RECORDS]] = CONTENT;

async function lookedAt(sql: Sql): Promise<Omit<DatabaseLook, 'name' | 'knows' | 'records'>> {
  const [schema] = await rowsOf(sql, 'gw_schema', 'SELECT version::text FROM gw_schema');
  const nodes = (await isThere(sql, 'gw_nodes')) ? await nodeRows(sql) : [];
  const moves = await rowsOf(
    sql,
    'gw_moves',
    `SELECT node, folder, stage, ${isoTime('finished_at')} AS finished_at FROM gw_moves ORDER BY node`,
  );
  const holds: string[] = [];
  for (const [table, what] of CONTENT)
    if ((await rowsOf(sql, table, `SELECT 1::text AS found FROM ${table} LIMIT 1`)).length > 0) holds.push(what);
  return {
    version: Number(schema?.['version'] ?? 0),
    nodes,
    moves: moves.map(({ node, folder, stage, finished_at: finishedAt }) => ({
      node: node ?? '',
      folder: folder ?? '',
      stage: stage ?? '',
      finishedAt: finishedAt ?? undefined,
    })),
    holds,
    bytes: await bytesOf(sql),
  };
}

/** The rows of a table that an older version does not have. */
async function rowsOf(sql: Sql, table: string, statement: string): Promise<readonly SqlRow[]> {
  return (await isThere(sql, table)) ? sql.query(statement) : [];
}

async function isThere(sql: Sql, table: string): Promise<boolean> {
  const [there] = await sql.query('SELECT to_regclass($1::text)::text AS name', [table]);
  return there?.['name'] != null;
}

async function bytesOf(sql: Sql): Promise<number> {
  const [row] = await sql.query(
    `SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::text AS bytes FROM pg_class
     WHERE relname LIKE 'gw\\_%' AND relkind = 'r' AND pg_table_is_visible(oid)`,
  );
  return Number(row?.['bytes'] ?? 0);
}
