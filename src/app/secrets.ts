import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { access, open, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { folderError, inFolder, makeFolder } from '../base/lib/file-system.ts';
import { codeOf } from '../base/lib/gateway-error.ts';
import { secretKeysIn } from '../base/lib/secret-key-file.ts';

const SETTING = 'GW_DATA_DIR';

/** Reads a file of one line, or makes it on the first start; it is created exclusively with mode 0600. */
export async function onceMade(file: string, make: () => string): Promise<string> {
  try {
    const handle = await open(file, 'wx', 0o600);
    try {
      const made = make();
      await handle.writeFile(`${made}\n`);
      await handle.sync();
      return made;
    } catch (error) {
      // An empty file would stop every later start.
      await unlink(file);
      throw error;
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    const text = (await readFile(file, 'utf8')).trim();
    if (text === '') throw new Error(`${file} is empty; remove it to have a new one made.`, { cause: error });
    return text;
  }
}

export interface AdminToken {
  readonly value: string;
  /** Where the generated token is kept; undefined when it was configured. */
  readonly file: string | undefined;
}

/**
 * The token that proves an operator to be one (`GW_ADMIN_TOKEN`, decision section 2): configured, or made on the first
 * start.
 */
export async function openAdminToken(dataDir: string, configured: string | undefined): Promise<AdminToken> {
  await makeDataFolder(dataDir);
  if (configured !== undefined) return { value: configured, file: undefined };
  const file = join(dataDir, 'admin-token');
  return { value: await inFolder(SETTING, dataDir, () => onceMade(file, () => randomBytes(32).toString('base64url'))), file };
}

async function makeDataFolder(dir: string): Promise<void> {
  try {
    await makeFolder(dir, 0o700);
    await access(dir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw folderError(SETTING, dir, error);
  }
}

/** In the data folder. */
export const SECRETS_KEY_FILE = 'secrets-key';

/**
 * The keys that encrypt stored secrets (`GW_SECRETS_KEY`), the current one first: configured, or made on the first
 * start and kept in the data folder with mode
 * 0600. The file may hold older keys, one a line, which only open what was sealed with them.
 */
export async function openSecretKeys(dataDir: string, configured: Uint8Array | undefined): Promise<readonly Uint8Array[]> {
  if (configured !== undefined) return [configured];
  const file = join(dataDir, SECRETS_KEY_FILE);
  return secretKeysIn(await inFolder(SETTING, dataDir, () => onceMade(file, () => randomBytes(32).toString('base64'))), file);
}

/**
 * The same for a command, which makes no key.
 * @throws Error when there is none
 */
export async function existingSecretKeys(dataDir: string, configured: Uint8Array | undefined): Promise<readonly Uint8Array[]> {
  if (configured !== undefined) return [configured];
  const file = join(dataDir, SECRETS_KEY_FILE);
  const text = await inFolder(SETTING, dataDir, async () => {
    try {
      return await readFile(file, 'utf8');
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
      throw new Error(`there is no ${file}, and GW_SECRETS_KEY is not set: the key of the stored secrets is in one of them`, {
        cause: error,
      });
    }
  });
  return secretKeysIn(text, file);
}
