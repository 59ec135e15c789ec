/*
 * A decoder for Zstandard (RFC 8878) in JavaScript, made for bytes that nobody vouches for: every loop is bounded by
 * the size of its block, every reference is checked, and nothing is allocated because a header says so. Node 20 has
 * none, and the packages that were looked at can be made to run for ever by a dozen bytes. No dictionaries. Checksums
 * are read over: whoever acts on the content checks them.
 */

/** The bytes are not what RFC 8878 allows. */
export class ZstdBroken extends Error {}

export function broken(what: string): never {
  throw new ZstdBroken(what);
}

/** An unsigned number of `size` bytes, at most 6, the lowest first. */
export function littleEndian(bytes: Uint8Array, start: number, size: number): number {
  let value = 0;
  for (let i = size - 1; i >= 0; i -= 1) value = value * 256 + (bytes[start + i] ?? 0);
  return value;
}

/** Position of the highest bit that is set; `value` is at least 1. */
export function highBit(value: number): number {
  return 31 - Math.clz32(value);
}

/**
 * The bits of `bytes[start, end)` from the last one to the first, as the entropy coders write them (RFC 8878 §4.1,
 * §4.2.2).
 */
export class BackwardBits {
  readonly #bytes: Uint8Array;
  readonly #start: number;
  /** Bits that are left; below 0 when more were taken than there are: those read as 0. */
  left: number;

  constructor(bytes: Uint8Array, start: number, end: number) {
    const last = end > start ? (bytes[end - 1] ?? 0) : 0;
    if (last === 0) broken('a bit stream has no end mark');
    this.#bytes = bytes;
    this.#start = start;
    this.left = (end - start - 1) * 8 + highBit(last);
  }

  /** Takes `count` bits, at most 24. */
  take(count: number): number {
    if (count === 0) return 0;
    this.left -= count;
    const { left } = this;
    if (left < 0) return left <= -count ? 0 : (this.#at(0) << -left) & ((1 << count) - 1);
    return (this.#at(left) >>> (left & 7)) & ((1 << count) - 1);
  }

  /** The next `count` bits, at most 24, without taking them. */
  peek(count: number): number {
    const value = this.take(count);
    this.left += count;
    return value;
  }

  /**
   * The four bytes in which bit `position` lies in the first; bytes beyond this stream do not matter, since they stand
   * above what is asked for.
   */
  #at(position: number): number {
    const bytes = this.#bytes;
    const at = this.#start + (position >> 3);
    return (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24);
  }
}
