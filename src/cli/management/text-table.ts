import { cellWidth, cutToCells, padCells, padCellsAhead } from '../../base/lib/cell-width.ts';
import { cellText } from '../terminal-text.ts';

export interface TableColumn {
  readonly name: string;
  readonly cells: readonly string[];
  /** Its cells are shown whole or not at all, as ids and times are; numbers and money always are. */
  readonly whole?: boolean;
}

const GAP = '  ';
/**
 * A column of texts is not cut to less, and the first one, which mostly names the thing, not to less than the second.
 * In cells.
 */
const NARROWEST = 7;
const NARROWEST_FIRST = 20;
const NUMERIC = /^(?:-?\$?\d[\d,]*(?:\.\d+)?|-|)$/;

/** The room of a column. */
export interface ColumnRoom {
  readonly name: string;
  readonly numeric: boolean;
  /** Cells that it would have, and those that it must have. */
  readonly natural: number;
  readonly least: number;
  /** Nothing of it is cut, and it goes last where there is not room for all. */
  readonly kept: boolean;
  /** Cells that it mostly needs: what it has beyond them is cut first. Absent: none. */
  readonly usual?: number;
}

/** Lines of a table whose columns have room. */
export interface TableLines {
  readonly heading: string;
  /** How many columns there was no room for. */
  readonly left: number;
  /** @param cells in the order of the columns @param paint of a cell that has its width, by the name of its column */
  line(cells: readonly string[], paint?: (text: string, name: string) => string): string;
}

/**
 * Columns beside each other, numbers and money to the right.
 * @param width in cells of a terminal; texts are cut and, where that is not enough, the last columns left out. Absent:
 * nothing is cut
 */
export function textTable(columns: readonly TableColumn[], width?: number): string {
  const texts = columns.map(({ cells }) => cells.map(cellText));
  const { heading, left, line } = tableLines(
    columns.map((column, at) => roomOf(column, texts[at] ?? [], at)),
    width,
  );
  const rows = (texts[0] ?? []).map((_, row) => line(texts.map((cells) => cells[row] ?? '')));
  const note = left === 0 ? [] : [`(${left} more column${left === 1 ? '' : 's'}: --wide, --json, or a wider terminal)`];
  return `${[heading, ...rows, ...note].join('\n')}\n`;
}

/**
 * The lines of a table whose rows come one by one.
 * @param width as of {@link textTable}; cells are texts that may be shown
 */
export function tableLines(rooms: readonly ColumnRoom[], width?: number): TableLines {
  const all = rooms.map((room, at) => ({ ...room, at }));
  const { shown, widths } = width === undefined ? { shown: all, widths: all.map(({ natural }) => natural) } : fitted(all, width);
  const line: TableLines['line'] = (cells, paint = (text) => text) =>
    shown
      .map(({ at, name, numeric, kept }, place) => {
        const space = widths[place] ?? 0;
        const text = width === undefined || kept ? (cells[at] ?? '') : cutToCells(cells[at] ?? '', space);
        return paint(numeric ? padCellsAhead(text, space) : padCells(text, space), name);
      })
      .join(GAP)
      .trimEnd();
  const names = rooms.map(({ name }, at) => {
    const place = shown.findIndex((one) => one.at === at);
    return cutToCells(cellText(name).toUpperCase(), widths[place] ?? 1);
  });
  return { heading: line(names), left: rooms.length - shown.length, line };
}

function roomOf({ name, whole = false }: TableColumn, texts: readonly string[], at: number): ColumnRoom {
  const numeric = texts.some((text) => /\d/.test(text)) && texts.every((text) => NUMERIC.test(text));
  const widest = Math.max(1, ...texts.map(cellWidth));
  const heading = cellWidth(cellText(name));
  const natural = Math.max(heading, widest);
  const kept = whole || numeric;
  const least = kept ? Math.max(widest, Math.min(heading, NARROWEST)) : Math.min(natural, at === 0 ? NARROWEST_FIRST : NARROWEST);
  return { name, numeric, natural, least, kept };
}

interface PlacedRoom extends ColumnRoom {
  readonly at: number;
}

/** Which columns are shown, and how wide each is. */
function fitted(columns: readonly PlacedRoom[], width: number): { shown: readonly PlacedRoom[]; widths: readonly number[] } {
  for (let shown = columns; ; shown = withoutOne(shown)) {
    const widths = shown.map(({ natural }) => natural);
    let over = widths.reduce((sum, one) => sum + one + GAP.length, -GAP.length) - width;
    for (; over > 0; over -= 1) {
      const at = widestOf(shown, widths);
      if (at === undefined) break;
      widths[at] = (widths[at] ?? 0) - 1;
    }
    if (over <= 0 || shown.length <= 1) return { shown, widths };
  }
}

/** The one that may be cut and has most beyond what it mostly needs. */
function widestOf(shown: readonly PlacedRoom[], widths: readonly number[]): number | undefined {
  let found: number | undefined;
  let most = Number.NEGATIVE_INFINITY;
  for (const [at, { least, usual = 0 }] of shown.entries()) {
    const own = widths[at] ?? 0;
    if (own <= least || own - usual < most) continue;
    found = at;
    most = own - usual;
  }
  return found;
}

function withoutOne(shown: readonly PlacedRoom[]): readonly PlacedRoom[] {
  // Numbers go as texts do: an id or a time of which a command or a person makes something stays longest.
  const last = shown.findLastIndex(({ kept, numeric, at }) => at > 0 && (!kept || numeric));
  return shown.toSpliced(last, 1);
}
