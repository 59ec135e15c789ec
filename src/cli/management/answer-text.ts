/* Answers of the management API for people: what stands beside each other is a table, what has a name is a line. */
import { isJsonObject } from '../../base/json/json-object.ts';
import { parseUsd } from '../../base/lib/money.ts';
import { UsageError } from '../command.ts';
import { terminalText } from '../terminal-text.ts';
import { namedValues } from './named-values.ts';
import { columnCells, type NamedColumn, namedColumn, type TableView, valueText } from './table-cells.ts';
import { type TableColumn, textTable } from './text-table.ts';

/** Members that tell people nothing: of every item the same, or for programs. */
const UNSEEN: ReadonlySet<string> = new Set(['etag', 'org_id']);

type Json = Readonly<Record<string, unknown>>;

/**
 * The figures of what was spent, beside what they are of: their headings fit a terminal, which those of the members do
 * not.
 */
const FIGURES = [
  'cost: cost_usd',
  'requests',
  'no usage: requests_without_usage',
  'by default: cost_priced_by_default_usd',
  'tokens in: tokens_in',
  'out: tokens_out',
] as const;

/** How an answer is shown where its members alone do not say it. */
export interface TextFacts {
  /** What the items of a list are, in the plural. */
  readonly things: string;
  /** The columns of its table, as {@link namedColumn} reads them; default: the plain members, as they come. */
  readonly columns?: readonly string[];
  /** An item with what is not a member of it and stands in a column. */
  readonly seen?: (item: Json) => Json;
  readonly view: TableView;
}

/** A list. @throws UsageError for a column that it does not have */
export function listText(items: readonly unknown[], { things, columns, seen = (item) => item, view }: TextFacts): string {
  if (items.length === 0) return `There are no ${things}.\n`;
  const rows = items.map((item) => (isJsonObject(item) ? seen(item) : { value: item }));
  const shown = columnsOf(rows, columns ?? [], view).map(
    (column): TableColumn => ({ name: column.heading, ...columnCells(column, rows, view) }),
  );
  // Of what no item has there is nothing to see.
  const there = view.columns === undefined ? shown.filter(({ cells }) => cells.some((cell) => cell !== '')) : shown;
  return textTable(there, view.wide === true || view.columns !== undefined ? undefined : view.width);
}

/** Anything. */
export function answerText(answer: unknown, facts: TextFacts): string {
  if (!isJsonObject(answer)) return `${terminalText(valueText(answer))}\n`;
  const own = Object.entries(answer).filter(([name]) => name !== 'next_cursor' && name !== 'has_more' && name !== 'etag');
  const [only] = own;
  if (own.length === 1 && only !== undefined && Array.isArray(only[1])) return listText(only[1], facts);
  if (facts.view.columns !== undefined) throw new UsageError('--columns is for a list; this is shown whole');
  const lines: (readonly [name: string, text: string])[] = [];
  const parts: string[] = [];
  for (const [name, value] of own) place(name, value, lines, parts, facts);
  const { view } = facts;
  return [namedValues(lines, view.wide === true ? undefined : view.width), ...parts].filter((text) => text !== '').join('\n');
}

/**
 * A map to figures, each entry a row, the dearest first; days as they come.
 * @param heading what the names of the map are
 */
export function mapText(map: Json, heading: string, facts: TextFacts): string {
  const entries = Object.entries(map);
  if (heading !== 'day') entries.sort(([, a], [, b]) => (costOf(a) < costOf(b) ? 1 : costOf(a) > costOf(b) ? -1 : 0));
  const rows = entries.map(([name, value]) => (isJsonObject(value) ? { [heading]: name, ...value } : { [heading]: name, cost_usd: value }));
  return listText(rows, { things: `figures by ${heading}`, ...figureColumns(rows), view: facts.view });
}

function costOf(figures: unknown): bigint {
  const cost = isJsonObject(figures) ? figures['cost_usd'] : undefined;
  return (typeof cost === 'string' ? parseUsd(cost) : undefined) ?? 0n;
}

function place(name: string, value: unknown, lines: (readonly [string, string])[], parts: string[], facts: TextFacts): void {
  if (name === 'etag') return;
  if (Array.isArray(value) && value.some(isJsonObject)) {
    parts.push(
      `${heading(name)}\n${listText(value, { things: heading(name), ...figureColumns(value.filter(isJsonObject)), view: facts.view })}`,
    );
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
  } else lines.push([terminalText(name), terminalText(valueText(value, name))]);
}

/** Where each of the rows is a cost: what it is of, and its figures. */
function figureColumns(rows: readonly Json[]): Pick<TextFacts, 'columns'> {
  const [first] = rows;
  if (first === undefined || !rows.every((row) => 'cost_usd' in row)) return {};
  return { columns: [...Object.keys(first).slice(0, 1), ...FIGURES] };
}

function heading(name: string): string {
  return terminalText(name.replaceAll('_', ' '));
}

/** Those that somebody named, else those of the table; a wide table has every plain member behind them. */
function columnsOf(rows: readonly Json[], table: readonly string[], { wide, columns: named }: TableView): readonly NamedColumn[] {
  const usual = table.map(namedColumn);
  if (named !== undefined) return named.map((name) => chosenColumn(name, usual, rows));
  if (table.length > 0 && wide !== true) return usual;
  const shown = new Set(usual.flatMap(({ parts }) => parts.flat()));
  const others = new Set(rows.flatMap((row) => Object.keys(row).filter((name) => !UNSEEN.has(name) && isShort(row[name]))));
  return [...usual, ...[...others].filter((name) => !shown.has(name)).map(plainColumn)];
}

function chosenColumn(name: string, usual: readonly NamedColumn[], rows: readonly Json[]): NamedColumn {
  const wanted = name.trim().toLowerCase();
  const found = usual.find(({ heading }) => heading.toLowerCase() === wanted);
  if (found !== undefined) return found;
  const members = new Set(rows.flatMap((row) => membersOf(row)));
  const member = [...members].find((one) => one.toLowerCase() === wanted);
  if (member !== undefined) return plainColumn(member);
  const known = new Set([...usual.map(({ heading }) => heading), ...[...members].sort()]);
  throw new UsageError(`--columns takes some of ${[...known].map(terminalText).join(', ')}, not ${JSON.stringify(terminalText(name))}`);
}

function plainColumn(name: string): NamedColumn {
  return { heading: name, parts: [[name]] };
}

/** Also what stands deeper, with dots. */
function membersOf(row: Json, prefix = ''): readonly string[] {
  return Object.entries(row).flatMap(([name, value]) => [
    `${prefix}${name}`,
    ...(isJsonObject(value) ? membersOf(value, `${prefix}${name}.`) : []),
  ]);
}

/** What fits into a cell. */
function isShort(value: unknown): boolean {
  if (Array.isArray(value)) return !value.some((one) => typeof one === 'object');
  return !isJsonObject(value) || Object.values(value).every((one) => typeof one !== 'object');
}
