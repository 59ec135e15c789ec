import { randomBytes } from 'node:crypto';
import { StoreError } from '../contract/store.ts';
import { FIRST_TABLES } from './migrations/0001-first-tables.ts';
import { NODES } from './migrations/0002-nodes.ts';
import { NODE_PLACES } from './migrations/0003-node-places.ts';
import { LONG_KEYS } from './migrations/0004-long-keys.ts';
import { MOVES } from './migrations/0005-moves.ts';
import { LEASES } from './migrations/0006-leases.ts';
import { CHARGES } from './migrations/0007-charges.ts';
import { inTransaction, type Sql, type SqlPool } from './sql.ts';

/** In their order; the version of a schema is how many of them it has. None is ever changed. */
export const MIGRATIONS: readonly string[] = [FIRST_TABLES, NODES, NODE_PLACES, LONG_KEYS, MOVES, LEASES, CHARGES];

/** Whoever changes tables holds this lock until the end of his transaction. */
export const TABLES_LOCK = `SELECT pg_advisory_xact_lock(7309453611420185)`;

/** What is read of a store when it is opened. */
export interface StoreState {
  /** What positions are made with. */
  readonly positionKey: string;
}

/**
 * Brings the tables to the version that this program knows. Several may do so at once: one does, the others wait.
 * @throws StoreError `newer_format`, with nothing changed
 */
export async function migrate(pool: SqlPool): Promise<StoreState> {
  return inTransaction(pool, async (sql) => {
    if ((await schemaVersion(sql)) !== MIGRATIONS.length) {
      await sql.query(TABLES_LOCK);
      await bringUp(sql);
    }
    const [row] = await sql.query('SELECT position_key FROM gw_state');
    return { positionKey: row?.['position_key'] ?? '' };
  });
}

async function bringUp(sql: Sql): Promise<void> {
  const version = await schemaVersion(sql);
  for (const migration of MIGRATIONS.slice(version)) await sql.query(migration);
  if (version === 0) {
    await sql.query('INSERT INTO gw_schema (version) VALUES ($1::text::int)', [`${MIGRATIONS.length}`]);
    await sql.query('INSERT INTO gw_state (position_key) VALUES ($1::text)', [randomBytes(32).toString('hex')]);
  } else await sql.query('UPDATE gw_schema SET version = $1::text::int', [`${MIGRATIONS.length}`]);
}

/** How many migrations the tables have seen; 0: there are none. */
async function schemaVersion(sql: Sql): Promise<number> {
  // A look by name alone would be answered from before, where somebody has made the tables meanwhile.
  const found = await sql.query(`SELECT relname::text FROM pg_class WHERE relname = 'gw_schema' AND pg_table_is_visible(oid)`);
  if (found.length === 0) return 0;
  const [row] = await sql.query('SELECT version::text FROM gw_schema');
  const version = Number(row?.['version'] ?? 0);
  if (version > MIGRATIONS.length)
    throw new StoreError(
      'newer_format',
      `the database has schema version ${version}, this program knows up to ${MIGRATIONS.length}: run the newer version of the gateway`,
    );
  return version;
}
