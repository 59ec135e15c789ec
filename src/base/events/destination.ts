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
  approvalStep: Approval;
  riskAlert: RiskAlert;
  riskNotice: RiskAlert;
}

export type DurableName = keyof DurablePayloads;

/** The names of {@link DurablePayloads}, for the reference page. */
export const DURABLE: Readonly<Record<DurableName, true>> = {
  budgetAlert: true,
  audit: true,
  quarantine: true,
  approval: true,
  approvalStep: true,
  riskAlert: true,
  riskNotice: true,
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

/** What stands for the org of an event that is of none, but of the gateway. */
export const NO_ORG = '';

/** The org that an event is of, or {@link NO_ORG}. */
export function orgOfEvent({ name, event }: DurableEvent): string {
  return (name === 'budgetAlert' ? event.limit.org_id : event.org_id) ?? NO_ORG;
}

/** Where durable events go. */
export interface Destination {
  /** What its place in the outbox is kept by; letters, digits and dashes, the same after every start. */
  readonly id: string;
  /** What happened earlier is not for it, milliseconds since the epoch. Default: it takes all that waits. */
  readonly since?: number;
  /**
   * Whether events of this name are for it: of this org, of none ({@link NO_ORG}), or of whichever org (undefined). It
   * may change its mind, and then says so (`Outbox.reconsider`). Default: all of them are.
   */
  wants?(name: DurableName, orgId: string | undefined): boolean;
  /** Events that it takes at once. Default 100. */
  readonly batch?: number;
  /**
   * Takes events in the order in which they happened. Every one comes at least once: those of the last batch come again
   * when the process ended before it was noted that they were taken. Resolves when they need not come again, and
   * rejects when they must; a member `retryAfterMs` of the error says how long it is to be left alone. Once `signal` is
   * aborted it should end soon.
   */
  deliver(batch: readonly DurableEvent[], signal: AbortSignal): Promise<void>;
}
