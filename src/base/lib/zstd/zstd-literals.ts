import { broken, littleEndian } from './backward-bits.ts';
import { type HuffmanTable, readHuffman, readLiterals } from './huffman.ts';

/**
 * Header of literals that are not coded, per size format: its bytes, and how many bits stand before the size (RFC 8878
 * §3.1.1.3.1.1).
 */
const PLAIN = [
  { size: 1, shift: 3 },
  { size: 2, shift: 4 },
  { size: 1, shift: 3 },
  { size: 3, shift: 4 },
] as const;

/** The same of coded ones, with the width of each of the two sizes. */
const CODED = [
  { size: 3, width: 10 },
  { size: 3, width: 10 },
  { size: 4, width: 14 },
  { size: 5, width: 18 },
] as const;

/**
 * The literals section of a block (RFC 8878 §3.1.1.3.1): bytes as they are, one byte repeated, or Huffman coded in one
 * or four streams.
 */
export class LiteralsReader {
  #table: HuffmanTable | undefined;
  /**
   * The literals of the block that was read last; only the first `count` bytes count. It grows with what blocks really
   * have.
   */
  bytes: Uint8Array = new Uint8Array(0);
  count = 0;

  /**
   * Reads the section at `start` of a block that ends at `end` and may have `most` literals.
   * @returns where the section ends
   * @throws ZstdBroken
   */
  read(block: Uint8Array, start: number, end: number, most: number): number {
    const head = block[start] ?? 0;
    const type = head & 3;
    const format = (head >> 2) & 3;
    return type < 2 ? this.#readPlain(block, start, end, most, type, format) : this.#readCoded(block, start, end, most, type, format);
  }

  #readPlain(block: Uint8Array, start: number, end: number, most: number, type: number, format: number): number {
    const { size, shift } = PLAIN[format] ?? PLAIN[0];
    const count = littleEndian(block, start, size) >> shift;
    const at = start + size;
    const after = at + (type === 0 ? count : 1);
    this.#makeRoom(count, most, after <= end);
    if (type === 0) this.bytes.set(block.subarray(at, after));
    else this.bytes.fill(block[at] ?? 0, 0, count);
    return after;
  }

  #readCoded(block: Uint8Array, start: number, end: number, most: number, type: number, format: number): number {
    const { size, width } = CODED[format] ?? CODED[0];
    const sizes = Math.floor(littleEndian(block, start, size) / 16);
    const count = sizes % 2 ** width;
    let at = start + size;
    const after = at + Math.floor(sizes / 2 ** width);
    this.#makeRoom(count, most, after <= end);
    if (type === 2) {
      const read = readHuffman(block, at, after);
      this.#table = read.table;
      at = read.end;
    }
    const table = this.#table ?? broken('a block has no tree');
    if (format === 0) readLiterals(block, at, after, table, this.bytes, 0, count);
    else readFourStreams(block, at, after, table, this.bytes, count);
    return after;
  }

  #makeRoom(count: number, most: number, fits: boolean): void {
    if (!fits || count > most) broken('the literals of a block are longer than it');
    this.count = count;
    if (this.bytes.length < count) this.bytes = new Uint8Array(Math.max(4096, Math.min(most, count * 2)));
  }
}

function readFourStreams(bytes: Uint8Array, start: number, end: number, table: HuffmanTable, out: Uint8Array, count: number): void {
  const quarter = (count + 3) >> 2;
  let at = start + 6;
  for (let i = 0; i < 4; i += 1) {
    const after = i < 3 ? at + littleEndian(bytes, start + 2 * i, 2) : end;
    if (at > end || after > end || quarter * 3 > count) broken('the streams of a block are cut');
    readLiterals(bytes, at, after, table, out, quarter * i, i < 3 ? quarter * (i + 1) : count);
    at = after;
  }
}
