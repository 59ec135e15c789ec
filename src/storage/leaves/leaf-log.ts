import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { HASH_BYTES, type Leaves } from '../contract/leaves.ts';
import { LeafIndex } from './leaf-index.ts';
import { ROW_BYTES, readRows, writeRows } from './leaf-rows.ts';

/** Rows that are read at a time while a file is opened. */
const ROWS_PER_READ = 16_384;

/** What is in the file is not what was acknowledged: one line for the operator. */
export class LeafLogDamaged extends Error {}

interface Waiting {
  readonly hashes: readonly Uint8Array[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Leaves in one file, a row of 36 bytes each; where they stand is kept in memory and read anew at a start. Rows at the end that a crash has torn were acknowledged to
 * nobody and are cut off.
 */
export class LeafLog implements Leaves {
  readonly #file: FileHandle;
  readonly #index: LeafIndex;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  /** After a write that could not be taken back nobody knows what is in the file: it has to be opened anew. */
  #broken: Error | undefined;
  #closed: Promise<void> | undefined;

  private constructor(file: FileHandle, index: LeafIndex) {
    this.#file = file;
    this.#index = index;
  }

  /**
   * @param path of the file; its folder is there
   * @param atLeast so many leaves have been acknowledged for sure
   * @throws LeafLogDamaged when fewer can be read
   */
  static async open(path: string, atLeast: number): Promise<LeafLog> {
    const file = await open(path, 'a+', 0o600);
    try {
      await syncFolder(dirname(path));
      const index = new LeafIndex();
      const { size } = await file.stat();
      for (let whole = true; whole; ) {
        const { length, hashes } = await rowsAt(file, index.count);
        for (const hash of hashes) index.add(hash);
        whole = hashes.length > 0 && hashes.length * ROW_BYTES === length;
      }
      if (index.count < atLeast)
        throw new LeafLogDamaged(
          `${path} is damaged: ${atLeast} leaves have been signed for, and only the first ${index.count} can be read`,
        );
      if (size !== index.count * ROW_BYTES) {
        await file.truncate(index.count * ROW_BYTES);
        await file.datasync();
      }
      return new LeafLog(file, index);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  get count(): number {
    return this.#index.count;
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
    const bytes = await bytesAt(this.#file, first, rows);
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
      await this.#file.appendFile(writeRows(this.#index.count, fresh));
      await this.#file.datasync();
    } catch (error) {
      await this.#takeBack(error);
      throw error;
    }
    for (const hash of fresh) this.#index.add(hash);
  }

  /** What of a failed write has come into the file goes out again; where that fails too nothing is written any more. */
  async #takeBack(error: unknown): Promise<void> {
    try {
      await this.#file.truncate(this.#index.count * ROW_BYTES);
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

async function rowsAt(file: FileHandle, first: number): Promise<{ readonly length: number; readonly hashes: readonly Buffer[] }> {
  const bytes = await bytesAt(file, first, ROWS_PER_READ);
  return { length: bytes.length, hashes: readRows(first, bytes) };
}

async function bytesAt(file: FileHandle, first: number, rows: number): Promise<Buffer> {
  const bytes = Buffer.alloc(rows * ROW_BYTES);
  let length = 0;
  while (length < bytes.length) {
    const { bytesRead } = await file.read(bytes, length, bytes.length - length, first * ROW_BYTES + length);
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
