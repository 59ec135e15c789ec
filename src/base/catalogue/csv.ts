import type { RowProblems } from './row-reader.ts';

/** One data line: its cells by column order, and its number in the file, from 1. */
export interface CsvLine {
  readonly line: number;
  readonly cells: readonly string[];
}

/** Reads a comma-separated file without quoting, the only form that the shipped tables have. The first line must be exactly `columns`. */
export function readCsv(text: string, columns: readonly string[], problems: RowProblems): readonly CsvLine[] {
  const lines = text.split('\n');
  if (lines[0]?.trimEnd() !== columns.join(',')) problems.add('', `the first line must be ${columns.join(',')}`, { line: 1, column: 1 });
  const read: CsvLine[] = [];
  for (let i = 1; i < lines.length; i++) {
    const line = lines[i]?.trimEnd() ?? '';
    if (line === '') continue;
    const cells = line.split(',');
    if (cells.length === columns.length && !line.includes('"')) read.push({ line: i + 1, cells });
    else problems.add('', `needs ${columns.length} cells without quotes`, { line: i + 1, column: 1 });
  }
  return read;
}
