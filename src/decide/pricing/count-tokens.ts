import type { PictureRule } from '../../base/catalogue/call-places.ts';
import { memberOf, wholeNumber } from '../../base/catalogue/holders.ts';
import type { JsonObject } from '../../base/json/json-object.ts';

/** Weights are in parts of a token. */
const PARTS = 64;
/** Up to this many UTF-16 units a text is looked at whole, of a longer one blocks that are spread evenly over it. */
const WHOLE = 4096;
const BLOCK = 512;
/** At least one unit of so many is looked at, whatever the length. */
const SPREAD = 16;

const LOWER = 0;
const UPPER = 1;
const DIGIT = 2;
const SPACE = 3;
const PUNCT = 4;
const LATIN = 5;
const GREEK_CYRILLIC = 6;
const ALPHABET = 7;
const SYMBOL = 8;
const IDEOGRAPH = 9;
const SURROGATE = 10;
const CLASSES = 11;

const CLASS_OF = Uint8Array.from({ length: 0x1_00_00 }, (_, unit) => classOf(unit));

function classOf(unit: number): number {
  if (unit < 0x80) return asciiClass(unit);
  if (unit < 0x370) return LATIN;
  if (unit < 0x590) return GREEK_CYRILLIC;
  if (unit < 0x2000) return ALPHABET;
  if (unit < 0x2e80) return SYMBOL;
  return unit >= 0xd800 && unit < 0xe000 ? SURROGATE : IDEOGRAPH;
}

function asciiClass(unit: number): number {
  if (unit >= 0x61 && unit <= 0x7a) return LOWER;
  if (unit >= 0x41 && unit <= 0x5a) return UPPER;
  if (unit >= 0x30 && unit <= 0x39) return DIGIT;
  return unit === 0x20 ? SPACE : PUNCT;
}

/**
 * What a character costs behind another one of its own class, behind a letter, and behind anything else. Fitted to
 * OpenAI's o200k_base on texts of many kinds, rather too much than too little: a word is about one token, long ones
 * more; three digits are one; letters and digits in any mix are dear.
 */
const WEIGHTS: readonly (readonly [same: number, afterLetter: number, other: number])[] = [
  [5, 16, 46],
  [44, 64, 50],
  [22, 60, 60],
  [6, 0, 0],
  [24, 52, 52],
  [44, 44, 52],
  [17, 32, 32],
  [24, 40, 40],
  [64, 64, 64],
  [54, 54, 54],
  [54, 54, 54],
];
/** Behind these a letter is less, or more, than behind a space. */
const EXCEPTIONS: readonly (readonly [before: number, unit: number, weight: number])[] = [
  [PUNCT, LOWER, 28],
  [LATIN, LOWER, 5],
  [DIGIT, LOWER, 64],
  [PUNCT, UPPER, 44],
  [DIGIT, UPPER, 64],
];

/** By class before × 16 + class. */
const WEIGHT_OF = new Uint8Array(CLASSES * 16);
for (const [unit, [same, afterLetter, other]] of WEIGHTS.entries()) {
  for (let before = 0; before < CLASSES; before++) {
    const letter = before === LOWER || before === UPPER || before === LATIN;
    WEIGHT_OF[before * 16 + unit] = before === unit ? same : letter ? afterLetter : other;
  }
}
for (const [before, unit, weight] of EXCEPTIONS) WEIGHT_OF[before * 16 + unit] = weight;

/** Units of the text that is looked at: read from an array they take half the time that `charCodeAt` does. */
const UNITS = new Uint16Array(WHOLE);
const ROOM = Buffer.from(UNITS.buffer);
const [LOWER_BYTE_OF_ONE] = new Uint8Array(new Uint16Array([1]).buffer);
/**
 * From this many units on; never where an array has the higher byte first, which no way of writing a text into it has.
 */
const WORTH_COPYING = LOWER_BYTE_OF_ONE === 1 ? 32 : Number.POSITIVE_INFINITY;

/** Tokens of one text, approximated and not rounded. Its cost is bounded by a sixteenth of the text's length. */
export function textTokens(text: string): number {
  const { length } = text;
  if (length < WORTH_COPYING) return weigh(text, SPACE) / PARTS;
  if (length <= WHOLE) return parts(text, 0, length) / PARTS;
  const blocks = Math.max(WHOLE / BLOCK, Math.ceil(length / (BLOCK * SPREAD)));
  const stride = (length - BLOCK) / (blocks - 1);
  let sum = 0;
  for (let block = 0; block < blocks; block++) {
    const from = Math.floor(block * stride);
    sum += parts(text, from, from + BLOCK);
  }
  return ((sum / PARTS) * length) / (blocks * BLOCK);
}

function parts(text: string, from: number, to: number): number {
  const length = to - from;
  const piece = length === text.length ? text : text.slice(from, to);
  let before = from === 0 ? SPACE : (CLASS_OF[text.charCodeAt(from - 1)] ?? SPACE);
  if (length < WORTH_COPYING) return weigh(piece, before);
  ROOM.write(piece, 0, length * 2, 'utf16le');
  let sum = 0;
  for (let at = 0; at < length; at++) {
    const unit = CLASS_OF[UNITS[at] ?? 0] ?? SPACE;
    sum += WEIGHT_OF[before * 16 + unit] ?? 0;
    before = unit;
  }
  return sum;
}

/** @param first class of what stands before the text */
function weigh(text: string, first: number): number {
  let sum = 0;
  let before = first;
  for (let at = 0; at < text.length; at++) {
    const unit = CLASS_OF[text.charCodeAt(at)] ?? SPACE;
    sum += WEIGHT_OF[before * 16 + unit] ?? 0;
    before = unit;
  }
  return sum;
}

/** An image, a sound or a document that is sent inside the body, whatever its size. */
const ATTACHMENT_TOKENS = 1024;
/** What stands around a member: quotes, braces, the separators of messages. */
const MEMBER_TOKENS = 1;
/** Of base64 in an attachment that is smaller. */
const BASE64_PER_TOKEN = 4;
/** Parsed bodies nest no deeper; anything below counts nothing. */
const MAX_DEPTH = 64;
/** Members that hold base64 data, when one of the second list stands beside them. */
const DATA_NAMES = ['data', 'file_data', 'b64_json'];
/** What JSON of AWS calls base64, and where Ollama keeps a list of it. */
const BYTES_NAME = 'bytes';
const IMAGES_NAME = 'images';
const DATA_TYPE_NAMES = ['media_type', 'mimeType', 'mime_type', 'format', 'filename'];
/** Tokens of the names that stand in nearly every message, counted once. */
const USUAL_NAMES: ReadonlyMap<string, number> = new Map(
  ['role', 'content', 'type', 'text', 'parts'].map((name) => [name, textTokens(name)]),
);

/**
 * Tokens of a prompt, approximated: every text and every member name by `textTokens`, one more for each member, rounded
 * up at the end; a number, true or false is one token (a prompt may be a list of token ids); attachments in base64 (a
 * `data:` URL, a `data` member beside its type, `bytes`, a list of `images`) are at most 1,024 tokens each. Walks the
 * values, makes no copy.
 */
export function countTokens(values: readonly unknown[]): number {
  let tokens = 0;
  for (const value of values) tokens += tokensOf(value, 0);
  return Math.ceil(tokens);
}

function tokensOf(value: unknown, depth: number): number {
  if (typeof value === 'string') return isDataUrl(value) ? attachmentTokens(value) : textTokens(value);
  if (typeof value === 'number' || typeof value === 'boolean') return 1;
  if (typeof value !== 'object' || value === null || depth >= MAX_DEPTH) return 0;
  let tokens = 0;
  if (Array.isArray(value)) {
    for (const item of value) tokens += tokensOf(item, depth + 1);
    return tokens;
  }
  const members = value as Readonly<Record<string, unknown>>;
  // Not entries: a prompt of many short turns is mostly names, and each list of them would be made anew. What was
  // parsed inherits no members.
  for (const name in members) {
    tokens += MEMBER_TOKENS + (USUAL_NAMES.get(name) ?? textTokens(name)) + memberTokens(name, members, depth + 1);
  }
  return tokens;
}

function memberTokens(name: string, members: Readonly<Record<string, unknown>>, depth: number): number {
  const member = members[name];
  if (typeof member === 'string') return isAttached(name, members) ? attachmentTokens(member) : tokensOf(member, depth);
  return name === IMAGES_NAME && Array.isArray(member) ? imagesTokens(member, depth) : tokensOf(member, depth);
}

function isAttached(name: string, beside: Readonly<Record<string, unknown>>): boolean {
  if (name === BYTES_NAME) return true;
  return DATA_NAMES.includes(name) && DATA_TYPE_NAMES.some((type) => Object.hasOwn(beside, type));
}

function imagesTokens(images: readonly unknown[], depth: number): number {
  return images.reduce<number>((sum, image) => sum + (typeof image === 'string' ? attachmentTokens(image) : tokensOf(image, depth + 1)), 0);
}

function isDataUrl(text: string): boolean {
  return text.startsWith('data:') && text.slice(0, 128).includes(';base64,');
}

function attachmentTokens(text: string): number {
  return Math.min(ATTACHMENT_TOKENS, text.length / BASE64_PER_TOKEN);
}

const SIZE = /^(\d{1,5})x(\d{1,5})$/;
/** No provider makes one of more. */
const MOST = 1_000_000_000;

/** Tokens of a picture that is asked for so, with those of the unfinished ones that come before it. */
export function pictureTokens(asked: JsonObject, { tokens, byQuality, pixels, partial, frames }: PictureRule): number {
  const quality = memberOf(asked, 'quality');
  const usual = typeof quality === 'string' && Object.hasOwn(byQuality, quality) ? (byQuality[quality] ?? tokens) : tokens;
  let sum = Math.ceil(usual * Math.max(1, sizeOf(memberOf(asked, 'size')) / Math.max(1, pixels)));
  if (partial !== undefined) sum += (wholeNumber(memberOf(asked, partial.member)) ?? 0) * partial.tokens;
  for (const name of frames) sum *= Math.max(1, wholeNumber(memberOf(asked, name)) ?? 1);
  return Math.min(sum, MOST);
}

function sizeOf(size: unknown): number {
  const [, width, height] = (typeof size === 'string' ? SIZE.exec(size) : null) ?? [];
  return Number(width ?? 0) * Number(height ?? 0);
}
