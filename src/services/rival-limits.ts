import type { LimitStatus } from './budgets.ts';

/** Whether two limits count the same spend: of one org, one scope and one period. A draft does nothing. */
function isRival({ limit: one }: LimitStatus, { limit: other }: LimitStatus): boolean {
  return (
    one.limit_id !== other.limit_id &&
    one.org_id === other.org_id &&
    one.scope === other.scope &&
    one.scope_id === other.scope_id &&
    one.period === other.period &&
    one.actions.length > 0 &&
    other.actions.length > 0
  );
}

/** Of some limits those that hold beside one of them, for the same scope and period (decision 6.20). */
export function rivalsOf(limit: LimitStatus, all: readonly LimitStatus[]): readonly LimitStatus[] {
  return all.filter((other) => isRival(limit, other));
}
