/** The smaller of two indexes, where -1 is none. */
export function firstOf(a: number, b: number): number {
  return b === -1 || (a !== -1 && a < b) ? a : b;
}
