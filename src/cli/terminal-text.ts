import { shownJson, shownLines, shownText } from '../base/lib/shown-text.ts';
import type { CliIo } from './command.ts';
import { folded } from './folded-text.ts';

/**
 * Text of somebody else on a terminal, in one line: nothing in it moves the cursor, changes a colour, begins a line or
 * hides what stands beside it.
 */
export function terminalText(text: string): string {
  return shownText(text, 'terminal');
}

/**
 * The same for one of several cells of a line, which have two blanks between them: a stranger's text makes no further
 * cell.
 */
export function cellText(text: string): string {
  return terminalText(text).replaceAll(/(?<= ) /g, '\\u{20}');
}

/** The same for a text that may have more than one line. */
export function terminalLines(text: string): string {
  return shownLines(text, 'terminal');
}

/**
 * Names with what they are, below each other; what is undefined is left out. A sentence has the width at which it is
 * folded.
 */
export function namedLines(rows: readonly (readonly [name: string, text: string | undefined, width?: number])[]): string {
  const column = Math.max(...rows.map(([name]) => name.length)) + 2;
  return rows
    .map(([name, text, width]) => {
      if (text === undefined) return '';
      const line = `${`${name}:`.padEnd(column)}${terminalText(text)}`;
      if (width === undefined) return `${line}\n`;
      const [first = '', ...words] = line.slice(column).split(' ');
      return `${folded([line.slice(0, column) + first, ...words], width, ' '.repeat(column))}\n`;
    })
    .join('');
}

/** The option of commands that print data. */
export const JSON_OPTION = { json: { type: 'boolean' } } as const;

/**
 * What `--json` prints: one document on a line of its own. What a terminal would not show, or obey, stands in it as
 * escapes of JSON: the same value.
 */
export function printJson(value: unknown, io: CliIo): void {
  printJsonText(JSON.stringify(value), io);
}

/** The same with a member a line. */
export function printJsonDocument(value: unknown, io: CliIo): void {
  printJsonText(JSON.stringify(value, null, 2), io);
}

/** The same of an answer as it came. */
export function printJsonText(text: string, io: CliIo): void {
  io.stdout(`${shownJson(text.trimEnd())}\n`);
}
