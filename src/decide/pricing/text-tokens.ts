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
 * What a character costs behind another one of its own class, behind a letter, and behind anything else. Fitted to OpenAI's o200k_base on texts of many kinds,
 * rather too much than too little: a word is about one token, long ones more; three digits are one; letters and digits in any mix are dear.
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
/** From this many units on; never where an array has the higher byte first, which no way of writing a text into it has. */
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
