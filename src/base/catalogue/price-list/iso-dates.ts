const COMPACT_DATE = /-(20\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)/g;

/**
 * A name with the dates in it as the list writes some of them: `-20250514` is `-2025-05-14`. The name itself where it
 * has none that exists.
 */
export function withIsoDates(name: string): string {
  return name.replace(COMPACT_DATE, (whole, year: string, month: string, day: string) =>
    isDay(Number(year), Number(month), Number(day)) ? `-${year}-${month}-${day}` : whole,
  );
}

/** Whether there is such a day; months begin at 1. */
export function isDay(year: number, month: number, day: number): boolean {
  const date = new Date(Date.UTC(year, month - 1, day));
  return date.getUTCFullYear() === year && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}
