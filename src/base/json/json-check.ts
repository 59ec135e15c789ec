/** Programs that read what we pass on go no deeper (Python's parser stops at 1,000 levels). */
const MAX_DEPTH = 512;

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const LITERALS: ReadonlyMap<number, Uint8Array> = new Map(['true', 'false', 'null'].map((word) => [word.charCodeAt(0), Buffer.from(word)]));
const ESCAPED: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));
const UNICODE = 0x75;

type Wanted = 'value' | 'value or end' | 'name' | 'name or end' | 'colon' | 'comma or end' | 'nothing';

/** Where what was read ends when it is none. */
const FAULT = -1;

/**
 * Whether UTF-8 bytes are a JSON text (RFC 8259) of at most 512 levels, without building it: 32 MiB of `{},` take
 * `JSON.parse` seven seconds and a gigabyte. Linear time, no memory.
 */
export function isJson(bytes: Uint8Array): boolean {
  return new Check(bytes).run();
}

class Check {
  readonly #bytes: Uint8Array;
  /** What opened each level. */
  readonly #open = new Uint8Array(MAX_DEPTH);
  #depth = 0;
  #at = 0;
  #wanted: Wanted = 'value';

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  run(): boolean {
    for (this.#at = endOfSpace(this.#bytes, 0); this.#at < this.#bytes.length; this.#at = endOfSpace(this.#bytes, this.#at)) {
      if (!this.#step(this.#bytes[this.#at] ?? 0)) return false;
    }
    return this.#wanted === 'nothing';
  }

  #step(byte: number): boolean {
    const opened = this.#open[this.#depth - 1];
    if (isEnd(byte, this.#wanted, opened)) {
      this.#depth--;
      return this.#go(this.#at + 1, this.#depth === 0 ? 'nothing' : 'comma or end');
    }
    switch (this.#wanted) {
      case 'comma or end':
        return byte === COMMA && this.#go(this.#at + 1, opened === OPEN_BRACKET ? 'value' : 'name');
      case 'colon':
        return byte === COLON && this.#go(this.#at + 1, 'value');
      case 'name':
      case 'name or end':
        return byte === QUOTE && this.#go(endOfString(this.#bytes, this.#at + 1), 'colon');
      case 'nothing':
        return false;
      default:
        return this.#value(byte);
    }
  }

  #value(byte: number): boolean {
    if (byte !== OPEN_BRACKET && byte !== OPEN_BRACE)
      return this.#go(endOfScalar(this.#bytes, this.#at), this.#depth === 0 ? 'nothing' : 'comma or end');
    if (this.#depth === MAX_DEPTH) return false;
    this.#open[this.#depth++] = byte;
    return this.#go(this.#at + 1, byte === OPEN_BRACKET ? 'value or end' : 'name or end');
  }

  #go(at: number, wanted: Wanted): boolean {
    this.#at = at;
    this.#wanted = wanted;
    return at !== FAULT;
  }
}

function isEnd(byte: number, wanted: Wanted, opened: number | undefined): boolean {
  if (opened === OPEN_BRACKET) return byte === CLOSE_BRACKET && (wanted === 'comma or end' || wanted === 'value or end');
  return opened === OPEN_BRACE && byte === CLOSE_BRACE && (wanted === 'comma or end' || wanted === 'name or end');
}

function endOfSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  for (; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
  }
  return at;
}

function endOfScalar(bytes: Uint8Array, at: number): number {
  const byte = bytes[at] ?? 0;
  if (byte === QUOTE) return endOfString(bytes, at + 1);
  const word = LITERALS.get(byte);
  if (word === undefined) return endOfNumber(bytes, at);
  return word.every((letter, i) => bytes[at + i] === letter) ? at + word.length : FAULT;
}

/** Behind the closing quote of the string whose first character stands at `from`. */
function endOfString(bytes: Uint8Array, from: number): number {
  for (let at = from; at < bytes.length && at !== FAULT; ) {
    const byte = bytes[at++] ?? 0;
    if (byte === QUOTE) return at;
    if (byte < 0x20) return FAULT;
    if (byte === BACKSLASH) at = endOfEscape(bytes, at);
  }
  return FAULT;
}

function endOfEscape(bytes: Uint8Array, at: number): number {
  const escaped = bytes[at] ?? 0;
  if (escaped !== UNICODE) return ESCAPED.has(escaped) ? at + 1 : FAULT;
  for (let digit = at + 1; digit <= at + 4; digit++) if (!isHex(bytes[digit] ?? 0)) return FAULT;
  return at + 5;
}

function endOfNumber(bytes: Uint8Array, from: number): number {
  let at = bytes[from] === MINUS ? from + 1 : from;
  at = bytes[at] === ZERO ? at + 1 : endOfDigits(bytes, at);
  if (at !== FAULT && bytes[at] === POINT) at = endOfDigits(bytes, at + 1);
  if (at !== FAULT && ((bytes[at] ?? 0) | 0x20) === 0x65) {
    const sign = bytes[at + 1];
    at = endOfDigits(bytes, sign === 0x2b || sign === MINUS ? at + 2 : at + 1);
  }
  return at;
}

/** At least one. */
function endOfDigits(bytes: Uint8Array, from: number): number {
  let at = from;
  while (isDigit(bytes[at] ?? 0)) at++;
  return at === from ? FAULT : at;
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= 0x39;
}

function isHex(byte: number): boolean {
  return isDigit(byte) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}
