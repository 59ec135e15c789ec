import { BackwardBits, broken } from './backward-bits.ts';
import { buildTable, type FseTable, firstState, readTable, rleTable } from './fse.ts';
import { type HuffmanTable, readHuffman, readLiterals } from './huffman.ts';

/** No block is longer, before or after decoding (RFC 8878 §3.1.1.2.4). */
export const MAX_BLOCK_BYTES = 128 * 1024;
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

/** Where a block is decoded to, and what came before it. */
export interface Output {
  readonly bytes: Uint8Array;
  /** Where the block goes; `maxBlock` bytes are free from there. */
  readonly at: number;
  /** How far back a match may reach from `at`: what was decoded of the frame, the window at most. */
  readonly reach: number;
  readonly maxBlock: number;
  readonly window: number;
}

/** What one compressed block leaves for the next one of its frame. */
export class BlockDecoder {
  #huffman: HuffmanTable | undefined;
  #tables: { readonly literals: FseTable; readonly offsets: FseTable; readonly matches: FseTable } | undefined;
  readonly #offsets = Uint32Array.of(1, 4, 8);
  #literals: Uint8Array = new Uint8Array(0);

  /**
   * Decodes the content `bytes[start, end)` of a compressed block (RFC 8878 §3.1.1.3).
   * @returns how many bytes it became
   * @throws ZstdBroken
   */
  decode(bytes: Uint8Array, start: number, end: number, out: Output): number {
    const { count, end: sequencesStart } = this.#readLiterals(bytes, start, end, out.maxBlock);
    const header = readSequenceCount(bytes, sequencesStart, end);
    if (header.count === 0) {
      if (header.end !== end) broken('bytes follow a block of literals');
      out.bytes.set(this.#literals.subarray(0, count), out.at);
      return count;
    }
    const bitsStart = this.#readTables(bytes, header.end, end);
    return this.#execute(new BackwardBits(bytes, bitsStart, end), header.count, count, out);
  }

  /** RFC 8878 §3.1.1.3.1: literals as they are, one byte repeated, or Huffman coded in one or four streams. */
  #readLiterals(bytes: Uint8Array, start: number, end: number, maxBlock: number): { count: number; end: number } {
    const head = (bytes[start] ?? 0) | ((bytes[start + 1] ?? 0) << 8) | ((bytes[start + 2] ?? 0) << 16);
    const type = head & 3;
    const format = (head >> 2) & 3;
    if (type > 1) return this.#readCoded(bytes, start, end, maxBlock, type === 3);
    const size = (format & 1) === 0 ? 1 : format === 1 ? 2 : 3;
    const count = format === 3 ? head >> 4 : format === 1 ? (head & 0xffff) >> 4 : (head & 0xff) >> 3;
    const at = start + size;
    const after = at + (type === 0 ? count : 1);
    if (count > maxBlock || after > end) broken('the literals of a block are longer than it');
    const literals = this.#room(count);
    if (type === 0) literals.set(bytes.subarray(at, after));
    else literals.fill(bytes[at] ?? 0, 0, count);
    return { count, end: after };
  }

  #readCoded(bytes: Uint8Array, start: number, end: number, maxBlock: number, treeless: boolean): { count: number; end: number } {
    const format = ((bytes[start] ?? 0) >> 2) & 3;
    const width = format < 2 ? 10 : format === 2 ? 14 : 18;
    let at = start + (format < 2 ? 3 : format + 2);
    if (at > end) broken('a block is cut');
    // Up to 40 bits: the sizes begin 4 bits in and are read in two parts.
    const low = ((bytes[start] ?? 0) | ((bytes[start + 1] ?? 0) << 8) | ((bytes[start + 2] ?? 0) << 16)) >> 4;
    const high = (bytes[start + 3] ?? 0) | ((bytes[start + 4] ?? 0) << 8);
    const mask = (1 << width) - 1;
    const count = low & mask;
    const coded = ((low >> width) | (high << (20 - width))) & mask;
    const after = at + coded;
    if (count > maxBlock || after > end) broken('the literals of a block are longer than it');
    if (!treeless) {
      const read = readHuffman(bytes, at, after);
      this.#huffman = read.table;
      at = read.end;
    }
    const table = this.#huffman ?? broken('a block has no tree');
    const literals = this.#room(count);
    if (format === 0) readLiterals(bytes, at, after, table, literals, 0, count);
    else readFourStreams(bytes, at, after, table, literals, count);
    return { count, end: after };
  }

  /** The buffer of literals grows with what a block really has. */
  #room(count: number): Uint8Array {
    if (this.#literals.length < count) this.#literals = new Uint8Array(Math.min(MAX_BLOCK_BYTES, Math.max(4096, count * 2)));
    return this.#literals;
  }

  /** RFC 8878 §3.1.1.3.2.1: where each of the three tables comes from. Returns where the bits begin. */
  #readTables(bytes: Uint8Array, start: number, end: number): number {
    const modes = bytes[start] ?? 0;
    if ((modes & 3) !== 0) broken('reserved bits are set');
    const before = this.#tables;
    const literals = tableOf(modes >> 6, LITERAL_LENGTH, before?.literals, bytes, start + 1, end);
    const offsets = tableOf((modes >> 4) & 3, OFFSET, before?.offsets, bytes, literals.end, end);
    const matches = tableOf((modes >> 2) & 3, MATCH_LENGTH, before?.matches, bytes, offsets.end, end);
    this.#tables = { literals: literals.table, offsets: offsets.table, matches: matches.table };
    return matches.end;
  }

  /** Each sequence copies some literals, then a match from what was decoded before (RFC 8878 §3.1.1.4). */
  #execute(bits: BackwardBits, sequences: number, literalCount: number, { bytes: out, at: from, reach, maxBlock, window }: Output): number {
    const { literals: lengths, offsets, matches } = this.#tables ?? broken('a block has no tables');
    const literals = this.#literals;
    let lengthState = firstState(lengths, bits);
    let offsetState = firstState(offsets, bits);
    let matchState = firstState(matches, bits);
    const limit = from + maxBlock;
    let at = from;
    let literalAt = 0;
    for (let rest = sequences; rest > 0; rest -= 1) {
      const offsetBits = offsets.symbols[offsetState] ?? 0;
      if (offsetBits > MAX_OFFSET_BITS) broken('a match reaches too far back');
      const offsetValue = (1 << offsetBits) + bits.take(offsetBits);
      const matchCode = matches.symbols[matchState] ?? 0;
      const match = (MATCH_BASES[matchCode] ?? 0) + bits.take(MATCH_BITS[matchCode] ?? 0);
      const lengthCode = lengths.symbols[lengthState] ?? 0;
      const length = (LITERAL_BASES[lengthCode] ?? 0) + bits.take(LITERAL_BITS[lengthCode] ?? 0);
      const offset = this.#offset(offsetValue, length === 0);
      if (rest > 1) {
        lengthState = (lengths.bases[lengthState] ?? 0) + bits.take(lengths.bits[lengthState] ?? 0);
        matchState = (matches.bases[matchState] ?? 0) + bits.take(matches.bits[matchState] ?? 0);
        offsetState = (offsets.bases[offsetState] ?? 0) + bits.take(offsets.bits[offsetState] ?? 0);
      }
      if (bits.left < 0) broken('the sequences of a block are cut');
      if (literalAt + length > literalCount || at + length + match > limit) broken('a block is longer than it may be');
      copy(literals, literalAt, out, at, length);
      literalAt += length;
      at += length;
      if (offset > window || offset > reach + (at - from)) broken('a match reaches too far back');
      repeat(out, at, offset, match);
      at += match;
    }
    if (bits.left !== 0) broken('bits follow the sequences of a block');
    const tail = literalCount - literalAt;
    if (at + tail > limit) broken('a block is longer than it may be');
    out.set(literals.subarray(literalAt, literalCount), at);
    return at + tail - from;
  }

  /** The values 1 to 3 mean one of the last three offsets (RFC 8878 §3.1.1.5). */
  #offset(value: number, noLiterals: boolean): number {
    const last = this.#offsets;
    const [first = 1, second = 4] = last;
    if (value > 3) {
      last[2] = second;
      last[1] = first;
      last[0] = value - 3;
      return value - 3;
    }
    const index = noLiterals ? value : value - 1;
    if (index === 0) return first;
    const offset = index === 3 ? first - 1 : (last[index] ?? 0);
    if (offset === 0) broken('an offset is 0');
    if (index > 1) last[2] = second;
    last[1] = first;
    last[0] = offset;
    return offset;
  }
}

function readFourStreams(bytes: Uint8Array, start: number, end: number, table: HuffmanTable, out: Uint8Array, count: number): void {
  const size = (i: number): number => (bytes[start + 2 * i] ?? 0) | ((bytes[start + 2 * i + 1] ?? 0) << 8);
  const quarter = (count + 3) >> 2;
  if (start + 6 > end || quarter * 3 > count) broken('the streams of a block are cut');
  let at = start + 6;
  for (let i = 0; i < 4; i += 1) {
    const after = i < 3 ? at + size(i) : end;
    if (after > end) broken('the streams of a block are cut');
    readLiterals(bytes, at, after, table, out, quarter * i, i < 3 ? quarter * (i + 1) : count);
    at = after;
  }
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

/** Below this a loop is faster than a call. */
const SHORT = 24;

function copy(source: Uint8Array, start: number, target: Uint8Array, at: number, count: number): void {
  if (count > SHORT) target.set(source.subarray(start, start + count), at);
  else for (let i = 0; i < count; i += 1) target[at + i] = source[start + i] ?? 0;
}

/** A match may overlap what it produces, and then repeats it. */
function repeat(out: Uint8Array, at: number, offset: number, count: number): void {
  if (count > SHORT && offset >= count) out.copyWithin(at, at - offset, at - offset + count);
  else if (offset === 1) out.fill(out[at - 1] ?? 0, at, at + count);
  else for (let i = 0; i < count; i += 1) out[at + i] = out[at - offset + i] ?? 0;
}
