import type { PoolClient, PoolConfig } from 'pg';
import { type DatabaseName, OpeningRefused } from './database-errors.ts';
import type { SqlConnection, SqlPool, SqlPools, SqlRow } from './sql.ts';

/*
 * The client library. It is loaded when a store is opened, and not before. Nothing here lasts in a session (no named
 * statements, no settings), so that a pooler in transaction mode may stand between.
 */

const READ_CONNECTIONS = 8;
/** One for the writer, one for who finds out, removes or looks after it. */
const WRITE_CONNECTIONS = 2;
const CONNECT_MS = 10_000;
const IDLE_MS = 60_000;
/** Longer than the server lets a statement of a transaction run; a broken link is known by it. */
const ANSWER_MS = 30_000;

/** A pool as the library has it. */
type LibraryPool = InstanceType<typeof import('pg')['default']['Pool']>;

/**
 * Pools for the database of a URL. Nothing is connected yet.
 * @throws OpeningRefused for a URL that is none
 */
export async function openPgPools(url: string): Promise<SqlPools & { readonly name: DatabaseName }> {
  const { default: pg } = await import('pg');
  const config: PoolConfig = {
    connectionString: checkedUrl(url),
    application_name: 'ai-request-gateway',
    connectionTimeoutMillis: CONNECT_MS,
    idleTimeoutMillis: IDLE_MS,
    query_timeout: ANSWER_MS,
    keepAlive: true,
    allowExitOnIdle: true,
  };
  const open = (max: number): SqlPool => new PgPool(new pg.Pool({ ...config, max }));
  const { host, port, database, user } = new pg.Client(config);
  const name = { host, port: `${port}`, database: database ?? user ?? '', user: user ?? '' };
  return { reads: open(READ_CONNECTIONS), writes: open(WRITE_CONNECTIONS), name };
}

const EXAMPLE = 'such as postgres://user:password@host:5432/database';

/** The library takes nearly every text for a URL, and connects to somewhere. */
function checkedUrl(url: string): string {
  const parsed = readUrl(url);
  if (parsed === undefined)
    throw new OpeningRefused(`the URL of the database cannot be read: it is one ${EXAMPLE}, with %XX for what is special in a password`);
  if (parsed.pathname.length < 2) throw new OpeningRefused(`the URL of the database names no database: it is one ${EXAMPLE}`);
  return url;
}

/** Undefined for what is none. The error would quote it, password and all. */
function readUrl(url: string): URL | undefined {
  try {
    const parsed = new URL(url);
    decodeURIComponent(parsed.username + parsed.password);
    return parsed;
  } catch {
    return undefined;
  }
}

class PgPool implements SqlPool {
  readonly #pool: LibraryPool;
  #ended: Promise<void> | undefined;

  constructor(pool: LibraryPool) {
    this.#pool = pool;
    // A connection that breaks while nobody uses it is not used again; whoever uses one sees his own statement fail.
    pool.on('error', ignore);
    pool.on('connect', (client) => client.on('error', ignore));
  }

  async connect(): Promise<SqlConnection> {
    return new PgConnection(await this.#pool.connect());
  }

  end(): Promise<void> {
    this.#ended ??= this.#pool.end();
    return this.#ended;
  }
}

class PgConnection implements SqlConnection {
  readonly #client: PoolClient;
  #isReleased = false;

  constructor(client: PoolClient) {
    this.#client = client;
  }

  async query(text: string, values?: readonly (string | null)[]): Promise<readonly SqlRow[]> {
    const answer: unknown = values === undefined ? await this.#client.query(text) : await this.#client.query(text, [...values]);
    // Of several statements each has an answer.
    const last: unknown = Array.isArray(answer) ? answer.at(-1) : answer;
    return (last as { readonly rows: readonly SqlRow[] }).rows;
  }

  release(broken: boolean): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#client.release(broken);
  }
}

function ignore(): void {
  // Whoever waits for an answer has the error.
}
