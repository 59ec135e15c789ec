/*
 * How a text that a stranger chose is shown to people: what they read is what is there (decision 12.14). What cannot be
 * seen, or acts on what stands around it, is written out as `\u{202e}`, which says exactly what it is; the approval
 * page is served with the same pattern.
 */

/** Where a text is read. `line`: a field of a line that programs pass on to people, such as syslog. */
export type Face = 'terminal' | 'page' | 'line' | 'slack' | 'discord' | 'teams' | 'google_chat' | 'mail';

/** Scripts in which a joiner or its absence changes letters. */
const JOINING = [
  ...['Arab', 'Syrc', 'Mong', 'Nkoo', 'Adlm', 'Deva', 'Beng', 'Guru', 'Gujr', 'Orya', 'Taml', 'Telu', 'Knda', 'Mlym'],
  ...['Sinh', 'Tibt', 'Mymr', 'Khmr', 'Laoo', 'Thai', 'Bali', 'Java', 'Newa', 'Gran', 'Sund', 'Cakm'],
];
/** Scripts that put no blanks between words. */
const UNSPACED = ['Khmr', 'Laoo', 'Mymr', 'Thai'];

const ofScripts = (scripts: readonly string[]) => `[${scripts.map((script) => `\\p{sc=${script}}`).join('')}]`;
const IGNORED = '\\p{DI}';
/** Letters and signs whose picture is empty. */
const EMPTY = '[\\u2800\\u2d7f\\ufffc\\u{1107f}\\u{13441}\\u{13442}\\u{16fe4}\\u{1d159}]';
/** Of one letter, above, below and through it: more of them cover the lines around it. */
const MOST_MARKS = 4;
const letter = (scripts: readonly string[]) => `(?!${IGNORED})(?=\\p{L})${ofScripts(scripts)}`;
const mark = (scripts: readonly string[]) => `(?!${IGNORED})(?=\\p{M})${ofScripts(scripts)}`;

const SEEN = '[^\\s\\p{C}\\p{DI}]';
/** Letters of Chinese, Japanese and Korean, and their punctuation. */
const WIDE = '(?!\\p{DI})[\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Hang}\\p{sc=Bopo}\\u3001-\\u3020]';

interface KeptSigns {
  readonly signs: string;
  readonly after: string;
  readonly before: string;
}

/**
 * The flags that are spelt with tags, which are England's, Scotland's and Wales': a tag is kept at its place in one
 * that is whole.
 */
function flags(regions: readonly string[]): readonly KeptSigns[] {
  return regions.flatMap((region) => {
    const tags = Array.from(`${region}\u007f`, (sign) => `\\u{${(0xe0000 + sign.charCodeAt(0)).toString(16)}}`);
    return tags.map((tag, at) => ({ signs: tag, after: `\\u{1f3f4}${tags.slice(0, at).join('')}`, before: tags.slice(at + 1).join('') }));
  });
}

/**
 * Signs that are not seen by themselves, and between what they are the usual spelling of a text; everywhere else they
 * are written out. What stands around them is always shown.
 */
const KEPT: readonly KeptSigns[] = [
  // Families, professions, flags of several parts.
  { signs: '\\u200d', after: '(?:\\p{ExtPict}\\ufe0f?|[\\u{1f3fb}-\\u{1f3ff}])', before: '\\p{ExtPict}' },
  // Persian, Kurdish, the scripts of India: before a letter, and before the mark of the next one.
  { signs: '[\\u200c\\u200d]', after: `${letter(JOINING)}(?:${mark(JOINING)}){0,${MOST_MARKS}}`, before: letter(JOINING) },
  { signs: '[\\u200c\\u200d]', after: `${letter(JOINING)}(?:${mark(JOINING)})?`, before: mark(JOINING) },
  // A suffix of Persian behind a number, a quote or a name in Latin letters.
  { signs: '\\u200c', after: '(?:\\p{Nd}|\\u00bb|(?!\\p{DI})(?=\\p{L})\\p{sc=Latn})', before: letter(['Arab']) },
  // Letters of Malayalam and Bengali that stand at the end of a syllable, as they were spelt before they had signs of
  // their own.
  { signs: '\\u200d', after: '(?:[\\u0d15\\u0d23\\u0d28\\u0d30\\u0d32\\u0d33]\\u0d4d|\\u09a4\\u09cd)', before: '' },
  ...flags(['gbeng', 'gbsct', 'gbwls']),
  // The form of an emoji, and of the digits on keys.
  { signs: '[\\ufe0e\\ufe0f]', after: '\\p{ExtPict}', before: '' },
  { signs: '\\ufe0f', after: '[0-9#]', before: '\\u20e3' },
  { signs: '\\u200b', after: `${letter(UNSPACED)}(?:${mark(UNSPACED)}){0,${MOST_MARKS}}`, before: letter(UNSPACED) },
  { signs: '[\\u180b-\\u180d]', after: letter(['Mong']), before: '' },
  // Blanks of French, one between what is seen.
  { signs: '[\\u00a0\\u202f]', after: SEEN, before: SEEN },
  // That of Chinese and Japanese, which is as wide as two: elsewhere it would be the gap between two columns.
  { signs: '\\u3000', after: WIDE, before: SEEN },
  { signs: '\\u3000', after: SEEN, before: WIDE },
];

const KEPT_SIGN = KEPT.map(({ signs, after, before }) => `(?<=${after})${signs}${before === '' ? '' : `(?=${before})`}`).join('|');
/**
 * What a mark may stand on. Not ASCII's signs: a mark would change a quote of ours, or one that is spelt in another
 * way.
 */
const BASE = `(?:(?!${IGNORED}|${EMPTY}|[$+<=>^\`|~])[\\p{L}\\p{N}\\p{S}]|#\\ufe0f)`;
const MARKS = `\\p{Mc}{0,${MOST_MARKS}}(?:(?!${IGNORED})[\\p{Mn}\\p{Me}]|${KEPT_SIGN})`;
/** Behind a letter and so many marks; those that stand beside it are not counted with the others. */
const behind = (marks: number) => `(?<!${BASE}(?:${MARKS}){0,${marks}}\\p{Mc}{0,${MOST_MARKS - 1}})`;

/**
 * What is never seen by itself, or acts on what stands around it: controls, formats (those of directions among them),
 * halves of signs, what means something else to each reader, fillers, joiners, variation selectors, tags, letters and
 * signs whose picture is empty.
 */
const HIDDEN = `[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Zl}\\p{Zp}\\p{DI}${EMPTY.slice(1)}`;
/** All of what can be written out, by one look that passes over the letters of all scripts. */
const DOUBTFUL = `(?! )[\\p{C}\\p{M}\\p{Z}\\p{DI}${EMPTY.slice(1)}`;

/** What is written out: never seen, or acting on what stands around it. */
const WRITTEN_OUT: readonly string[] = [
  // Signs of Arabic and others that stand under numbers are formats that are seen.
  `(?![\\u0600-\\u0605\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u{110bd}\\u{110cd}])${HIDDEN}`,
  // What has no character; emoji that are newer than our tables have.
  '(?!\\p{ExtPict})\\p{Cn}',
  // Every blank but that of the keyboard.
  '(?! )\\p{Zs}',
  `${behind(MOST_MARKS - 1)}[\\p{Mn}\\p{Me}]`,
  `${behind(MOST_MARKS)}\\p{Mc}`,
];

/**
 * What is written out of a text in one line, as the source of a regular expression with the flags `gu`. A backslash
 * with `u{` behind it is, too: so nobody can type what looks like a sign that was written out, and what is shown says
 * what was there.
 */
export const UNSEEN = `\\\\(?=u\\{)|(?=${DOUBTFUL})(?!${KEPT_SIGN})(?:${WRITTEN_OUT.join('|')})`;

/** Links and addresses, which programs make of plain text. */
const LINKS = [':(?=\\/\\/)', '@', '(?<=\\b[Ww]{3})\\.'];
/** The names of hosts, of which mail programs make links. */
const DOMAINS = ['(?<=[\\p{L}\\p{N}-])\\.(?=\\p{L}{2,}(?![\\p{L}\\p{N}-]))'];
/**
 * Of Slack, and of those who take its form and read Markdown; a name of an emoji has more than digits of an address.
 */
const MARKUP = ['[*~`]', '(?<![\\p{L}\\p{N}])_', '_(?![\\p{L}\\p{N}])', '(?<=\\])\\(', ':(?=[a-z0-9_+-]{1,60}:)(?=[a-f0-9]*[g-z_+-])'];

interface FaceRow {
  /** What its programs would act on and cannot be told to leave, written out as well. */
  readonly acts: readonly string[];
  /** Of the text as it is then: how its format writes what is syntax there. */
  readonly spelt: (text: string) => string;
}

const asItIs = (text: string) => text;
const entities = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

const FACES: Readonly<Record<Face, FaceRow>> = {
  terminal: { acts: [], spelt: asItIs },
  page: { acts: [], spelt: asItIs },
  line: { acts: [], spelt: asItIs },
  slack: { acts: [...LINKS, ...MARKUP], spelt: entities },
  // A backslash makes a plain sign of any punctuation.
  discord: { acts: [], spelt: (text) => text.replaceAll(/[!-/:-@[-`{-~]/g, '\\$&') },
  // In Adaptive Cards `{{DATE(…)}}` is read in every text.
  teams: { acts: [...LINKS, '\\{(?=\\{)'], spelt: asItIs },
  google_chat: { acts: LINKS, spelt: entities },
  mail: { acts: [...LINKS, ...DOMAINS], spelt: asItIs },
};

/**
 * Ten milliseconds of a processor go into each pattern of scripts, and every process loads this file: it is made when a
 * text first needs it.
 */
function madeAtFirst(source: string): () => RegExp {
  let made: RegExp | undefined;
  return () => (made ??= new RegExp(source, 'gu'));
}

const unseen = madeAtFirst(UNSEEN);
const PATTERNS = Object.fromEntries(
  Object.entries(FACES).map(([face, { acts }]) => [face, acts.length === 0 ? unseen : madeAtFirst([UNSEEN, ...acts].join('|'))]),
) as Readonly<Record<Face, () => RegExp>>;
const HARMLESS = /^[ -[\]-~]*$/;

/**
 * A stranger's text in a place of one line: a line break is written out too. It can be read back: `\u{…}` is a sign
 * that was written out, everything else itself.
 */
export function shownText(text: string, face: Face): string {
  const { acts, spelt } = FACES[face];
  return spelt(acts.length === 0 && HARMLESS.test(text) ? text : text.replace(PATTERNS[face](), writtenOut));
}

/** The same where a text may have several lines. */
export function shownLines(text: string, face: Face): string {
  return text
    .split('\n')
    .map((line) => shownText(line, face))
    .join('\n');
}

/** Words of our own on a face: what is syntax there is spelt as its format asks. */
export function ownWords(text: string, face: Face): string {
  return FACES[face].spelt(text);
}

const hiddenSigns = madeAtFirst(`(?!\\n)${HIDDEN}`);

/**
 * JSON text with what is hidden as escapes of JSON: the same value, also for who reads it at a terminal.
 * @param text as `JSON.stringify` writes it
 */
export function shownJson(text: string): string {
  return text.replace(hiddenSigns(), inJson);
}

function inJson(sign: string): string {
  let escapes = '';
  for (let at = 0; at < sign.length; at++) escapes += `\\u${sign.charCodeAt(at).toString(16).padStart(4, '0')}`;
  return escapes;
}

function writtenOut(sign: string): string {
  return `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}`;
}

/** Those of `policy-tools/render-problem.ts`, and of the log's pretty form. */
const COLOURS = '\\u001b\\[(?:1|2|22|3[1-69]|90)m';
const colouredOrUnseen = madeAtFirst(`${COLOURS}|${UNSEEN}`);
/** Of which nothing is written out. */
const PLAIN = /^[\t\n -~]*$/;

/**
 * A whole output on its way to a terminal, in which strangers' texts were shown already: what was forgotten is written
 * out here. Lines and tabs stay.
 * @param coloured our own colours stay, too
 */
export function terminalOutput(text: string, coloured = false): string {
  if (PLAIN.test(text)) return text;
  return text.replace(coloured ? colouredOrUnseen() : unseen(), (sign) =>
    sign.length > 2 || sign === '\n' || sign === '\t' || sign === '\\' ? sign : writtenOut(sign),
  );
}

/**
 * The rest of a sign, of one that was written out or of how one is spelt, and what is kept before another sign alone.
 */
const HALF =
  /(?:\u00a0|[\u180b-\u180d]|[\u200b-\u200d]|\u202f|\u3000|[\ufe0e\ufe0f]|\udb40[\udc20-\udc7f])*(?:\\+(?:u\\*(?:\{[0-9a-f]*\\*)?)?|\\*&[a-z]*|[\uD800-\uDBFF])?$/;

/**
 * The beginning of a text that is shown, `…` behind it when there is more: never half of a sign, of one that was
 * written out, or of how one is spelt.
 * @param max UTF-16 units
 */
export function cutShown(text: string, max: number): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max - 1).replace(HALF, '')}…`;
}
