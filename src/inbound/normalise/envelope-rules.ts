import { type ErrorDetail, MAX_DETAILS } from '../../base/lib/gateway-error.ts';
import { toWellFormed } from '../../base/lib/text.ts';

/** Most characters of an id and of every other text of the envelope (decision 4.7). */
export const MAX_ID = 128;
export const MAX_TEXT = 256;
export const MAX_LABELS = 32;

const ID = /^[\x21-\x7e]{1,128}$/;
const ASCII = /^[\x00-\x7f]*$/;
const LATIN1 = /^[\x00-\xff]*$/;
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;

/** 1 to 128 visible ASCII characters (decision 4.7). */
export function isId(text: string): boolean {
  return ID.test(text);
}

export const ID_RULE = `must be 1 to ${MAX_ID} visible ASCII characters`;
export const TEXT_RULE = `must be at most ${MAX_TEXT} characters`;
/** What is recorded, and shown to others, is no place for one (decision 3.21). */
export const OWN_TOKEN_RULE = 'must not hold a key or token of this gateway';

/**
 * A method that may be an action's, in upper case; undefined for what is no token, and for TRACE and CONNECT (decision
 * 3.21).
 */
export function actionMethod(text: string): string | undefined {
  if (!METHOD.test(text)) return undefined;
  const upper = text.toUpperCase();
  return upper === 'TRACE' || upper === 'CONNECT' ? undefined : upper;
}

export function isHeaderName(name: string): boolean {
  return name.length <= MAX_TEXT && TOKEN.test(name);
}

/** Printable bytes and tab only, as RFC 9110 §5.5 has it; a character is one byte. */
export function isHeaderValue(value: string): boolean {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Text of a header field. Node hands header bytes over as one character each; where the bytes are valid UTF-8 they are
 * read as such. What is not well formed is replaced, since it could not be hashed (decision 7.6).
 */
export function headerText(value: string): string {
  if (ASCII.test(value)) return value;
  if (!LATIN1.test(value)) return toWellFormed(value);
  try {
    return utf8.decode(Uint8Array.from(value, (character) => character.charCodeAt(0)));
  } catch {
    return value;
  }
}

/** Collects what is wrong with a request, so that all of it is named at once (decision 8.1). */
export class EnvelopeProblems {
  readonly #details: ErrorDetail[] = [];

  add(path: string, message: string): void {
    // As many as an error says, which shortens them too.
    if (this.#details.length < MAX_DETAILS) this.#details.push({ path, message });
  }

  get found(): boolean {
    return this.#details.length > 0;
  }

  get details(): readonly ErrorDetail[] {
    return this.#details;
  }
}

/** An object with one member, or with none when the value is absent, for spreading into another. */
export function member<K extends string, V>(key: K, value: V | undefined): { readonly [P in K]?: V } {
  const result: { [P in K]?: V } = {};
  if (value !== undefined) result[key] = value;
  return result;
}
