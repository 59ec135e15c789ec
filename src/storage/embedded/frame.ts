/*
 * The bytes of the journal: how one commit becomes one frame, and how a frame is recognised again. Pure: nothing here
 * opens a file.
 *
 * Frame, little-endian:
 *    0  marker FF 47 57 FE   0xFF and 0xFE are never part of UTF-8 text, so that no caller's text can look like a frame
 *    4  CRC-32 of everything from byte 8 to the end of the frame
 *    8  length of the whole frame
 *   12  committed_at, double, milliseconds since the epoch
 *   20  length of the record text in bytes
 *   24  length of the record id, 0 when the commit has no record
 *   25  type, 1 = commit
 *   26  zero, zero
 *   28  with a record: 32 bytes record hash, then the id
 *    …  record text, effects (UTF-8)
 *   -4  length of the whole frame again, so that a page of newest records is read backwards without any table
 */
import { crc32 } from 'node:zlib';
import type { PreparedCommit } from './prepared-commit.ts';

export const FRAME_MARKER = Buffer.from([0xff, 0x47, 0x57, 0xfe]);
/** Bytes that tell a frame's length: enough to decide how much to read. */
export const FRAME_HEAD_BYTES = 28;
export const MIN_FRAME_BYTES = FRAME_HEAD_BYTES + 4;
export const MAX_FRAME_BYTES = 64 * 1024 * 1024;

const MARKER_WORD = FRAME_MARKER.readUInt32LE(0);
const TYPE_COMMIT = 1;
const HASH_BYTES = 32;
const FIRST_CAPACITY = 256 * 1024;
const KEEP_CAPACITY = 4 * 1024 * 1024;

/**
 * A frame that says nothing, over bytes that no frame can be read of: a repair keeps every other frame where it is.
 * @param length from {@link MIN_FRAME_BYTES} to {@link MAX_FRAME_BYTES}
 */
export function fillerFrame(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  bytes.writeUInt32LE(MARKER_WORD, 0);
  bytes.writeUInt32LE(length, 8);
  // A record text without a record.
  bytes.writeUInt32LE(length - MIN_FRAME_BYTES, 20);
  bytes.writeUInt32LE(TYPE_COMMIT << 8, 24);
  bytes.writeUInt32LE(length, length - 4);
  bytes.writeUInt32LE(crc32(bytes.subarray(8)), 4);
  return bytes;
}

/** Where things lie in a verified frame; offsets count from the start of `bytes`. */
export interface Frame {
  readonly bytes: Buffer;
  readonly start: number;
  readonly length: number;
  readonly committedAt: number;
  readonly idLength: number;
  readonly textLength: number;
}

/**
 * The verified frame that starts at `start`, or undefined when there is none: cut off, damaged, or of an unknown type.
 */
export function frameAt(bytes: Buffer, start: number, end: number = bytes.length): Frame | undefined {
  const length = frameLengthAt(bytes, start, end);
  if (length === undefined || start + length > end) return undefined;
  if (crc32(bytes.subarray(start + 8, start + length)) !== bytes.readUInt32LE(start + 4)) return undefined;
  const idLength = bytes.readUInt8(start + 24);
  const textLength = bytes.readUInt32LE(start + 20);
  const fixed = MIN_FRAME_BYTES + (idLength > 0 ? HASH_BYTES + idLength : 0);
  if (bytes.readUInt8(start + 25) !== TYPE_COMMIT || fixed + textLength > length) return undefined;
  if (bytes.readUInt32LE(start + length - 4) !== length) return undefined;
  return { bytes, start, length, committedAt: bytes.readDoubleLE(start + 12), idLength, textLength };
}

/** The length that a frame's head claims, when the head is there and plausible; the frame itself is not verified. */
export function frameLengthAt(bytes: Buffer, start: number, end: number = bytes.length): number | undefined {
  if (start < 0 || start + FRAME_HEAD_BYTES > end || bytes.readUInt32LE(start) !== MARKER_WORD) return undefined;
  const length = bytes.readUInt32LE(start + 8);
  return length >= MIN_FRAME_BYTES && length <= MAX_FRAME_BYTES ? length : undefined;
}

export function isFiller(frame: Frame): boolean {
  return frame.idLength === 0 && frame.length > MIN_FRAME_BYTES && frame.textLength === frame.length - MIN_FRAME_BYTES;
}

export function frameHasRecord(frame: Frame): boolean {
  return frame.idLength > 0;
}

export function frameRecordId(frame: Frame): string {
  const from = frame.start + FRAME_HEAD_BYTES + HASH_BYTES;
  return frame.bytes.toString('latin1', from, from + frame.idLength);
}

export function frameRecordHash(frame: Frame): string {
  const from = frame.start + FRAME_HEAD_BYTES;
  return frame.bytes.toString('hex', from, from + HASH_BYTES);
}

export function frameText(frame: Frame): string {
  const from = textStart(frame);
  return frame.bytes.toString('utf8', from, from + frame.textLength);
}

export function frameEffects(frame: Frame): string {
  return frame.bytes.toString('utf8', textStart(frame) + frame.textLength, frame.start + frame.length - 4);
}

function textStart(frame: Frame): number {
  return frame.start + FRAME_HEAD_BYTES + (frame.idLength > 0 ? HASH_BYTES + frame.idLength : 0);
}

/** A growing buffer into which the commits of one group are written one behind the other. */
export class FrameBuffer {
  #bytes = Buffer.allocUnsafeSlow(FIRST_CAPACITY);
  #end = 0;

  get length(): number {
    return this.#end;
  }

  /** What was appended; valid until `clear`. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#end);
  }

  /**
   * Appends one frame and returns its length. Throws a RangeError, and appends nothing, when the commit is larger than
   * a frame may be.
   */
  append(commit: PreparedCommit): number {
    const start = this.#end;
    const atMost = MIN_FRAME_BYTES + HASH_BYTES + commit.recordId.length + (commit.text.length + commit.effectsText.length) * 3;
    this.#reserve(atMost);
    const bytes = this.#bytes;
    let at = start + FRAME_HEAD_BYTES;
    if (commit.recordId !== '') {
      at += bytes.write(commit.recordHash, at, HASH_BYTES, 'hex');
      at += bytes.write(commit.recordId, at, 'latin1');
    }
    const textLength = bytes.write(commit.text, at, 'utf8');
    at += textLength;
    if (commit.effectsText !== '') at += bytes.write(commit.effectsText, at, 'utf8');
    const length = at + 4 - start;
    if (length > MAX_FRAME_BYTES)
      throw new RangeError(`A commit of ${length} bytes is larger than the ${MAX_FRAME_BYTES} bytes a frame may have`);
    bytes.writeUInt32LE(MARKER_WORD, start);
    bytes.writeUInt32LE(length, start + 8);
    bytes.writeDoubleLE(commit.committedAt, start + 12);
    bytes.writeUInt32LE(textLength, start + 20);
    bytes.writeUInt32LE(commit.recordId.length | (TYPE_COMMIT << 8), start + 24);
    bytes.writeUInt32LE(length, at);
    bytes.writeUInt32LE(crc32(bytes.subarray(start + 8, start + length)), start + 4);
    this.#end = start + length;
    return length;
  }

  clear(): void {
    this.#end = 0;
    if (this.#bytes.length > KEEP_CAPACITY) this.#bytes = Buffer.allocUnsafeSlow(FIRST_CAPACITY);
  }

  #reserve(more: number): void {
    const needed = this.#end + more;
    if (needed <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(grown, 0, 0, this.#end);
    this.#bytes = grown;
  }
}
