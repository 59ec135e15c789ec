/* Texts for people, in lines that their terminal shows whole. */
import { cellWidth } from '../base/lib/cell-width.ts';

/**
 * Of a line where nothing says how wide it may be, such as in a pipe: what every terminal has. In characters, as all
 * widths here.
 */
export const USUAL_WIDTH = 80;
/** A line of a paragraph that was broken by hand goes on in the next one; one that is shorter ends there. */
const BROKEN_FROM = 100;
/** A first column that is wider is no column. */
const MAX_COLUMN = 34;

/**
 * Words in lines of at most `width`; a word that is longer has a line of its own.
 * @param hang begins each line but the first, and counts
 */
export function folded(words: readonly string[], width: number, hang = ''): string {
  const lines: string[] = [];
  for (const word of words) {
    const last = lines.at(-1);
    if (last === undefined) lines.push(word);
    else if (cellWidth(last) + 1 + cellWidth(word) <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(hang + word);
  }
  return lines.join('\n');
}

/** The lines of a text, no wider than that, but for a word that is. */
export function brokenAtBlanks(text: string, width: number): readonly string[] {
  return folded(text.split(' '), width).split('\n');
}

/** A usage line: an option is broken from what it takes only where both are longer than a line. */
export function foldedUsage(usage: string, width: number, hang: string): string {
  const room = width - hang.length;
  return folded(
    unitsOf(usage).flatMap((unit) => (unit.length <= room ? [unit] : unit.split(' ').flatMap((word) => choicesOf(word, room)))),
    width,
    hang,
  );
}

/** Lines as they stand, each of them folded below its own second column, or its own beginning. */
export function foldedLines(text: string, width: number): string {
  return paragraphsOf(text)
    .map((line) => {
      if (cellWidth(line) <= width) return line;
      const [start = ''] = /^ */.exec(line) ?? [];
      const [column = start] = /^ *\S+(?: \S+)*? {2,}(?=\S)/.exec(line) ?? [];
      const kept = column.length <= MAX_COLUMN ? column : start;
      const [first = '', ...words] = line.slice(kept.length).split(' ');
      return folded([kept + first, ...words], width, ' '.repeat(kept.length));
    })
    .join('\n');
}

/**
 * What was broken by hand for a wider place is put together again; what has a column of its own is an entry of its own.
 */
function paragraphsOf(text: string): readonly string[] {
  const lines: string[] = [];
  let before = '';
  for (const line of text.split('\n')) {
    const indent = /^ */.exec(line)?.[0] ?? '';
    const goesOn = before.length > BROKEN_FROM && line.trim() !== '' && before.startsWith(indent) && before[indent.length] !== ' ';
    if (goesOn && !/^ *-/.test(line) && !/\S {2,}\S/.test(line)) lines[lines.length - 1] = `${lines.at(-1) ?? ''} ${line.trim()}`;
    else lines.push(line);
    before = line;
  }
  return lines;
}

/** Split at blanks that stand in no bracket, an option with what it takes in one. */
function unitsOf(usage: string): readonly string[] {
  const units: string[] = [];
  let depth = 0;
  for (const word of usage.split(' ')) {
    const last = units.at(-1);
    const isValue = last !== undefined && /^--[a-z][\w.-]*$/.test(last) && !/^[-[]/.test(word);
    if (last !== undefined && (depth > 0 || isValue)) units[units.length - 1] = `${last} ${word}`;
    else units.push(word);
    depth += word.split('[').length - word.split(']').length;
  }
  return units;
}

/** Of `a|b|c` parts that fit into a line, each but the last with its sign behind it. */
function choicesOf(word: string, room: number): readonly string[] {
  if (word.length <= room) return [word];
  const parts: string[] = [];
  for (const choice of word.split(/(?<=\|)/)) {
    const last = parts.at(-1);
    if (last !== undefined && last.length + choice.length <= room) parts[parts.length - 1] = last + choice;
    else parts.push(choice);
  }
  return parts;
}
