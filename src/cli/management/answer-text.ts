/* Answers of the management API for people: what stands beside each other is a table, what has a name is a line. */
import { isJsonObject } from '../../base/json/json-object.ts';
import { terminalText } from '../terminal-text.ts';
import { type TableColumn, textTable } from './text-table.ts';

/** Members that tell people nothing: of every item the same, or for programs. */
const UNSEEN: ReadonlySet<string> = new Set(['etag', 'org_id']);
const TIME = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/;

type Json = Readonly<Record<string, unknown>>;

/** How an answer is shown where its members alone do not say it. */
export interface TextFacts {
  /** What the items of a list are, in the plural. */
  readonly things: string;
  /** Members of its items in the order of the columns, with dots; default: the plain ones, as they come. */
  readonly columns?: readonly string[];
  /** In characters; absent: nothing is cut. */
  readonly width: number | undefined;
}

/** A list. */
export function listText(items: readonly unknown[], { things, columns, width }: TextFacts): string {
  if (items.length === 0) return `There are no ${things}.\n`;
  const rows = items.map((item) => (isJsonObject(item) ? item : { value: item }));
  return textTable(columnsOf(rows, columns), width);
}

/** Anything. */
export function answerText(answer: unknown, facts: TextFacts): string {
  if (!isJsonObject(answer)) return `${terminalText(cellOf(answer))}\n`;
  const own = Object.entries(answer).filter(([name]) => name !== 'next_cursor' && name !== 'has_more');
  const [only] = own;
  if (own.length === 1 && only !== undefined && Array.isArray(only[1])) return listText(only[1], facts);
  const lines: (readonly [name: string, text: string])[] = [];
  const parts: string[] = [];
  for (const [name, value] of own) place(name, value, lines, parts, facts);
  const width = Math.max(0, ...lines.map(([name]) => name.length)) + 2;
  return [lines.map(([name, text]) => `${`${name}:`.padEnd(width)}${text}\n`).join(''), ...parts].filter((text) => text !== '').join('\n');
}

/** A map to figures, each entry a row. @param heading what the names of the map are */
export function mapText(map: Json, heading: string, facts: TextFacts): string {
  const rows = Object.entries(map).map(([name, value]) =>
    isJsonObject(value) ? { [heading]: name, ...value } : { [heading]: name, cost_usd: value },
  );
  return listText(rows, { things: `figures by ${heading}`, width: facts.width });
}

function place(name: string, value: unknown, lines: (readonly [string, string])[], parts: string[], facts: TextFacts): void {
  if (name === 'etag') return;
  if (Array.isArray(value) && value.some(isJsonObject)) {
    parts.push(`${heading(name)}\n${listText(value, { things: heading(name), width: facts.width })}`);
  } else if (
    isJsonObject(value) &&
    (name.startsWith('by_') || (Object.keys(value).length > 0 && Object.values(value).every(isJsonObject)))
  ) {
    parts.push(`${heading(name)}\n${mapText(value, name.replace(/^by_/, ''), facts)}`);
  } else if (isJsonObject(value)) {
    for (const [inner, one] of Object.entries(value)) place(`${name}.${inner}`, one, lines, parts, facts);
  } else if (typeof value === 'string' && value.includes('\n')) {
    // Behind a bar, so that no line of it is taken for one of ours.
    parts.push(
      `${heading(name)}\n${value
        .split('\n')
        .map((line) => `| ${terminalText(line)}`)
        .join('\n')}\n`,
    );
  } else lines.push([terminalText(name), terminalText(cellOf(value))]);
}

function heading(name: string): string {
  return terminalText(name.replaceAll('_', ' '));
}

function columnsOf(rows: readonly Json[], named: readonly string[] | undefined): TableColumn[] {
  const names = named ?? [...new Set(rows.flatMap((row) => Object.keys(row).filter((name) => !UNSEEN.has(name) && isShort(row[name]))))];
  const made = names.map((name) => ({ name, cells: rows.map((row) => cellOf(memberOf(row, name))) }));
  // Of what no item has there is nothing to see.
  return made.filter(({ cells }) => cells.some((cell) => cell !== ''));
}

function memberOf(row: Json, name: string): unknown {
  let value: unknown = row;
  for (const part of name.split('.')) value = isJsonObject(value) ? value[part] : undefined;
  return value;
}

/** What fits into a cell. */
function isShort(value: unknown): boolean {
  if (Array.isArray(value)) return !value.some((one) => typeof one === 'object');
  return !isJsonObject(value) || Object.values(value).every((one) => typeof one !== 'object');
}

function cellOf(value: unknown): string {
  if (value === undefined) return '';
  if (value === null) return '-';
  if (typeof value === 'string') return value.replace(TIME, '$1 $2Z');
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.map(cellOf).join(', ');
  if (!isJsonObject(value)) return JSON.stringify(value);
  return Object.entries(value)
    .map(([name, one]) => `${name}=${cellOf(one)}`)
    .join(' ');
}
