import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type DatabaseName, OpeningRefused, openingError } from './database-errors.ts';
import { migrate } from './migrations.ts';
import { openPgPools } from './pg-pools.ts';
import { PostgresStore } from './postgres-store.ts';
import { monthOf, RecordMonths } from './record-months.ts';
import { RecordPlaces } from './record-places.ts';
import { onConnection, type SqlPool, type SqlPools } from './sql.ts';

export interface PostgresStoreOptions {
  /** `postgres://user:password@host:port/database`. Stands in no message. */
  readonly url: string;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'error'>;
  /** What connects; tests have their own. */
  readonly openPools?: (url: string) => Promise<SqlPools & { readonly name: DatabaseName }>;
}

/** Whoever starts a gateway is told within that time what is wrong. */
const OPEN_LIMIT_MS = 20_000;
const OLDEST_SERVER = 14;

/**
 * Opens the store of a database, and makes its tables where there are none.
 * @throws OpeningRefused in one line that says what is wrong and what to do; StoreError `newer_format`. Nothing is
 * changed then
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<PostgresStore> {
  const { url, clock, log, openPools = openPgPools } = options;
  const pools = await openPools(url);
  const { name } = pools;
  let cancel = (): void => undefined;
  const tooLong = new Promise<never>((_resolve, reject) => {
    const { host, port } = name;
    const error = new OpeningRefused(
      `PostgreSQL at ${host} port ${port} is too slow or locked: it was not open after ${OPEN_LIMIT_MS / 1_000} s`,
    );
    cancel = clock.after(OPEN_LIMIT_MS, () => reject(error));
  });
  try {
    return await Promise.race([open(pools, clock, log), tooLong]);
  } catch (error) {
    // Who does not answer is not waited for.
    void Promise.allSettled([pools.reads.end(), pools.writes.end()]);
    throw openingError(error, name);
  } finally {
    cancel();
  }
}

async function open(pools: SqlPools, clock: Clock, log: PostgresStoreOptions['log']): Promise<PostgresStore> {
  await checkServer(pools.writes);
  const { positionKey } = await migrate(pools.writes);
  const months = new RecordMonths(pools.writes);
  await months.prepare([monthOf(clock.now())]);
  return new PostgresStore({ pools, clock, log, months, places: new RecordPlaces(positionKey) });
}

/** What no migration can mend. */
async function checkServer(pool: SqlPool): Promise<void> {
  const [row] = await onConnection(pool, (sql) =>
    sql.query(
      `SELECT current_setting('server_version_num') AS version, current_setting('server_encoding') AS encoding,
       pg_is_in_recovery()::text AS standby, current_database()::text AS database, current_schema()::text AS schema`,
    ),
  );
  const version = Math.floor(Number(row?.['version']) / 10_000);
  if (version < OLDEST_SERVER) throw new OpeningRefused(`the server is PostgreSQL ${version}: version ${OLDEST_SERVER} or newer is needed`);
  const database = row?.['database'] ?? '';
  const encoding = row?.['encoding'] ?? '';
  if (encoding !== 'UTF8')
    throw new OpeningRefused(
      `the database ${database} has the encoding ${encoding}: create one with createdb --encoding UTF8 --template template0`,
    );
  if (row?.['standby'] === 'true') throw new OpeningRefused(`the server of the database ${database} is a standby: name the primary`);
  if (row?.['schema'] == null)
    throw new OpeningRefused(`the database ${database} has no schema on the search path of this user: create one, or set its search_path`);
}
