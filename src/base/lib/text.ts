/**
 * A well-formed text in memory of its own. A piece of another text (a `slice`, a match) keeps the whole of that in
 * memory for as long as it lives, so that a name of twenty characters can hold the 64 KiB of the head that it came
 * with: for what is kept beyond its request.
 */
export function ownText(text: string): string {
  return Buffer.from(text).toString();
}

/** Most characters of a stranger's word that a message, a record or a log line quotes. */
export const MAX_QUOTED = 60;

/** Most characters of one text that a record keeps: paths are the only ones that may be longer before. */
export const MAX_RECORDED = 2_048;

/**
 * The beginning of a text that a stranger chose, `…` behind it when there is more: what goes into a record, a log line,
 * a metric or an answer of ours is short, and well-formed.
 * @param max UTF-16 units
 */
export function shorten(text: string, max = MAX_QUOTED): string {
  return text.length <= max ? text : `${text.slice(0, max).toWellFormed()}…`;
}

/** What a text with percent-escapes spells. @returns undefined where an escape is malformed or no UTF-8 */
export function percentDecoded(text: string): string | undefined {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

declare global {
  // Node has both since 20.0; the compiler's es2023 library does not name them yet.
  interface String {
    isWellFormed(): boolean;
    toWellFormed(): string;
  }
}

/** True when the text holds no lone surrogate, that is when it can be written as UTF-8 without loss (decision 7.6). */
export function isWellFormed(text: string): boolean {
  return text.isWellFormed();
}

/** The text with every lone surrogate replaced by U+FFFD. */
export function toWellFormed(text: string): string {
  return text.toWellFormed();
}

/**
 * A string of many small pieces costs thirty times what it says, and each piece may keep the whole chunk that it was
 * cut from.
 */
const MAX_PIECES = 64;

/** Text that comes in pieces of any size, in memory of its own length. Characters are bytes (Latin-1). */
export class TextPieces {
  #whole = '';
  /** The last pieces, not copied yet. */
  #tail = '';
  #pieces = 0;

  get length(): number {
    return this.#whole.length + this.#tail.length;
  }

  get text(): string {
    return this.#whole + this.#tail;
  }

  push(piece: string): void {
    this.#tail += piece;
    if (++this.#pieces < MAX_PIECES) return;
    this.#whole += Buffer.from(this.#tail, 'latin1').toString('latin1');
    this.#tail = '';
    this.#pieces = 0;
  }

  /** The text; it is empty afterwards. */
  take(): string {
    const text = this.#whole + this.#tail;
    this.#whole = '';
    this.#tail = '';
    this.#pieces = 0;
    return text;
  }
}

/** Where bytes stop to be UTF-8. */
export interface Utf8Fault {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
  /** The text with U+FFFD in the place of what is none, to show the line. */
  readonly text: string;
}

/** What a person is told of a file that is no text. */
export const NOT_UTF8 = { message: 'the file is not UTF-8 text', hint: 'save it as UTF-8' } as const;

const MARK_BYTES = 3;

/** How many bytes the byte order mark takes with which a text in UTF-8 begins: 3, or 0 where there is none. */
export function byteOrderMark(bytes: Uint8Array): number {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? MARK_BYTES : 0;
}

/** The text of bytes, without a byte order mark, or where they are none. */
export function decodeUtf8(bytes: Uint8Array): string | Utf8Fault {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) return faultOf(bytes);
    throw error;
  }
}

function faultOf(bytes: Uint8Array): Utf8Fault {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  const written = new TextEncoder().encode(text);
  const differs = bytes.findIndex((byte, i) => byte !== written[i]);
  const sound = bytes.subarray(0, differs === -1 ? bytes.length : differs);
  const before = new TextDecoder('utf-8', { ignoreBOM: true }).decode(sound).replace(/\ufffd$/, '');
  return { line: before.split('\n').length, column: before.length - before.lastIndexOf('\n'), text };
}

/** A text as it would be read from a file: a byte order mark is no part of it. */
export function withoutByteOrderMark(text: string): string {
  return text.replace(/^\ufeff/, '');
}

/** What stands in the place of a secret wherever it is shown (specification, "Management API": a run of bullets). */
export const MASK = '••••••••••••';

const RUN = /•{3}|(?:%E2%80%A2){3}/i;

/** Whether somebody sends back what he was shown in the place of a secret. */
export function holdsMask(text: string): boolean {
  return RUN.test(text);
}

/**
 * An address as it is shown: many receivers take their secret as a part of the path or the query, so that scheme, host
 * and port are all that is told of it.
 * @returns the URL itself where nothing stands behind its host; '' for what is no URL
 */
export function maskedUrl(url: string): string {
  if (!URL.canParse(url)) return '';
  const { origin, pathname, search, hash } = new URL(url);
  return `${origin}/${pathname === '/' && search === '' && hash === '' ? '' : MASK}`;
}

/** A number as text with so many decimals; for people, and never for money. */
export function withDecimals(value: number, decimals: number): string {
  return value.toFixed(decimals);
}

/** A number with so many significant digits and no others. */
export function significant(value: number, digits: number): number {
  return Number(value.toPrecision(digits));
}
