import { broken, littleEndian } from './backward-bits.ts';
import { BlockDecoder, MAX_BLOCK_BYTES } from './zstd-block.ts';

/** Largest window that is taken (decision 3.20, RFC 9659). */
export const MAX_WINDOW_BYTES = 8 * 1024 * 1024;
/** Frames and blocks of one body: each may bring tables that take longer to build than to send. */
const MAX_PARTS = 65_536;
const FIRST_ROOM = 2 * MAX_BLOCK_BYTES;
const MAGIC = 0xfd2f_b528;
const SKIPPABLE_MAGIC = 0x184d_2a50;

/** Allowed by RFC 8878, and more than is decoded here. */
export class ZstdRefused extends Error {}

type Part = 'magic' | 'descriptor' | 'header' | 'block' | 'content' | 'checksum' | 'skip-size' | 'skip';

/**
 * Reads a series of frames part by part (RFC 8878 §3.1). The caller hands over the bytes that {@link ZstdFrames.needs}
 * asks for; memory grows with what was decoded and never with what a header announces.
 */
export class ZstdFrames {
  readonly #onData: (bytes: Uint8Array) => void;
  #part: Part = 'magic';
  /** How many bytes the next {@link read} takes, at least 1; what is skipped may come in pieces. */
  needs = 4;
  #parts = 0;

  #descriptor = 0;
  #window = 0;
  #contentSize: number | undefined;
  #blocks = new BlockDecoder();
  #lastBlock = false;
  #blockType = 0;
  #blockSize = 0;

  #room: Uint8Array = new Uint8Array(0);
  #at = 0;
  /** Decoded bytes of this frame. */
  #decoded = 0;

  /** `onData` gets each block's content; it has to copy what it keeps. */
  constructor(onData: (bytes: Uint8Array) => void) {
    this.#onData = onData;
  }

  /** True between frames, where a body may end. */
  get whole(): boolean {
    return this.#part === 'magic';
  }

  /** True while bytes are only passed over, so that fewer than `needs` may be given. */
  get skipping(): boolean {
    return this.#part === 'skip';
  }

  /** Content size of the frame, when its header says it. */
  get announced(): number | undefined {
    return this.#contentSize;
  }

  /**
   * Takes `bytes[start, start + needs)`.
   * @returns how many bytes were decoded
   * @throws ZstdBroken, ZstdRefused
   */
  read(bytes: Uint8Array, start: number): number {
    const end = start + this.needs;
    switch (this.#part) {
      case 'magic':
        return this.#readMagic(bytes, start);
      case 'descriptor':
        return this.#readDescriptor(bytes[start] ?? 0);
      case 'header':
        return this.#readHeader(bytes, start);
      case 'block':
        return this.#readBlock(littleEndian(bytes, start, 3));
      case 'content':
        return this.#readContent(bytes, start, end);
      case 'skip-size': {
        const size = littleEndian(bytes, start, 4);
        return size === 0 ? this.#go('magic', 4) : this.#go('skip', size);
      }
      default:
        return this.#go('magic', 4);
    }
  }

  /** Passes over fewer bytes than are needed. */
  skip(count: number): void {
    this.needs -= count;
  }

  #go(part: Part, needs: number): 0 {
    this.#part = part;
    this.needs = needs;
    return 0;
  }

  #count(): void {
    this.#parts += 1;
    if (this.#parts > MAX_PARTS) throw new ZstdRefused('It has too many blocks.');
  }

  #readMagic(bytes: Uint8Array, start: number): number {
    this.#count();
    const magic = littleEndian(bytes, start, 4);
    if (magic === MAGIC) return this.#go('descriptor', 1);
    // The lowest four bits are free.
    if (magic - (magic % 16) === SKIPPABLE_MAGIC) return this.#go('skip-size', 4);
    return broken('a frame does not begin as one');
  }

  #readDescriptor(descriptor: number): number {
    if ((descriptor & 8) !== 0) broken('a reserved bit is set');
    this.#descriptor = descriptor;
    const { window, dictionary, size } = headerSizes(descriptor);
    return this.#go('header', window + dictionary + size);
  }

  /** RFC 8878 §3.1.1.1. */
  #readHeader(bytes: Uint8Array, start: number): number {
    const sizes = headerSizes(this.#descriptor);
    const afterWindow = start + sizes.window;
    const afterDictionary = afterWindow + sizes.dictionary;
    if (littleEndian(bytes, afterWindow, sizes.dictionary) !== 0) throw new ZstdRefused('It needs a dictionary.');
    const size = littleEndian(bytes, afterDictionary, sizes.size) + (sizes.size === 2 ? 256 : 0);
    this.#contentSize = sizes.size === 0 ? undefined : size;
    this.#window = sizes.window === 0 ? size : windowSize(bytes[start] ?? 0);
    if (this.#window > MAX_WINDOW_BYTES) throw new ZstdRefused(`Its window is larger than ${MAX_WINDOW_BYTES} bytes.`);
    this.#blocks = new BlockDecoder();
    this.#decoded = 0;
    return this.#go('block', 3);
  }

  #readBlock(header: number): number {
    this.#count();
    this.#lastBlock = (header & 1) === 1;
    this.#blockType = (header >> 1) & 3;
    this.#blockSize = header >> 3;
    if (this.#blockType === 3) broken('a block has no type');
    if (this.#blockSize > this.#maxBlock) broken('a block is longer than it may be');
    const needs = this.#blockType === 1 ? 1 : this.#blockSize;
    return needs === 0 ? this.#readContent(this.#room, 0, 0) : this.#go('content', needs);
  }

  get #maxBlock(): number {
    return Math.min(MAX_BLOCK_BYTES, this.#window);
  }

  #readContent(bytes: Uint8Array, start: number, end: number): number {
    this.#makeRoom();
    const at = this.#at;
    const count = this.#decode(bytes, start, end);
    this.#at += count;
    this.#decoded += count;
    if (this.#contentSize !== undefined && this.#decoded > this.#contentSize) broken('a frame is longer than it says');
    if (count > 0) this.#onData(this.#room.subarray(at, at + count));
    if (!this.#lastBlock) this.#go('block', 3);
    else this.#endFrame();
    return count;
  }

  #decode(bytes: Uint8Array, start: number, end: number): number {
    const size = this.#blockSize;
    if (this.#blockType === 0) {
      this.#room.set(bytes.subarray(start, end), this.#at);
      return size;
    }
    if (this.#blockType === 1) {
      this.#room.fill(bytes[start] ?? 0, this.#at, this.#at + size);
      return size;
    }
    const reach = Math.min(this.#decoded, this.#window);
    return this.#blocks.decode(bytes, start, end, {
      bytes: this.#room,
      at: this.#at,
      reach,
      maxBlock: this.#maxBlock,
      window: this.#window,
    });
  }

  #endFrame(): void {
    if (this.#contentSize !== undefined && this.#decoded !== this.#contentSize) broken('a frame is shorter than it says');
    if ((this.#descriptor & 4) !== 0) this.#go('checksum', 4);
    else this.#go('magic', 4);
  }

  /** Room for one more block behind as much of the window as there is. */
  #makeRoom(): void {
    const needed = this.#maxBlock;
    if (this.#at + needed <= this.#room.length) return;
    const kept = Math.min(this.#decoded, this.#window);
    const full = this.#window + Math.max(FIRST_ROOM, this.#window >> 1);
    const wanted = Math.max(kept + needed, Math.min(full, kept === 0 ? Math.min(FIRST_ROOM, 2 * needed) : 2 * this.#room.length));
    const from = this.#room;
    if (wanted > from.length) this.#room = new Uint8Array(wanted);
    this.#room.set(from.subarray(this.#at - kept, this.#at), 0);
    this.#at = kept;
  }
}

function headerSizes(descriptor: number): { window: number; dictionary: number; size: number } {
  const single = (descriptor >> 5) & 1;
  const flag = descriptor >> 6;
  const dictionary = descriptor & 3;
  return { window: 1 - single, dictionary: dictionary === 3 ? 4 : dictionary, size: flag === 0 ? single : 1 << flag };
}

function windowSize(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >> 3));
  return base + (base / 8) * (descriptor & 7);
}
