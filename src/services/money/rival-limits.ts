import type { BudgetLimit } from '../../base/model/budget-limit.ts';
import type { LimitStatus } from './budgets.ts';

/**
 * Limits that count the same spend: of one org, one scope and one period (decision 6.20). Looked up by that, since
 * there may be many.
 */
export class RivalLimits {
  readonly #all = new Map<string, LimitStatus[]>();

  constructor(all: readonly LimitStatus[]) {
    for (const status of all) {
      // A draft does nothing.
      if (status.limit.actions.length === 0) continue;
      const key = keyOf(status.limit);
      const alike = this.#all.get(key);
      if (alike === undefined) this.#all.set(key, [status]);
      else alike.push(status);
    }
  }

  /** Those that hold beside one of them. */
  of({ limit }: LimitStatus): readonly LimitStatus[] {
    if (limit.actions.length === 0) return [];
    return (this.#all.get(keyOf(limit)) ?? []).filter((other) => other.limit.limit_id !== limit.limit_id);
  }
}

function keyOf({ org_id: org, scope, scope_id: id, period }: BudgetLimit): string {
  return JSON.stringify([org, scope, id, period]);
}
