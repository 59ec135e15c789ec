/**
 * What a spreadsheet would take for the beginning of a formula (OWASP, "CSV Injection"), also behind blanks and what is
 * not seen, which some take off, and in the wide forms of the signs.
 */
const FORMULA = /^[\s\p{C}\p{DI}]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/u;
/**
 * What ends a cell, or is taken off it, in one reader or another: a spreadsheet separates by `;` where `,` stands in
 * decimal numbers, and by tabs.
 */
const QUOTED = /[",;\t\r\n]|^\s|\s$/;

/**
 * One line of RFC 4180, its line break included. A cell that a spreadsheet would run gets an apostrophe in front, so
 * that it is shown as the text it is (decision 8.16).
 */
export function csvLine(cells: readonly string[]): string {
  return `${cells.map(cell).join(',')}\r\n`;
}

function cell(text: string): string {
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return QUOTED.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
