import type { Attribution } from './attribution.ts';
import type { ConnectionType } from './connection.ts';

export const APPROVAL_STATUSES = ['pending', 'approved', 'denied', 'expired'] as const;
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

/** What somebody asks for, as far as an approver sees it. */
export interface AskedAction {
  readonly type: string;
  readonly method: string;
  readonly target_host: string;
  /** With the names of the query's parameters only. */
  readonly target_path: string;
  readonly model?: string;
  readonly stream: boolean;
  /** Of each member of the params its name and size in bytes as JSON; the params themselves are kept with `GW_APPROVAL_KEEP_CONTENT` alone. */
  readonly param_sizes: Readonly<Record<string, number>>;
}

/** A request that waits for a person, or that one has decided (specification, "Approval"; decision 9.1). */
export interface Approval {
  /** UUIDv7. */
  readonly approval_id: string;
  readonly org_id: string;
  readonly workload_id: string;
  readonly caller_id?: string;
  readonly caller_ip?: string;
  readonly api_key_id?: string;
  readonly status: ApprovalStatus;
  /** Of the rule. */
  readonly reason: string;
  readonly reason_codes: readonly string[];
  /** `layer/id` of the rules that ask for it. */
  readonly rule_ids: readonly string[];
  readonly connection_type: ConnectionType;
  readonly attribution: Attribution;
  readonly action: AskedAction;
  readonly action_hash: string;
  /** US dollars, decimal text; absent where nobody can say. */
  readonly estimated_cost_usd?: string;
  /** The request that opened it. */
  readonly record_id: string;
  readonly created_at: string;
  /** Until then a pending one can be decided, and an approved one be used. */
  readonly expires_at: string;
  readonly decided_by: string | null;
  readonly decided_at: string | null;
  readonly decision_reason?: string;
  /** The one execution that it allowed. */
  readonly executed_at?: string;
  readonly executed_record_id?: string;
}
