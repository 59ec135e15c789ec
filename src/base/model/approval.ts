import type { Attribution, ConnectionType } from './action-request.ts';
import { type NamedPrincipal, principalText } from './principal.ts';

export const APPROVAL_STATUSES = ['pending', 'approved', 'denied', 'expired', 'withdrawn'] as const;
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

/** How long a call may wait on its open connection at most. */
export const MAX_HOLD = '5m';

const GROUP = /^[\p{L}\p{N}][\p{L}\p{N} ._:@/-]{0,63}$/u;
export const GROUP_RULE = 'a group has 1 to 64 letters, digits, spaces and . _ : @ / -, and begins with a letter or a digit';

/** Whether something may be the name of a group of approvers. */
export function isGroupName(text: string): boolean {
  return GROUP.test(text);
}

/** What somebody asks for, as far as an approver sees it. */
export interface AskedAction {
  readonly type: string;
  readonly method: string;
  /** That takes the call; absent in entries from before it was bound. */
  readonly connector_id?: string;
  /** As it is sent: what a hint, a custom connector or policy has made of it. */
  readonly target_host: string;
  /** Scheme, host and port, where these are not https and 443. */
  readonly target_origin?: string;
  /** With the names of the query's parameters only. */
  readonly target_path: string;
  readonly model?: string;
  readonly stream: boolean;
  /**
   * Of each member of the params its name and size in bytes as JSON; the params themselves are kept with
   * `GW_APPROVAL_KEEP_CONTENT` alone.
   */
  readonly param_sizes: Readonly<Record<string, number>>;
}

/** How many different persons must say yes, and of which group; a person counts for each need whose group is theirs. */
export interface ApprovalNeed {
  readonly required: number;
  /** Absent: whoever may decide. */
  readonly group?: string;
}

/** What one person has said of an approval. */
export interface ApprovalDecision {
  readonly status: 'approved' | 'denied';
  readonly decided_by: string;
  readonly decided_by_principal: NamedPrincipal;
  readonly decided_by_note?: string;
  /** Of a key that another key has made: the first one of these, which is the same person. */
  readonly made_by?: string;
  /** Of the groups that are asked, those that the person is in; absent: none is asked, or the admin token decided. */
  readonly groups?: readonly string[];
  readonly decided_at: string;
  readonly reason?: string;
}

/** Calls that wait on their open connections for it. */
export interface WaitingCalls {
  /** When the last of them is answered that it still waits. */
  readonly until: string;
  readonly calls: number;
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
  /** Under which it is asked for: the last link of a token that was verified, else what the caller names. */
  readonly delegation_id?: string;
  /** For whom that was issued. */
  readonly principal_id?: string;
  /** The stored credential that the call would take; absent where its caller brings a key, or nobody does. */
  readonly credential_id?: string;
  readonly status: ApprovalStatus;
  /** Of the rule. */
  readonly reason: string;
  readonly reason_codes: readonly string[];
  /** `layer/id` of the rules that ask for it. */
  readonly rule_ids: readonly string[];
  /**
   * SHA-256 of the content of each of them, in the same order; absent in entries from before it was bound, which are
   * good for nothing any more.
   */
  readonly rule_hashes?: readonly string[];
  readonly connection_type: ConnectionType;
  readonly attribution: Attribution;
  readonly action: AskedAction;
  readonly action_hash: string;
  /** The hash of the request before policy had sent it elsewhere; absent where that is the action hash. */
  readonly request_hash?: string;
  /** US dollars, decimal text; absent where nobody can say. */
  readonly estimated_cost_usd?: string;
  /** The request that opened it. */
  readonly record_id: string;
  readonly created_at: string;
  /** Until then a pending one can be decided, and an approved one be used. */
  readonly expires_at: string;
  /** The principal that has decided it, in one word; of the admin token what its holder has said, if he has. */
  readonly decided_by: string | null;
  /** The same exactly. */
  readonly decided_by_principal?: NamedPrincipal;
  /** Whom that principal says to have decided for: nobody has proven it. */
  readonly decided_by_note?: string;
  readonly decided_at: string | null;
  readonly decision_reason?: string;
  /** Who has to say yes; absent: one person who may decide. */
  readonly needs?: readonly ApprovalNeed[];
  /** Each that was said, the oldest first, where more than one is needed. */
  readonly decisions?: readonly ApprovalDecision[];
  /** It was withdrawn: its caller left before it was decided, and nobody is asked any longer. */
  readonly withdrawn_at?: string;
  /** As it is shown, never stored: calls that wait for it now. */
  readonly held?: WaitingCalls;
  /** The one execution that it allowed. */
  readonly executed_at?: string;
  readonly executed_record_id?: string;
}

/**
 * Who has decided, for people: the principal, and for whom that says to have done it.
 * @param principal the same exactly; undefined: the word alone is told, as to callers
 */
export function deciderText(by: string | null, note: string | undefined, principal?: NamedPrincipal): string {
  if (principal !== undefined) return principalText(principal, note);
  if (note === undefined) return String(by);
  return note === by ? `${note} (with the admin token)` : `${String(by)} (for ${note})`;
}
