/** A number as text with so many decimals; for people, and never for money. */
export function withDecimals(value: number, decimals: number): string {
  return value.toFixed(decimals);
}

/** A number with so many significant digits and no others. */
export function significant(value: number, digits: number): number {
  return Number(value.toPrecision(digits));
}
