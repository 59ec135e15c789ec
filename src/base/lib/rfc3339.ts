const TIME = /^(\d{4}-\d{2}-\d{2})[Tt](?:[01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})$/;
const DATE = /^\d{4}-\d{2}-\d{2}$/;

/**
 * Milliseconds since the epoch of an RFC 3339 time; undefined for any other text, for a day that its month does not have, and for the 24th
 * hour, which `Date` would take.
 */
export function parseTime(text: string): number | undefined {
  const date = TIME.exec(text)?.[1];
  if (date === undefined || parseDate(date) === undefined) return undefined;
  const value = Date.parse(text.toUpperCase());
  return Number.isNaN(value) ? undefined : value;
}

/** Milliseconds since the epoch at which a UTC day such as `2026-11-22` begins; undefined for any other text, and for a day that its month does not have. */
export function parseDate(text: string): number | undefined {
  if (!DATE.test(text)) return undefined;
  const value = Date.parse(`${text}T00:00:00.000Z`);
  return !Number.isNaN(value) && new Date(value).toISOString().startsWith(text) ? value : undefined;
}
