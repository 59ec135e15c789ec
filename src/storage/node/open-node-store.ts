/*
 * storage/node: the store of a gateway that is one of several nodes on one database: the embedded store for what calls
 * leave, which is carried, and the database for what nodes share. README.md follows both.
 *
 * May live here: what stands between the two stores. May not: how either of them stores anything, and what a space
 * means beyond where it is kept.
 */
import type { Clock } from '../../base/lib/clock.ts';
import { every } from '../../base/lib/every.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { packageVersion } from '../../base/lib/package-root.ts';
import type { EmbeddedStore } from '../embedded/embedded-store.ts';
import { OpeningRefused } from '../postgres/database-errors.ts';
import type { JournalCarrier } from '../postgres/journal-carrier.ts';
import type { PostgresStore } from '../postgres/postgres-store.ts';
import { FolderClaims } from './folder-claims.ts';
import { JournalShipping, type ShippingOptions } from './journal-shipping.ts';
import { NodeStore } from './node-store.ts';

export interface NodeStoreOptions {
  /** The node's name. */
  readonly node: string;
  /** Where the names of the folder's starts are kept. */
  readonly dataDir: string;
  /** On which machine, and under which path, the folder is. */
  readonly place: string;
  readonly local: EmbeddedStore;
  readonly shared: PostgresStore;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** How long what is carried is kept (`GW_JOURNAL_KEEP`), milliseconds. */
  readonly keepMs: number;
}

const TRIM_EVERY_MS = 3_600_000;

/**
 * Makes two opened stores the store of a node; closing it closes both.
 * @throws OpeningRefused in one line for an operator: the folder has a history that the database does not know, or the
 * name is another's. GatewayError `record_store_unavailable` when the database goes away meanwhile
 */
export async function openNodeStore(options: NodeStoreOptions): Promise<NodeStore> {
  const { node, dataDir, place, local, shared, clock, log, keepMs } = options;
  const claims = await FolderClaims.read(dataDir);
  if (!claims.hasHistory && !(await isEmpty(local)))
    throw new OpeningRefused(
      'this data folder has records and settings of its own that the database does not have: "gw storage move" copies them; or begin with an empty GW_DATA_DIR',
    );
  const incarnation = uuidv7(clock.now());
  await claims.claims(incarnation);
  const { known, hasHistory } = claims;
  await shared.claim({ node, incarnation, known, hasHistory, place, version: packageVersion() });
  await claims.claimed(incarnation);
  const carrier = await shared.carrier({ node, incarnation });
  let isReplaced = false;
  const onReplaced = (): void => {
    if (!isReplaced)
      log.error(
        { node_id: node },
        'another process stands behind the name of this node now: nothing is taken here any more; stop this one',
      );
    isReplaced = true;
  };
  const note: ShippingOptions['note'] = (backlog) => shared.note({ node, incarnation }, backlog);
  const shipping = new JournalShipping({ local, carrier, note, clock, log, onReplaced });
  const trim = every(
    { clock, log },
    {
      everyMs: TRIM_EVERY_MS,
      run: () => trimJournal(local, carrier, clock.now() - keepMs),
      failed: 'what the database has could not be removed from the journal; it is tried again',
    },
  );
  const store = new NodeStore({
    folder: known[0] ?? incarnation,
    local,
    shared,
    shipping,
    isReplaced: () => isReplaced,
    stopTrimming: () => trim.stop(),
    log,
  });
  await store.catchUp();
  await shipping.flush();
  return store;
}

/** Nothing was ever committed there. */
async function isEmpty(local: EmbeddedStore): Promise<boolean> {
  const { commits, isLast } = await local.journal(undefined, { commits: 1, bytes: 1 });
  return commits.length === 0 && isLast;
}

/** What was carried and is old enough. */
async function trimJournal(local: EmbeddedStore, carrier: JournalCarrier, epochMs: number): Promise<void> {
  const place = await carrier.position();
  if (place !== undefined) await local.removeJournalBefore(epochMs, place);
}
