import { silentLogger } from '../../../src/base/lib/log.ts';
import { openPostgresStore } from '../../../src/storage/postgres/open-postgres-store.ts';
import type { PostgresStore } from '../../../src/storage/postgres/postgres-store.ts';
import type { SqlPools } from '../../../src/storage/postgres/sql.ts';
import { type StoreUnderTest, type Tap, turns, until } from '../../contract/store-under-test.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { FaultyPools } from './faulty-pools.ts';

/** An empty database of a test. */
export interface TestDatabase {
  openPools(): Promise<SqlPools>;
  /** Resolves when nothing runs in there that a dead process has left. */
  quiet(): Promise<void>;
}

export const NAME = { host: 'localhost', port: '5432', database: 'test', user: 'test' };

export interface OpenedRig {
  readonly store: PostgresStore;
  readonly pools: FaultyPools;
}

/** Stores of one database, with a clock that stands; all that are not dead are closed with the test. */
export class PgRig {
  readonly clock: FakeClock = fakeClock();
  readonly #database: TestDatabase;
  readonly #t: Tap;

  constructor(t: Tap, database: TestDatabase) {
    this.#t = t;
    this.#database = database;
  }

  async open(log: Parameters<typeof openPostgresStore>[0]['log'] = silentLogger): Promise<OpenedRig> {
    const pools = new FaultyPools(await this.#database.openPools());
    const openPools = () => Promise.resolve(Object.assign(pools, { name: NAME }));
    const store = await openPostgresStore({ url: 'postgres://test', clock: this.clock, log, openPools });
    this.#t.teardown(() => (pools.dead ? undefined : store.close()));
    return { store, pools };
  }

  /** What the conformance suite needs. */
  async underTest(): Promise<StoreUnderTest> {
    let opened = await this.open();
    const reopened = async (): Promise<PostgresStore> => {
      opened = await this.open();
      return opened.store;
    };
    return {
      store: opened.store,
      reopen: async () => {
        await opened.store.close();
        return reopened();
      },
      reopenAfterDeath: async () => {
        opened.pools.die();
        await this.#database.quiet();
        return reopened();
      },
      another: async () => (await this.open()).store,
      failWrites: (failing) => {
        opened.pools.failing = failing;
      },
      waitForProbe: async () => {
        const { store, pools } = opened;
        const before = pools.attempts;
        this.clock.advance(1_000);
        await until(() => pools.attempts > before);
        await turns();
        if (!pools.failing) await until(() => store.writable);
      },
    };
  }
}
