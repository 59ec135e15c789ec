/*
 * storage/drivers: which driver stands behind the storage contract. This room alone imports drivers; everybody else
 * names a place, and gets what keeps the contract.
 *
 * May live here: the choice, and what one driver alone can mean, for commands. May not: how anything is stored.
 */
import { fileURLToPath } from 'node:url';
import type { CapExchanged, CapSpeaker } from '../contract/cap-accounts.ts';
import type { Store } from '../contract/store.ts';
import { type EmbeddedStoreOptions, openEmbeddedStore } from '../embedded/open-embedded-store.ts';
import { placeOfFolder } from '../node/folder-claims.ts';
import type { NodeHealth } from '../node/node-store.ts';
import type { NodeFate, NodeHoldings } from '../postgres/forget-node.ts';
import type { NodeRow } from '../postgres/node-rows.ts';

export type { NodeHealth, NodeHoldings, NodeRow };

/** What every driver is given. */
export type OpenStoreOptions = Pick<EmbeddedStoreOptions, 'fsync' | 'clock' | 'log' | 'onUnremoved'>;

export interface OpenedStore {
  readonly store: Store;
  /** Other processes may have it open at the same time. */
  readonly isShared: boolean;
  /** Forces everything stored so far to the medium. @throws GatewayError `record_store_unavailable` */
  sync(): Promise<void>;
}

/** A gateway that is one of several on one database. */
export interface NodeOfDatabase {
  /** `postgres://…`. Stands in no message. */
  readonly url: string;
  /** The node's name. */
  readonly node: string;
  readonly dataDir: string;
  /** How long the node keeps what it has carried, milliseconds. */
  readonly keepMs: number;
}

/** The nodes of a database, as one of them sees them. */
export interface Cluster {
  /** Of this node. */
  health(): NodeHealth;
  /** All, by name. @throws GatewayError `record_store_unavailable` */
  nodes(): Promise<readonly NodeRow[]>;
  /** What nodes hold of shared caps, by their names. @throws GatewayError `record_store_unavailable` */
  holdings(): Promise<ReadonlyMap<string, NodeHoldings>>;
  /** Whether a node was heard of within a minute, by the database's clock. @throws GatewayError as {@link nodes} */
  isAlive(node: string): Promise<boolean>;
  /**
   * Forgets another node, and charges what it held; not one that was heard of within a minute, by the database's clock.
   * @throws GatewayError `record_store_unavailable`
   */
  forget(node: string): Promise<NodeFate>;
  /**
   * Stores what this node has left, and with the last of it lets it say what it holds of shared caps.
   * @throws GatewayError `record_store_unavailable`: nobody may know what was granted
   */
  exchange(speaker: CapSpeaker): Promise<CapExchanged>;
}

/** By the scheme of a place, in lower case. */
const DRIVERS: Readonly<Record<string, (place: string, options: OpenStoreOptions) => Promise<OpenedStore>>> = {
  file: openEmbedded,
  postgres: openPostgres,
  postgresql: openPostgres,
};

/** At least two letters: one is a drive of Windows. */
const SCHEME = /^([a-z][a-z0-9+.-]+):/i;

/**
 * Opens a store, or creates it.
 * @param place a folder, or a URL (`file:`, `postgres:`), of which no password stands in an error
 * @throws Error for a scheme that no driver has, and for a database that cannot be opened, in one line; StoreError; the
 * system's error when the folder cannot be used
 */
export async function openStore(place: string, options: OpenStoreOptions): Promise<OpenedStore> {
  const scheme = SCHEME.exec(place)?.[1]?.toLowerCase() ?? 'file';
  const open = Object.hasOwn(DRIVERS, scheme) ? DRIVERS[scheme] : undefined;
  if (open === undefined)
    throw new Error(`there is no store for ${scheme}: URLs; a folder, or file: and its path, is one, and postgres: and a database`);
  return open(place, options);
}

async function openEmbedded(place: string, options: OpenStoreOptions): Promise<OpenedStore> {
  const store = await openEmbeddedStore({ ...options, dir: folderOf(place) });
  // Its folder is open in one process at a time.
  return { store, isShared: false, sync: () => store.sync() };
}

/** What it needs is loaded when it is opened. */
async function openPostgres(url: string, { clock, log }: OpenStoreOptions): Promise<OpenedStore> {
  const { openPostgresStore } = await import('../postgres/open-postgres-store.ts');
  const store = await openPostgresStore({ url, clock, log });
  return { store, isShared: true, sync: () => store.sync() };
}

/**
 * Opens the store of a node: its own in a folder, and the database that it shares with others.
 * @throws as {@link openStore}; Error in one line where name or folder are not those that the database knows
 */
export async function openNodeOf(
  { url, node, dataDir, keepMs }: NodeOfDatabase,
  folder: string,
  options: OpenStoreOptions,
): Promise<OpenedStore & { readonly cluster: Cluster }> {
  const { clock, log } = options;
  const [{ openPostgresStore }, { openNodeStore }] = await Promise.all([
    import('../postgres/open-postgres-store.ts'),
    import('../node/open-node-store.ts'),
  ]);
  // The folder first: that of a gateway that runs is refused before anybody asks the database.
  const local = await openEmbeddedStore({ ...options, dir: folder });
  try {
    const shared = await openPostgresStore({ url, clock, log });
    try {
      const store = await openNodeStore({ node, dataDir, place: placeOfFolder(dataDir), local, shared, clock, log, keepMs });
      const cluster: Cluster = {
        nodes: () => shared.nodes(),
        holdings: () => shared.holdings(),
        isAlive: (name) => shared.isAlive(name),
        forget: (name) => shared.forget(name),
        exchange: (speaker) => store.exchange(speaker),
        health: () => store.health,
      };
      return { store, isShared: true, sync: () => store.sync(), cluster };
    } catch (error) {
      await shared.close();
      throw error;
    }
  } catch (error) {
    await local.close();
    throw error;
  }
}

/** The database, or what it knows of this node, kept a store from being opened: the message is for an operator. */
export function isRefusedByDatabase(error: unknown): error is Error {
  // The class is loaded with the driver, and not before.
  return error instanceof Error && error.name === 'OpeningRefused';
}

function folderOf(place: string): string {
  if (!/^file:/i.test(place)) return place;
  const path = place.slice('file:'.length);
  return path.startsWith('//') ? fileURLToPath(`file:${path}`) : path;
}
