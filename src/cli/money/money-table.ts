import { cellWidth, cutToCells, padCells, padCellsAhead } from '../../base/lib/cell-width.ts';
import { cellText } from '../terminal-text.ts';

/** A column of a table of amounts. */
export interface MoneyColumn {
  readonly name: string;
  readonly cells: readonly string[];
  /** Names stand to the left and may be cut; amounts stand to the right and are whole. */
  readonly kind: 'name' | 'amount';
  /** May be left out where the terminal has no room for it. */
  readonly spare?: true;
}

const GAP = '  ';
/** In cells. A name is not cut to less; and as long as a column may be spared instead, not to less than people can tell names apart by. */
const NARROWEST = 10;
const READABLE = 18;

/**
 * Names and amounts beside each other. Amounts are never cut: names are, and where that is not enough columns that may be spared are left out.
 * @param width in cells of a terminal; absent: nothing is cut
 */
export function moneyTable(columns: readonly MoneyColumn[], width: number | undefined): string {
  let shown = columns.map((column) => ({ ...column, name: cellText(column.name), cells: column.cells.map(cellText) }));
  const natural = () => shown.map(({ name, cells }) => Math.max(cellWidth(name), ...cells.map(cellWidth)));
  let widths = natural();
  const total = () => widths.reduce((sum, one) => sum + one + GAP.length, -GAP.length);
  for (;;) {
    if (width === undefined || total() <= width) break;
    const widest = Math.max(...widths.map((one, at) => (shown[at]?.kind === 'name' ? one : 0)));
    const spare = shown.findLastIndex((column) => column.spare === true);
    if (widest > (spare < 0 ? NARROWEST : READABLE)) {
      const at = widths.findLastIndex((one, index) => one === widest && shown[index]?.kind === 'name');
      widths[at] = widest - 1;
      continue;
    }
    if (spare < 0) break;
    shown = shown.filter((_, at) => at !== spare);
    widths = natural();
  }
  const cell = (text: string, at: number): string => {
    const space = widths[at] ?? 0;
    return shown[at]?.kind === 'name' ? padCells(cutToCells(text, space), space) : padCellsAhead(text, space);
  };
  const line = (cells: readonly string[]) => `${cells.map(cell).join(GAP).trimEnd()}\n`;
  const rows = Array.from({ length: shown[0]?.cells.length ?? 0 }, (_, row) => line(shown.map(({ cells }) => cells[row] ?? '')));
  return [line(shown.map(({ name }) => name)), ...rows].join('');
}
