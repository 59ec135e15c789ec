import type { Approval } from '../model/approval.ts';
import type { AuditEntry } from '../model/audit-entry.ts';
import type { BudgetAlert } from '../model/budget-limit.ts';
import type { QuarantineEntry } from '../model/quarantine-entry.ts';
import type { RiskAlert } from '../model/risk-alert.ts';

/** Events that are not lost, because they are committed with what they tell of, and what each says. */
export interface DurablePayloads {
  budgetAlert: BudgetAlert;
  audit: AuditEntry;
  quarantine: QuarantineEntry;
  approval: Approval;
  riskAlert: RiskAlert;
}

export type DurableName = keyof DurablePayloads;

/** The names of {@link DurablePayloads}, for the reference page. */
export const DURABLE: Readonly<Record<DurableName, true>> = {
  budgetAlert: true,
  audit: true,
  quarantine: true,
  approval: true,
  riskAlert: true,
};

/** An event as it waits to be delivered. JSON data. */
export type DurableEvent = {
  readonly [N in DurableName]: {
    /** Tells it apart from every other, so that a destination can drop what it got twice. */
    readonly id: string;
    readonly name: N;
    /** When it happened, milliseconds since the epoch. */
    readonly at: number;
    readonly event: DurablePayloads[N];
  };
}[DurableName];

/** Where durable events go. */
export interface Destination {
  /** What its place in the outbox is kept by; letters, digits and dashes, the same after every start. */
  readonly id: string;
  /**
   * Takes events in the order in which they happened. Every one comes at least once: those of the last batch come again when the process ended before it was noted that
   * they were taken. Resolves when they need not come again, and rejects when they must.
   */
  deliver(batch: readonly DurableEvent[]): Promise<void>;
}
