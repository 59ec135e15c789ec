const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** Where a value stands in a JSON text. */
export interface ValueRange {
  readonly valueStart: number;
  /** Behind the value. */
  readonly end: number;
}

/** Where a member of an object stands in a JSON text. */
export interface MemberRange extends ValueRange {
  /** Unescaped. */
  readonly name: string | undefined;
  /** Start of the name. */
  readonly start: number;
  /** Behind the comma that follows, or at the closing brace. */
  readonly next: number;
}

/**
 * The members of the object that opens at `open`, in order, repeated names included. The text must be valid JSON; other
 * text ends early, it never throws.
 */
export function* jsonMembers(text: string, open: number): Generator<MemberRange> {
  let at = skipSpace(text, open + 1);
  while (text.charCodeAt(at) === QUOTE) {
    const start = at;
    const nameEnd = endOfString(text, at);
    at = skipSpace(text, nameEnd);
    if (text.charCodeAt(at) !== COLON) return;
    const valueStart = skipSpace(text, at + 1);
    const end = endOfValue(text, valueStart);
    at = skipSpace(text, end);
    const next = text.charCodeAt(at) === COMMA ? at + 1 : at;
    yield { name: nameOf(text, start, nameEnd), start, valueStart, end, next };
    at = skipSpace(text, next);
  }
}

/** The elements of the list that opens at `open`; for what text, see {@link jsonMembers}. */
export function* jsonElements(text: string, open: number): Generator<ValueRange> {
  let at = skipSpace(text, open + 1);
  while (at < text.length && text.charCodeAt(at) !== CLOSE_BRACKET) {
    const end = endOfValue(text, at);
    yield { valueStart: at, end };
    at = skipSpace(text, end);
    if (text.charCodeAt(at) !== COMMA) return;
    at = skipSpace(text, at + 1);
  }
}

/** First position from `from` on that is no JSON white space. */
export function skipSpace(text: string, from: number): number {
  let at = from;
  for (; at < text.length; at++) {
    const c = text.charCodeAt(at);
    if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) break;
  }
  return at;
}

/** Position behind the closing quote of the string that opens at `start`; the end of the text when it never closes. */
export function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end !== -1) {
    let slashes = end - 1;
    while (text.charCodeAt(slashes) === BACKSLASH && slashes > start) slashes--;
    if ((end - slashes) % 2 === 1) return end + 1;
    end = text.indexOf('"', end + 1);
  }
  return text.length;
}

/** A name between its quotes, unescaped; undefined when its escapes are broken (the parser then refuses the text). */
export function nameOf(text: string, start: number, end: number): string | undefined {
  const raw = text.slice(start + 1, end - 1);
  if (!raw.includes('\\')) return raw;
  try {
    const value: unknown = JSON.parse(text.slice(start, end));
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return endOfString(text, start);
  return isOpening(first) ? endOfContainer(text, start) : endOfLiteral(text, start);
}

function endOfContainer(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; ) {
    const c = text.charCodeAt(at);
    if (c === QUOTE) {
      at = endOfString(text, at);
      continue;
    }
    at++;
    if (isOpening(c)) depth++;
    else if (isClosing(c) && --depth === 0) return at;
  }
  return text.length;
}

function endOfLiteral(text: string, start: number): number {
  let at = start;
  for (; at < text.length; at++) {
    const c = text.charCodeAt(at);
    if (c === COMMA || c <= 0x20 || isClosing(c)) break;
  }
  return at;
}

function isOpening(c: number): boolean {
  return c === OPEN_BRACE || c === OPEN_BRACKET;
}

function isClosing(c: number): boolean {
  return c === CLOSE_BRACE || c === CLOSE_BRACKET;
}
