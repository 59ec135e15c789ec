/* Calls below each other: what of them is shown by the width of a terminal, and how wide each column is. */
import { cellWidth } from '../../base/lib/cell-width.ts';
import type { Paint } from '../../policy-tools/render-problem.ts';
import { UsageError } from '../command.ts';
import { shortDecision, shortIds, shortTimes } from '../management/table-cells.ts';
import { type ColumnRoom, type TableLines, tableLines } from '../management/text-table.ts';
import { terminalText } from '../terminal-text.ts';
import { decisionPaint, type SeenCall } from './call-line.ts';

/** How calls are shown. */
export interface CallView {
  /** Of the terminal, in cells; undefined: it is none, and everything is whole. */
  readonly width: number | undefined;
  /** Every column, whole. */
  readonly wide?: boolean;
  /** Names of columns that are shown at a terminal, in the place of the usual ones. */
  readonly usual?: readonly string[];
  /** Names of columns that somebody asked for, whole. */
  readonly columns?: readonly string[] | undefined;
  /** Milliseconds since the epoch: times of this day have no date. */
  readonly now: () => number;
}

interface CallColumn {
  readonly whole: (call: SeenCall) => string;
  /** At a terminal. Default: the same. */
  readonly short?: (call: SeenCall, now: number) => string;
  /** Cells where nobody knows what comes, and those that it must have. */
  readonly usual: number;
  readonly least: number;
  readonly numeric?: true;
  /** Never cut. */
  readonly kept?: true;
}

const there = (text: string) => (text === '-' ? '' : text);
const either = (first: string, second: string) => (there(first) === '' ? second : first);

const COLUMNS: Readonly<Record<string, CallColumn>> = {
  time: { whole: ({ at }) => at, short: ({ at }, now) => shortTime(at, now), usual: 11, least: 11, kept: true },
  decision: { whole: ({ decision }) => decision, short: ({ decision }) => shortDecision(decision), usual: 8, least: 8 },
  who: { whole: ({ workload }) => workload, usual: 15, least: 8 },
  caller: { whole: ({ caller }) => caller, usual: 16, least: 8 },
  door: { whole: ({ door }) => door, usual: 8, least: 8 },
  provider: { whole: ({ provider }) => provider, usual: 12, least: 8 },
  model: { whole: ({ model, host }) => either(model, host), usual: 20, least: 8 },
  'provider/model': { whole: ({ provider, model }) => `${provider}/${model}`, usual: 30, least: 8 },
  path: { whole: ({ path }) => path, short: ({ path }) => shortPath(path), usual: 16, least: 8 },
  status: { whole: ({ status }) => status, usual: 6, least: 6, numeric: true, kept: true },
  tokens: { whole: ({ tokens }) => tokens, usual: 11, least: 11, numeric: true, kept: true },
  cost: { whole: ({ cost }) => cost, usual: 12, least: 12, numeric: true, kept: true },
  took: { whole: ({ duration }) => duration, usual: 8, least: 8, numeric: true, kept: true },
  id: { whole: ({ recordId }) => recordId, short: ({ recordId }) => shortIds([recordId])[0] ?? '', usual: 8, least: 8, kept: true },
  reason: { whole: ({ reason }) => reason, usual: 20, least: 8 },
  // Who is refused pays nothing, so that both have one place.
  'cost/reason': { whole: ({ cost, telling }) => [there(cost), telling].filter((part) => part !== '').join(' '), usual: 24, least: 10 },
};
const AT_A_TERMINAL = ['time', 'decision', 'who', 'model', 'path', 'cost/reason', 'id'];
const BETWEEN = 2;
const ALL = ['time', 'decision', 'who', 'door', 'provider/model', 'path', 'status', 'tokens', 'cost', 'took', 'caller', 'id', 'reason'];
const WHOLE_ID = 36;
const WHOLE_TIME = 24;

/** The lines of a table of calls. */
export interface CallTable {
  readonly heading: string;
  line(call: SeenCall, paint: Paint): string;
}

/**
 * @param known calls whose widths the columns have; undefined: they come later, and the columns have usual widths
 * @throws UsageError for a column that there is not
 */
export function callTable(view: CallView, known?: readonly SeenCall[]): CallTable {
  const isShort = view.width !== undefined && view.wide !== true && view.columns === undefined;
  const all = view.columns?.map(columnNamed) ?? view.usual ?? (isShort ? AT_A_TERMINAL : ALL);
  const roomFor = (name: string): ColumnRoom =>
    roomOf(
      name,
      known?.map((call) => cellOf(name, call, isShort, view.now())),
      isShort,
    );
  const rooms = isShort ? withoutPath(all.map(roomFor), view.width ?? 0) : all.map(roomFor);
  const names = rooms.map(({ name }) => name);
  const cellsOf = (call: SeenCall) => names.map((name) => cellOf(name, call, isShort, view.now()));
  const lines: TableLines = tableLines(rooms, isShort ? view.width : undefined);
  return {
    heading: lines.heading,
    line: (call, paint) =>
      lines.line(cellsOf(call), (text, name) => (name === 'decision' ? decisionPaint(call.decision, paint)(text) : text)),
  };
}

/** Paths are shown where nothing else is cut for them: why a call was refused tells more. */
function withoutPath(rooms: readonly ColumnRoom[], width: number): readonly ColumnRoom[] {
  const needed = rooms.reduce((sum, { name, natural, least }) => sum + (name === 'path' ? least : natural) + BETWEEN, -BETWEEN);
  return needed <= width ? rooms : rooms.filter(({ name }) => name !== 'path');
}

function columnNamed(given: string): string {
  const name = given.trim().toLowerCase();
  if (Object.hasOwn(COLUMNS, name)) return name;
  throw new UsageError(`--columns takes some of ${Object.keys(COLUMNS).join(', ')}, not ${JSON.stringify(terminalText(given))}`);
}

function cellOf(name: string, call: SeenCall, isShort: boolean, now: number): string {
  const { whole, short } = COLUMNS[name] ?? {};
  return (isShort ? short?.(call, now) : undefined) ?? whole?.(call) ?? '';
}

function roomOf(name: string, cells: readonly string[] | undefined, isShort: boolean): ColumnRoom {
  const { usual = 8, least = 8, numeric = false, kept = false } = COLUMNS[name] ?? {};
  const whole = name === 'id' ? WHOLE_ID : name === 'time' ? WHOLE_TIME : usual;
  const widest = cells === undefined ? (isShort ? usual : whole) : Math.max(name.length, ...cells.map(cellWidth));
  return { name, numeric, kept, natural: widest, least: Math.min(widest, kept ? widest : least), usual };
}

/** Of another year the day alone, so that it has the room of those of this one. */
function shortTime(at: string, now: number): string {
  const [text = ''] = shortTimes([at], now);
  return text.length > 'MM-DD HH:MM'.length ? text.slice(0, 'YYYY-MM-DD'.length) : text;
}

/** Without what nearly all have. */
function shortPath(path: string): string {
  return path.replace(/^\/v\d[a-z0-9]{0,8}\//, '');
}
