import { crc32 } from 'node:zlib';

/**
 * Rows begin behind it: two slots, each in a sector of its own, so that a crash in the middle of a write leaves one of
 * them whole.
 */
export const HEADER_BYTES = 1_024;
/** `GWL1`, a count of eight bytes, and a checksum of both. */
export const SLOT_BYTES = 16;
const SLOT_PLACES = [0, 512] as const;
const MAGIC = 'GWL1';

/** How many leaves had been acknowledged when a slot was written. */
export interface AcknowledgedLeaves {
  readonly count: number;
  /** Where the next count goes: the slot that does not hold this one. */
  readonly nextSlot: number;
}

/** The slot of a count, as it is written at {@link AcknowledgedLeaves.nextSlot}. */
export function writeSlot(count: number): Buffer {
  const slot = Buffer.alloc(SLOT_BYTES);
  slot.write(MAGIC, 'latin1');
  slot.writeBigUInt64BE(BigInt(count), 4);
  slot.writeUInt32BE(crc32(slot.subarray(0, 12)), 12);
  return slot;
}

/**
 * The higher count of the slots that are whole; undefined: none is.
 * @param header of a file, shorter where the file is
 */
export function readHeader(header: Buffer): AcknowledgedLeaves | undefined {
  const [first, second] = SLOT_PLACES.map((place) => countAt(header.subarray(place, place + SLOT_BYTES)));
  if (first === undefined && second === undefined) return undefined;
  const inFirst = (first ?? -1) >= (second ?? -1);
  return { count: (inFirst ? first : second) ?? 0, nextSlot: SLOT_PLACES[inFirst ? 1 : 0] };
}

/** The slot that is not this one. */
export function otherSlot(slot: number): number {
  return slot === SLOT_PLACES[0] ? SLOT_PLACES[1] : SLOT_PLACES[0];
}

function countAt(slot: Buffer): number | undefined {
  if (slot.length < SLOT_BYTES || slot.toString('latin1', 0, 4) !== MAGIC) return undefined;
  return slot.readUInt32BE(12) === crc32(slot.subarray(0, 12)) ? Number(slot.readBigUInt64BE(4)) : undefined;
}

/** Of a file in which nothing was acknowledged yet. */
export function emptyHeader(): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.set(writeSlot(0));
  return header;
}
