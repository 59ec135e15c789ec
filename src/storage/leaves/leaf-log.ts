import { constants } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isMissing } from '../../base/lib/gateway-error.ts';
import { HASH_BYTES, type Leaves } from '../contract/leaves.ts';
import { type AcknowledgedLeaves, emptyHeader, HEADER_BYTES, otherSlot, readHeader, writeSlot } from './leaf-header.ts';
import { LeafIndex } from './leaf-index.ts';
import { ROW_BYTES, readRows, writeRows } from './leaf-rows.ts';

/** Rows that are read at a time while a file is opened. */
const ROWS_PER_READ = 16_384;

const REMEDY =
  'nothing was changed in it: put back a copy of it that holds at least the leaves under signed roots, and gateways hand in again what it lacks';

/** What is in the file is not what was acknowledged: one line for the operator. */
export class LeafLogDamaged extends Error {}

interface Waiting {
  readonly hashes: readonly Uint8Array[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Leaves in one file: a header that says how many were acknowledged, and a row of 36 bytes for each. Where they stand
 * is kept in memory and read anew at a start. The count is written when the rows are safe, and leaves are acknowledged
 * when the count is: so a bad row behind the count was torn by a crash, acknowledged to nobody, and is cut off; one
 * before it is damage, and the file is refused.
 */
export class LeafLog implements Leaves {
  readonly #file: FileHandle;
  readonly #index: LeafIndex;
  #nextSlot: number;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  /** After a write that could not be taken back nobody knows what is in the file: it has to be opened anew. */
  #broken: Error | undefined;
  #closed: Promise<void> | undefined;

  private constructor(file: FileHandle, index: LeafIndex, nextSlot: number) {
    this.#file = file;
    this.#index = index;
    this.#nextSlot = nextSlot;
  }

  /**
   * @param path of the file; its folder is there
   * @param atLeast so many leaves have been signed for
   * @throws LeafLogDamaged when fewer can be read than were acknowledged or signed for; the file is left as it is
   */
  static async open(path: string, atLeast: number): Promise<LeafLog> {
    const file = await openFile(path, atLeast);
    try {
      await syncFolder(dirname(path));
      const { size } = await file.stat();
      const acknowledged = await acknowledgedIn(file, path, size);
      const index = await indexOf(file);
      refuseDamaged(path, index.count, acknowledged.count, atLeast);
      const log = new LeafLog(file, index, acknowledged.nextSlot);
      if (size > endOf(index.count)) await file.truncate(endOf(index.count));
      if (size !== endOf(acknowledged.count)) {
        // Whole rows that nobody was told of are kept, and must be as safe as the others before they are signed for.
        await file.datasync();
        await log.#acknowledge(index.count);
      }
      return log;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /**
   * Whether a file that holds so many leaves, and nothing behind them, looks otherwise; nothing is read.
   * @throws Error when there is no file
   */
  static async differs(path: string, leaves: number): Promise<boolean> {
    return (await stat(path)).size !== endOf(leaves);
  }

  get count(): number {
    return this.#index.count;
  }

  get isBroken(): boolean {
    return this.#broken !== undefined;
  }

  append(hashes: readonly Uint8Array[]): Promise<void> {
    for (const hash of hashes) {
      if (hash.byteLength !== HASH_BYTES) throw new TypeError(`a hash has ${HASH_BYTES} bytes`);
    }
    if (this.#closed !== undefined) return Promise.reject(new Error('the leaves are closed'));
    const stored = new Promise<void>((resolve, reject) => this.#waiting.push({ hashes, resolve, reject }));
    this.#writing ??= this.#write();
    return stored;
  }

  async find(hash: Uint8Array): Promise<number | undefined> {
    for (const place of this.#index.candidates(hash)) {
      const [there] = await this.read(place, 1);
      if (there?.equals(hash)) return place;
    }
    return undefined;
  }

  async read(first: number, length: number): Promise<readonly Buffer[]> {
    const rows = Math.max(0, Math.min(length, this.#index.count - first));
    const bytes = await bytesAt(this.#file, endOf(first), rows * ROW_BYTES);
    const hashes = readRows(first, bytes);
    if (hashes.length !== rows) throw new LeafLogDamaged(`leaf ${first + hashes.length} cannot be read`);
    return hashes;
  }

  close(): Promise<void> {
    this.#closed ??= (async () => {
      await this.#writing;
      await this.#file.close();
    })();
    return this.#closed;
  }

  /** Whatever has come while one write was under way goes with the next one. */
  async #write(): Promise<void> {
    // A turn later, so that what is handed over in one go is written in one.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const group = this.#waiting;
      this.#waiting = [];
      try {
        if (this.#broken !== undefined) throw this.#broken;
        await this.#store(group.flatMap(({ hashes }) => hashes));
        for (const { resolve } of group) resolve();
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    this.#writing = undefined;
  }

  async #store(hashes: readonly Uint8Array[]): Promise<void> {
    const fresh = await this.#unknown(hashes);
    if (fresh.length === 0) return;
    try {
      await writeAt(this.#file, writeRows(this.#index.count, fresh), endOf(this.#index.count));
      await this.#file.datasync();
      await this.#acknowledge(this.#index.count + fresh.length);
    } catch (error) {
      await this.#takeBack(error);
      throw error;
    }
    for (const hash of fresh) this.#index.add(hash);
  }

  async #acknowledge(count: number): Promise<void> {
    await writeAt(this.#file, writeSlot(count), this.#nextSlot);
    await this.#file.datasync();
    this.#nextSlot = otherSlot(this.#nextSlot);
  }

  /** What of a failed write has come into the file goes out again; where that fails too nothing is written any more. */
  async #takeBack(error: unknown): Promise<void> {
    try {
      // The count first: where it cannot be taken back the rows that it counts must stay.
      await this.#acknowledge(this.#index.count);
      await this.#file.truncate(endOf(this.#index.count));
      await this.#file.datasync();
    } catch {
      this.#broken = error instanceof Error ? error : new Error(String(error));
    }
  }

  async #unknown(hashes: readonly Uint8Array[]): Promise<Uint8Array[]> {
    const fresh = new Map<string, Uint8Array>();
    for (const hash of hashes) {
      const name = Buffer.from(hash).toString('latin1');
      if (!fresh.has(name) && (await this.find(hash)) === undefined) fresh.set(name, Uint8Array.from(hash));
    }
    return [...fresh.values()];
  }
}

/** @throws LeafLogDamaged for a file of something else */
async function acknowledgedIn(file: FileHandle, path: string, size: number): Promise<AcknowledgedLeaves> {
  const header = await bytesAt(file, 0, HEADER_BYTES);
  const found = readHeader(header);
  if (found !== undefined) return found;
  // A file that was being made when everything ended has no row yet.
  if (size > HEADER_BYTES) throw new LeafLogDamaged(`${path} is damaged: its header cannot be read; ${REMEDY}`);
  const empty = emptyHeader();
  await writeAt(file, empty, 0);
  await file.datasync();
  return readHeader(empty) ?? { count: 0, nextSlot: 0 };
}

async function indexOf(file: FileHandle): Promise<LeafIndex> {
  const index = new LeafIndex();
  for (let whole = true; whole; ) {
    const { length, hashes } = await rowsAt(file, index.count);
    for (const hash of hashes) index.add(hash);
    whole = hashes.length > 0 && hashes.length * ROW_BYTES === length;
  }
  return index;
}

function refuseDamaged(path: string, readable: number, acknowledged: number, signed: number): void {
  if (readable >= acknowledged && readable >= signed) return;
  const [count, what] = signed >= acknowledged ? [signed, 'signed for'] : [acknowledged, 'acknowledged'];
  throw new LeafLogDamaged(
    `${path} is damaged: ${count} leaves have been ${what}, and only the first ${readable} can be read (${signed} are under signed roots); ${REMEDY}`,
  );
}

/** Where leaves have been signed for there was a file, and an empty one is not put into its place. */
async function openFile(path: string, signed: number): Promise<FileHandle> {
  if (signed === 0) return open(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    return await open(path, constants.O_RDWR);
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new LeafLogDamaged(`${path} is missing: ${signed} leaves are under signed roots; ${REMEDY}`, { cause: error });
  }
}

function endOf(leaves: number): number {
  return HEADER_BYTES + leaves * ROW_BYTES;
}

async function writeAt(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, written, bytes.length - written, position + written);
    written += bytesWritten;
  }
}

async function rowsAt(file: FileHandle, first: number): Promise<{ readonly length: number; readonly hashes: readonly Buffer[] }> {
  const bytes = await bytesAt(file, endOf(first), ROWS_PER_READ * ROW_BYTES);
  return { length: bytes.length, hashes: readRows(first, bytes) };
}

async function bytesAt(file: FileHandle, from: number, most: number): Promise<Buffer> {
  const bytes = Buffer.alloc(most);
  let length = 0;
  while (length < bytes.length) {
    const { bytesRead } = await file.read(bytes, length, bytes.length - length, from + length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return bytes.subarray(0, length);
}

/** So that the file itself is there after the death of the machine. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
