import { crc32 } from 'node:zlib';
import { ByteCollector } from '../../base/lib/byte-collector.ts';

/** Bytes with which every message begins: its length, that of its headers, and a checksum of both. */
export const PRELUDE = 12;

/** Whether these bytes, at least a prelude of them, begin an AWS event stream. */
export function beginsAwsFrame(bytes: Buffer): boolean {
  return crc32(bytes.subarray(0, 8)) === bytes.readUInt32BE(8);
}

/** One message of an AWS event stream. */
export interface AwsFrame {
  /** Offset of its first byte in the stream. */
  readonly start: number;
  /** Values of those headers that are text, by name. */
  readonly headers: ReadonlyMap<string, string>;
  /** Undefined when it is too large to keep. */
  readonly payload: Buffer | undefined;
}

/** Bytes of a message that are kept until its checksum has come; the payload of a larger one is not looked at. */
const MAX_KEPT = 1024 * 1024;
/** The limit of the format; of a length beyond it the stream has lost its framing. */
const MAX_HEADERS = 128 * 1024;
const CHECKSUM = 4;
/**
 * Bytes of a header value by its type; -1: two bytes of length stand before it. Types: true, false, byte, short,
 * integer, long, bytes, text, timestamp, UUID.
 */
const VALUE_BYTES: readonly number[] = [0, 0, 1, 2, 4, 8, -1, -1, 8, 16];
const TEXT_TYPE = 7;

/**
 * Reads `application/vnd.amazon.eventstream` however it is cut: messages of a length, a length of headers and a
 * checksum of both, then headers, payload and a checksum of it all (CRC-32, all numbers big-endian). A message is
 * handed on when its checksums hold. The first one whose do not ends the reading: nobody can tell where the next would
 * begin.
 */
export class AwsFrames {
  readonly #onFrame: (frame: AwsFrame) => void;
  readonly #prelude = Buffer.alloc(PRELUDE);
  readonly #checksum = Buffer.alloc(CHECKSUM);
  /** Bytes of the prelude that have come. */
  #filled = 0;
  /** Bytes of the message that are still to come, its checksum included. */
  #left = 0;
  #headersLength = 0;
  #crc = 0;
  readonly #kept = new ByteCollector();
  #tooLarge = false;
  #start = 0;
  /** Bytes of the stream before the current chunk. */
  #base = 0;
  #broken = false;
  #stopped = false;
  #stoppedAt = -1;

  constructor(onFrame: (frame: AwsFrame) => void) {
    this.#onFrame = onFrame;
  }

  /** What came is no such stream, or was changed on its way. */
  get broken(): boolean {
    return this.#broken;
  }

  /** No message has begun that is not here to its end. */
  get isBetween(): boolean {
    return this.#filled === 0 && this.#left === 0;
  }

  /** Offset in the last chunk behind the message at which `stop` was called; -1 before that. */
  get stoppedAt(): number {
    return this.#stoppedAt;
  }

  /** For the reader of a message: nothing behind it is read. */
  stop(): void {
    this.#stopped = true;
  }

  push(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length && !this.#broken && !this.#stopped)
      at += this.#left === 0 ? this.#takePrelude(chunk, at) : this.#takeMessage(chunk.subarray(at));
    if (this.#stopped && this.#stoppedAt === -1) this.#stoppedAt = at;
    this.#base += chunk.length;
  }

  /** @returns how many bytes were taken */
  #takePrelude(chunk: Uint8Array, at: number): number {
    if (this.#filled === 0) this.#start = this.#base + at;
    const piece = chunk.subarray(at, at + PRELUDE - this.#filled);
    this.#prelude.set(piece, this.#filled);
    this.#filled += piece.length;
    if (this.#filled === PRELUDE) this.#openMessage();
    return piece.length;
  }

  #openMessage(): void {
    const total = this.#prelude.readUInt32BE(0);
    this.#headersLength = this.#prelude.readUInt32BE(4);
    const whole = beginsAwsFrame(this.#prelude);
    const fits = this.#headersLength <= MAX_HEADERS && this.#headersLength <= total - PRELUDE - CHECKSUM;
    this.#broken = !whole || !fits;
    this.#filled = 0;
    this.#left = total - PRELUDE;
    this.#crc = crc32(this.#prelude);
    this.#tooLarge = total > MAX_KEPT;
  }

  #takeMessage(bytes: Uint8Array): number {
    const piece = bytes.subarray(0, this.#left);
    const content = piece.subarray(0, Math.max(0, this.#left - CHECKSUM));
    if (content.length > 0) {
      this.#crc = crc32(content, this.#crc);
      this.#keep(content);
    }
    if (content.length < piece.length) this.#checksum.set(piece.subarray(content.length), CHECKSUM - (this.#left - content.length));
    this.#left -= piece.length;
    if (this.#left === 0) this.#closeMessage();
    return piece.length;
  }

  /** Of a message that is too large, as much as holds its headers. */
  #keep(content: Uint8Array): void {
    const room = this.#tooLarge ? this.#headersLength - this.#kept.size : content.length;
    if (room > 0) this.#kept.push(content.subarray(0, room));
  }

  #closeMessage(): void {
    const content = this.#kept.take();
    const headers = this.#crc === this.#checksum.readUInt32BE(0) ? readHeaders(content.subarray(0, this.#headersLength)) : undefined;
    this.#broken = headers === undefined;
    if (headers === undefined) return;
    this.#onFrame({ start: this.#start, headers, payload: this.#tooLarge ? undefined : content.subarray(this.#headersLength) });
  }
}

/** Undefined for what is not a list of headers to its last byte. */
function readHeaders(bytes: Buffer): ReadonlyMap<string, string> | undefined {
  const headers = new Map<string, string>();
  for (let at = 0; at < bytes.length; ) {
    const typeAt = at + 1 + (bytes[at] ?? 0);
    const type = bytes[typeAt] ?? -1;
    const from = typeAt + (VALUE_BYTES[type] === -1 ? 3 : 1);
    if (from > bytes.length) return undefined;
    const end = from + valueBytes(bytes, typeAt, type);
    if (!(end <= bytes.length)) return undefined;
    if (type === TEXT_TYPE) headers.set(bytes.toString('latin1', at + 1, typeAt), bytes.toString('latin1', from, end));
    at = end;
  }
  return headers;
}

/** Not a number for a type that is none. */
function valueBytes(bytes: Buffer, typeAt: number, type: number): number {
  const fixed = VALUE_BYTES[type] ?? Number.NaN;
  return fixed === -1 ? bytes.readUInt16BE(typeAt + 1) : fixed;
}
