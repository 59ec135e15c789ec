/* What has a name is a line of its own; at a terminal no line is longer than it. */
import { cellWidth, padCells } from '../../base/lib/cell-width.ts';
import { brokenAtBlanks } from '../folded-text.ts';

/** A name takes no more room than this ahead of the values, in cells; a longer one stands beside its value as it is. */
const MOST_FOR_NAMES = 30;
const INDENT = '  ';

/**
 * Names with what they are, below each other.
 * @param lines of texts that may be shown @param width of the terminal in cells; undefined: it is none, and each is one
 * line
 */
export function namedValues(lines: readonly (readonly [name: string, text: string])[], width: number | undefined): string {
  const longest = Math.max(0, ...lines.map(([name]) => cellWidth(name))) + 2;
  const room = width === undefined ? longest : Math.min(longest, MOST_FOR_NAMES);
  return lines.map(([name, text]) => `${placed(padCells(`${name}: `, room), text, width)}\n`).join('');
}

/**
 * Behind its name where both fit, else below it, broken at blanks: what has none is whole, so that it can be copied.
 */
function placed(name: string, text: string, width: number | undefined): string {
  const line = `${name}${text}`.trimEnd();
  if (width === undefined || cellWidth(line) <= width) return line;
  return [name.trimEnd(), ...brokenAtBlanks(text, width - INDENT.length).map((part) => INDENT + part)].join('\n');
}
