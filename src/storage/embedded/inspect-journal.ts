import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from '../../base/lib/gateway-error.ts';
import { StoreError } from '../contract/store.ts';
import { journalDamaged } from './damage.ts';
import { frameHasRecord } from './frame.ts';
import { decodeSegmentHeader, FORMAT_VERSION, SEGMENT_HEADER_BYTES, segmentNumber } from './segment-header.ts';
import { findFrame, readBytes, walkFrames, withFile } from './segment-reader.ts';

export interface SegmentFile {
  readonly segment: number;
  readonly path: string;
  readonly createdAt: number;
  /** Size of the file. */
  readonly bytes: number;
}

/** What was counted while every frame of a segment was verified. */
export interface SegmentScan {
  /** Behind the last good frame. */
  readonly end: number;
  readonly records: number;
  readonly newest: number;
}

export interface JournalFiles {
  readonly files: readonly SegmentFile[];
  /** The last segment, verified to its end; undefined when there is none. */
  readonly last: SegmentScan | undefined;
  /** A last file whose header was never completely written: nothing was ever committed to it. */
  readonly tornFile: string | undefined;
}

/**
 * Looks at a journal without changing anything: every header, every number, every frame of the last segment. Throws a
 * StoreError for a newer format and for damage that no crash leaves behind: only what was being written last, with no
 * good frame behind it, may be torn.
 */
export async function inspectJournal(folder: string): Promise<JournalFiles> {
  const files: SegmentFile[] = [];
  let tornFile: string | undefined;
  const names = await segmentNames(folder);
  for (const [at, { segment, name }] of names.entries()) {
    const path = join(folder, name);
    const file = await inspectHeader(path, segment);
    if (file) files.push(file);
    else if (at === names.length - 1 && !(await holdsFrames(path))) tornFile = path;
    else throw journalDamaged(`the header of segment ${segment} (${path}, offset 0)`, 'Records behind it may be whole');
    const before = files.at(-2);
    if (file && before && before.segment + 1 !== segment)
      throw journalDamaged(`segment ${before.segment + 1} is missing in ${folder}`, 'Its records are lost');
  }
  const lastFile = files.at(-1);
  return { files, last: lastFile ? await scanLast(lastFile) : undefined, tornFile };
}

/** Segment files of the folder in order; none when there is no folder yet. */
export async function segmentNames(folder: string): Promise<readonly { readonly segment: number; readonly name: string }[]> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
  return names
    .flatMap((name) => {
      const segment = segmentNumber(name);
      return segment === undefined ? [] : [{ segment, name }];
    })
    .sort((a, b) => a.segment - b.segment);
}

/**
 * Undefined when the file does not begin with the header of this segment. Throws a StoreError when it is of a newer
 * format.
 */
export async function inspectHeader(path: string, segment: number): Promise<SegmentFile | undefined> {
  return withFile(path, async (file) => {
    const header = decodeSegmentHeader(await readBytes(file, 0, SEGMENT_HEADER_BYTES));
    if (header && header.version > FORMAT_VERSION) throw newerFormat(path, header.version);
    if (header?.segment !== segment) return undefined;
    const { size } = await file.stat();
    return { segment, path, createdAt: header.createdAt, bytes: size };
  });
}

export function newerFormat(path: string, version: number): StoreError {
  return new StoreError(
    'newer_format',
    `${path} has format ${version}; this version reads up to ${FORMAT_VERSION}. Use the gateway version that wrote it`,
  );
}

async function holdsFrames(path: string): Promise<boolean> {
  return withFile(path, async (file) => (await findFrame(file, 0, (await file.stat()).size)) !== undefined);
}

async function scanLast(last: SegmentFile): Promise<SegmentScan> {
  return withFile(last.path, async (file) => {
    let records = 0;
    let newest = Number.NEGATIVE_INFINITY;
    const end = await walkFrames(file, SEGMENT_HEADER_BYTES, last.bytes, (frame) => {
      if (!frameHasRecord(frame)) return false;
      records += 1;
      if (frame.committedAt > newest) newest = frame.committedAt;
      return false;
    });
    const behind = end < last.bytes ? await findFrame(file, end + 1, last.bytes) : undefined;
    if (behind !== undefined)
      throw journalDamaged(
        `segment ${last.segment}, offset ${end} (${last.path}): ${behind - end} bytes are no whole frame`,
        'The records there are lost; those behind it are whole',
      );
    return { end, records, newest };
  });
}
