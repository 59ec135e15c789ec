import { readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import type { Logger } from '../../base/lib/log.ts';
import { Lru } from '../../base/lib/lru.ts';
import { membersOf } from '../contract/commit-rules.ts';
import type { RecordMembers } from '../contract/record-query.ts';
import { frameHasRecord, frameText, MAX_FRAME_BYTES } from './frame.ts';
import { GrowingColumns } from './growing-columns.ts';
import { type PackedColumns, packColumns, unpackColumns } from './packed-columns.ts';
import type { RecordColumns } from './record-columns.ts';
import { corruptFrame, onSegment } from './record-pages.ts';
import { SEGMENT_HEADER_BYTES, segmentFileName, segmentNumber } from './segment-header.ts';
import { walkFrames, withFile } from './segment-reader.ts';
import type { SegmentInfo, Segments } from './segments.ts';

/**
 * Of columns of closed segments that are kept in memory: those of more than a million records. Others are read again
 * when they are asked for.
 */
const KEPT_BYTES = 58 * 1024 * 1024;
const SUFFIX = '.columns';
const KEPT_SEGMENTS = 100_000;
/** Read of a segment in one go while its columns are made: about as much as can be parsed in a millisecond. */
const CHUNK_BYTES = 128 * 1024;

/**
 * The columns of all segments. Those of the segment that is written to grow with each commit; when it is closed they
 * are packed and written to a file, from which they are read when a query needs them. A file that is not there, or does
 * not fit the segment, is made again from the journal.
 */
export class SegmentColumns {
  readonly #segments: Segments;
  readonly #folder: string;
  readonly #log: Pick<Logger, 'info' | 'warn'>;
  #growing: GrowingColumns | undefined;
  /** Of closed segments, until they are packed. */
  readonly #closed = new Map<number, GrowingColumns>();
  readonly #packed = new Lru<number, PackedColumns>({ max: KEPT_SEGMENTS, size: { max: KEPT_BYTES, sizeOf: ({ bytes }) => bytes } });
  readonly #loading = new Map<number, Promise<RecordColumns | undefined>>();
  #packing: Promise<void> = Promise.resolve();
  #preparing: Promise<void> = Promise.resolve();
  #isClosed = false;
  #writeFailed = false;

  constructor(segments: Segments, folder: string, log: Pick<Logger, 'info' | 'warn'>) {
    this.#segments = segments;
    this.#folder = folder;
    this.#log = log;
  }

  /**
   * Reads the records of the last segment, to which more may come. Rejects with a StoreError when they cannot be read.
   */
  async open(): Promise<void> {
    const last = this.#segments.get(this.#segments.last);
    if (last && last.records > 0) this.#growing = await columnsOf(this.#segments, last);
  }

  /** Adds a record that has become visible. */
  append(segment: number, offset: number, record: RecordMembers, committedAt: number): void {
    if (this.#growing?.segment !== segment) {
      if (this.#growing) this.#close(this.#growing);
      this.#growing = new GrowingColumns(segment);
    }
    this.#growing.append(record, committedAt, offset);
  }

  /**
   * The columns of a segment that has records; undefined when the segment is not there any more. Rejects with what
   * reading the journal rejects with.
   */
  of(segment: number): Promise<RecordColumns | undefined> | RecordColumns {
    const held = this.#growing?.segment === segment ? this.#growing : (this.#closed.get(segment) ?? this.#packed.get(segment));
    if (held) return held;
    const loading = this.#loading.get(segment) ?? this.#load(segment).finally(() => this.#loading.delete(segment));
    this.#loading.set(segment, loading);
    return loading;
  }

  /** In the background: makes the files that are missing, newest first, and removes those of segments that are gone. */
  prepare(): void {
    this.#preparing = this.#prepare(this.#segments.last).catch((error: unknown) =>
      this.#log.warn({ err: error }, 'Columns of older records could not be prepared; a query that needs them makes them'),
    );
  }

  /** Forgets the segments up to this one. */
  dropThrough(segment: number): void {
    for (const [at] of [...this.#packed.entries(), ...this.#closed]) {
      if (at > segment) continue;
      this.#packed.delete(at);
      this.#closed.delete(at);
    }
    if (this.#growing && this.#growing.segment <= segment) this.#growing = undefined;
  }

  /** Removes the file of a segment. */
  async remove(segment: number): Promise<void> {
    await rm(this.#path(segment), { force: true });
  }

  /** Resolves when nothing is being written. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#preparing;
    await this.#packing;
  }

  #close(growing: GrowingColumns): void {
    const { segment } = growing;
    this.#closed.set(segment, growing);
    this.#packing = this.#packing.then(async () => {
      // Not in the turn of a commit.
      await turn();
      const info = this.#segments.get(segment);
      if (info && this.#closed.has(segment)) await this.#pack(growing, info);
      this.#closed.delete(segment);
    });
  }

  async #load(segment: number): Promise<RecordColumns | undefined> {
    const info = this.#segments.get(segment);
    if (info === undefined) return undefined;
    const image = await readImage(this.#path(segment));
    const packed = image && unpackColumns(image, info);
    if (packed) {
      this.#packed.set(segment, packed);
      return packed;
    }
    const made = await columnsOf(this.#segments, info);
    return made && (await this.#pack(made, info));
  }

  async #pack(growing: GrowingColumns, info: SegmentInfo): Promise<RecordColumns> {
    const image = packColumns(growing, info);
    const packed = unpackColumns(image, info);
    if (packed === undefined) return growing;
    this.#packed.set(info.segment, packed);
    await this.#write(info.segment, image);
    return packed;
  }

  /** In place: a file that was not written to its end does not fit, and is made again. */
  async #write(segment: number, image: Buffer): Promise<void> {
    try {
      await writeFile(this.#path(segment), image, { mode: 0o600 });
      this.#writeFailed = false;
    } catch (error) {
      if (!this.#writeFailed)
        this.#log.warn({ err: error }, 'Columns of records could not be written; they are made again when they are needed');
      this.#writeFailed = true;
      await this.remove(segment).catch(() => undefined);
    }
    if (this.#segments.get(segment) === undefined) await this.remove(segment).catch(() => undefined);
  }

  async #prepare(last: number): Promise<void> {
    const names = await readdir(this.#folder);
    const there = new Set<number>();
    for (const name of names) {
      const segment = segmentNumber(name.replace(SUFFIX, '.journal'));
      if (segment !== undefined && this.#segments.get(segment)) there.add(segment);
      else if (segment !== undefined) await this.remove(segment);
    }
    const isMissing = ({ segment, records }: SegmentInfo): boolean => segment < last && records > 0 && !there.has(segment);
    const missing = [...this.#segments].filter(isMissing).reverse();
    for (const { segment } of missing) {
      if (this.#isClosed) return;
      await this.of(segment);
    }
    if (missing.length > 0) this.#log.info({ segments: missing.length }, 'What queries ask of older records was read from the journal');
  }

  #path(segment: number): string {
    return join(this.#folder, segmentFileName(segment).replace('.journal', SUFFIX));
  }
}

/** The whole file, at a place in memory that numbers can be read from. */
async function readImage(path: string): Promise<Buffer | undefined> {
  try {
    const { size } = await stat(path);
    const image = Buffer.from(new ArrayBuffer(size));
    await withFile(path, (file) => file.read(image, 0, size, 0));
    return image;
  } catch {
    // Whatever keeps it from being read: it can be made again.
    return undefined;
  }
}

/**
 * The columns of a segment as the journal has it; undefined when retention has removed it meanwhile. Rejects with a
 * StoreError when a frame is damaged.
 */
async function columnsOf(segments: Segments, { segment, end }: SegmentInfo): Promise<GrowingColumns | undefined> {
  return onSegment(segments, segment, async (file) => {
    const columns = new GrowingColumns(segment);
    let at = SEGMENT_HEADER_BYTES;
    let chunk = CHUNK_BYTES;
    while (at < end) {
      const stop = await walkFrames(file, at, Math.min(end, at + chunk), (frame, offset) => {
        if (frameHasRecord(frame)) columns.append(membersOf(frameText(frame)), frame.committedAt, offset);
        return false;
      });
      if (stop === at && chunk >= Math.min(end - at, MAX_FRAME_BYTES)) throw corruptFrame(segment, at);
      chunk = stop === at ? chunk * 4 : CHUNK_BYTES;
      at = stop;
      await turn();
    }
    return columns;
  });
}
