import { resolve } from 'node:path';
import type { Config } from '../base/config/config.ts';
import { inFolder } from '../base/lib/file-system.ts';
import { folderSize, isNodeFolder, journalPlace } from '../storage/drivers/store-folder.ts';
import { type DatabaseLook, lookAtDatabase } from '../storage/drivers/store-move.ts';
import { requireStore, storeFolder, storeFormat } from './data-folder.ts';

export { journalPlace };

/** Where a gateway keeps what it stores. */
export interface StorageStatus {
  /** The store in the data folder; undefined before the first start, which makes it. */
  readonly folder: FolderStatus | undefined;
  /** Undefined: the gateway is alone, with the store in its data folder. */
  readonly database: DatabaseLook | undefined;
}

export interface FolderStatus {
  readonly path: string;
  /** Of the format, where the store has one. */
  readonly format: number | undefined;
  readonly bytes: number;
  /** Its journal is, or is going to be, in a database: it was moved there, or began there. */
  readonly isOfNode: boolean;
}

/**
 * Looks, also while a gateway runs, and changes nothing.
 * @throws Error in one line: there is no store, or the database cannot be asked
 */
export async function storageStatus({ dataDir, databaseUrl: url }: Pick<Config, 'dataDir' | 'databaseUrl'>): Promise<StorageStatus> {
  if (url === undefined) await requireStore(dataDir);
  const format = await storeFormat(dataDir);
  const path = resolve(storeFolder(dataDir));
  const folder = format && {
    path,
    format: format.found,
    bytes: await inFolder('GW_DATA_DIR', dataDir, () => folderSize(path)),
    isOfNode: await inFolder('GW_DATA_DIR', dataDir, () => isNodeFolder(dataDir)),
  };
  return { folder, database: url === undefined ? undefined : await lookAtDatabase({ url }) };
}
