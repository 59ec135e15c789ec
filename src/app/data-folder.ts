import { join, resolve } from 'node:path';
import type { Config } from '../base/config/config.ts';
import { inFolder } from '../base/lib/file-system.ts';
import { isMissing } from '../base/lib/gateway-error.ts';
import {
  type Cluster,
  isRefusedByDatabase,
  type NodeOfDatabase,
  type OpenedStore,
  type OpenStoreOptions,
  openNodeOf,
  openStore,
} from '../storage/drivers/open-store.ts';
import { formatOf, isNodeFolder, requireJournal } from '../storage/drivers/store-folder.ts';

/** The store's own folder in the data folder (`GW_DATA_DIR`). */
export function storeFolder(dataDir: string): string {
  return join(dataDir, 'store');
}

/** What names the folder, where nothing else does. */
const SETTING = 'GW_DATA_DIR';

/** @throws StoreError; Error that names the setting when the folder cannot be used */
export function openStoreIn(dataDir: string, options: OpenStoreOptions, setting = SETTING): Promise<OpenedStore> {
  return inFolder(setting, dataDir, () => openStore(resolve(storeFolder(dataDir)), options));
}

/** A gateway's store, and the database behind it where there is one. */
export type GatewayStore = OpenedStore & { readonly cluster?: Cluster };

/**
 * The store of a gateway: its own folder, or that and the database that it shares.
 * @throws as {@link openStoreIn}; Error that names the setting when the database cannot be used, or is not named where
 * the folder is that of a node
 */
export async function openGatewayStore(
  { dataDir, databaseUrl, nodeId, journalKeep }: Pick<Config, 'dataDir' | 'databaseUrl' | 'nodeId' | 'journalKeep'>,
  options: OpenStoreOptions,
): Promise<GatewayStore> {
  if (databaseUrl === undefined) {
    if (await inFolder(SETTING, dataDir, () => isNodeFolder(dataDir)))
      throw new Error(
        'GW_DATABASE_URL is not set, and the data folder is that of a node: records and settings are in its database. Set it again, or begin with an empty GW_DATA_DIR',
      );
    return openStoreIn(dataDir, options);
  }
  const node: NodeOfDatabase = { url: databaseUrl, node: nodeId, dataDir, keepMs: journalKeep };
  try {
    return await inFolder(SETTING, dataDir, () => openNodeOf(node, resolve(storeFolder(dataDir)), options));
  } catch (error) {
    if (!isRefusedByDatabase(error)) throw error;
    throw new Error(`GW_DATABASE_URL: ${error.message}`, { cause: error });
  }
}

/**
 * For commands, which work on what a gateway has made and make nothing themselves.
 * @throws Error when there is no store of a gateway in the data folder
 */
export async function requireStore(dataDir: string, setting = SETTING): Promise<void> {
  try {
    await inFolder(setting, dataDir, () => requireJournal(storeFolder(dataDir)));
  } catch (error) {
    if (!(error instanceof Error) || !isMissing(error.cause)) throw error;
    throw new Error(
      `${setting}: there is no store of a gateway in ${resolve(dataDir)}: run this in the gateway's own folder, or with its ${setting}`,
      { cause: error },
    );
  }
}

/**
 * Which format a store has, and up to which this version reads; undefined where there is none yet.
 * @throws Error that names the setting when it cannot be read
 */
export function storeFormat(dataDir: string): ReturnType<typeof formatOf> {
  return inFolder(SETTING, dataDir, () => formatOf(storeFolder(dataDir)));
}
