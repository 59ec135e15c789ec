/* How values stand in the cells of a table: short at a terminal, whole everywhere else. */
import { isJsonObject } from '../../base/json/json-object.ts';
import { UsageError } from '../command.ts';
import { tellingCodes } from '../record-texts.ts';

/** How a table is wanted. */
export interface TableView {
  /** Of the terminal, in cells; undefined: it is none, and nothing is cut or shortened. */
  readonly width: number | undefined;
  /** Every column with whole values, whatever the terminal's width. */
  readonly wide?: boolean;
  /** Members or headings that somebody named; their values are whole. */
  readonly columns?: readonly string[] | undefined;
  /** Milliseconds since the epoch: times of the same day have no date. */
  readonly now: number;
}

/** What was given behind `--columns`. @throws UsageError */
export function columnNames(text: string | undefined): readonly string[] | undefined {
  const names = text?.split(',').filter((name) => name.trim() !== '');
  if (names?.length === 0) throw new UsageError('--columns takes names with commas between them, such as time,model');
  return names;
}

type Json = Readonly<Record<string, unknown>>;

const TIME = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Digits at the end of an id that tell it from others: its beginning is the time at which it was made. */
const ID_DIGITS = [8, 12];
const MONEY = /(?:^|[._])usd$/;
/** Decisions are read in a glance where there is little room. */
const SHORT_DECISIONS: Readonly<Record<string, string>> = { require_approval: 'approval', require_attribution: 'attribution' };

/** A decision in a word. */
export function shortDecision(decision: string): string {
  return SHORT_DECISIONS[decision] ?? decision;
}

/** Whether it is an id that begins with the time at which it was made. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/**
 * A column as its table names it: heading, and of each item the members that it shows one behind the other, of each of
 * these the first that is there.
 */
export interface NamedColumn {
  readonly heading: string;
  readonly parts: readonly (readonly string[])[];
}

/** Reads `cost / reason: metering.cost_usd + reason_codes`, `model: model | target_host` and `name`. */
export function namedColumn(text: string): NamedColumn {
  const at = text.indexOf(':');
  const [heading, members] = at < 0 ? [lastPart(text), text] : [text.slice(0, at).trim(), text.slice(at + 1)];
  return { heading, parts: members.split('+').map((part) => part.split('|').map((name) => name.trim())) };
}

function lastPart(member: string): string {
  return member.slice(member.lastIndexOf('.') + 1);
}

/** The cells of a column. `whole`: they are ids or times, of which no part tells anything. */
export function columnCells({ parts }: NamedColumn, rows: readonly Json[], view: TableView): { cells: readonly string[]; whole: boolean } {
  const isShort = view.width !== undefined && view.wide !== true && view.columns === undefined;
  const found = rows.map((row) => parts.map((names) => memberIn(row, names, isShort)));
  const single = found.map(([first]) => first?.value);
  if (parts.length === 1 && isShort) {
    const own = shortCells(single, view.now);
    if (own !== undefined) return { cells: own, whole: true };
  }
  const text = (one: FoundMember | undefined) => (one === undefined ? '' : valueText(one.value, one.name, isShort));
  const cells = found.map((members) =>
    members
      .map(text)
      .filter((part) => part !== '')
      .join(' '),
  );
  return { cells, whole: parts.length === 1 && (allAre(UUID, single) || allAre(TIME, single)) };
}

interface FoundMember {
  readonly name: string;
  readonly value: unknown;
}

function memberIn(row: Json, names: readonly string[], isShort: boolean): FoundMember | undefined {
  let empty: FoundMember | undefined;
  for (const name of names) {
    let value: unknown = row;
    for (const part of name.split('.')) value = isJsonObject(value) ? value[part] : undefined;
    if (isShort && Array.isArray(value) && lastPart(name) === 'reason_codes') value = tellingCodes(value);
    if (value !== undefined && value !== null && value !== '' && !(Array.isArray(value) && value.length === 0)) return { name, value };
    if (value === null) empty = { name, value };
  }
  return empty;
}

/** Undefined: they are neither ids nor times. */
function shortCells(values: readonly unknown[], now: number): readonly string[] | undefined {
  if (allAre(UUID, values)) return shortIds(values.map(textOr));
  return allAre(TIME, values) ? shortTimes(values.map(textOr), now) : undefined;
}

function textOr(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function allAre(pattern: RegExp, values: readonly unknown[]): boolean {
  const there = values.filter((value) => value !== undefined && value !== null);
  return there.length > 0 && there.every((value) => typeof value === 'string' && pattern.test(value));
}

/** The end of each id, long enough to tell those of the list apart; a command takes it in the place of the id. */
export function shortIds(ids: readonly string[]): readonly string[] {
  const different = new Set(ids).size;
  const digits = ID_DIGITS.find((count) => new Set(ids.map((id) => id.slice(-count))).size === different);
  return digits === undefined ? ids : ids.map((id) => id.slice(-digits));
}

/**
 * Times of the zone of the machine, all in one form: of the day where all are of this day, else with month and day, and
 * with the year where one is of another year.
 * @param times RFC 3339, or empty @param now milliseconds since the epoch
 */
export function shortTimes(times: readonly string[], now: number): readonly string[] {
  const today = localParts(now);
  const parts = times.map((time) => (time === '' ? undefined : localParts(Date.parse(time))));
  const there = parts.filter((one) => one !== undefined);
  if (there.every(({ date }) => date === today.date)) return parts.map((one) => one?.time ?? '-');
  const sameYear = there.every(({ date }) => date.slice(0, 4) === today.date.slice(0, 4));
  return parts.map((one) => (one === undefined ? '-' : `${sameYear ? one.date.slice(5) : one.date} ${one.time.slice(0, 5)}`));
}

function localParts(ms: number): { readonly date: string; readonly time: string } {
  const at = new Date(ms);
  const two = (number: number) => String(number).padStart(2, '0');
  return {
    date: `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`,
    time: `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`,
  };
}

/** What stands for a value. @param name of its member: money is dollars */
export function valueText(value: unknown, name = '', isShort = false): string {
  if (value === undefined) return '';
  if (value === null) return '-';
  if (typeof value === 'string') {
    if (MONEY.test(name) && value !== '') return `$${value}`;
    if (isShort && lastPart(name) === 'decision') return shortDecision(value);
    return value.replace(TIME, '$1 $2Z');
  }
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.map((one) => valueText(one)).join(', ');
  if (!isJsonObject(value)) return JSON.stringify(value);
  return Object.entries(value)
    .map(([inner, one]) => `${inner}=${valueText(one)}`)
    .join(' ');
}
