import { randomBytes } from 'node:crypto';
import { ByteCollector } from './byte-collector.ts';

/** RFC 6455 §5.2. */
export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
const KNOWN: ReadonlySet<number> = new Set(Object.values(OPCODE));

/** A whole text or binary message, or a control frame. */
export interface WebSocketMessage {
  readonly opcode: number;
  readonly payload: Buffer;
}

/** What a side sent that ends the connection; `code` is the close code to say so (RFC 6455 §7.4.1). */
export class WebSocketFault extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.name = 'WebSocketFault';
    this.code = code;
  }
}

const FIN = 0x80;
const RESERVED = 0x70;
const MASKED = 0x80;
const MAX_HEAD = 14;
/** Pieces of one message: a piece may be empty, so that its bytes alone bound nothing. */
const MAX_PIECES = 65_536;
const POLICY_VIOLATION = 1008;
const MAX_CONTROL = 125;
/** Of a byte of UTF-8 that begins no character. */
const CONTINUES = 0xc0;
const CONTINUATION = 0x80;
/** Smaller messages leave in one write with their head. */
const ONE_WRITE_BYTES = 16_384;
const NOTHING = Buffer.alloc(0);

/**
 * Makes messages of the bytes of one direction, without extensions. Control frames may stand between the pieces of a
 * message. Messages are made one by one, when they are asked for: a chunk of bytes may hold thousands of them.
 */
export class FrameReader {
  readonly #masked: boolean;
  readonly #maxBytes: number;
  /** What has come and was not read yet. */
  #rest: Buffer = NOTHING;
  #at = 0;
  readonly #head = Buffer.alloc(MAX_HEAD);
  #headLength = 0;
  /** Of the frame whose payload is on its way. */
  #opcode = 0;
  #fin = false;
  #left = 0;
  /** Where the mask stands in the head, and how much of the payload it was laid on. */
  #maskStart = 0;
  #maskAt = 0;
  readonly #control = new ByteCollector();
  /** Of the message that is under way; 0 between messages. */
  #messageOpcode = 0;
  readonly #message = new ByteCollector();
  #pieces = 0;

  /** @param masked the other side is a client @param maxBytes of a message */
  constructor(masked: boolean, maxBytes: number) {
    this.#masked = masked;
    this.#maxBytes = maxBytes;
  }

  /** Bytes of an unfinished message that are kept. */
  get held(): number {
    return this.#message.size;
  }

  /** Takes bytes, which may be changed in place. */
  push(chunk: Buffer): void {
    this.#rest = this.#at === this.#rest.length ? chunk : Buffer.concat([this.#rest.subarray(this.#at), chunk]);
    this.#at = 0;
  }

  /**
   * The next message; undefined when more bytes are needed for it.
   * @throws WebSocketFault 1002 for what is no frame, 1009 for a message that is too large, 1008 for one in too many
   * pieces; nothing can be read then
   */
  next(): WebSocketMessage | undefined {
    const { length } = this.#rest;
    while (this.#at < length) {
      if (this.#left === 0 && !this.#readHead()) break;
      const part = this.#rest.subarray(this.#at, this.#at + this.#left);
      this.#at += part.length;
      this.#left -= part.length;
      this.#takePart(part);
      const message = this.#left === 0 ? this.#endFrame() : undefined;
      if (message) return message;
    }
    // What was read must not be kept for what may come.
    this.#rest = NOTHING;
    this.#at = 0;
    return undefined;
  }

  /** @returns false when it is not here to its end */
  #readHead(): boolean {
    while (this.#at < this.#rest.length) {
      this.#head[this.#headLength++] = this.#rest[this.#at++] ?? 0;
      if (this.#headLength !== this.#headSize()) continue;
      this.#beginFrame();
      return true;
    }
    return false;
  }

  #headSize(): number {
    if (this.#headLength < 2) return 2;
    const second = this.#head[1] ?? 0;
    const length = second & 0x7f;
    return 2 + (length === 126 ? 2 : length === 127 ? 8 : 0) + (second & MASKED ? 4 : 0);
  }

  #beginFrame(): void {
    const [first = 0, second = 0] = this.#head;
    this.#opcode = first & 0x0f;
    this.#fin = (first & FIN) !== 0;
    this.#left = this.#payloadLength();
    this.#maskStart = this.#headLength - 4;
    this.#maskAt = 0;
    if (first & RESERVED) throw new WebSocketFault(1002, 'a frame with an extension that was not agreed on');
    if (!KNOWN.has(this.#opcode)) throw new WebSocketFault(1002, 'a frame of an unknown kind');
    if (((second & MASKED) !== 0) !== this.#masked) throw new WebSocketFault(1002, 'a frame that is masked on the wrong side');
    if (this.#opcode >= OPCODE.close) {
      if (!this.#fin || this.#left > MAX_CONTROL) throw new WebSocketFault(1002, 'a control frame that is too large');
      return;
    }
    if ((this.#opcode === OPCODE.continuation) !== this.#messageOpcode > 0)
      throw new WebSocketFault(1002, 'pieces of messages out of order');
    if (++this.#pieces > MAX_PIECES) throw new WebSocketFault(POLICY_VIOLATION, `a message in more than ${MAX_PIECES} pieces`);
    if (this.#message.size + this.#left > this.#maxBytes) throw new WebSocketFault(1009, `a message of more than ${this.#maxBytes} bytes`);
    if (this.#opcode !== OPCODE.continuation) this.#messageOpcode = this.#opcode;
  }

  #payloadLength(): number {
    const length = (this.#head[1] ?? 0) & 0x7f;
    if (length < 126) return length;
    if (length === 126) return this.#head.readUInt16BE(2);
    const long = this.#head.readBigUInt64BE(2);
    return long > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(long);
  }

  #takePart(part: Buffer): void {
    if (this.#masked) {
      const mask = this.#maskStart;
      for (let i = 0; i < part.length; i++) part[i] = (part[i] ?? 0) ^ (this.#head[mask + ((this.#maskAt + i) & 3)] ?? 0);
      this.#maskAt += part.length;
    }
    (this.#opcode >= OPCODE.close ? this.#control : this.#message).push(part);
  }

  #endFrame(): WebSocketMessage | undefined {
    this.#headLength = 0;
    if (this.#opcode >= OPCODE.close) return { opcode: this.#opcode, payload: this.#control.take() };
    if (!this.#fin) return undefined;
    const message = { opcode: this.#messageOpcode, payload: this.#message.take() };
    this.#messageOpcode = 0;
    this.#pieces = 0;
    return message;
  }
}

/**
 * A message or control frame as one frame. `masked`: it goes to a server (RFC 6455 §5.3). The payload is not changed.
 */
export function frameOf(opcode: number, payload: Uint8Array, masked: boolean): readonly Uint8Array[] {
  const head = headOf(opcode, payload.length, masked);
  const body = masked ? maskedCopy(payload, head.subarray(head.length - 4)) : payload;
  return payload.length <= ONE_WRITE_BYTES ? [Buffer.concat([head, body])] : [head, body];
}

function headOf(opcode: number, length: number, masked: boolean): Buffer {
  const extended = length < 126 ? 0 : length < 65_536 ? 2 : 8;
  const head = Buffer.alloc(2 + extended + (masked ? 4 : 0));
  head[0] = FIN | opcode;
  head[1] = (masked ? MASKED : 0) | (extended === 0 ? length : extended === 2 ? 126 : 127);
  if (extended === 2) head.writeUInt16BE(length, 2);
  if (extended === 8) head.writeBigUInt64BE(BigInt(length), 2);
  if (masked) randomBytes(4).copy(head, 2 + extended);
  return head;
}

function maskedCopy(payload: Uint8Array, mask: Uint8Array): Buffer {
  const copy = Buffer.from(payload);
  for (let i = 0; i < copy.length; i++) copy[i] = (copy[i] ?? 0) ^ (mask[i & 3] ?? 0);
  return copy;
}

/** The payload of a close frame (RFC 6455 §5.5.1). */
export function closePayload(code: number, reason: string): Buffer {
  const text = Buffer.from(reason);
  const payload = Buffer.alloc(2 + wholeCharacters(text, MAX_CONTROL - 2));
  payload.writeUInt16BE(code, 0);
  text.copy(payload, 2, 0, payload.length - 2);
  return payload;
}

/** How many of the first bytes of a text are whole characters, at most so many. */
function wholeCharacters(text: Uint8Array, most: number): number {
  let end = Math.min(text.length, most);
  while (end < text.length && ((text[end] ?? 0) & CONTINUES) === CONTINUATION) end--;
  return end;
}
