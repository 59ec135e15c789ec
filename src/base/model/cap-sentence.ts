import type { RecordedBudget } from './budget-limit.ts';

/** Which cap has refused a recorded call, with its amounts, in words; undefined for a record of another refusal, or of none (decision 6.19). */
export function capSentence(record: Readonly<Record<string, unknown>>): string | undefined {
  const budget = record['budget'] as Partial<RecordedBudget> | null | undefined;
  if (typeof budget !== 'object' || typeof budget?.limit_usd !== 'string') return undefined;
  const { limit_usd: limit, cost_usd: cost, spent_usd: spent, reserved_usd: reserved, resets_at: until } = budget;
  const aside = reserved === undefined || reserved === '0' ? '' : ` and ${reserved} USD set aside`;
  const used = spent === undefined ? '' : `, ${spent} USD of it spent${aside}`;
  return `${nameOf(budget)} is ${limit} USD${used}${until === undefined ? '' : ` until ${until}`}; this call may cost ${cost} USD`;
}

function nameOf({ kind, limit_id: id, delegation_id: delegation, scope, scope_id: of, period }: Partial<RecordedBudget>): string {
  if (kind === 'request') return 'the cap of one request';
  if (kind === 'month') return 'the cap of its project for a month';
  if (kind === 'delegation') return `the budget of its delegation ${delegation}`;
  return `the ${period} limit of ${scope === 'org' || of === undefined ? 'the org' : `${scope} ${of}`} (${id})`;
}
