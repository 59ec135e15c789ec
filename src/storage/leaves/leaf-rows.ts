import { crc32 } from 'node:zlib';
import { HASH_BYTES } from '../contract/leaves.ts';

/**
 * A hash, and a checksum of its place and itself: a row that a crash has torn, or that stands in another place, does
 * not fit.
 */
export const ROW_BYTES = HASH_BYTES + 4;

/** Rows of hashes that stand one behind the other. @param first place of the first one */
export function writeRows(first: number, hashes: readonly Uint8Array[]): Buffer {
  const rows = Buffer.alloc(hashes.length * ROW_BYTES);
  for (const [index, hash] of hashes.entries()) {
    const at = index * ROW_BYTES;
    rows.set(hash, at);
    rows.writeUInt32BE(checksum(first + index, hash), at + HASH_BYTES);
  }
  return rows;
}

/**
 * The whole rows at the beginning of these bytes whose checksums fit, as hashes.
 * @param first place of the first one
 */
export function readRows(first: number, bytes: Buffer): Buffer[] {
  const hashes: Buffer[] = [];
  for (let at = 0; at + ROW_BYTES <= bytes.length; at += ROW_BYTES) {
    const hash = bytes.subarray(at, at + HASH_BYTES);
    if (bytes.readUInt32BE(at + HASH_BYTES) !== checksum(first + hashes.length, hash)) break;
    hashes.push(hash);
  }
  return hashes;
}

/** Filled anew for each row: a proof reads hundreds of them. */
const prefix = Buffer.alloc(8);

function checksum(place: number, hash: Uint8Array): number {
  prefix.writeBigUInt64BE(BigInt(place));
  return crc32(hash, crc32(prefix));
}
