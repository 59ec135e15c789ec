import { readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { inFolder } from '../base/lib/file-system.ts';
import { isMissing } from '../base/lib/gateway-error.ts';
import type { EmbeddedStore } from '../storage/embedded/embedded-store.ts';
import { formatFile } from '../storage/embedded/layout.ts';
import { type EmbeddedStoreOptions, openEmbeddedStore } from '../storage/embedded/open-embedded-store.ts';
import { FORMAT_VERSION } from '../storage/embedded/segment-header.ts';

/** The store's own folder in the data folder (`GW_DATA_DIR`). */
export function storeFolder(dataDir: string): string {
  return join(dataDir, 'store');
}

/** What names the folder, where nothing else does. */
const SETTING = 'GW_DATA_DIR';

/** @throws StoreError; Error that names the setting when the folder cannot be used */
export function openStore(dataDir: string, options: Omit<EmbeddedStoreOptions, 'dir'>, setting = SETTING): Promise<EmbeddedStore> {
  return inFolder(setting, dataDir, () => openEmbeddedStore({ ...options, dir: storeFolder(dataDir) }));
}

/**
 * For commands, which work on what a gateway has made and make nothing themselves.
 * @throws Error when there is no store of a gateway in the data folder
 */
export async function requireStore(dataDir: string, setting = SETTING): Promise<void> {
  try {
    await inFolder(setting, dataDir, () => stat(join(storeFolder(dataDir), 'journal')));
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
export async function storeFormat(dataDir: string): Promise<{ readonly found: number; readonly reads: number } | undefined> {
  return inFolder(SETTING, dataDir, async () => {
    try {
      const text = await readFile(formatFile(storeFolder(dataDir)), 'utf8');
      return { found: Number(/\d+/.exec(text)?.[0]), reads: FORMAT_VERSION };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  });
}
