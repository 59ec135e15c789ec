/*
 * Reads HTTP/1.1 answers (RFC 9112) byte for byte as they come, in one pass, whatever the pieces. What two readers
 * could take differently is a fault and never guessed at: bare CR or LF, folded lines, control characters, whitespace
 * before a colon, lengths that contradict each other, codings other than chunked.
 */
import { MAX_HEADER_BYTES } from './lane.ts';
import { type AnswerFraming, framingOfAnswer, IDLE_PER_CHUNK, idleBytes, MAX_IDLE_BYTES } from './response-framing.ts';
import { MAX_INTERIM } from './upstream-error.ts';

const MAX_FIELDS = 1_000;
/** Of a chunk's size with its extensions. */
const MAX_CHUNK_LINE = 4_096;
/** Of the size of a chunk that is taken at once: none that is whole in one read has more. */
const MAX_QUICK_DIGITS = 7;

export const HEAD_TOO_LARGE = 'head too large';
const NO_LINE_END = 'a line or chunk does not end in CR LF';

/** What each byte of a status line is at least, and how much more it may be, up to the reason. */
const LEAST = Buffer.from('HTTP/1.0 000');
const SPAN = Buffer.from('HTTP/1.1 999').map((most, at) => most - (LEAST[at] ?? 0));
const MINOR_AT = 7;

// Where the parser stands. The first ones are inside a head or trailers, whose bytes are kept until it is whole.
const STATUS_LINE = 0;
const REASON = 1;
const LINE_END = 2;
const FIELD = 3;
const NAME = 4;
const BLANK = 5;
const VALUE = 6;
const HEAD_END = 7;
const BODY_LENGTH = 8;
const BODY_CLOSE = 9;
const CHUNK_SIZE = 10;
const CHUNK_EXTENSION = 11;
const CHUNK_LINE_END = 12;
const CHUNK_DATA = 13;
const CHUNK_DATA_CR = 14;
const CHUNK_DATA_LF = 15;
const ENDED = 16;
const STOPPED = 17;

const NOTHING = Buffer.alloc(0);
const NO_FIELDS: readonly string[] = [];

/** One connection's answers, one after the other. */
export class ResponseParser {
  /** Why the bytes are no HTTP/1.1 answer. */
  fault: string | undefined;
  /** True when bytes came that belong to no answer. Known before `onEnd`. */
  hasExcess = false;
  /** The framing of the answer whose head came last. */
  framing: AnswerFraming | undefined;
  readonly #sink: ResponseSink;
  #state = ENDED;
  /** The head so far where it comes in pieces. */
  #held: Buffer = NOTHING;
  /** Where the head begins in the bytes that are looked at; so are all positions. */
  #start = 0;
  /** Begin and end of each name and value. */
  readonly #fields: number[] = [];
  #valueEnd = 0;
  #count = 0;
  #status = 0;
  #minor = 0;
  #interims = 0;
  #isHead = false;
  #inTrailers = false;
  /** Bytes that are left of the body or of the chunk. */
  #left = 0;
  #idleBytes = 0;
  #bodyStart = 0;
  #bodyEnd = 0;
  #trailers = NO_FIELDS;
  #endWaits = false;

  constructor(sink: ResponseSink) {
    this.#sink = sink;
  }

  /** True from the last byte of an answer on, also while its end is put off. */
  get isOver(): boolean {
    return this.#state === ENDED;
  }

  /** The next bytes are the answer to a request. @param isHead the request was HEAD, whose answer has no body */
  begin(isHead: boolean): void {
    this.#state = STATUS_LINE;
    this.#isHead = isHead;
    this.#count = 0;
    this.#status = 0;
    this.#interims = 0;
    this.framing = undefined;
    this.#trailers = NO_FIELDS;
  }

  /** Nothing more is told, whatever comes. */
  stop(): void {
    this.#state = STOPPED;
    this.#held = NOTHING;
    this.#endWaits = false;
  }

  /** Tells the end of an answer that `onBody` put off. */
  resume(): void {
    if (!this.#endWaits) return;
    this.#endWaits = false;
    this.#sink.onEnd(this.#trailers);
  }

  /** The connection has ended. @returns true when that is the end of the answer */
  finish(): boolean {
    if (this.#state !== BODY_CLOSE) return false;
    this.#state = ENDED;
    this.#sink.onEnd(NO_FIELDS);
    return true;
  }

  /**
   * Takes the next bytes of the connection. They are the parser's from now on: pieces of a body are moved together in
   * them.
   */
  execute(chunk: Buffer): void {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    let at = this.#held.length;
    this.#held = NOTHING;
    if (at === 0) this.#start = 0;
    this.#bodyStart = 0;
    this.#bodyEnd = 0;
    at = this.#run(bytes, at);
    if (this.#state < BODY_LENGTH) this.#hold(bytes);
    else if (this.#state !== STOPPED) this.#deliver(bytes, at);
  }

  #deliver(bytes: Buffer, at: number): void {
    const isOver = this.#state === ENDED;
    if (at < bytes.length) this.hasExcess = true;
    const goesOn = this.#bodyEnd === this.#bodyStart || this.#sink.onBody(bytes.subarray(this.#bodyStart, this.#bodyEnd));
    // A sink may have stopped the parser meanwhile.
    if (!isOver || this.#state !== ENDED) return;
    if (goesOn) this.#sink.onEnd(this.#trailers);
    else this.#endWaits = true;
  }

  /** Keeps the head that is not whole. */
  #hold(bytes: Buffer): void {
    const start = this.#start;
    if (bytes.length - start > MAX_HEADER_BYTES) {
      this.#fail(HEAD_TOO_LARGE);
      return;
    }
    this.#held = bytes.subarray(start);
    this.#start = 0;
    this.#valueEnd -= start;
    for (let i = 0; i < this.#fields.length; i++) this.#fields[i] = (this.#fields[i] ?? 0) - start;
    if (this.#bodyEnd > this.#bodyStart) this.#sink.onBody(bytes.subarray(this.#bodyStart, this.#bodyEnd));
  }

  /** @returns where the bytes are no longer an answer's, or end */
  #run(bytes: Buffer, from: number): number {
    let at = from;
    while (at < bytes.length && this.#state < ENDED) {
      switch (this.#state) {
        case STATUS_LINE:
          at = this.#statusLine(bytes, at);
          break;
        case REASON:
        case LINE_END:
        case FIELD:
        case NAME:
        case BLANK:
        case VALUE:
          at = this.#lines(bytes, at);
          break;
        case HEAD_END:
          at = this.#headEnd(bytes, at);
          break;
        case CHUNK_SIZE:
          if (this.#count === 0) at = this.#wholeChunks(bytes, at);
          if (at < bytes.length) at = this.#chunkSize(bytes, at);
          break;
        case CHUNK_EXTENSION:
          at = this.#chunkExtension(bytes, at);
          break;
        case CHUNK_LINE_END:
          at = this.#chunkLineEnd(bytes, at);
          break;
        case CHUNK_DATA_CR:
        case CHUNK_DATA_LF:
          at = this.#chunkEnd(bytes, at);
          break;
        default:
          at = this.#body(bytes, at);
      }
    }
    return at;
  }

  #fail(reason: string): number {
    this.stop();
    this.fault = reason;
    return 0;
  }

  #statusLine(bytes: Buffer, from: number): number {
    let at = from;
    for (; at < bytes.length && this.#count < LEAST.length; at++) {
      const index = this.#count++;
      const digit = (bytes[at] ?? 0) - (LEAST[index] ?? 0);
      // One that is below zero is beyond every span, as an unsigned number.
      if (digit >>> 0 > (SPAN[index] ?? 0)) return this.#fail('no status line');
      if (index === MINOR_AT) this.#minor = digit;
      else this.#status = this.#status * 10 + digit;
    }
    if (at === bytes.length) return at;
    if (this.#status < 100) return this.#fail('a status below 100');
    const next = bytes[at];
    if (next === CR) this.#state = LINE_END;
    else if (next === SP) this.#state = REASON;
    else return this.#fail('no status line');
    return at + 1;
  }

  /**
   * Lines of a head or of trailers behind the status: begin and end of each name and value are noted.
   * @returns where they end, or the bytes do
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one loop over every byte of every head; a call for each name and value would double its cost
  #lines(bytes: Buffer, from: number): number {
    const fields = this.#fields;
    const { length } = bytes;
    let at = from;
    while (at < length) {
      const byte = bytes[at] ?? 0;
      switch (this.#state) {
        case FIELD:
          if (byte === CR) {
            this.#state = HEAD_END;
            return at + 1;
          }
          if ((KIND[byte] ?? 0) <= TEXT) return this.#fail('a line that is no field, or one that is folded');
          if (fields.length >= 4 * MAX_FIELDS) return this.#fail(HEAD_TOO_LARGE);
          fields.push(at);
          this.#state = NAME;
          break;
        case NAME:
          while (at < length && (KIND[bytes[at] ?? 0] ?? 0) > TEXT) at++;
          if (at === length) return at;
          if (bytes[at] !== COLON) return this.#fail('a field name with another character than a token has');
          fields.push(at++);
          this.#state = BLANK;
          break;
        case BLANK:
          while (at < length && (bytes[at] === SP || bytes[at] === HT)) at++;
          if (at === length) return at;
          fields.push(at);
          this.#valueEnd = at;
          this.#state = VALUE;
          break;
        case LINE_END:
          if (byte !== LF) return this.#fail(NO_LINE_END);
          this.#state = FIELD;
          at++;
          break;
        default: {
          // A value, or the reason of the status.
          const start = at;
          while (at < length && (KIND[bytes[at] ?? 0] ?? 0) >= TEXT) at++;
          const isValue = this.#state === VALUE;
          let end = at;
          while (end > start && (bytes[end - 1] === SP || bytes[end - 1] === HT)) end--;
          if (end > start) this.#valueEnd = end;
          if (at === length) return at;
          if (bytes[at] !== CR) return this.#fail(isValue ? 'a control character in a field' : 'a control character in the status line');
          if (isValue) fields.push(this.#valueEnd);
          this.#state = LINE_END;
          at++;
        }
      }
    }
    return at;
  }

  #headEnd(bytes: Buffer, at: number): number {
    if (bytes[at] !== LF) return this.#fail('a bare CR');
    if (at - this.#start > MAX_HEADER_BYTES) return this.#fail(HEAD_TOO_LARGE);
    const fields = textsAt(bytes, this.#fields);
    this.#fields.length = 0;
    if (this.#inTrailers) this.#endTrailers(fields);
    else this.#endHead(fields);
    this.#start = at + 1;
    return at + 1;
  }

  #endTrailers(fields: readonly string[]): void {
    this.#inTrailers = false;
    this.#trailers = fields;
    this.#state = ENDED;
  }

  #endHead(fields: readonly string[]): void {
    const status = this.#status;
    if (status < 200) {
      this.#endInterim(status, fields);
      return;
    }
    const framing = framingOfAnswer(fields, status, this.#minor, this.#isHead);
    if (typeof framing === 'string') {
      this.#fail(framing);
      return;
    }
    this.framing = framing;
    this.#left = framing.length;
    this.#idleBytes = 0;
    if (framing.kind === 'length') this.#state = framing.length === 0 ? ENDED : BODY_LENGTH;
    else this.#state = framing.kind === 'chunked' ? CHUNK_SIZE : BODY_CLOSE;
    this.#count = 0;
    this.#sink.onHead(status, fields);
  }

  #endInterim(status: number, fields: readonly string[]): void {
    if (++this.#interims > MAX_INTERIM) {
      this.#fail('interim answers without an end');
      return;
    }
    this.#state = STATUS_LINE;
    this.#count = 0;
    this.#status = 0;
    this.#sink.onInterim(status, fields);
  }

  /** Adds bytes to the body of this turn, beside those that are there already. */
  #take(bytes: Buffer, at: number, end: number): number {
    if (this.#bodyEnd === this.#bodyStart) {
      this.#bodyStart = at;
      this.#bodyEnd = end;
    } else {
      bytes.copyWithin(this.#bodyEnd, at, end);
      this.#bodyEnd += end - at;
    }
    return end;
  }

  #body(bytes: Buffer, at: number): number {
    if (this.#state === BODY_CLOSE) return this.#take(bytes, at, bytes.length);
    const end = Math.min(bytes.length, at + this.#left);
    this.#left -= end - at;
    if (this.#left === 0) this.#state = this.#state === BODY_LENGTH ? ENDED : CHUNK_DATA_CR;
    return this.#take(bytes, at, end);
  }

  /** Behind the data of a chunk. */
  #chunkEnd(bytes: Buffer, from: number): number {
    let at = from;
    if (this.#state === CHUNK_DATA_CR) {
      if (bytes[at++] !== CR) return this.#fail(NO_LINE_END);
      this.#state = CHUNK_DATA_LF;
      if (at === bytes.length) return at;
    }
    if (bytes[at] !== LF) return this.#fail(NO_LINE_END);
    this.#state = CHUNK_SIZE;
    this.#count = 0;
    return at + 1;
  }

  /** Chunks that are here to their end and have no extension, as nearly all are. @returns where the next one begins */
  #wholeChunks(bytes: Buffer, from: number): number {
    for (let start = from; ; ) {
      let at = start;
      let size = 0;
      for (let digit = HEX[bytes[at] ?? 0] ?? 255; digit !== 255 && at - start < MAX_QUICK_DIGITS; digit = HEX[bytes[at] ?? 0] ?? 255) {
        size = size * 16 + digit;
        at++;
      }
      const data = at + 2;
      const end = data + size;
      if (size === 0 || bytes[at] !== CR || bytes[at + 1] !== LF || bytes[end] !== CR || bytes[end + 1] !== LF) return start;
      this.#idleBytes = Math.max(0, this.#idleBytes + at - start - IDLE_PER_CHUNK - 2 * size);
      if (this.#bodyEnd === this.#bodyStart) {
        this.#bodyStart = data;
        this.#bodyEnd = end;
      } else {
        bytes.copyWithin(this.#bodyEnd, data, end);
        this.#bodyEnd += size;
      }
      start = end + 2;
    }
  }

  #chunkSize(bytes: Buffer, from: number): number {
    let at = from;
    if (this.#count === 0) this.#left = 0;
    for (; at < bytes.length; at++, this.#count++) {
      const digit = HEX[bytes[at] ?? 0] ?? 255;
      if (digit === 255) break;
      this.#left = this.#left * 16 + digit;
      if (this.#left > Number.MAX_SAFE_INTEGER || this.#count > MAX_CHUNK_LINE) return this.#fail('a chunk size without an end');
    }
    if (at === bytes.length) return at;
    const byte = bytes[at];
    if (this.#count === 0 || (byte !== CR && byte !== SEMICOLON)) return this.#fail('a chunk size that is no hexadecimal number');
    this.#state = byte === CR ? CHUNK_LINE_END : CHUNK_EXTENSION;
    return at + 1;
  }

  #chunkExtension(bytes: Buffer, from: number): number {
    const at = endOfText(bytes, from);
    this.#count += at - from;
    if (this.#count > MAX_CHUNK_LINE) return this.#fail('a chunk extension without an end');
    if (at === bytes.length) return at;
    if (bytes[at] !== CR) return this.#fail('a control character in a chunk extension');
    this.#state = CHUNK_LINE_END;
    return at + 1;
  }

  #chunkLineEnd(bytes: Buffer, at: number): number {
    this.#idleBytes = idleBytes(this.#idleBytes, this.#count, this.#left);
    if (this.#idleBytes > MAX_IDLE_BYTES) return this.#fail('chunks that are extensions and no data');
    if (bytes[at] !== LF) return this.#fail(NO_LINE_END);
    this.#state = this.#left > 0 ? CHUNK_DATA : FIELD;
    if (this.#left > 0) return at + 1;
    this.#inTrailers = true;
    this.#start = at + 1;
    return at + 1;
  }
}

/** What an answer is told to. Nothing follows a fault or {@link ResponseParser.stop}. */
export interface ResponseSink {
  /** A 1xx. */
  onInterim(status: number, rawHeaders: readonly string[]): void;
  /** `rawHeaders`: flat name, value list in order and spelling, bytes as Latin-1. */
  onHead(status: number, rawHeaders: readonly string[]): void;
  /** All of the body that one `execute` found, in one piece. False puts off the end of the answer until `resume`. */
  onBody(bytes: Uint8Array): boolean;
  onEnd(trailers: readonly string[]): void;
}

// Bytes of HTTP/1.1 (RFC 9110 §5.5, §5.6.2; RFC 9112) and runs of them.
export const HT = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SP = 0x20;
export const COLON = 0x3a;
export const SEMICOLON = 0x3b;

const TOKEN = 1;
export const TEXT = 2;
/** RFC 9110 §5.6.2 `tchar`, and the bytes of a field value or reason phrase (§5.5): HTAB, SP, VCHAR, obs-text. */
export const KIND = new Uint8Array(256);
for (let byte = SP; byte < 256; byte++) KIND[byte] = byte === 0x7f ? 0 : TEXT;
KIND[HT] = TEXT;
for (const char of "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") KIND[char.charCodeAt(0)] = TOKEN | TEXT;

/** Value of a hexadecimal digit; 255 for any other byte. */
export const HEX = new Uint8Array(256).fill(255);
for (let digit = 0; digit < 16; digit++) {
  HEX[digit.toString(16).charCodeAt(0)] = digit;
  HEX[digit.toString(16).toUpperCase().charCodeAt(0)] = digit;
}

/** Where the run of HTAB, SP, VCHAR and obs-text ends. */
function endOfText(bytes: Uint8Array, from: number): number {
  let at = from;
  while (at < bytes.length && (KIND[bytes[at] ?? 0] ?? 0) >= TEXT) at++;
  return at;
}

/**
 * The texts, as Latin-1, that begin and end at these positions, which ascend: all of them are cut out of one string.
 */
function textsAt(bytes: Buffer, positions: readonly number[]): string[] {
  const texts: string[] = [];
  const first = positions[0] ?? 0;
  const text = bytes.toString('latin1', first, positions[positions.length - 1] ?? 0);
  for (let i = 0; i + 1 < positions.length; i += 2) texts.push(text.slice((positions[i] ?? 0) - first, (positions[i + 1] ?? 0) - first));
  return texts;
}
