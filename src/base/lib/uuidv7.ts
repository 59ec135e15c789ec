import { randomFillSync } from 'node:crypto';

/*
 * RFC 9562 §5.7: 48 bits of milliseconds, 12 bits of counter (rand_a, §6.2 method 1, its top bit 0 when a millisecond begins), 62 random bits.
 * Random bytes are drawn in batches: one call of the generator per id costs more than everything else here.
 */
const BATCH = 4096;
const PER_ID = 10;
const pool = Buffer.alloc(BATCH * PER_ID);
let used = pool.length;

let lastMs = -1;
let counter = 0;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/**
 * A UUID version 7 that sorts after every one made before by this process, also within one millisecond and when the clock steps back.
 * @param nowMs milliseconds since the epoch, 0 to 2^48 − 1
 */
export function uuidv7(nowMs: number): string {
  if (used + PER_ID > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const at = used;
  used += PER_ID;
  const ms = Math.floor(nowMs);
  if (ms > lastMs) {
    lastMs = ms;
    counter = pool.readUInt16LE(at) & 0x7ff;
  } else if (++counter > 0xfff) {
    lastMs += 1;
    counter = pool.readUInt16LE(at) & 0x7ff;
  }
  const high = Math.floor(lastMs / 0x10000);
  const low = lastMs % 0x10000;
  return (
    hex(high >>> 24) +
    hex(high >>> 16) +
    hex(high >>> 8) +
    hex(high) +
    '-' +
    hex(low >>> 8) +
    hex(low) +
    '-' +
    hex(0x70 | (counter >>> 8)) +
    hex(counter) +
    '-' +
    hex(0x80 | ((pool[at + 2] ?? 0) & 0x3f)) +
    hex(pool[at + 3] ?? 0) +
    '-' +
    hex(pool[at + 4] ?? 0) +
    hex(pool[at + 5] ?? 0) +
    hex(pool[at + 6] ?? 0) +
    hex(pool[at + 7] ?? 0) +
    hex(pool[at + 8] ?? 0) +
    hex(pool[at + 9] ?? 0)
  );
}

function hex(byte: number): string {
  return HEX[byte & 0xff] ?? '';
}
