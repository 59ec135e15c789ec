import { cutShown } from '../../base/lib/shown-text.ts';
import { cellText } from '../terminal-text.ts';

export interface TableColumn {
  readonly name: string;
  readonly cells: readonly string[];
}

const GAP = '  ';
/** A column is not cut to less. */
const NARROWEST = 10;
const NUMERIC = /^-?\d[\d.,]*$/;

/**
 * Columns beside each other, numbers and money to the right.
 * @param width in characters; cells are cut and, where that is not enough, the last columns left out. The first column is whole: it names the thing. Absent: nothing is cut
 */
export function textTable(columns: readonly TableColumn[], width?: number): string {
  const shown = columns.map(({ name, cells }) => {
    const texts = cells.map(cellText);
    const numeric = texts.some((text) => NUMERIC.test(text)) && texts.every((text) => text === '' || text === '-' || NUMERIC.test(text));
    return { name: cellText(name), texts, numeric, width: Math.max(name.length, ...texts.map((text) => text.length)) };
  });
  const widths = fitted(
    shown.map((column) => column.width),
    width,
  );
  const line = (cellOf: (at: number) => string) =>
    `${widths.map((space, at) => cell(cellOf(at), space, shown[at]?.numeric === true)).join(GAP)}`.trimEnd();
  const rows = (shown[0]?.texts ?? []).map((_, row) => line((at) => shown[at]?.texts[row] ?? ''));
  const left = columns.length - widths.length;
  const note = left === 0 ? [] : [`(${left} more column${left === 1 ? '' : 's'}: --json, or a wider terminal)`];
  return `${[line((at) => shown[at]?.name.toUpperCase() ?? ''), ...rows, ...note].join('\n')}\n`;
}

/** Widths of the columns that are shown. */
function fitted(natural: readonly number[], width: number | undefined): number[] {
  const widths = [...natural];
  if (width === undefined) return widths;
  const total = () => widths.reduce((sum, one) => sum + one + GAP.length, -GAP.length);
  while (total() > width && widths.length > 1) {
    const widest = Math.max(...widths.slice(1));
    if (widest > NARROWEST) widths[1 + widths.slice(1).lastIndexOf(widest)] = widest - 1;
    else widths.pop();
  }
  return widths;
}

function cell(text: string, width: number, numeric: boolean): string {
  const cut = cutShown(text, width);
  return numeric ? cut.padStart(width) : cut.padEnd(width);
}
