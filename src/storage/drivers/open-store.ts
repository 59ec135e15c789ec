/*
 * storage/drivers: which driver stands behind the storage contract. This room alone imports drivers; everybody else
 * names a place, and gets what keeps the contract.
 *
 * May live here: the choice, and what one driver alone can mean, for commands. May not: how anything is stored.
 */
import { fileURLToPath } from 'node:url';
import type { Store } from '../contract/store.ts';
import { type EmbeddedStoreOptions, openEmbeddedStore } from '../embedded/open-embedded-store.ts';

/** What every driver is given. */
export type OpenStoreOptions = Pick<EmbeddedStoreOptions, 'fsync' | 'clock' | 'log' | 'onUnremoved'>;

export interface OpenedStore {
  readonly store: Store;
  /** Other processes may have it open at the same time. */
  readonly isShared: boolean;
  /** Forces everything stored so far to the medium. @throws GatewayError `record_store_unavailable` */
  sync(): Promise<void>;
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

function folderOf(place: string): string {
  if (!/^file:/i.test(place)) return place;
  const path = place.slice('file:'.length);
  return path.startsWith('//') ? fileURLToPath(`file:${path}`) : path;
}
