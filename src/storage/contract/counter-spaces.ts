/*
 * Counter spaces that are written in one room and read in another: their names and how their keys are made.
 */

/** Counter space of the daily roll-ups; its keys are made by {@link rollUpKey}. */
export const USAGE_DAY = 'usage_day';

/** Counter space of the daily spend by project: day, org, project. Only calls that were priced have a row, so nobody can grow it for nothing. */
export const SPEND_DAY = 'spend_day';

/** The parts of a key of {@link USAGE_DAY} or {@link SPEND_DAY}, decoded. */
export function parseRollUpKey(key: string): readonly string[] {
  return key.split('|').map((part) => (part.includes('%') ? decodeURIComponent(part) : part));
}

/** What one roll-up counter is kept for. Parts are percent-encoded, so that `|` only ever separates. */
export function rollUpKey(part: {
  readonly day: string;
  readonly org: string;
  readonly workload: string;
  readonly connector: string;
  readonly model: string;
  readonly decision: string;
}): string {
  return [part.day, part.org, part.workload, part.connector, part.model, part.decision].map(encodePart).join('|');
}

/** Key of {@link SPEND_DAY}. */
export function spendKey(part: { readonly day: string; readonly org: string; readonly project: string }): string {
  return [part.day, part.org, part.project].map(encodePart).join('|');
}

/** Nearly every part needs no encoding, and testing for that costs a tenth of it. */
function encodePart(text: string): string {
  return /^[\w.:-]*$/.test(text) ? text : encodeURIComponent(text);
}
