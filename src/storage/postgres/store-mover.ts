import { messageOf } from '../../base/lib/gateway-error.ts';
import type { Effect, RecordCommit } from '../contract/store.ts';
import { knownState, lockedChange, TAKE_CHANGE, writeBatch } from './apply-batch.ts';
import { OpeningRefused } from './database-errors.ts';
import type { CarriedNode } from './journal-carrier.ts';
import { judgeBatch } from './judge-batch.ts';
import { ONE_START } from './node-rows.ts';
import { type QueuedCommit, queuedCommit } from './queued-commit.ts';
import type { RecordMonths } from './record-months.ts';
import { type CountedRows, countRows } from './row-counts.ts';
import { BEGIN, inTransaction, isoTime, onConnection, type Sql, type SqlConnection, type SqlPool, type SqlRow, textArray } from './sql.ts';

/** The data folder whose store is moved; no node but its own may stand on it. */
export interface MovedFolder extends CarriedNode {
  /** Names that its starts had; that of the move is the first. */
  readonly known: readonly string[];
  /** Machine and path. */
  readonly place: string;
}

/** What is copied, in this order. */
export const MOVE_STAGES = ['records', 'entities', 'counters'] as const;
export type MoveStage = (typeof MOVE_STAGES)[number];

/** How far a move has come. */
export interface MovePlace {
  /** `counting`: everything is copied, and nobody has counted it. */
  readonly stage: MoveStage | 'counting';
  /** Behind what the stage goes on: text that means something to who reads the source; empty: it begins. */
  readonly after: string;
}

/** What a move finds: `done` and `node` leave nothing to do. */
export type MoveBeginning =
  | { readonly kind: 'begins' | 'goes_on' | 'starts_over'; readonly place: MovePlace }
  | { readonly kind: 'done'; readonly at: string }
  /** The folder has been a node of this database from its first commit on. */
  | { readonly kind: 'node' };

/** One commit of a page. */
interface MovedCommit {
  readonly record: RecordCommit | undefined;
  readonly effects: readonly Effect[];
}

const FIRST: MovePlace = { stage: 'records', after: '' };

/**
 * Takes what an embedded store holds into a database that has nothing else. A page, and that the move has come so far,
 * are one transaction, which takes place only where the move stands at the page's beginning: whatever breaks, who
 * begins again goes on behind the last page that is stored.
 */
export class StoreMover {
  readonly #pool: SqlPool;
  readonly #months: RecordMonths;
  readonly #folder: MovedFolder;

  constructor(pool: SqlPool, months: RecordMonths, folder: MovedFolder) {
    this.#pool = pool;
    this.#months = months;
    this.#folder = folder;
  }

  /**
   * Looks whether the move may go on, and from where. What was copied from another state of the source is thrown away,
   * and the move begins again.
   * @param source opaque text that another state of the source does not have
   * @throws OpeningRefused where the database has something of others
   */
  async begin(source: string): Promise<MoveBeginning> {
    return inTransaction(this.#pool, async (sql) => {
      await sql.query(ONE_START);
      const own = await this.#own(sql);
      if (own?.['finished_at'] != null) return { kind: 'done', at: own['finished_at'] };
      await this.#refuseOthers(sql);
      if (own === undefined) return this.#first(sql, source);
      if (own['source'] === source) return { kind: 'goes_on', place: placeOf(own) };
      await clear(sql);
      await sql.query(
        'UPDATE gw_moves SET node = $2::text, source = $3::text, stage = $4::text, after = $5::text WHERE folder = $1::text',
        [this.#folder.incarnation, this.#folder.node, source, FIRST.stage, FIRST.after],
      );
      return { kind: 'starts_over', place: FIRST };
    });
  }

  /**
   * Stores a page where the move stands at its beginning.
   * @returns the place behind it
   * @throws Error where the move stands elsewhere, or that names what no database takes; what the database or the way
   * to it refuses with: whether the page is stored is then told by the next `begin`
   */
  async page(place: MovePlace, after: string, commits: readonly MovedCommit[]): Promise<MovePlace> {
    const batch = commits.map(prepared);
    const next: MovePlace = { stage: place.stage, after };
    await this.#months.storing(batch, () =>
      onConnection(this.#pool, async (sql) => {
        const [row] = await sql.query(`${BEGIN}${TAKE_CHANGE}`);
        const locked = lockedChange(row);
        await this.#step(sql, place, next);
        await writeBatch(sql, judgeBatch(batch, await knownState(sql, batch, locked)), locked);
        await sql.query('COMMIT');
      }),
    );
    return next;
  }

  /** Goes to the next stage. @throws as {@link page} */
  async stageOver(place: MovePlace): Promise<MovePlace> {
    const stage = MOVE_STAGES[(MOVE_STAGES as readonly string[]).indexOf(place.stage) + 1] ?? 'counting';
    const next: MovePlace = { stage, after: '' };
    await inTransaction(this.#pool, (sql) => this.#step(sql, place, next));
    return next;
  }

  /** Counts what the database has. */
  count(): Promise<CountedRows> {
    return countRows(this.#pool);
  }

  /**
   * Ends the move: from here on the node carries its journal behind `position`.
   * @returns when, ISO 8601
   * @throws OpeningRefused where the database has become that of others
   */
  async finish(position: string): Promise<string> {
    const { node, incarnation, known, place } = this.#folder;
    return inTransaction(this.#pool, async (sql) => {
      await sql.query(ONE_START);
      await this.#refuseOthers(sql);
      await sql.query('DELETE FROM gw_nodes WHERE incarnation = ANY ($1::text::text[])', [textArray([incarnation, ...known])]);
      await sql.query('INSERT INTO gw_nodes (node, incarnation, position, place) VALUES ($1::text, $2::text, $3::text, $4::text)', [
        node,
        incarnation,
        position,
        place,
      ]);
      await sql.query('UPDATE gw_moves SET node = $2::text, finished_at = now() WHERE folder = $1::text AND finished_at IS NULL', [
        incarnation,
        node,
      ]);
      return (await this.#own(sql))?.['finished_at'] ?? '';
    });
  }

  async #own(sql: Sql): Promise<SqlRow | undefined> {
    const [row] = await sql.query(
      `SELECT source, stage, after, ${isoTime('finished_at')} AS finished_at
       FROM gw_moves WHERE folder = $1::text`,
      [this.#folder.incarnation],
    );
    return row;
  }

  async #first(sql: Sql, source: string): Promise<MoveBeginning> {
    const { node, incarnation } = this.#folder;
    const carried = await sql.query(`SELECT node FROM gw_nodes WHERE position <> ''`);
    if (carried.length > 0) return { kind: 'node' };
    for (const [table, what] of CONTENT) {
      const found = await sql.query(`SELECT 1::text AS found FROM ${table} LIMIT 1`);
      if (found.length > 0) throw notEmpty(`has ${what} already`);
    }
    await sql.query('INSERT INTO gw_moves (folder, node, source, stage) VALUES ($1::text, $2::text, $3::text, $4::text)', [
      incarnation,
      node,
      source,
      FIRST.stage,
    ]);
    return { kind: 'begins', place: FIRST };
  }

  /** @throws OpeningRefused where the database knows another data folder */
  async #refuseOthers(sql: Sql): Promise<void> {
    const [other] = await sql.query(
      `SELECT node FROM gw_nodes WHERE incarnation <> ALL ($1::text::text[])
       UNION ALL SELECT node FROM gw_moves WHERE folder <> ALL ($1::text::text[]) LIMIT 1`,
      [textArray([this.#folder.incarnation, ...this.#folder.known])],
    );
    if (other !== undefined) throw notEmpty(`has the node ${other['node'] ?? ''} already`);
  }

  /** Says that the move has come to a place. */
  async #step(sql: Sql | SqlConnection, from: MovePlace, to: MovePlace): Promise<void> {
    const moved = await sql.query(
      `UPDATE gw_moves SET stage = $4::text, after = $5::text
       WHERE folder = $1::text AND stage = $2::text AND after = $3::text AND finished_at IS NULL RETURNING node`,
      [this.#folder.incarnation, from.stage, from.after, to.stage, to.after],
    );
    if (moved.length === 0) throw new Error('another process moves the same data folder: let it end, or stop it');
  }
}

/** Characters of a key that is too long. */
const SHOWN_KEY = 100;

/** Tables that a move finds empty, and what they have. */
export const CONTENT = [
  ['gw_records', 'records'],
  ['gw_entities', 'settings'],
  ['gw_counters', 'counters'],
] as const;

/** @throws Error that names what no database takes, and says why */
function prepared({ record, effects }: MovedCommit): QueuedCommit {
  try {
    return queuedCommit(record, effects);
  } catch (error) {
    const [effect] = effects;
    const what = record ? `the record ${record.record_id}` : `what has the key ${effect?.key.slice(0, SHOWN_KEY)} in ${effect?.space}`;
    throw new Error(`${what} cannot be kept in a database: ${messageOf(error)}`, { cause: error });
  }
}

/** Why a store is not moved into a database. @param why goes on behind "the database" */
export function notEmpty(why: string): OpeningRefused {
  return new OpeningRefused(
    `the database ${why}: a store is moved into one that has nothing else, for counters of two gateways would mix. ` +
      `Name an empty database, or begin this node with an empty data folder (GW_DATA_DIR)`,
  );
}

function placeOf(row: SqlRow): MovePlace {
  const stage = MOVE_STAGES.find((one) => one === row['stage']) ?? 'counting';
  return { stage, after: row['after'] ?? '' };
}

/** Removes what a move has copied. */
async function clear(sql: Sql): Promise<void> {
  await sql.query('TRUNCATE gw_records, gw_hours, gw_entities, gw_deletions, gw_counters, gw_long_keys');
  await sql.query(`UPDATE gw_state SET last_record_id = ''`);
}
