/*
 * storage/postgres: the storage contract on a PostgreSQL database that several gateways may share. README.md follows a
 * commit through it.
 *
 * This file says what the driver needs of a client library. Everything goes in and out as text: the statements cast it
 * where they use it, so that no number is ever rounded by a client.
 */

/** One row: what a statement selects, each column cast to text. */
export type SqlRow = Readonly<Record<string, string | null>>;

/** Where statements run. */
export interface Sql {
  /**
   * Runs one statement; without values it may be several, of which the last one's rows are the answer.
   * @throws an error with the SQLSTATE as `code` and the severity, when the server has refused it; any other when the
   * connection is lost
   */
  query(text: string, values?: readonly (string | null)[]): Promise<readonly SqlRow[]>;
}

/** A connection that nobody else uses until it is released. */
export interface SqlConnection extends Sql {
  /** Once it is released that means nothing more. @param broken it is closed, and what runs on it is not waited for */
  release(broken: boolean): void;
}

export interface SqlPool {
  /** The database has one connection for everybody, so that a read waits while a transaction is open. */
  readonly isSerial?: boolean;
  /** @throws what the server, or the way to it, refuses a connection with */
  connect(): Promise<SqlConnection>;
  /** Closes all connections, once those in use are released. */
  end(): Promise<void>;
}

/** The pools of an opened store: what reads does not keep what writes waiting. */
export interface SqlPools {
  readonly reads: SqlPool;
  readonly writes: SqlPool;
}

/** Runs `work` on a connection of its own. One on which it fails is not used again. */
export async function onConnection<T>(pool: SqlPool, work: (connection: SqlConnection) => Promise<T>): Promise<T> {
  const connection = await pool.connect();
  let isBroken = true;
  try {
    const done = await work(connection);
    isBroken = false;
    return done;
  } finally {
    connection.release(isBroken);
  }
}

/**
 * The same for who may stop waiting: then the server is asked to end what runs, and the connection is given up.
 * @throws the signal's reason once it is aborted
 */
export async function onReadConnection<T>(pool: SqlPool, signal: AbortSignal | undefined, work: (sql: Sql) => Promise<T>): Promise<T> {
  if (signal === undefined) return onConnection(pool, work);
  signal.throwIfAborted();
  let abandon = (): void => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    abandon = () => reject(signal.reason as Error);
    signal.addEventListener('abort', abandon, { once: true });
  });
  const done = onConnection(pool, async (connection) => {
    // A pooler may give each transaction another server process: what is known of one holds to its end.
    const [row] = await connection.query(`${BEGIN}SELECT pg_backend_pid()::text AS pid`);
    signal.throwIfAborted();
    const running = work(connection);
    running.catch(() => undefined);
    try {
      const read = await Promise.race([running, aborted]);
      await connection.query('COMMIT');
      return read;
    } catch (error) {
      if (signal.aborted) cancel(pool, row?.['pid'] ?? '0');
      throw error;
    }
  });
  done.catch(() => undefined);
  try {
    return await Promise.race([done, aborted]);
  } finally {
    signal.removeEventListener('abort', abandon);
  }
}

/** Asks the server to end what a process of it does. Nothing waits for that. */
function cancel(pool: SqlPool, pid: string): void {
  onConnection(pool, (sql) => sql.query('SELECT pg_cancel_backend($1::text::int)::text AS cancelled', [pid])).catch(() => undefined);
}

/**
 * What a transaction begins with. None outlasts these limits: a server ends by itself what a gateway that is gone has
 * left open. They hold in this transaction alone, so that a pooler may stand between.
 */
export const BEGIN: string = [
  'BEGIN',
  `SET LOCAL statement_timeout = '15s'`,
  `SET LOCAL lock_timeout = '10s'`,
  `SET LOCAL idle_in_transaction_session_timeout = '30s'`,
  '',
].join('; ');

/** Runs `work` in a transaction of its own. */
export async function inTransaction<T>(pool: SqlPool, work: (sql: Sql) => Promise<T>): Promise<T> {
  return onConnection(pool, async (sql) => {
    await sql.query(BEGIN);
    const done = await work(sql);
    await sql.query('COMMIT');
    return done;
  });
}

/** The time of a column as ISO 8601 in UTC. */
export function isoTime(column: string): string {
  return `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}

/** A list of texts as PostgreSQL writes an array. */
export function textArray(items: readonly (string | null)[]): string {
  let text = '{';
  for (const item of items) {
    if (text.length > 1) text += ',';
    if (item === null) text += 'NULL';
    else text += NEEDS_ESCAPE.test(item) ? `"${item.replace(ESCAPED, '\\$&')}"` : `"${item}"`;
  }
  return `${text}}`;
}

const NEEDS_ESCAPE = /["\\]/;
const ESCAPED = /["\\]/g;
