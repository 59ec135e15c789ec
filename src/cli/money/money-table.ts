import { cellWidth, cutToCells, padCells, padCellsAhead } from '../../base/lib/cell-width.ts';
import { parseUsd, usdFromPico } from '../../base/lib/money.ts';
import { doubtNames } from '../../base/model/cost-doubt.ts';
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
/**
 * In cells. A name is not cut to less; and as long as a column may be spared instead, not to less than people can tell
 * names apart by.
 */
const NARROWEST = 10;
const READABLE = 18;

/**
 * Names and amounts beside each other. Amounts are never cut: names are, and where that is not enough columns that may
 * be spared are left out.
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

/**
 * What stands behind the cost of one call in a list: `?` the provider told no usage, `*` it is at the default rates. A
 * legend for people is {@link COST_MARKS}.
 */
export function costMark(doubts: readonly string[]): string {
  return `${doubts.includes('no_usage') ? '?' : ''}${doubts.includes('default_rate') ? '*' : ''}`;
}

export const COST_MARKS = 'COST: $0? is a call whose provider told no usage, $0.01* one at the default rates';

/** The doubts of a record as it was answered. */
export function doubtsOfRecord(record: Readonly<Record<string, unknown>>): readonly string[] {
  // The gateway's own records; of anything else nothing is said.
  return doubtNames(record) ?? [];
}

/* Amounts and counts as people read them; programs are given the exact ones. */
const PICO = 10n ** 12n;
/** Below a dollar so many decimals, above it cents. */
const SMALL_DECIMALS = 4;

/**
 * Pico-dollars as `$1,204.10`, `$0.0042` or `<$0.0001`: rounded half up to cents, below a dollar to a hundredth of a
 * cent.
 */
export function dollars(pico: bigint): string {
  if (pico < 0n) return `-${dollars(-pico)}`;
  const small = PICO / 10n ** BigInt(SMALL_DECIMALS);
  if (pico > 0n && pico < small / 2n) return `<$${usdFromPico(small)}`;
  const unit = pico < PICO ? small : PICO / 100n;
  const [whole = '0', part = ''] = usdFromPico(((pico + unit / 2n) / unit) * unit).split('.');
  return `$${grouped(BigInt(whole))}.${part.length > 2 ? part.padEnd(SMALL_DECIMALS, '0') : part.padEnd(2, '0')}`;
}

/** The same of an amount of an answer; absent: 0. */
export function shownUsd(text: string | undefined): string {
  return dollars(parseUsd(text ?? '0') ?? 0n);
}

/** `1,204`. */
export function grouped(count: bigint | number): string {
  return count.toString().replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

const UNITS = ['', 'K', 'M', 'G', 'T'] as const;

/** Of tokens: `940`, `12.4K`, `3.0M`. */
export function roughly(count: number): string {
  if (count < 1_000) return String(count);
  let [tenths, at] = [Math.round(count / 100), 1];
  while (tenths >= 10_000 && at < UNITS.length - 1) {
    tenths = Math.round(tenths / 1_000);
    at += 1;
  }
  return `${Math.floor(tenths / 10)}.${tenths % 10}${UNITS[at]}`;
}
