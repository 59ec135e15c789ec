import { BackwardBits, broken } from './backward-bits.ts';
import { buildTable, FseState, type FseTable, readTable, rleTable } from './fse.ts';

/** An offset of more bits points beyond every window that is taken. */
const MAX_OFFSET_BITS = 24;

interface Code {
  readonly maxSymbol: number;
  readonly maxLog: number;
  readonly predefined: FseTable;
}

const repeated = (value: number, times: number): number[] => new Array<number>(times).fill(value);

const LITERAL_LENGTH: Code = {
  maxSymbol: 35,
  maxLog: 9,
  predefined: buildTable([4, 3, ...repeated(2, 11), 1, 1, 1, ...repeated(2, 9), 3, 2, ...repeated(1, 5), ...repeated(-1, 4)], 6),
};
const OFFSET: Code = {
  maxSymbol: 31,
  maxLog: 8,
  predefined: buildTable([...repeated(1, 6), 2, 2, 2, ...repeated(1, 15), ...repeated(-1, 5)], 5),
};
const MATCH_LENGTH: Code = {
  maxSymbol: 52,
  maxLog: 9,
  predefined: buildTable([1, 4, 3, ...repeated(2, 6), ...repeated(1, 37), ...repeated(-1, 7)], 6),
};

/** How many bits follow a length code, and what they are added to (RFC 8878 §3.1.1.3.2.1.1). */
const LITERAL_BITS = Uint8Array.from([...repeated(0, 16), 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
const MATCH_BITS = Uint8Array.from([...[...repeated(0, 32), 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5], ...[7, 8, 9, 10, 11, 12, 13, 14, 15, 16]]);
const LITERAL_BASES = basesOf(LITERAL_BITS, 0);
const MATCH_BASES = basesOf(MATCH_BITS, 3);

function basesOf(bits: Uint8Array, first: number): Uint32Array {
  let base = first;
  return Uint32Array.from(bits, (width) => {
    const own = base;
    base += 1 << width;
    return own;
  });
}

interface Tables {
  readonly lengths: FseTable;
  readonly offsets: FseTable;
  readonly matches: FseTable;
}

/** The bits of a section, and where its three interleaved codes stand. */
interface Coded {
  readonly bits: BackwardBits;
  readonly lengths: FseState;
  readonly offsets: FseState;
  readonly matches: FseState;
}

/**
 * The sequences section of a block (RFC 8878 §3.1.1.3.2): how many literals to copy, then how far back to copy how much
 * from.
 */
export class SequenceReader {
  #tables: Tables | undefined;
  #coded: Coded | undefined;
  readonly #lastOffsets = Uint32Array.of(1, 4, 8);
  /** Sequences of the block that are still to be read. */
  left = 0;
  /** Literals of the sequence that was read last, at most 131,071. */
  length = 0;
  /** At least 1. */
  offset = 1;
  match = 0;

  /**
   * Reads the head of the section at `start` of a block that ends at `end`.
   * @throws ZstdBroken
   */
  begin(bytes: Uint8Array, start: number, end: number): void {
    const header = readSequenceCount(bytes, start, end);
    this.left = header.count;
    if (header.count === 0) {
      if (header.end !== end) broken('bytes follow a block of literals');
      return;
    }
    const at = header.end;
    const modes = bytes[at] ?? 0;
    if ((modes & 3) !== 0) broken('reserved bits are set');
    const before = this.#tables;
    const lengths = tableOf(modes >> 6, LITERAL_LENGTH, before?.lengths, bytes, at + 1, end);
    const offsets = tableOf((modes >> 4) & 3, OFFSET, before?.offsets, bytes, lengths.end, end);
    const matches = tableOf((modes >> 2) & 3, MATCH_LENGTH, before?.matches, bytes, offsets.end, end);
    this.#tables = { lengths: lengths.table, offsets: offsets.table, matches: matches.table };
    const bits = new BackwardBits(bytes, matches.end, end);
    this.#coded = {
      bits,
      lengths: new FseState(lengths.table, bits),
      offsets: new FseState(offsets.table, bits),
      matches: new FseState(matches.table, bits),
    };
  }

  /** Reads the next sequence; there must be one. @throws ZstdBroken */
  next(): void {
    const { bits, lengths, offsets, matches } = this.#coded ?? broken('a block has no sequences');
    const offsetBits = offsets.symbol;
    if (offsetBits > MAX_OFFSET_BITS) broken('a match reaches too far back');
    const offsetValue = (1 << offsetBits) + bits.take(offsetBits);
    this.match = lengthOf(matches.symbol, MATCH_BASES, MATCH_BITS, bits);
    this.length = lengthOf(lengths.symbol, LITERAL_BASES, LITERAL_BITS, bits);
    this.offset = offsetValue > 3 ? this.#newOffset(offsetValue - 3) : this.#lastOffset(this.length === 0 ? offsetValue : offsetValue - 1);
    this.left -= 1;
    if (this.left > 0) {
      lengths.advance(bits);
      matches.advance(bits);
      offsets.advance(bits);
    }
    if (bits.left < 0 || (this.left === 0 && bits.left > 0)) broken('the sequences of a block are cut or too long');
  }

  #newOffset(offset: number): number {
    const last = this.#lastOffsets;
    last[2] = last[1] ?? 0;
    last[1] = last[0] ?? 0;
    last[0] = offset;
    return offset;
  }

  /** One of the last three offsets, or the last one less 1 (RFC 8878 §3.1.1.5); what is used moves to the front. */
  #lastOffset(index: number): number {
    const last = this.#lastOffsets;
    const [first = 0, second = 0] = last;
    if (index === 0) return first;
    const offset = index === 3 ? first - 1 : (last[index] ?? 0);
    if (offset === 0) broken('an offset is 0');
    if (index > 1) last[2] = second;
    last[1] = first;
    last[0] = offset;
    return offset;
  }
}

function lengthOf(code: number, bases: Uint32Array, widths: Uint8Array, bits: BackwardBits): number {
  return (bases[code] ?? 0) + bits.take(widths[code] ?? 0);
}

function readSequenceCount(bytes: Uint8Array, at: number, end: number): { count: number; end: number } {
  const [a = 0, b = 0, c = 0] = bytes.subarray(at, at + 3);
  const size = a < 128 ? 1 : a < 255 ? 2 : 3;
  if (at + size > end) broken('a block is cut');
  return { count: size === 1 ? a : size === 2 ? ((a - 128) << 8) + b : b + (c << 8) + 0x7f00, end: at + size };
}

function tableOf(
  mode: number,
  code: Code,
  before: FseTable | undefined,
  bytes: Uint8Array,
  start: number,
  end: number,
): { readonly table: FseTable; readonly end: number } {
  if (start > end) broken('a block is cut');
  if (mode === 0) return { table: code.predefined, end: start };
  if (mode === 2) return readTable(bytes, start, end, { log: code.maxLog, symbol: code.maxSymbol });
  if (mode === 3) return { table: before ?? broken('a block repeats a table that was not there'), end: start };
  const symbol = bytes[start] ?? 0;
  if (start >= end || symbol > code.maxSymbol) broken('a table names too many symbols');
  return { table: rleTable(symbol), end: start + 1 };
}
