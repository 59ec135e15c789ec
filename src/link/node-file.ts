import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { inFolder, makeFolder } from '../base/lib/file-system.ts';
import { codeOf, messageOf } from '../base/lib/gateway-error.ts';
import { EnrolmentError } from './enrolment-error.ts';
import { type NodeIdentity, nodeIdentity } from './node-identity.ts';

/**
 * In `GW_KEY_DIR`: key, certificate and CAs in this order, PEM, then a line for each CA that was trusted before. One
 * file, so that they can never be of different enrolments.
 */
export const NODE_FILE = 'node.pem';

const MAX_BYTES = 65_536;
const GROUP_OR_OTHERS = 0o077;
const FORMER = /^Former CA: ([0-9a-f]{64})$/gm;
const PARTS = /-----BEGIN ([A-Z ]+)-----[\s\S]*?-----END \1-----\n?/g;

/**
 * What a gateway was enrolled with; undefined: it never was.
 * @throws EnrolmentError `bad_identity` when the file cannot be read, others may read it, or its parts do not fit
 */
export async function readNodeFile(dir: string): Promise<NodeIdentity | undefined> {
  const path = join(dir, NODE_FILE);
  const text = await guardedText(path);
  if (text === undefined) return undefined;
  const [key = '', certificate = '', ...cas] = [...text.matchAll(PARTS)].map(([part]) => part);
  const former = [...text.matchAll(FORMER)].map(([, sha256 = '']) => sha256);
  try {
    return nodeIdentity(key, certificate, cas, former);
  } catch (error) {
    throw unusable(path, `cannot be used (${messageOf(error)})`, error);
  }
}

/** Takes the place of what was there, as a whole. @throws Error for a person when the folder cannot be written */
export async function writeNodeFile(dir: string, { keyPem, certificatePem, caPem, formerCas }: NodeIdentity): Promise<void> {
  await inFolder('GW_KEY_DIR', dir, async () => {
    await makeFolder(dir, 0o700);
    const temporary = join(dir, `.${NODE_FILE}.${randomUUID()}`);
    try {
      const former = formerCas.map((sha256) => `Former CA: ${sha256}\n`).join('');
      await writeNew(temporary, `${keyPem.trim()}\n${certificatePem.trim()}\n${caPem.trim()}\n${former}`);
      await rename(temporary, join(dir, NODE_FILE));
    } catch (error) {
      await unlink(temporary).catch(() => undefined);
      throw error;
    }
    await syncFolder(dir);
  });
}

async function writeNew(path: string, text: string): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The rename is only then safe from a loss of power. Some systems cannot open a folder. */
async function syncFolder(dir: string): Promise<void> {
  let folder: FileHandle | undefined;
  try {
    folder = await open(dir, constants.O_RDONLY);
    await folder.sync();
  } catch {
    // Then the system writes it when it sees fit.
  } finally {
    await folder?.close();
  }
}

async function guardedText(path: string): Promise<string | undefined> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw unusable(path, `cannot be read (${messageOf(error)})`, error);
  }
  try {
    const state = await file.stat();
    if (!state.isFile() || state.size > MAX_BYTES) throw unusable(path, 'is no such file as an enrolment makes');
    if (process.platform !== 'win32' && (state.mode & GROUP_OR_OTHERS) !== 0)
      throw unusable(path, `can be read by others: run chmod 600 ${path}`);
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

function unusable(path: string, what: string, cause?: unknown): EnrolmentError {
  return new EnrolmentError('bad_identity', `GW_KEY_DIR: ${path} ${what}. Put it right, or move it away and enrol this node anew.`, {
    cause,
  });
}
