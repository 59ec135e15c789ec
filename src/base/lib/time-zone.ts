const DAY_MS = 86_400_000;
const QUARTER_MS = 900_000;
/** No zone was ever further from UTC. */
const FURTHEST_MS = 16 * 3_600_000;
const CANONICAL_LENGTH = 64;

/**
 * A time zone of the IANA database. A day of it begins at the first moment that its date is that of the day: at 01:00
 * where a change of the clock takes the hour from midnight away. Since 1972 every zone is whole quarters of an hour
 * from UTC, and so is each beginning of a day; a day that a zone left out begins, and ends, with the one behind it.
 */
export class TimeZone {
  readonly name: string;
  readonly #dates: Intl.DateTimeFormat;

  private constructor(name: string, dates: Intl.DateTimeFormat) {
    this.name = name;
    this.#dates = dates;
  }

  /** Undefined for a name that the database does not have. */
  static of(name: string): TimeZone | undefined {
    // An offset such as +02:00 is no zone: it has no rules.
    if (name.length > CANONICAL_LENGTH || !/^[A-Za-z]/.test(name)) return undefined;
    try {
      const dates = new Intl.DateTimeFormat('en-CA', { timeZone: name, year: 'numeric', month: '2-digit', day: '2-digit' });
      return new TimeZone(name, dates);
    } catch {
      return undefined;
    }
  }

  /** The date that it is there, as `2026-11-22`. @param epochMs of a year that four digits can say */
  dayOf(epochMs: number): string {
    const parts = new Map(this.#dates.formatToParts(epochMs).map(({ type, value }) => [type, value]));
    return `${(parts.get('year') ?? '').padStart(4, '0')}-${parts.get('month') ?? ''}-${parts.get('day') ?? ''}`;
  }

  /** When a day such as `2026-11-22` begins there, epoch milliseconds. @param day one that the calendar has */
  startOf(day: string): number {
    const midnight = Date.parse(`${day}T00:00:00Z`);
    let [before, at] = [midnight - FURTHEST_MS, midnight + FURTHEST_MS];
    // The first quarter of an hour of which the date is not before that day.
    while (at - before > QUARTER_MS) {
      const middle = before + Math.floor((at - before) / QUARTER_MS / 2) * QUARTER_MS;
      if (this.dayOf(middle) < day) before = middle;
      else at = middle;
    }
    return at;
  }
}

/** UTC itself. */
export const UTC = requireZone('UTC');

/** The calendar's day behind, or before, one such as `2026-11-22`. */
export function dayAfter(day: string, days = 1): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
}

function requireZone(name: string): TimeZone {
  const zone = TimeZone.of(name);
  if (zone === undefined) throw new TypeError(`this Node has no time zone ${name}`);
  return zone;
}
