import { type BackwardBits, broken, highBit } from './backward-bits.ts';

/**
 * A finite state table: per state its symbol, the bits that lead to the next state, and what they are added to (RFC
 * 8878 §4.1).
 */
export interface FseTable {
  readonly log: number;
  readonly symbols: Uint8Array;
  readonly bits: Uint8Array;
  readonly bases: Uint16Array;
}

/** Where a stream stands in its table. */
export class FseState {
  readonly #table: FseTable;
  #state: number;

  /** Takes the bits of the first state. */
  constructor(table: FseTable, bits: BackwardBits) {
    this.#table = table;
    this.#state = bits.take(table.log);
  }

  get symbol(): number {
    return this.#table.symbols[this.#state] ?? 0;
  }

  /** Takes the bits that lead to the next state. */
  advance(bits: BackwardBits): void {
    const { bits: widths, bases } = this.#table;
    this.#state = (bases[this.#state] ?? 0) + bits.take(widths[this.#state] ?? 0);
  }
}

/** A table with one symbol that takes no bits. */
export function rleTable(symbol: number): FseTable {
  return { log: 0, symbols: Uint8Array.of(symbol), bits: Uint8Array.of(0), bases: Uint16Array.of(0) };
}

/** Builds the table of a distribution; -1 stands for "less than 1". The values add up to `1 << log`. */
export function buildTable(counts: readonly number[], log: number): FseTable {
  const size = 1 << log;
  const table = { log, symbols: new Uint8Array(size), bits: new Uint8Array(size), bases: new Uint16Array(size) };
  const next = new Uint16Array(counts.length);
  let high = size;
  for (const [symbol, count] of counts.entries()) {
    next[symbol] = count === -1 ? 1 : count;
    if (count === -1) {
      high -= 1;
      table.symbols[high] = symbol;
    }
  }
  const step = (size >> 1) + (size >> 3) + 3;
  let position = 0;
  for (const [symbol, count] of counts.entries()) {
    for (let i = 0; i < count; i += 1) {
      table.symbols[position] = symbol;
      do position = (position + step) & (size - 1);
      while (position >= high);
    }
  }
  for (let state = 0; state < size; state += 1) {
    const symbol = table.symbols[state] ?? 0;
    const value = next[symbol] ?? 1;
    next[symbol] = value + 1;
    const bits = log - highBit(value);
    table.bits[state] = bits;
    table.bases[state] = (value << bits) - size;
  }
  return table;
}

/** Reads a table description at `start` (RFC 8878 §4.1.1); `end` is where the bytes that it may use end. */
export function readTable(
  bytes: Uint8Array,
  start: number,
  end: number,
  limits: { readonly log: number; readonly symbol: number },
): { readonly table: FseTable; readonly end: number } {
  const bits = new ForwardBits(bytes, start, end);
  const log = bits.take(4) + 5;
  if (log > limits.log) broken('a table is larger than its kind allows');
  const counts: number[] = [];
  let remaining = 1 << log;
  while (remaining > 0) {
    if (counts.length > limits.symbol) broken('a table names too many symbols');
    const width = highBit(remaining + 1) + 1;
    const count = readCount(bits, width, (1 << width) - 2 - remaining) - 1;
    remaining -= count === -1 ? 1 : count;
    counts.push(count);
    if (count === 0) readZeros(bits, counts, limits.symbol);
  }
  if (remaining < 0 || counts.length > limits.symbol + 1) broken('a table does not add up');
  return { table: buildTable(counts, log), end: bits.byteEnd() };
}

/** A value of `width` bits of which the lower ones are written with one bit less. */
function readCount(bits: ForwardBits, width: number, threshold: number): number {
  const half = 1 << (width - 1);
  const low = bits.take(width - 1);
  if (low < threshold) return low;
  return bits.take(1) === 0 ? low : low + half - threshold;
}

/** How many symbols after one that does not occur do not occur either. */
function readZeros(bits: ForwardBits, counts: number[], lastSymbol: number): void {
  for (;;) {
    const more = bits.take(2);
    for (let i = 0; i < more; i += 1) counts.push(0);
    if (more < 3) return;
    if (counts.length > lastSymbol) broken('a table names too many symbols');
  }
}

/** Bits from the first to the last. */
class ForwardBits {
  readonly #bytes: Uint8Array;
  readonly #end: number;
  #position: number;

  constructor(bytes: Uint8Array, start: number, end: number) {
    this.#bytes = bytes;
    this.#end = end;
    this.#position = start * 8;
  }

  /** At most 16 bits. */
  take(count: number): number {
    const at = this.#position >> 3;
    const bytes = this.#bytes;
    const word = (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16);
    const value = (word >> (this.#position & 7)) & ((1 << count) - 1);
    this.#position += count;
    if (this.#position > this.#end * 8) broken('a table is cut');
    return value;
  }

  /** The first byte that is not begun. */
  byteEnd(): number {
    return (this.#position + 7) >> 3;
  }
}
