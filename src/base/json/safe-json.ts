import { GatewayError } from '../lib/gateway-error.ts';
import { shorten } from '../lib/text.ts';
import { endOfString, jsonMembers, nameOf, skipSpace } from './json-members.ts';

/** Most levels of nesting that are parsed (decision 3.20). */
export const MAX_JSON_DEPTH = 64;
/**
 * Most structural tokens, `{ } [ ] , :` outside of strings, that are parsed. Those of arrays of numbers alone do not
 * count (decision 3.20).
 */
export const MAX_JSON_TOKENS = 200_000;

/** Two readers of the same text could see different values. */
export interface JsonDoubt {
  readonly kind: 'duplicate_name' | 'not_finite' | 'integer_too_large';
  /** Dotted path of the member for a duplicate name, else '': a number is named in `message`. */
  readonly path: string;
  readonly message: string;
}

export interface SafeJson {
  readonly value: unknown;
  /** The decoded text without a byte order mark, for editing it in place. */
  readonly text: string;
  /** Structural tokens of the text, without those of arrays of numbers alone. */
  readonly tokens: number;
  /** Numbers that stand in such arrays. */
  readonly numbers: number;
  /** Set when the value is not the only possible reading; the caller decides what that means. */
  readonly doubt: JsonDoubt | undefined;
}

export interface SafeJsonOptions {
  /** Code of the error for what is not UTF-8 or not JSON. */
  readonly malformed?: 'ambiguous_body' | 'invalid_request';
  /**
   * Duplicate names are looked for in the outermost object and along this chain of members: `['action', 'params']` also
   * watches `action` and `action.params`.
   */
  readonly chain?: readonly string[];
  /** Integers beyond 2^53 are a doubt (decision 3.19, structured API). */
  readonly exactIntegers?: boolean;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const LAST_OF_NUMBERS = 0x39;
/** What was measured of the densest values: small objects of many shapes. */
const BYTES_OF_TOKEN = 50;
/** The same of the longest arrays, of whole numbers and others in turn. */
const BYTES_OF_NUMBER = 40;
/**
 * The shortest integer literal that can be beyond 2^53 has 16 digits; the shortest without exponent that is not finite
 * has 309.
 */
const LONG_INTEGER = 16;
const LONG_NUMBER = 309;
const NO_CHAIN: readonly string[] = [];
const NO_OPTIONS: SafeJsonOptions = {};

/** Fatal, and keeps a byte order mark: that one is left out where the text is read, for bytes and texts alike. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const BYTE_ORDER_MARK = 0xfeff;

/**
 * Parses untrusted JSON. The bytes are decoded once; one scan outside of strings bounds depth and tokens before
 * anything is built (decision 3.20: 34 MB of `{},` block the process for seconds) and counts names, so that duplicates,
 * spelled with escapes or not, show as a difference to the parsed object. One byte order mark before it is no part of
 * the text (RFC 8259 §8.1).
 * @throws GatewayError `body_too_deep`, and `options.malformed` (default `ambiguous_body`) for what is not UTF-8 or not
 * JSON
 */
export function parseSafeJson(bytes: Uint8Array, options: SafeJsonOptions = NO_OPTIONS): SafeJson {
  const malformed = options.malformed ?? 'ambiguous_body';
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    // biome-ignore lint/style/useErrorCause: the decoder's error says nothing more
    throw new GatewayError(malformed, 'The body is not valid UTF-8.');
  }
  return parseSafeJsonText(text, options);
}

/** As {@link parseSafeJson}, for text that was decoded already. */
export function parseSafeJsonText(given: string, options: SafeJsonOptions = NO_OPTIONS): SafeJson {
  const text = given.charCodeAt(0) === BYTE_ORDER_MARK ? given.slice(1) : given;
  const chain = options.chain ?? NO_CHAIN;
  const scan = scanJson(text, chain, options.exactIntegers === true);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // biome-ignore lint/style/useErrorCause: the parser's message quotes the body, which must reach no log
    throw new GatewayError(options.malformed ?? 'ambiguous_body', 'The body is not valid JSON.');
  }
  const { tokens, numbers } = scan;
  return { value, text, tokens, numbers, doubt: duplicateName(text, value, scan.names, chain) ?? scan.doubt };
}

/**
 * What text and value take in memory, bytes, rounded up: one object is made for some tokens, and each text that is not
 * all ASCII may have two bytes for each character, once as text and once in its value.
 * @param byteLength of the text as UTF-8
 */
export function sizeInMemory({ text, tokens, numbers }: Pick<SafeJson, 'text' | 'tokens' | 'numbers'>, byteLength: number): number {
  return 2 * (text.length === byteLength ? byteLength : 2 * text.length) + tokens * BYTES_OF_TOKEN + numbers * BYTES_OF_NUMBER;
}

interface Scan {
  readonly tokens: number;
  readonly numbers: number;
  /** Names seen in the outermost object and in each object of the chain. */
  readonly names: readonly number[];
  readonly doubt: JsonDoubt | undefined;
}

/**
 * Never throws but for depth and tokens. What it counts is right for valid JSON; everything else is refused by the
 * parser behind it.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one loop over every character of every body; a call per character would double its cost
function scanJson(text: string, chain: readonly string[], exactIntegers: boolean): Scan {
  const length = text.length;
  const names: number[] = new Array<number>(chain.length + 1).fill(0);
  const suspicious = exactIntegers ? LONG_INTEGER : LONG_NUMBER;
  let depth = 0;
  let tokens = 0;
  let numbers = 0;
  /**
   * Tokens of the innermost open array while it holds nothing but numbers; 0 where that is not so. They count once
   * something else stands in it.
   */
  let pending = 0;
  let numbersHere = 0;
  /** How many objects of the chain are open; the watched object is at depth `open + 1`. */
  let open = 0;
  let nextOpens = false;
  let keyStart = 0;
  let keyEnd = 0;
  let doubt: JsonDoubt | undefined;
  let i = 0;
  while (i < length) {
    const c = text.charCodeAt(i);
    if (c === QUOTE) {
      tokens += pending;
      pending = 0;
      keyStart = i;
      i = endOfString(text, i);
      keyEnd = i;
      continue;
    }
    if (c === COLON) {
      tokens += pending + 1;
      pending = 0;
      if (depth === open + 1) {
        names[open] = (names[open] ?? 0) + 1;
        nextOpens = open < chain.length && nameOf(text, keyStart, keyEnd) === chain[open];
      }
    } else if (c === COMMA) {
      if (pending === 0) tokens++;
      else pending++;
    } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      tokens += pending;
      pending = c === OPEN_BRACKET ? 1 : 0;
      if (pending === 0) tokens++;
      numbersHere = 0;
      if (++depth > MAX_JSON_DEPTH) throw new GatewayError('body_too_deep', `The JSON body nests deeper than ${MAX_JSON_DEPTH} levels.`);
      if (nextOpens) {
        nextOpens = false;
        if (c === OPEN_BRACE && depth === open + 2) open++;
      }
    } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
      if (pending > 0 && numbersHere > 0 && c === CLOSE_BRACKET) numbers += numbersHere;
      else tokens += pending + 1;
      pending = 0;
      depth--;
      if (depth <= open && open > 0) open--;
    } else if (c > LAST_OF_NUMBERS) {
      // A letter of true, false or null.
      tokens += pending;
      pending = 0;
    } else if (isNumberStart(c)) {
      const start = i++;
      numbersHere++;
      let exponent = false;
      for (; i < length; i++) {
        const n = text.charCodeAt(i);
        if (n >= 0x30 && n <= 0x39) continue;
        if (n === 0x65 || n === 0x45) exponent = true;
        else if (n !== 0x2e && n !== 0x2d && n !== 0x2b) break;
      }
      if (exponent || i - start >= suspicious) doubt ??= numberDoubt(text.slice(start, i), exactIntegers);
      continue;
    }
    if (tokens > MAX_JSON_TOKENS) {
      throw new GatewayError('body_too_deep', `The JSON body has more than ${MAX_JSON_TOKENS} structural tokens.`);
    }
    i++;
  }
  return { tokens, numbers, names, doubt };
}

function isNumberStart(c: number): boolean {
  return (c >= 0x30 && c <= 0x39) || c === 0x2d;
}

function numberDoubt(literal: string, exactIntegers: boolean): JsonDoubt | undefined {
  const value = Number(literal);
  const shown = shorten(literal, 40);
  if (value === Infinity || value === -Infinity) {
    return { kind: 'not_finite', path: '', message: `The number ${shown} is not finite.` };
  }
  if (exactIntegers && /^-?\d+$/.test(literal) && !Number.isSafeInteger(value)) {
    return { kind: 'integer_too_large', path: '', message: `The integer ${shown} is beyond 2^53 and would lose digits.` };
  }
  return undefined;
}

/** An object that was built from more names than it has members had a duplicate. */
function duplicateName(text: string, value: unknown, names: readonly number[], chain: readonly string[]): JsonDoubt | undefined {
  let object: unknown = value;
  for (let level = 0; level <= chain.length; level++) {
    if (typeof object !== 'object' || object === null || Array.isArray(object)) return undefined;
    if (Object.keys(object).length !== (names[level] ?? 0)) {
      const prefix = chain.slice(0, level);
      const name = shorten(firstDuplicate(text, prefix));
      const path = [...prefix, name].join('.');
      return { kind: 'duplicate_name', path, message: `The name "${name}" appears twice in one object.` };
    }
    const next = chain[level];
    if (next === undefined) return undefined;
    object = Object.hasOwn(object, next) ? Reflect.get(object, next) : undefined;
  }
  return undefined;
}

/** The first repeated name of the object at `prefix`, only looked for to name it in the error. */
function firstDuplicate(text: string, prefix: readonly string[]): string {
  let open = skipSpace(text, 0);
  for (const name of prefix) {
    for (const member of jsonMembers(text, open)) {
      if (member.name !== name) continue;
      open = member.valueStart;
      break;
    }
  }
  const seen = new Set<string | undefined>();
  for (const { name } of jsonMembers(text, open)) {
    if (seen.has(name)) return name ?? '';
    seen.add(name);
  }
  return '';
}
