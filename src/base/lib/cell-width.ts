/*
 * How many cells a text takes on a terminal: letters of Chinese, Japanese and Korean, full-width forms and emoji take
 * two, marks and joiners none (Unicode Standard Annex 11; the signs of Unicode 16). Texts are those that may be shown:
 * `shown-text.ts` has written out what has no picture.
 */
import { cutShown } from './shown-text.ts';

const PLAIN = /^[ -~]*$/;
/**
 * The blocks of signs of two cells: scripts that are wide with their punctuation, full-width forms. Half-width forms of
 * the same scripts are not among them.
 */
const WIDE_BLOCKS = [
  ...[
    '1100-\\u115f',
    '2329\\u232a',
    '2630-\\u2637',
    '268a-\\u268f',
    '2e80-\\u303e',
    '3041-\\u3247',
    '3250-\\ua4c6',
    'a960-\\ua97c',
    'ac00-\\ud7a3',
  ],
  ...['f900-\\ufaff', 'fe10-\\ufe19', 'fe30-\\ufe6b', 'ff01-\\uff60', 'ffe0-\\uffe6'],
].map((block) => `\\u${block}`);
const WIDE_PLANES = ['{16fe0}-\\u{18dff}', '{1aff0}-\\u{1b2fb}', '{1d300}-\\u{1d376}', '{1f200}-\\u{1f265}', '{20000}-\\u{3fffd}'].map(
  (block) => `\\u${block}`,
);
const WIDE = new RegExp(`^[${WIDE_BLOCKS.join('')}${WIDE_PLANES.join('')}\\p{Emoji_Presentation}]`, 'u');
/** Jamo that complete a syllable take no cell of their own. */
const NOTHING = /^(?:\p{Mn}|\p{Me}|\p{Cf}|[\u1160-\u11ff])/u;
/**
 * A sign that is drawn as one emoji, however many it is made of: with the selector of that form, joined, a flag, a key.
 */
const ONE_EMOJI = /\ufe0f|\u200d\p{ExtPict}|^\p{RI}{2}$/u;

const CLUSTERS = new Intl.Segmenter('en', { granularity: 'grapheme' });
/** The segmenter takes the square of the length of what it is given: it gets so many units at a time. */
const PIECE = 256;

/** Signs as they are drawn, each with all that belongs to it, and where it begins. */
function* clustersOf(text: string): Generator<{ readonly segment: string; readonly index: number }> {
  for (let at = 0; at < text.length; ) {
    const end = endOfPiece(text, at);
    for (const { segment, index } of CLUSTERS.segment(text.slice(at, end))) yield { segment, index: at + index };
    at = end;
  }
}

/** Between two plain signs nothing belongs together; where there are none of them for so long, halves of a sign do. */
function endOfPiece(text: string, at: number): number {
  if (text.length - at <= PIECE) return text.length;
  for (let end = at + PIECE; end > at; end -= 1) if (isPlain(text, end - 1) && isPlain(text, end)) return end;
  const end = at + PIECE;
  const unit = text.charCodeAt(end);
  return unit >= 0xdc00 && unit <= 0xdfff ? end + 1 : end;
}

function isPlain(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return unit >= 0x20 && unit <= 0x7e;
}

/** Cells of a text in one line. */
export function cellWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let cells = 0;
  for (const { segment } of clustersOf(text)) cells += clusterWidth(segment);
  return cells;
}

function clusterWidth(cluster: string): number {
  if (ONE_EMOJI.test(cluster)) return 2;
  let cells = 0;
  for (const sign of cluster) cells += NOTHING.test(sign) ? 0 : WIDE.test(sign) ? 2 : 1;
  return cells;
}

/**
 * The beginning of a text that is shown, `…` behind it when there is more: never half of a sign, of one that was
 * written out, or a letter without its marks.
 * @param max cells, at least 1
 */
export function cutToCells(text: string, max: number): string {
  if (text.length <= max && PLAIN.test(text)) return text;
  let kept = 0;
  let cells = 0;
  for (const { segment, index } of clustersOf(text)) {
    cells += clusterWidth(segment);
    // It is longer than what fits by a unit at least, in the place of which the sign comes that says that there is
    // more.
    if (cells > max) return cutShown(`${text}  `, kept + 1);
    if (cells < max) kept = index + segment.length;
  }
  return text;
}

/** Blanks up to this many cells behind a text. */
export function padCells(text: string, cells: number): string {
  return text + ' '.repeat(Math.max(0, cells - cellWidth(text)));
}

/** The same ahead of it, as numbers stand. */
export function padCellsAhead(text: string, cells: number): string {
  return ' '.repeat(Math.max(0, cells - cellWidth(text))) + text;
}
