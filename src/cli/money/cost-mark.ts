import { doubtNames } from '../../base/model/cost-doubt.ts';

/** What stands behind the cost of one call in a list: `?` the provider told no usage, `*` it is at the default rates. A legend for people is {@link COST_MARKS}. */
export function costMark(doubts: readonly string[]): string {
  return `${doubts.includes('no_usage') ? '?' : ''}${doubts.includes('default_rate') ? '*' : ''}`;
}

export const COST_MARKS = 'COST: $0? is a call whose provider told no usage, $0.01* one at the default rates';

/** The doubts of a record as it was answered. */
export function doubtsOfRecord(record: Readonly<Record<string, unknown>>): readonly string[] {
  // The gateway's own records; of anything else nothing is said.
  return doubtNames(record) ?? [];
}
