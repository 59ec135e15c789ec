import type { CallBound } from './call-bounds.ts';
import { ProtocolError } from './protocol-error.ts';

/** A byte that says whether it is compressed, and four of length. */
const PREFIX_BYTES = 5;

/**
 * The one message of a call as it comes in pieces: what is compressed, more than its bound, more than one, or of more
 * members than its call has, is refused before it is kept or read (decision 13.15). Keeps no more than the bytes that
 * have come.
 */
export class FramedMessage {
  readonly #bound: CallBound;
  readonly #prefix = Buffer.alloc(PREFIX_BYTES);
  #prefixBytes = 0;
  #length = 0;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(bound: CallBound) {
    this.#bound = bound;
  }

  /** Bytes of the message that are kept. */
  get size(): number {
    return this.#bytes;
  }

  /** @throws ProtocolError RESOURCE_EXHAUSTED, INVALID_ARGUMENT, UNIMPLEMENTED */
  take(piece: Buffer): void {
    let rest = piece;
    if (this.#prefixBytes < PREFIX_BYTES) {
      const taken = Math.min(PREFIX_BYTES - this.#prefixBytes, rest.length);
      rest.copy(this.#prefix, this.#prefixBytes, 0, taken);
      this.#prefixBytes += taken;
      rest = rest.subarray(taken);
      if (this.#prefixBytes === PREFIX_BYTES) this.#judgePrefix();
    }
    if (rest.length === 0) return;
    if (this.#bytes + rest.length > this.#length) throw new ProtocolError('INVALID_ARGUMENT', 'a call has one message');
    this.#bytes += rest.length;
    this.#pieces.push(rest);
    // Pieces of a few bytes cost more than they hold.
    if (this.#pieces.length >= 64) this.#pieces = [Buffer.concat(this.#pieces)];
  }

  /**
   * The message, once nothing more comes.
   * @throws ProtocolError INVALID_ARGUMENT where it is not whole, or has more members than its call
   */
  whole(): Buffer {
    if (this.#prefixBytes < PREFIX_BYTES || this.#bytes < this.#length)
      throw new ProtocolError('INVALID_ARGUMENT', 'the message of the call is not whole');
    const message = Buffer.concat(this.#pieces);
    this.#pieces = [];
    judgeMembers(message, this.#bound.members);
    return message;
  }

  #judgePrefix(): void {
    if (this.#prefix[0] !== 0) throw new ProtocolError('UNIMPLEMENTED', 'messages are taken uncompressed (identity) alone');
    this.#length = this.#prefix.readUInt32BE(1);
    const { bytes } = this.#bound;
    if (this.#length > bytes)
      throw new ProtocolError('RESOURCE_EXHAUSTED', `the message has ${this.#length} bytes, and this call takes at most ${bytes}`);
  }
}

const WIRE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

/**
 * Counts members on the wire, in time that grows with their number and with nothing that they hold.
 * @throws ProtocolError INVALID_ARGUMENT for more than so many, and for bytes that are no message
 */
export function judgeMembers(message: Uint8Array, most: number): void {
  let members = 0;
  for (let at = 0; at < message.length; ) {
    if (++members > most) throw new ProtocolError('INVALID_ARGUMENT', `the message has more than ${most} members`);
    const tag = varintAt(message, at);
    at = valueEnd(message, tag.end, tag.value & 7);
  }
}

function valueEnd(message: Uint8Array, at: number, wireType: number): number {
  const end = wireType === WIRE.bytes ? bytesEnd(message, at) : scalarEnd(message, at, wireType);
  if (end > message.length) throw unreadable();
  return end;
}

function bytesEnd(message: Uint8Array, at: number): number {
  const { value, end } = varintAt(message, at);
  return end + value;
}

function scalarEnd(message: Uint8Array, at: number, wireType: number): number {
  if (wireType === WIRE.varint) return varintAt(message, at).end;
  if (wireType === WIRE.fixed64) return at + 8;
  if (wireType === WIRE.fixed32) return at + 4;
  // Groups: no version of the protocol has any.
  throw unreadable();
}

/** Of more than 32 bits the lower ones count, as for the reader. */
function varintAt(message: Uint8Array, from: number): { readonly value: number; readonly end: number } {
  let value = 0;
  for (let at = from, shift = 0; at < message.length && at < from + 10; at++, shift += 7) {
    const byte = message[at] ?? 0;
    if (shift < 35) value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return { value, end: at + 1 };
  }
  throw unreadable();
}

function unreadable(): ProtocolError {
  return new ProtocolError('INVALID_ARGUMENT', 'the message cannot be read');
}
