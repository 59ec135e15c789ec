/*
 * The columns of a segment that is closed: one piece of memory outside of the heap, and the same bytes as a file
 * (`columns/00000001.columns`).
 *
 *    0  GWCOLS01
 *    8  CRC-32 of everything from byte 12
 *   12  length of the head
 *   16  head: JSON, see `Head`
 *    … times, costs (doubles), offsets of frames (32 bits); for each column its codes, then where each of its texts
 *    ends (32 bits), then the texts (UTF-8)
 *
 * Each part begins at a multiple of 8. Numbers are in the order of the machine that wrote them; what does not fit is
 * made again.
 */
import { crc32 } from 'node:zlib';
import type { GrowingColumns } from './growing-columns.ts';
import { BETWEEN_ITEMS, type Codes, type RecordColumns, TEXT_COLUMNS, type TextTest } from './record-columns.ts';
import type { SegmentInfo } from './segments.ts';

const MAGIC = Buffer.from('GWCOLS01', 'latin1');
const HEAD_AT = 16;
/** What the columns are, so that those of another version are known. */
const LAYOUT = TEXT_COLUMNS.join();

/** Of which state of which segment the columns are, and how large their parts. */
interface Head {
  readonly layout: string;
  readonly segment: number;
  readonly createdAt: number;
  readonly end: number;
  readonly records: number;
  readonly newest: number;
  /** Of each column: bytes of a code, number of texts, their length in bytes. */
  readonly columns: readonly (readonly [width: number, texts: number, bytes: number])[];
}

/** The columns as bytes. `info` is the segment as it is when all of its rows are there. */
export function packColumns(growing: GrowingColumns, info: SegmentInfo): Buffer {
  const texts = TEXT_COLUMNS.map((_, column) => growing.texts(column).map((text) => Buffer.from(text)));
  const { segment, createdAt, end, records, newest } = info;
  const columns = texts.map((all) => [widthFor(all.length), all.length, all.reduce((sum, { length }) => sum + length, 0)] as const);
  const head: Head = { layout: LAYOUT, segment, createdAt, end, records, newest, columns };
  const headBytes = Buffer.from(JSON.stringify(head));
  const places = new Places(headBytes.length);
  const rows = growing.rows;
  const parts = { times: places.take(rows * 8), costs: places.take(rows * 8), offsets: places.take(rows * 4) };
  const ofColumns = columns.map(([width, count, bytes]) => ({
    codes: places.take(rows * width),
    ends: places.take(count * 4),
    texts: places.take(bytes),
  }));
  // Not from the pool: it must begin at a multiple of 8.
  const image = Buffer.from(new ArrayBuffer(places.end));
  MAGIC.copy(image);
  image.writeUInt32LE(headBytes.length, 12);
  headBytes.copy(image, HEAD_AT);
  new Float64Array(image.buffer, parts.times, rows).set(growing.times.subarray(0, rows));
  new Float64Array(image.buffer, parts.costs, rows).set(growing.costs.subarray(0, rows));
  new Uint32Array(image.buffer, parts.offsets, rows).set(growing.offsets.subarray(0, rows));
  for (const [column, at] of ofColumns.entries()) {
    const { array, from, stride } = growing.codes(column);
    const codes = codesIn(image, at.codes, rows, columns[column]?.[0] ?? 4);
    for (let row = 0; row < rows; row += 1) codes[row] = array[from + row * stride] ?? 0;
    const ends = new Uint32Array(image.buffer, at.ends, texts[column]?.length);
    let end = 0;
    for (const [n, text] of (texts[column] ?? []).entries()) {
      text.copy(image, at.texts + end);
      end += text.length;
      ends[n] = end;
    }
  }
  image.writeUInt32LE(crc32(image.subarray(12)), 8);
  return image;
}

/**
 * The columns of these bytes, which must begin at a multiple of 8; undefined when they are not whole, or not those of
 * the segment as it is.
 */
export function unpackColumns(image: Buffer, info: SegmentInfo): PackedColumns | undefined {
  if (image.length < HEAD_AT || !image.subarray(0, 8).equals(MAGIC)) return undefined;
  if (crc32(image.subarray(12)) !== image.readUInt32LE(8)) return undefined;
  // The checksum says that this program wrote it.
  const head = JSON.parse(image.toString('utf8', HEAD_AT, HEAD_AT + image.readUInt32LE(12))) as Head;
  const fits =
    head.layout === LAYOUT &&
    head.segment === info.segment &&
    head.createdAt === info.createdAt &&
    head.end === info.end &&
    head.records === info.records &&
    head.newest === info.newest;
  return fits ? new PackedColumns(image, head) : undefined;
}

interface PackedColumn {
  readonly array: Codes;
  readonly from: 0;
  readonly stride: 1;
  /** Where each text ends. */
  readonly ends: Uint32Array;
  readonly texts: Buffer;
}

export class PackedColumns implements RecordColumns {
  readonly rows: number;
  readonly times: Float64Array;
  readonly costs: Float64Array;
  readonly offsets: Uint32Array;
  /** Of memory. */
  readonly bytes: number;
  readonly #columns: readonly PackedColumn[];

  constructor(image: Buffer, { records: rows, columns }: Head) {
    const places = new Places(image.readUInt32LE(12));
    const { buffer } = image;
    this.rows = rows;
    this.bytes = image.length;
    this.times = new Float64Array(buffer, places.take(rows * 8), rows);
    this.costs = new Float64Array(buffer, places.take(rows * 8), rows);
    this.offsets = new Uint32Array(buffer, places.take(rows * 4), rows);
    this.#columns = columns.map(([width, count, bytes]) => {
      const array = codesIn(image, places.take(rows * width), rows, width);
      const ends = new Uint32Array(buffer, places.take(count * 4), count);
      const at = places.take(bytes);
      return { array, from: 0, stride: 1, ends, texts: image.subarray(at, at + bytes) };
    });
  }

  codes(column: number): { readonly array: Codes; readonly from: number; readonly stride: number } {
    return this.#column(column);
  }

  passing(column: number, test: TextTest): Uint8Array | undefined {
    const of = this.#column(column);
    const flags = new Uint8Array(of.ends.length + 1);
    if ('hasItem' in test) {
      markItem(of, Buffer.from(test.hasItem), flags);
      return flags.includes(1) ? flags : undefined;
    }
    const isExact = 'isOneOf' in test;
    for (const part of isExact ? test.isOneOf : test.containsOneOf) {
      if (part === '') markEvery(of, isExact, flags);
      else mark(of, Buffer.from(part), isExact, flags);
    }
    return flags.includes(1) ? flags : undefined;
  }

  #column(column: number): PackedColumn {
    const found = this.#columns[column];
    if (found === undefined) throw new RangeError(`There is no column ${column}`);
    return found;
  }
}

/** Marks the texts that are, or contain, these bytes. */
function mark({ ends, texts }: PackedColumn, wanted: Buffer, isExact: boolean, flags: Uint8Array): void {
  for (let at = texts.indexOf(wanted); at >= 0; ) {
    const n = textAt(ends, at);
    const [start, end] = [startOf(ends, n), ends[n] ?? 0];
    const isInside = at + wanted.length <= end;
    const isWhole = at === start && at + wanted.length === end;
    if (isExact ? isWhole : isInside) flags[n + 1] = 1;
    // A part that hangs over the end of a text may begin again in the next one, never in this one.
    at = texts.indexOf(wanted, end);
  }
}

/**
 * Marks the texts that are lists of which one item is these bytes: what stands at each side of them is an end of the
 * text, or between two items.
 */
function markItem({ ends, texts }: PackedColumn, wanted: Buffer, flags: Uint8Array): void {
  const between = BETWEEN_ITEMS.charCodeAt(0);
  for (let n = 0; n < ends.length; n += 1) {
    const [start, end] = [startOf(ends, n), ends[n] ?? 0];
    const text = texts.subarray(start, end);
    for (let at = text.indexOf(wanted); at >= 0 && flags[n + 1] !== 1; at = text.indexOf(wanted, at + 1)) {
      const behind = at + wanted.length;
      const isItem = (at === 0 || text[at - 1] === between) && (behind === text.length || text[behind] === between);
      if (isItem) flags[n + 1] = 1;
      if (at === text.length) break;
    }
  }
}

/** Marks every text, or only an empty one: what empty bytes are part of. */
function markEvery({ ends }: PackedColumn, isExact: boolean, flags: Uint8Array): void {
  for (const [n, end] of ends.entries()) if (!isExact || end === startOf(ends, n)) flags[n + 1] = 1;
}

function startOf(ends: Uint32Array, n: number): number {
  return n === 0 ? 0 : (ends[n - 1] ?? 0);
}

/** The number of the text that the byte at `at` belongs to. */
function textAt(ends: Uint32Array, at: number): number {
  let [low, high] = [0, ends.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ends[middle] ?? 0) > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Hands out places one behind the other, each at a multiple of 8. */
class Places {
  end: number;

  constructor(headLength: number) {
    this.end = aligned(HEAD_AT + headLength);
  }

  take(bytes: number): number {
    const at = this.end;
    this.end = aligned(at + bytes);
    return at;
  }
}

function aligned(at: number): number {
  return Math.ceil(at / 8) * 8;
}

function widthFor(texts: number): 1 | 2 | 4 {
  if (texts < 0x100) return 1;
  return texts < 0x10000 ? 2 : 4;
}

function codesIn({ buffer }: Buffer, at: number, rows: number, width: number): Codes {
  if (width === 1) return new Uint8Array(buffer, at, rows);
  return width === 2 ? new Uint16Array(buffer, at, rows) : new Uint32Array(buffer, at, rows);
}
