import type { NamedPrincipal } from './principal.ts';

/**
 * One member of what was changed. Hashes are SHA-256 in lower-case hex over the RFC 8785 form of the value; null: there
 * was none, or is none any more.
 */
export interface AuditChange {
  /** What kind of thing it is a member of, as the store names it: `workload`, `credential`, … */
  readonly entity: string;
  /** Of a rule of policy: `layer/rule_id@level`. */
  readonly rule?: string;
  /**
   * `name`, or with dots: `default_attribution.project_id`. Of a thing that is one value: `value`; of a rule that is
   * new, or gone: `rule`.
   */
  readonly member: string;
  readonly before: string | null;
  readonly after: string | null;
  /** The value itself where it is no secret: a text as it is, anything else as JSON; of what is long the beginning. */
  readonly before_value?: string;
  readonly after_value?: string;
}

/** What somebody has changed. It tells names, hashes, and the values that are no secret (decision 9.6). */
export interface AuditEntry {
  /** UUIDv7. */
  readonly audit_id: string;
  readonly at: string;
  /** Of what was changed, else of who has changed it; absent where it is the gateway's. */
  readonly org_id?: string;
  readonly principal: NamedPrincipal;
  /** The id of the operation: `workloads.put`. */
  readonly operation: string;
  /** Which one: the id of a workload, a credential, …; absent where there is only one. */
  readonly object?: string;
  /** What people call it. */
  readonly object_name?: string;
  /** Address of who asked, without port. */
  readonly from: string;
  /** The gateway that has handed it on; absent: it was asked here. */
  readonly node_id?: string;
  readonly changes: readonly AuditChange[];
  /** Changes beyond those that are listed, which are bounded in number and in bytes. */
  readonly more_changes?: number;
}
