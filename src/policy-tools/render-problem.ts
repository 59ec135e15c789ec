import type { ErrorDetail } from '../base/lib/gateway-error.ts';
import { untold } from '../base/lib/mistakes.ts';
import { shownText } from '../base/lib/shown-text.ts';

export type Severity = 'error' | 'warning';

/** Wider lines are cut around the place, so that a minified bundle does not fill the screen. */
const MAX_WIDTH = 120;
const BEFORE = 40;

/** In one message of the gateway; the rest of what is wrong is in its details. */
const MAX_SHOWN = 20;

/** Errors one below the other, for a log and the body of an answer; `texts` by the names of their files. */
export function renderProblems(problems: readonly ErrorDetail[], texts: ReadonlyMap<string, string>): string {
  const plain = paintFor(false);
  const shown = problems.slice(0, MAX_SHOWN).map((problem) => renderProblem(problem, 'error', texts.get(problem.file ?? ''), plain));
  const last = problems.at(-1);
  const more = last === undefined ? 0 : untold(last);
  const rest = problems.length - shown.length + Math.max(0, more - 1);
  return `${shown.join('\n').trimEnd()}${rest === 0 ? '' : `\n\nand ${rest} more`}`;
}

/**
 * One problem as a compiler shows it: place, code and message, the line of the source with carets under the place, the
 * hint.
 * @param text of the file in which it stands, if that can be shown
 */
export function renderProblem(problem: ErrorDetail, severity: Severity, text: string | undefined, paint: Paint): string {
  const { file, line, column, code, message, hint, rule_id: ruleId } = problem;
  const where = [file, line, column].filter((part) => part !== undefined).join(':');
  const colour = severity === 'error' ? paint.red : paint.yellow;
  const lines = [
    `${paint.bold(visible(where))}: ${colour(code === undefined ? severity : `${severity}[${code}]`)}: ${paint.bold(visible(message))}`,
  ];
  const margin = ' '.repeat(String(line ?? 0).length);
  const source = line === undefined ? undefined : text?.split(/\r?\n/)[line - 1];
  if (source !== undefined && column !== undefined) {
    const { shown, indent, width } = excerpt(source, column);
    lines.push(
      paint.blue(` ${margin} |`),
      `${paint.blue(` ${line} |`)} ${shown}`,
      `${paint.blue(` ${margin} |`)} ${indent}${colour('^'.repeat(width))}`,
    );
  }
  if (ruleId !== undefined) lines.push(`${paint.blue(` ${margin} =`)} rule: ${visible(ruleId)}`);
  if (hint !== undefined) lines.push(`${paint.blue(` ${margin} =`)} hint: ${visible(hint)}`);
  return `${lines.join('\n')}\n`;
}

/**
 * The part of a line that is shown, what stands before the carets, and how many there are: the word, quoted text or
 * bracket at the column.
 */
function excerpt(source: string, column: number): { shown: string; indent: string; width: number } {
  const at = column - 1;
  const from = source.length > MAX_WIDTH ? Math.max(0, at - BEFORE) : 0;
  const shown = visible(source.slice(from, from + MAX_WIDTH));
  const word = /^(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,:[\]{}]+(?::[^\s,[\]{}]+)*|.)/.exec(source.slice(at, from + MAX_WIDTH))?.[0] ?? '';
  // Tabs stay tabs, so that the carets stand under the word wherever the terminal's stops are.
  const indent = visible(source.slice(from, at)).replace(/[^\t]/g, ' ');
  return { shown, indent, width: Math.max(1, visible(word).length) };
}

/** A file is no place from which a terminal takes commands; tabs stay. */
function visible(text: string): string {
  return text
    .split('\t')
    .map((part) => shownText(part, 'terminal'))
    .join('\t');
}

/** Text with or without the colours of a terminal. */
export interface Paint {
  red(text: string): string;
  yellow(text: string): string;
  green(text: string): string;
  blue(text: string): string;
  bold(text: string): string;
  dim(text: string): string;
}

const plain = (text: string) => text;
const sgr = (on: number, off: number) => (text: string) => `\u001b[${on}m${text}\u001b[${off}m`;

const PLAIN: Paint = { red: plain, yellow: plain, green: plain, blue: plain, bold: plain, dim: plain };
const COLOURS: Paint = {
  red: sgr(31, 39),
  yellow: sgr(33, 39),
  green: sgr(32, 39),
  blue: sgr(34, 39),
  bold: sgr(1, 22),
  dim: sgr(2, 22),
};

export function paintFor(colours: boolean | undefined): Paint {
  return colours === true ? COLOURS : PLAIN;
}
