import { randomFillSync, randomUUID } from 'node:crypto';

/*
 * RFC 9562 §5.7: 48 bits of milliseconds, 12 bits of counter (rand_a, §6.2 method 1, its top bit 0 when a millisecond
 * begins), 62 random bits. Random bytes are drawn in batches: one call of the generator per id costs more than
 * everything else here.
 */
const BATCH = 4096;
const PER_ID = 10;
const pool = Buffer.alloc(BATCH * PER_ID);
let used = pool.length;

let lastMs = -1;
let counter = 0;

/** The bytes of one id. */
const bytes = Buffer.alloc(16);

/**
 * A UUID version 7 that sorts after every one made before by this process, also within one millisecond and when the
 * clock steps back.
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
  bytes.writeUIntBE(lastMs, 0, 6);
  bytes.writeUInt16BE(0x7000 | counter, 6);
  bytes.set(pool.subarray(at + 2, at + PER_ID), 8);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const IDS = new WeakMap<readonly string[], string>();

/**
 * The id by which a request is found again that leaves no record: in the header of its answer and in the log. It is
 * made when somebody asks for it first.
 * @param rawHeaders those of the request: what is told of it in several places has this in common
 */
export function requestIdOf(rawHeaders: readonly string[]): string {
  let id = IDS.get(rawHeaders);
  if (id === undefined) {
    id = randomUUID();
    IDS.set(rawHeaders, id);
  }
  return id;
}

export const REQUEST_ID_HEADER = 'X-GW-Request-ID';

const DIGITS = '0123456789abcdef';

/**
 * The key under which an id that sorts by time (UUID version 7) stands so that keys in order are the newest first; the
 * same again makes the id of such a key. Stores list in ascending order alone.
 */
export function newestFirst(id: string): string {
  let key = '';
  for (const char of id) {
    const digit = DIGITS.indexOf(char);
    key += digit === -1 ? char : DIGITS[15 - digit];
  }
  return key;
}
