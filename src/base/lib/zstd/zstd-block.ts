import { broken } from './backward-bits.ts';
import { LiteralsReader } from './zstd-literals.ts';
import { SequenceReader } from './zstd-sequences.ts';

/** No block is longer, before or after decoding (RFC 8878 §3.1.1.2.4). */
export const MAX_BLOCK_BYTES = 128 * 1024;

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

/** Decodes the compressed blocks of one frame, each of which leaves its tables and offsets for the next. */
export class BlockDecoder {
  readonly #literals = new LiteralsReader();
  readonly #sequences = new SequenceReader();

  /**
   * Decodes the content `bytes[start, end)` of a compressed block (RFC 8878 §3.1.1.3).
   * @returns how many bytes it became
   * @throws ZstdBroken
   */
  decode(bytes: Uint8Array, start: number, end: number, out: Output): number {
    this.#sequences.begin(bytes, this.#literals.read(bytes, start, end, out.maxBlock), end);
    return this.#execute(out);
  }

  /**
   * Each sequence copies some literals, then a match from what was decoded before; what is left of the literals follows
   * (RFC 8878 §3.1.1.4).
   */
  #execute({ bytes: out, at: from, reach, maxBlock, window }: Output): number {
    const sequences = this.#sequences;
    const { bytes: literals, count } = this.#literals;
    let at = from;
    let literalAt = 0;
    while (sequences.left > 0) {
      sequences.next();
      const { length, offset, match } = sequences;
      if (literalAt + length > count || at + length + match > from + maxBlock) broken('a block is longer than it may be');
      copy(literals, literalAt, out, at, length);
      literalAt += length;
      at += length;
      if (offset > window || offset > reach + (at - from)) broken('a match reaches too far back');
      repeat(out, at, offset, match);
      at += match;
    }
    const tail = count - literalAt;
    if (at + tail > from + maxBlock) broken('a block is longer than it may be');
    out.set(literals.subarray(literalAt, count), at);
    return at + tail - from;
  }
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
