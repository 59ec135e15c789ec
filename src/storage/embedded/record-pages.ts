import type { FileHandle } from 'node:fs/promises';
import { codeOf } from '../../base/lib/gateway-error.ts';
import { unknownPosition } from '../contract/record-query.ts';
import { type StoredRecord, StoreError } from '../contract/store.ts';
import { type Frame, frameAt, frameHasRecord, frameText, MAX_FRAME_BYTES, MIN_FRAME_BYTES } from './frame.ts';
import { parsePosition, positionText } from './location.ts';
import { SEGMENT_HEADER_BYTES } from './segment-header.ts';
import { readBytes, readFrame, walkFrames, withFile } from './segment-reader.ts';
import type { Segments } from './segments.ts';

const CHUNK_BYTES = 128 * 1024;

/**
 * Records in commit order, read straight from the segments: forwards frame by frame, backwards by the length that ends
 * each frame.
 */
export async function recordPage(
  segments: Segments,
  { limit, newestFirst }: { readonly limit: number; readonly newestFirst: boolean },
  after: Place | undefined,
): Promise<readonly StoredRecord[]> {
  const { first, last } = segments;
  const page: StoredRecord[] = [];
  const step = newestFirst ? -1 : 1;
  let segment = after?.segment ?? (newestFirst ? last : first);
  for (; segment >= segments.first && segment <= last && page.length < limit; segment += step)
    await segmentPage(segments, segment, segment === after?.segment ? after.offset : undefined, { limit, newestFirst }, page);
  return page;
}

/** Where a page begins: behind this frame in its order. */
export interface Place {
  readonly segment: number;
  readonly offset: number;
}

/** Adds what one segment has for the page, behind or before the frame at `after`. */
async function segmentPage(
  segments: Segments,
  segment: number,
  after: number | undefined,
  { limit, newestFirst }: { readonly limit: number; readonly newestFirst: boolean },
  page: StoredRecord[],
): Promise<void> {
  const end = segments.get(segment)?.end ?? SEGMENT_HEADER_BYTES;
  if (end === SEGMENT_HEADER_BYTES && after === undefined) return;
  await onSegment(segments, segment, async (file) => {
    const behind = after === undefined ? SEGMENT_HEADER_BYTES : after + (await lengthAt(file, after, end));
    if (newestFirst) await backwards(file, segment, after ?? end, limit, page);
    else await forwards(file, segment, { behind, end, limit }, page);
  });
}

/** The place of a position, as far as its text tells. @throws GatewayError `invalid_request` */
export function knownPlace(text: string, last: number): Place {
  const position = parsePosition(text);
  if (position === undefined || position.segment > last) throw unknownPosition();
  return position;
}

/** Runs `use` on an open segment; retention may have removed the file meanwhile, then there is nothing to see in it. */
export async function onSegment<T>(segments: Segments, segment: number, use: (file: FileHandle) => Promise<T>): Promise<T | undefined> {
  try {
    return await withFile(segments.path(segment), use);
  } catch (error) {
    if (codeOf(error) === 'ENOENT' && segment < segments.first) return undefined;
    throw error;
  }
}

export function corruptFrame(segment: number, offset: number): StoreError {
  return new StoreError('corrupt', `The journal is damaged: segment ${segment}, offset ${offset}; "gw journal check" says more`);
}

/** A position is the start of a frame; anything else was not given out by this store. */
async function lengthAt(file: FileHandle, offset: number, end: number): Promise<number> {
  const frame = offset < SEGMENT_HEADER_BYTES ? undefined : await readFrame(file, offset, end);
  if (frame === undefined) throw unknownPosition();
  return frame.length;
}

async function forwards(
  file: FileHandle,
  segment: number,
  { behind, end, limit }: { readonly behind: number; readonly end: number; readonly limit: number },
  page: StoredRecord[],
): Promise<void> {
  let at = behind;
  let chunk = Math.min(CHUNK_BYTES, 8 * 1024 * (limit - page.length));
  while (at < end && page.length < limit) {
    const stop = await walkFrames(file, at, Math.min(end, at + chunk), (frame, offset) => {
      push(page, frame, segment, offset);
      return page.length >= limit;
    });
    if (stop === at) {
      if (chunk >= Math.min(end - at, MAX_FRAME_BYTES)) throw corruptFrame(segment, at);
      chunk *= 4;
    }
    at = stop;
  }
}

async function backwards(file: FileHandle, segment: number, from: number, limit: number, page: StoredRecord[]): Promise<void> {
  let at = from;
  let wanted = Math.min(CHUNK_BYTES, 8 * 1024 * (limit - page.length));
  while (at > SEGMENT_HEADER_BYTES && page.length < limit) {
    const base = Math.max(SEGMENT_HEADER_BYTES, at - wanted);
    const bytes = await readBytes(file, base, at - base);
    let end = bytes.length;
    let frame = frameBefore(bytes, end);
    for (; frame && page.length < limit; frame = frameBefore(bytes, end)) {
      push(page, frame, segment, base + frame.start);
      end = frame.start;
    }
    at = base + end;
    if (page.length >= limit || end === 0) continue;
    // The frame that ends here begins before the chunk, unless the chunk already begins with the segment.
    const length = end >= MIN_FRAME_BYTES ? bytes.readUInt32LE(end - 4) : 0;
    if (base === SEGMENT_HEADER_BYTES || (end >= MIN_FRAME_BYTES && (length <= end || length > MAX_FRAME_BYTES)))
      throw corruptFrame(segment, at);
    wanted = Math.max(CHUNK_BYTES, length);
  }
}

/** The verified frame that ends at `end`, when it begins in these bytes. */
function frameBefore(bytes: Buffer, end: number): Frame | undefined {
  if (end < MIN_FRAME_BYTES) return undefined;
  const length = bytes.readUInt32LE(end - 4);
  const frame = length <= end ? frameAt(bytes, end - length, end) : undefined;
  return frame?.length === length ? frame : undefined;
}

function push(page: StoredRecord[], frame: Frame, segment: number, offset: number): void {
  if (frameHasRecord(frame)) page.push({ text: frameText(frame), position: positionText(segment, offset) });
}
