import { randomBytes } from 'node:crypto';
import { link, open, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { codeOf } from '../../base/lib/gateway-error.ts';
import { readGuarded } from '../../inbound/ca/root-files.ts';

const GROUP_OR_OTHERS = 0o077;

/**
 * Text of a file that holds a secret, made at the first start. It is there as a whole or not at all, whenever the
 * process is killed: it is written under another name, forced to the medium, and then given its own, which one process
 * alone can do.
 * @throws CertificateAuthorityError when others can read it; the system's error when the folder cannot be used
 */
export async function keptOnce(file: string, make: () => Promise<string> | string): Promise<string> {
  if (!(await isThere(file))) await writeWhole(file, await make());
  return readGuarded(file, GROUP_OR_OTHERS, 'chmod 600');
}

/** Whether there is such a file. @throws the system's error when that cannot be said */
export async function isThere(file: string): Promise<boolean> {
  try {
    const handle = await open(file, 'r');
    await handle.close();
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

async function writeWhole(file: string, text: string): Promise<void> {
  const temporary = `${file}.${randomBytes(6).toString('hex')}.new`;
  const handle = await open(temporary, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } catch (error) {
    // Half of a secret, such as on a full disk, is not left lying about.
    await unlink(temporary);
    throw error;
  } finally {
    await handle.close();
  }
  try {
    await link(temporary, file);
  } catch (error) {
    // Another process was quicker; its text counts.
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    await unlink(temporary);
  }
  await syncFolderOf(file);
}

/** What was renamed or removed there stays so when the power is cut. */
export async function syncFolderOf(file: string): Promise<void> {
  const folder = await open(dirname(file), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
