import { constants } from 'node:fs';
import { chmod, type FileHandle, lstat, open, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { folderError, makeFolder } from '../../base/lib/file-system.ts';
import { codeOf, messageOf } from '../../base/lib/gateway-error.ts';

export const ROOT_CERTIFICATE = 'root-ca.pem';
export const ROOT_KEY = 'root-ca.key';
export const TRUST_BUNDLE = 'ca-bundle.pem';
/** Of the root that is to sign from a date on; it becomes {@link ROOT_KEY} by one rename. */
export const NEXT_KEY = 'next-root-ca.key';
/** What is known of the roots beside their files (decision 12.10). */
export const ROOT_STATE = 'roots.json';

/** Root files are small; whatever is larger is not one. */
const MAX_BYTES = 65_536;
const GROUP_OR_OTHERS = 0o077;
const WRITABLE_BY_OTHERS = 0o022;

/** Why the gateway cannot use its certificate authority; the message says what to do about it. */
export class CertificateAuthorityError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CertificateAuthorityError';
  }
}

export interface RootFiles {
  readonly certificate: string;
  readonly key: string;
}

/**
 * Reads both files of the root, or undefined when neither is there.
 * @throws CertificateAuthorityError when one is missing, is a symbolic link or no plain file, belongs to someone else,
 * or has a mode that lets others read the key or change the certificate
 */
export async function readRootFiles(dir: string): Promise<RootFiles | undefined> {
  const [hasCertificate, hasKey] = await Promise.all([exists(dir, ROOT_CERTIFICATE), exists(dir, ROOT_KEY)]);
  if (!hasCertificate && !hasKey) return undefined;
  if (hasCertificate !== hasKey) {
    const [there, missing] = hasCertificate ? [ROOT_CERTIFICATE, ROOT_KEY] : [ROOT_KEY, ROOT_CERTIFICATE];
    throw new CertificateAuthorityError(
      `${join(dir, there)} is there without ${missing}: restore ${missing}, or move ${there} away to have a new root made (clients must trust it anew)`,
    );
  }
  const key = await readGuarded(join(dir, ROOT_KEY), GROUP_OR_OTHERS, 'chmod 600');
  const certificate = await readGuarded(join(dir, ROOT_CERTIFICATE), WRITABLE_BY_OTHERS, 'chmod 644');
  return { certificate, key };
}

/**
 * Writes a new root, key first. Existing files are never replaced.
 * @throws CertificateAuthorityError when a file appeared meanwhile or the folder cannot be written
 */
export async function createRootFiles(dir: string, files: RootFiles): Promise<void> {
  try {
    await makeFolder(dir, 0o755);
  } catch (error) {
    throw folderUnusable(dir, error);
  }
  try {
    await createExclusive(join(dir, ROOT_KEY), files.key, 0o600);
    await createExclusive(join(dir, ROOT_CERTIFICATE), files.certificate, 0o644).catch(async (error: unknown) => {
      // A key alone would stop every later start.
      await unlink(join(dir, ROOT_KEY));
      throw error;
    });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw folderUnusable(dir, error);
    throw new CertificateAuthorityError(`a new root cannot be written to ${dir}: another process is making one there`, { cause: error });
  }
}

function folderUnusable(dir: string, error: unknown): CertificateAuthorityError {
  return new CertificateAuthorityError(messageOf(folderError('GW_CA_DIR', dir, error)), { cause: error });
}

/**
 * Text of a file that is not there before the first rotation; undefined then.
 * @throws CertificateAuthorityError as {@link readRootFiles}
 */
export async function readRotationFile(dir: string, name: typeof NEXT_KEY | typeof ROOT_STATE): Promise<string | undefined> {
  if (!(await exists(dir, name))) return undefined;
  return name === NEXT_KEY
    ? readGuarded(join(dir, name), GROUP_OR_OTHERS, 'chmod 600')
    : readGuarded(join(dir, name), WRITABLE_BY_OTHERS, 'chmod 644');
}

/** @throws CertificateAuthorityError when there is one, or it cannot be written */
export async function createNextKey(dir: string, key: string): Promise<void> {
  await createExclusive(join(dir, NEXT_KEY), key, 0o600).catch((error: unknown) => {
    throw folderUnusable(dir, error);
  });
}

/**
 * The switch: from here on the next key signs, and the former one is gone. One rename, so that there is no time
 * between.
 */
export async function promoteNextKey(dir: string): Promise<void> {
  await rename(join(dir, NEXT_KEY), join(dir, ROOT_KEY)).catch((error: unknown) => {
    throw folderUnusable(dir, error);
  });
}

export async function removeNextKey(dir: string): Promise<void> {
  await unlink(join(dir, NEXT_KEY)).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw folderUnusable(dir, error);
  });
}

/** A file that lies ready on the disk beside the one that it is to replace: what is left to do needs no room there. */
export interface StagedFile {
  /** Replaces the file. @returns its path @throws CertificateAuthorityError */
  put(): Promise<string>;
  /** It is not needed after all. */
  drop(): Promise<void>;
}

type PublicFile = typeof ROOT_CERTIFICATE | typeof TRUST_BUNDLE | typeof ROOT_STATE;

/**
 * Writes what is to replace a file that anybody may read, as a whole: readers see the old one or the new one. A
 * symbolic link in its place is replaced, not followed.
 * @param unique part of the name that it has until then
 * @throws CertificateAuthorityError when there is no room for it; nothing is left of it then
 */
export async function stagePublicFile(dir: string, name: PublicFile, text: string, unique: string): Promise<StagedFile> {
  const temporary = join(dir, `.${name}.${unique}`);
  const drop = () => unlink(temporary).catch(() => undefined);
  try {
    await createExclusive(temporary, text, 0o644);
  } catch (error) {
    await drop();
    throw folderUnusable(dir, error);
  }
  const put = async () => {
    const path = join(dir, name);
    try {
      await rename(temporary, path);
    } catch (error) {
      await drop();
      throw folderUnusable(dir, error);
    }
    return path;
  };
  return { put, drop };
}

/** Stages a file and puts it at once. @returns its path @throws CertificateAuthorityError as {@link stagePublicFile} */
export async function replacePublicFile(dir: string, name: PublicFile, text: string, unique: string): Promise<string> {
  return (await stagePublicFile(dir, name, text, unique)).put();
}

async function createExclusive(path: string, text: string, mode: number): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, mode);
  try {
    await file.writeFile(text);
    await file.sync();
  } catch (error) {
    // Half of a file is worse than none.
    await unlink(path);
    throw error;
  } finally {
    await file.close();
  }
  // The process's umask may have narrowed a mode that others need.
  await chmod(path, mode);
}

/**
 * Text of a small file that others must not get at.
 * @param forbiddenMode bits of its mode that must not be set
 * @param remedy the command that sets it right
 * @throws CertificateAuthorityError as {@link readRootFiles}
 */
export async function readGuarded(path: string, forbiddenMode: number, remedy: string): Promise<string> {
  const file = await openNoFollow(path);
  try {
    // Judged on the open file, so that what is checked is what is read.
    const state = await file.stat();
    const mode = (state.mode & 0o777).toString(8).padStart(4, '0');
    if (!state.isFile()) throw new CertificateAuthorityError(`${path} is not a plain file`);
    if (!isTrustedOwner(state.uid)) throw new CertificateAuthorityError(`${path} belongs to another user (uid ${state.uid})`);
    if ((state.mode & forbiddenMode) !== 0) {
      throw new CertificateAuthorityError(`${path} has mode ${mode}, which lets others at it: run ${remedy} ${path}`);
    }
    if (state.size > MAX_BYTES) throw new CertificateAuthorityError(`${path} is ${state.size} bytes long, which no root file is`);
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

async function openNoFollow(path: string): Promise<FileHandle> {
  try {
    // Non-blocking, or a FIFO in its place would hang the start.
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const reason = codeOf(error) === 'ELOOP' ? 'it is a symbolic link, which is not followed' : messageOf(error);
    throw new CertificateAuthorityError(`${path} cannot be read: ${reason}`, { cause: error });
  }
}

function isTrustedOwner(uid: number): boolean {
  return process.getuid === undefined || uid === process.getuid() || uid === 0;
}

async function exists(dir: string, name: string): Promise<boolean> {
  try {
    await lstat(join(dir, name));
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw folderUnusable(dir, error);
  }
}
