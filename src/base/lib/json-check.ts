/** Programs that read what we pass on go no deeper (Python's parser stops at 1,000 levels). */
const MAX_DEPTH = 512;

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const LIST = 0x5b;
const LIST_END = 0x5d;
const OBJECT = 0x7b;
const OBJECT_END = 0x7d;
const LITERALS: ReadonlyMap<number, Uint8Array> = new Map(['true', 'false', 'null'].map((word) => [word.charCodeAt(0), Buffer.from(word)]));
const ESCAPED: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));
const UNICODE = 0x75;

type Wanted = 'value' | 'value or end' | 'name' | 'name or end' | 'colon' | 'comma or end' | 'nothing';

/**
 * Whether UTF-8 bytes are a JSON text (RFC 8259) of at most 512 levels, without building it: 32 MiB of `{},` take `JSON.parse` seven seconds and a gigabyte. Linear time,
 * no memory.
 */
export function isJson(bytes: Uint8Array): boolean {
  const open = new Uint8Array(MAX_DEPTH);
  let depth = 0;
  let wanted: Wanted = 'value';
  for (let at = endOfSpace(bytes, 0); at < bytes.length; at = endOfSpace(bytes, at)) {
    const byte = bytes[at] ?? 0;
    if (isEnd(byte, wanted, open[depth - 1])) {
      depth--;
      at++;
      wanted = depth === 0 ? 'nothing' : 'comma or end';
    } else if (wanted === 'comma or end' && byte === COMMA) {
      at++;
      wanted = open[depth - 1] === LIST ? 'value' : 'name';
    } else if (wanted === 'colon' && byte === COLON) {
      at++;
      wanted = 'value';
    } else if ((wanted === 'name' || wanted === 'name or end') && byte === QUOTE) {
      at = endOfString(bytes, at + 1);
      wanted = 'colon';
    } else if (wanted !== 'value' && wanted !== 'value or end') {
      return false;
    } else if (byte === LIST || byte === OBJECT) {
      if (depth === MAX_DEPTH) return false;
      open[depth++] = byte;
      at++;
      wanted = byte === LIST ? 'value or end' : 'name or end';
    } else {
      at = endOfScalar(bytes, at);
      wanted = depth === 0 ? 'nothing' : 'comma or end';
    }
    if (at === FAULT) return false;
  }
  return wanted === 'nothing';
}

const FAULT = -1;

function isEnd(byte: number, wanted: Wanted, opened: number | undefined): boolean {
  if (opened === LIST) return byte === LIST_END && (wanted === 'comma or end' || wanted === 'value or end');
  return opened === OBJECT && byte === OBJECT_END && (wanted === 'comma or end' || wanted === 'name or end');
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
  let at = from;
  while (at < bytes.length) {
    const byte = bytes[at++] ?? 0;
    if (byte === QUOTE) return at;
    if (byte < 0x20) return FAULT;
    if (byte !== BACKSLASH) continue;
    const escaped = bytes[at++] ?? 0;
    if (escaped === UNICODE) {
      for (const end = at + 4; at < end; at++) if (!isHex(bytes[at] ?? 0)) return FAULT;
    } else if (!ESCAPED.has(escaped)) return FAULT;
  }
  return FAULT;
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
