import type { NamedPrincipal } from './principal.ts';

/** Somebody whom policy has put aside (specification, "Quarantine entry"). It holds until a person releases it. */
export interface QuarantineEntry {
  /** UUIDv7; its callers never see it. */
  readonly quarantine_id: string;
  readonly org_id: string;
  readonly workload_id: string;
  /** Whom it holds: this one, else everybody at `caller_ip`, else, with neither, the whole workload. */
  readonly caller_id?: string;
  readonly caller_ip?: string;
  readonly action_type: string;
  readonly reason: string;
  /** What its callers are told beside the reason. */
  readonly reason_codes: readonly string[];
  /** 0 where the call was not scored. */
  readonly risk_score: number;
  /** Of the call that made it. */
  readonly record_id: string;
  readonly created_at: string;
  /** Both null while it is active. */
  readonly released_at: string | null;
  /** The principal in one word; of older entries what he has said himself. */
  readonly released_by: string | null;
  /** The same exactly. */
  readonly released_by_principal?: NamedPrincipal;
  /** Whom that principal says to have released for: nobody has proven it. */
  readonly released_by_note?: string;
}
