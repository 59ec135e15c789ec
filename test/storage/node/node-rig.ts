import { silentLogger } from '../../../src/base/lib/log.ts';
import type { NodeStore } from '../../../src/storage/node/node-store.ts';
import { openNodeStore } from '../../../src/storage/node/open-node-store.ts';
import { type StoreUnderTest, type Tap, turns, until } from '../../contract/store-under-test.ts';
import { StoreRig } from '../embedded/store-rig.ts';
import { type OpenedRig, PgRig, type TestDatabase } from '../postgres/pg-rig.ts';

const DAY_MS = 86_400_000;

export interface OpenedNode {
  readonly store: NodeStore;
  readonly pools: OpenedRig['pools'];
  readonly shared: OpenedRig['store'];
}

/** One node of a database: a data folder, and stores that are opened on it one after the other. */
export class NodeRig {
  readonly local: StoreRig;
  readonly #pg: PgRig;
  readonly #name: string;
  readonly #t: Tap;
  /** Where the next one is opened. */
  folder: string;
  #deaths = 0;

  constructor(t: Tap, database: TestDatabase, name = 'one') {
    this.#t = t;
    this.local = new StoreRig(t);
    this.#pg = new PgRig(t, database);
    this.#name = name;
    this.folder = this.local.dir;
  }

  get clock(): PgRig['clock'] {
    return this.#pg.clock;
  }

  async open(place = `here:${this.#name}`, name = this.#name): Promise<OpenedNode> {
    const local = await this.local.open(this.folder);
    const { store: shared, pools } = await this.#pg.open();
    const options = { node: name, dataDir: this.folder, place, keepMs: DAY_MS, clock: this.clock, log: silentLogger };
    const store = await openNodeStore({ ...options, local, shared }).catch(async (error: unknown) => {
      await shared.close();
      await local.close();
      throw error;
    });
    this.#t.teardown(() => (pools.dead ? undefined : store.close()));
    return { store, pools, shared };
  }

  /** The next one opens what a process that dies now leaves behind. */
  die({ pools }: OpenedNode): void {
    pools.die();
    this.#deaths += 1;
    this.folder = this.local.snapshot(`death-${this.#deaths}`, this.folder);
  }
}

/** What the conformance suite needs of a node; the disk of the database fails as that of the node does. */
export async function nodeUnderTest(t: Tap, database: TestDatabase): Promise<StoreUnderTest> {
  const rig = new NodeRig(t, database);
  let opened = await rig.open();
  const reopened = async (): Promise<NodeStore> => {
    opened = await rig.open();
    return opened.store;
  };
  let others = 0;
  return {
    store: opened.store,
    reopen: async () => {
      await opened.store.close();
      return reopened();
    },
    reopenAfterDeath: async () => {
      rig.die(opened);
      await database.quiet();
      return reopened();
    },
    another: async () => {
      others += 1;
      return (await new NodeRig(t, database, `other-${others}`).open()).store;
    },
    failWrites: (failing) => {
      rig.local.files.room = failing ? 100 : Number.POSITIVE_INFINITY;
      opened.pools.failing = failing;
    },
    waitForProbe: async () => {
      const { store, shared, pools } = opened;
      const { files } = rig.local;
      const tries = (): number => files.asynchronousWrites + pools.attempts;
      const before = tries();
      rig.local.clock.advance(1_000);
      rig.clock.advance(1_000);
      await until(() => tries() > before);
      await turns(200);
      if (!pools.failing) await until(() => store.writable && shared.writable);
    },
  };
}
