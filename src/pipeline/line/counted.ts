import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { Counted } from '../../services/money/budgets.ts';
import { countCost } from '../../services/money/cost-of.ts';
import type { Effect } from '../../storage/contract/store.ts';
import type { Budgets, RecordTotals } from '../parts/call-services.ts';
import type { Closing, Settlement } from '../parts/settlement.ts';

/** Settlements that every request has, refused ones included. */
export const COUNTED: readonly ((ground: { readonly budgets: Budgets; readonly counters: RecordTotals }) => Settlement)[] = [
  ({ counters }: { readonly counters: RecordTotals }): Settlement => ({ effects: (record) => counters.effects(record) }),
  ({ budgets }: { readonly budgets: Budgets }): Settlement => new CountedCost(budgets),
];

/**
 * What the record says that its call cost. It is counted from the record itself, like the roll-ups, whether or not anything was set aside, so that the two can never
 * disagree (decision 6.2).
 */
class CountedCost implements Settlement {
  readonly #budgets: Budgets;
  #counted: Counted | undefined;

  constructor(budgets: Budgets) {
    this.#budgets = budgets;
  }

  effects(record: ExecutionRecord, { completedAt }: Closing): readonly Effect[] {
    this.#counted = countCost(record, this.#budgets, completedAt);
    return this.#counted?.effects ?? [];
  }

  stored(): void {
    if (this.#counted) this.#budgets.stored(this.#counted);
  }

  failed(): void {
    if (this.#counted) this.#budgets.uncount(this.#counted);
  }
}
