import { constants, readFileSync } from 'node:fs';
import { mkdir, open, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { codeOf, messageOf } from './gateway-error.ts';

/** What the system's codes mean for a folder. */
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user may not read or write there',
  EPERM: 'this user may not write there',
  EROFS: 'it is on a file system that can only be read',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EEXIST: 'it, or something on its path, is a file and no folder',
  ENOTDIR: 'it, or something on its path, is a file and no folder',
  ENOENT: 'nothing can be made there',
  ELOOP: 'symbolic links lead in a circle',
  ENAMETOOLONG: 'the name is too long',
  EIO: 'the disk fails',
};

/**
 * Makes a folder, and those above it that are not there. Node's own recursive form asks for ever where the system says
 * that there is no such place to make one in, as under `/proc`.
 * @param mode of every folder that is made
 * @throws the system's error
 */
export async function makeFolder(dir: string, mode: number): Promise<void> {
  const path = resolve(dir);
  if (await madeOrThere(path, mode)) return;
  const above = dirname(path);
  if (above !== path) await makeFolder(above, mode);
  await mkdir(path, { mode }).catch(async (error: unknown) => {
    // Another process may have been quicker.
    if (codeOf(error) !== 'EEXIST' || !(await isFolder(path))) throw error;
  });
}

/** False when what is above it is missing. */
async function madeOrThere(path: string, mode: number): Promise<boolean> {
  try {
    await mkdir(path, { mode });
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    // For a folder that exists some file systems name another reason first.
    if (await isFolder(path)) return true;
    throw error;
  }
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    // What keeps it from being looked at is told by what was tried with it.
    return false;
  }
}

/**
 * What the system says about a folder, in words for who set it.
 * @param setting that names the folder
 * @returns an Error for an error of the system; anything else as it is
 */
export function folderError(setting: string, dir: string, thrown: unknown): unknown {
  const reason = REASONS[codeOf(thrown)];
  if (reason === undefined) return thrown;
  return new Error(`${setting}: the folder ${resolve(dir)} cannot be used: ${reason} (${messageOf(thrown)})`, { cause: thrown });
}

/** Does something in a folder. @throws what {@link folderError} makes of what is thrown */
export async function inFolder<T>(setting: string, dir: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw folderError(setting, dir, error);
  }
}

/** How many files and connections this process may have open at a time; undefined where the system does not say so. */
export function openFilesLimit(): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}

/**
 * The bytes of a regular file, also by a link. Anything else is refused before it is read: a pipe would be waited for,
 * a device may never end.
 * @throws the system's error, or one that says what is wrong with the file
 */
export async function readRegularFile(path: string, maxBytes: number): Promise<Uint8Array> {
  // Without the flag, opening a pipe waits for its writer.
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const found = await file.stat();
    if (!found.isFile()) throw new Error('it is no regular file');
    if (found.size > maxBytes) throw new Error(`it is larger than ${maxBytes} bytes`);
    return await file.readFile();
  } finally {
    await file.close();
  }
}
