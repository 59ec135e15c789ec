import { PGlite } from '@electric-sql/pglite';
import type { SqlConnection, SqlPool, SqlRow } from '../../../src/storage/postgres/sql.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';
import type { TestDatabase } from './pg-rig.ts';

/*
 * PostgreSQL in the process, compiled to WebAssembly: the driver's statements on any machine, without a server and
 * without the client library. It has one session, which one transaction has at a time.
 */

/** One for a test file: to start it takes seconds. */
export class PgliteDatabase implements TestDatabase {
  readonly #lite: PGlite;
  #free: Promise<void> = Promise.resolve();

  private constructor(lite: PGlite) {
    this.#lite = lite;
  }

  static async start(t: HasTeardown): Promise<PgliteDatabase> {
    const lite = await PGlite.create();
    t.teardown(() => lite.close());
    return new PgliteDatabase(lite);
  }

  /** Empties it. */
  async clear(): Promise<this> {
    const connection = await this.#connect();
    await connection.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
    connection.release(false);
    return this;
  }

  async openPools(): Promise<{ readonly reads: SqlPool; readonly writes: SqlPool }> {
    const pool: SqlPool = { isSerial: true, connect: () => this.#connect(), end: () => Promise.resolve() };
    return { reads: pool, writes: pool };
  }

  async quiet(): Promise<void> {
    (await this.#connect()).release(false);
  }

  /** The session, when everybody before has released it. */
  async #connect(): Promise<SqlConnection> {
    const before = this.#free;
    let free = (): void => undefined;
    this.#free = new Promise((resolve) => {
      free = resolve;
    });
    await before;
    let last: Promise<unknown> = Promise.resolve();
    const query = async (text: string, values?: readonly (string | null)[]): Promise<readonly SqlRow[]> => {
      if (values === undefined) return (await this.#lite.exec(text)).at(-1)?.rows ?? [];
      return (await this.#lite.query<SqlRow>(text, [...values])).rows;
    };
    return {
      query: (text, values) => {
        const asked = query(text, values);
        last = asked.catch(() => undefined);
        return asked;
      },
      release: (broken) => void last.then(() => (broken ? this.#lite.exec('ROLLBACK') : undefined)).then(free, free),
    };
  }
}
