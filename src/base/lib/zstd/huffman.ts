import { BackwardBits, broken, highBit } from './backward-bits.ts';
import { FseState, readTable } from './fse.ts';

/** Longest code of a literal (RFC 8878 §4.2.1). */
const MAX_BITS = 11;
const MAX_WEIGHTS = 255;
const WEIGHT_TABLE = { log: 6, symbol: 12 } as const;

/** Per value of the next `maxBits` bits: the symbol in the low byte, the length of its code above. */
export interface HuffmanTable {
  readonly maxBits: number;
  readonly entries: Uint16Array;
}

/** Reads a tree description at `start` (RFC 8878 §4.2.1). */
export function readHuffman(bytes: Uint8Array, start: number, end: number): { readonly table: HuffmanTable; readonly end: number } {
  const head = bytes[start] ?? 0;
  const at = start + 1;
  const size = head < 128 ? head : (head - 126) >> 1;
  if (at + size > end) broken('a tree is cut');
  const weights = head < 128 ? packedWeights(bytes, at, at + size) : plainWeights(bytes, at, head - 127);
  return { table: buildHuffman(weights), end: at + size };
}

function plainWeights(bytes: Uint8Array, at: number, count: number): number[] {
  const weights: number[] = [];
  for (let i = 0; i < count; i += 1) {
    const byte = bytes[at + (i >> 1)] ?? 0;
    weights.push((i & 1) === 0 ? byte >> 4 : byte & 15);
  }
  return weights;
}

/** Two states take turns until the bits are used up; then the other one still holds a weight (RFC 8878 §4.2.1.2). */
function packedWeights(bytes: Uint8Array, start: number, end: number): number[] {
  const { table, end: streamStart } = readTable(bytes, start, end, WEIGHT_TABLE);
  const bits = new BackwardBits(bytes, streamStart, end);
  let state = new FseState(table, bits);
  let other = new FseState(table, bits);
  if (bits.left < 0) broken('the weights of a tree are cut');
  const weights: number[] = [];
  // A state that takes no bits would go on for ever, so the number of weights is what ends the loop.
  while (weights.length < MAX_WEIGHTS - 1) {
    weights.push(state.symbol);
    state.advance(bits);
    if (bits.left < 0) return [...weights, other.symbol];
    [state, other] = [other, state];
  }
  return broken('a tree has too many weights');
}

/** The last weight is not written: it is what makes the sum a power of two. */
function buildHuffman(weights: number[]): HuffmanTable {
  let sum = 0;
  for (const weight of weights) {
    if (weight > MAX_BITS) broken('a code is too long');
    if (weight > 0) sum += 1 << (weight - 1);
  }
  if (sum === 0) broken('a tree is empty');
  const maxBits = highBit(sum) + 1;
  const rest = (1 << maxBits) - sum;
  if (maxBits > MAX_BITS || (rest & (rest - 1)) !== 0) broken('a tree is not complete');
  weights.push(highBit(rest) + 1);
  const entries = new Uint16Array(1 << maxBits);
  let at = 0;
  for (let weight = 1; weight <= maxBits; weight += 1) {
    const width = 1 << (weight - 1);
    for (const [symbol, own] of weights.entries()) {
      if (own !== weight) continue;
      entries.fill(((maxBits + 1 - weight) << 8) | symbol, at, at + width);
      at += width;
    }
  }
  return { maxBits, entries };
}

/** Decodes one stream of exactly `to - from` literals into `out` (RFC 8878 §4.2.2). */
export function readLiterals(
  bytes: Uint8Array,
  start: number,
  end: number,
  { maxBits, entries }: HuffmanTable,
  out: Uint8Array,
  from: number,
  to: number,
): void {
  const bits = new BackwardBits(bytes, start, end);
  const mask = (1 << maxBits) - 1;
  let { left } = bits;
  let at = from;
  // Two codes take at most 22 bits, which four bytes hold wherever they begin.
  while (left >= 24 && at + 1 < to) {
    const byte = start + ((left - 24) >> 3);
    const shift = (left - 24) & 7;
    const word =
      (((bytes[byte] ?? 0) | ((bytes[byte + 1] ?? 0) << 8) | ((bytes[byte + 2] ?? 0) << 16) | ((bytes[byte + 3] ?? 0) << 24)) >>> shift) &
      0xff_ffff;
    const first = entries[(word >>> (24 - maxBits)) & mask] ?? 0;
    const used = first >> 8;
    const second = entries[(word >>> (24 - maxBits - used)) & mask] ?? 0;
    out[at] = first & 255;
    out[at + 1] = second & 255;
    at += 2;
    left -= used + (second >> 8);
  }
  bits.left = left;
  for (; at < to; at += 1) {
    const entry = entries[bits.peek(maxBits)] ?? 0;
    out[at] = entry & 255;
    bits.left -= entry >> 8;
    if (bits.left < 0) broken('a stream of literals is cut');
  }
  if (bits.left !== 0) broken('a stream of literals is longer than its content');
}
