import { crc32 } from 'node:zlib';

/**
 * The first 32 bytes of a segment file, little-endian: magic, format version, segment number, time of creation (double,
 * milliseconds since the epoch), zero, CRC-32 of the 28 bytes before it.
 */
export const SEGMENT_HEADER_BYTES = 32;

/**
 * Version of everything this room writes: frames, segments, index rows. A store of a higher one is refused untouched.
 */
export const FORMAT_VERSION = 1;

const MAGIC = Buffer.from('GWJOURNL', 'latin1');
const NAME = /^([0-9a-f]{8})\.journal$/;

export interface SegmentHeader {
  readonly version: number;
  readonly segment: number;
  readonly createdAt: number;
}

export function encodeSegmentHeader(segment: number, createdAt: number): Buffer {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
  MAGIC.copy(bytes, 0);
  bytes.writeUInt32LE(FORMAT_VERSION, 8);
  bytes.writeUInt32LE(segment, 12);
  bytes.writeDoubleLE(createdAt, 16);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 28)), 28);
  return bytes;
}

/**
 * Undefined when these are not the first bytes of a segment. The checksum stands at the same place in every version.
 */
export function decodeSegmentHeader(bytes: Buffer): SegmentHeader | undefined {
  if (bytes.length < SEGMENT_HEADER_BYTES || !bytes.subarray(0, 8).equals(MAGIC)) return undefined;
  if (crc32(bytes.subarray(0, 28)) !== bytes.readUInt32LE(28)) return undefined;
  return { version: bytes.readUInt32LE(8), segment: bytes.readUInt32LE(12), createdAt: bytes.readDoubleLE(16) };
}

export function segmentFileName(segment: number): string {
  return `${segment.toString(16).padStart(8, '0')}.journal`;
}

/** The number of a segment file, or undefined for any other file name. */
export function segmentNumber(fileName: string): number | undefined {
  const digits = NAME.exec(fileName)?.[1];
  return digits === undefined ? undefined : Number.parseInt(digits, 16);
}
