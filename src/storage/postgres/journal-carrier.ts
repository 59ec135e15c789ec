import { Turn } from '../../base/lib/turn.ts';
import type { CapExchanged, CapMessage, CapSpeaker } from '../contract/cap-accounts.ts';
import type { Effect, RecordCommit } from '../contract/store.ts';
import { knownState, lockedChange, TAKE_CHANGE, writeBatch } from './apply-batch.ts';
import { BEGIN_HOLDING, exchangeCaps, timelineOf } from './cap-exchange.ts';
import { OpeningRefused } from './database-errors.ts';
import { judgeBatch } from './judge-batch.ts';
import { queuedCommit } from './queued-commit.ts';
import type { RecordMonths } from './record-months.ts';
import { PLACES_PER_CHANGE } from './record-places.ts';
import { BEGIN, inTransaction, onConnection, type SqlConnection, type SqlPool } from './sql.ts';

/** Whose journal it is. */
export interface CarriedNode {
  /** The node's name; no two nodes have the same. */
  readonly node: string;
  /** Of its data folder. */
  readonly incarnation: string;
}

/** What stands in a journal up to a place. */
interface Piece {
  readonly commits: readonly { readonly record: RecordCommit | undefined; readonly effects: readonly Effect[] }[];
  readonly next: string;
}

/** A piece of a journal: what stands between two places. */
export interface CarriedPiece extends Piece {
  /** Undefined: the piece begins with the journal. */
  readonly from: string | undefined;
}

/** How much one transaction has at most. */
export interface CarriedLimits {
  readonly commits: number;
  readonly bytes: number;
}

/** A journal that is carried. */
export interface CarriedJournal {
  /** Visible commits in their order, from a place on. */
  journal(from: string | undefined, limits: CarriedLimits): Promise<Piece & { readonly isLast: boolean }>;
}

/** What has become of a piece. */
export interface Carried {
  /** It was this call that stored the piece, as far as it knows. */
  readonly isStored: boolean;
  /** Up to where the database has the journal now: what is carried next begins there. */
  readonly position: string | undefined;
  /** Records that were there already, by another way than this journal; they and their effects were left out. */
  readonly known: readonly string[];
}

/** The records of one change have that many places. */
const MAX_COMMITS = Number(PLACES_PER_CHANGE);
const LIMITS: CarriedLimits = { commits: 500, bytes: 4 * 1024 * 1024 };

/**
 * Carries the journal of one node into a database, in order and each commit once. A piece, and that the journal has
 * been carried so far, are one transaction, which takes place only where the database stands at the beginning of the
 * piece and has heard of as many transactions of this node as it has. So a piece may be tried again whenever nobody
 * knows what became of it, and by several processes at once; a transaction that has outlived its connection does
 * nothing any more once another has taken its number; and a database that was set back to an earlier moment says from
 * where it is to be fed again. With the last piece the node may say what it holds of shared caps, and ask for more
 * ({@link JournalCarrier.exchange}).
 */
export class JournalCarrier {
  readonly #pool: SqlPool;
  readonly #months: RecordMonths;
  readonly #node: CarriedNode;
  /** Of the node's last transaction that this has heard of. */
  #number = '0';
  /** Where the database stood when it last answered; undefined: it is to be asked. */
  #answered: { readonly position: string | undefined } | undefined;
  /** It knows what the node has said in the last exchange that was answered: what has changed since is enough. */
  #isHeard = false;
  /** How the server is asked for its timeline, once that is known. */
  #timeline: string | undefined;
  readonly #turn = new Turn();

  private constructor(pool: SqlPool, months: RecordMonths, node: CarriedNode) {
    this.#pool = pool;
    this.#months = months;
    this.#node = node;
  }

  /**
   * Makes the node known where it is not.
   * @throws OpeningRefused where the node's name is that of another data folder
   */
  static async open(pool: SqlPool, months: RecordMonths, node: CarriedNode): Promise<JournalCarrier> {
    await inTransaction(pool, (sql) =>
      sql.query(
        `INSERT INTO gw_nodes (node, incarnation) VALUES ($1::text, $2::text)
         ON CONFLICT (node) DO UPDATE SET seen_at = now() WHERE gw_nodes.incarnation = excluded.incarnation`,
        [node.node, node.incarnation],
      ),
    );
    const carrier = new JournalCarrier(pool, months, node);
    await carrier.position();
    return carrier;
  }

  /**
   * Puts another data folder in the place of a node's, whose journal is carried from its beginning; what the one before
   * has not carried by then never is.
   */
  static async adopt(pool: SqlPool, { node, incarnation }: CarriedNode): Promise<void> {
    await inTransaction(pool, (sql) =>
      sql.query(
        `INSERT INTO gw_nodes (node, incarnation) VALUES ($1::text, $2::text)
         ON CONFLICT (node) DO UPDATE SET incarnation = excluded.incarnation, position = '', seen_at = now()
         WHERE gw_nodes.incarnation <> excluded.incarnation`,
        [node, incarnation],
      ),
    );
  }

  /**
   * Up to where the database has the journal; undefined: nothing of it. To be asked at each connect, never remembered:
   * a database may have been set back meanwhile.
   * @throws OpeningRefused where the node's name has become that of another data folder, or is forgotten
   */
  async position(): Promise<string | undefined> {
    const { node, incarnation } = this.#node;
    const [row] = await onConnection(this.#pool, (sql) =>
      sql.query('SELECT incarnation, position, number::text FROM gw_nodes WHERE node = $1::text', [node]),
    );
    if (row?.['incarnation'] === incarnation) {
      this.#number = row['number'] ?? '0';
      return row['position'] || undefined;
    }
    throw new OpeningRefused(
      row === undefined
        ? `the database does not know the node ${node}: it was forgotten there`
        : `the database knows the node ${node} by another data folder: this one was copied or made anew. Give this node a name of its own, or let it take the other one's place`,
    );
  }

  /**
   * Stores a piece where the database stands at its beginning, else nothing.
   * @throws OpeningRefused as {@link position}; what the database or the way to it refuses with: nobody may know then
   * whether the piece is stored, and the next try tells. TypeError and RangeError for a commit that no database takes
   */
  async carry(piece: CarriedPiece): Promise<Carried> {
    return this.#inTurn(async () => {
      const { exchanged: _, ...carried } = await this.#carry(piece);
      return carried;
    });
  }

  /**
   * Carries all of a journal that is not here yet, in order and each commit once. When it fails, or its process dies,
   * the next call goes on from where the database stands.
   * @returns how many commits were carried
   * @throws what reading the journal rejects with; else as {@link carry}
   */
  async carryAll(source: CarriedJournal, limits = LIMITS): Promise<number> {
    return this.#inTurn(async () => (await this.#carryAll(source, limits)).carried);
  }

  /**
   * The same; with the last piece, and in its transaction, the node says what it holds of shared caps and is granted
   * more. Where it throws nobody may know what was granted: the node is to say all that it holds next time, and what it
   * was not told of is free then. So it is when the database stands elsewhere than it had answered, or is another.
   * @throws as {@link carryAll}
   */
  async exchange(source: CarriedJournal, speaker: CapSpeaker, limits = LIMITS): Promise<CapExchanged> {
    return this.#inTurn(async () => {
      this.#timeline ??= await timelineOf(this.#pool);
      const { exchanged } = await this.#carryAll(source, limits, speaker);
      if (exchanged === undefined) throw new Error('The journal was carried to its end and nothing was said');
      return exchanged;
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#turn.take(async () => {
      try {
        return await work();
      } catch (error) {
        this.#answered = undefined;
        this.#isHeard = false;
        throw error;
      }
    });
  }

  async #carryAll(source: CarriedJournal, limits: CarriedLimits, speaker?: CapSpeaker): Promise<CarriedToItsEnd> {
    let carried = 0;
    let from = speaker && this.#answered ? this.#answered.position : await this.position();
    for (;;) {
      const { piece, isLast, message } = await this.#read(source, from, limits, speaker);
      const isMore = piece.next !== from || message !== undefined;
      const done = isMore ? await this.#carry(piece, message) : undefined;
      from = done === undefined ? from : done.position;
      // Somebody else has carried it, or the database was set back.
      if (done?.isStored === false) continue;
      carried += piece.commits.length;
      if (isLast) return { carried, exchanged: done?.exchanged };
    }
  }

  /** The next piece, and what the node says with it when it is the last one. */
  async #read(source: CarriedJournal, from: string | undefined, limits: CarriedLimits, speaker: CapSpeaker | undefined) {
    speaker?.mark();
    const { commits, next, isLast } = await source.journal(from, limits);
    const isWhole = !this.#isHeard;
    const message: CapMessage | undefined =
      isLast && speaker ? { asks: speaker.say(isWhole), isWhole, isLast: speaker.isLeaving } : undefined;
    return { piece: { from, commits, next }, isLast, message };
  }

  async #carry({ from, commits, next }: CarriedPiece, message?: CapMessage): Promise<Carried & Pick<CarriedToItsEnd, 'exchanged'>> {
    if (commits.length > MAX_COMMITS) throw new RangeError(`A piece of a journal has at most ${MAX_COMMITS} commits`);
    const batch = commits.map(({ record, effects }) => queuedCommit(record, effects));
    const store = () => onConnection(this.#pool, (sql) => this.#transaction(sql, { from, next, batch, message }));
    const stored = await this.#months.storing(batch, store);
    if (stored !== undefined) {
      this.#answered = { position: next };
      if (stored.exchanged) this.#isHeard = stored.exchanged.isTold;
      return { isStored: true, position: next, ...stored };
    }
    this.#isHeard = false;
    return { isStored: false, position: await this.position(), known: [], exchanged: undefined };
  }

  /** @returns ids of records that were there already; undefined: nothing is stored, the database stands elsewhere */
  async #transaction(
    sql: SqlConnection,
    piece: PreparedPiece,
  ): Promise<(Pick<CarriedToItsEnd, 'exchanged'> & Pick<Carried, 'known'>) | undefined> {
    const { from, next, batch, message } = piece;
    const { node, incarnation } = this.#node;
    const [row] = await sql.query(batch.length === 0 ? BEGIN_HOLDING : `${BEGIN}${TAKE_CHANGE}`);
    const locked = lockedChange(row);
    const [moved] = await sql.query(
      `UPDATE gw_nodes SET position = $4::text, number = number + 1, seen_at = now()
       WHERE node = $1::text AND incarnation = $2::text AND position = $3::text AND number = $5::text::bigint
       RETURNING number::text`,
      [node, incarnation, from ?? '', next ?? '', this.#number],
    );
    if (moved === undefined) {
      await sql.query('ROLLBACK');
      return undefined;
    }
    const judged = judgeBatch(batch, await knownState(sql, batch, locked));
    await writeBatch(sql, judged, locked);
    const exchanged = message && (await exchangeCaps(sql, node, message, this.#timeline ?? '0'));
    await sql.query('COMMIT');
    this.#number = moved['number'] ?? '0';
    const known = batch.flatMap(({ record }, at) => (record && judged.conflicts[at] ? [record.id] : []));
    return { known, exchanged };
  }
}

interface CarriedToItsEnd {
  readonly carried: number;
  readonly exchanged: CapExchanged | undefined;
}

interface PreparedPiece extends Pick<CarriedPiece, 'from' | 'next'> {
  readonly batch: ReturnType<typeof queuedCommit>[];
  readonly message: CapMessage | undefined;
}
