import type { ConnectionType, TrafficClass } from './action-request.ts';
import type { RecordedBudget } from './budget-limit.ts';
import type { Decision, RecordedDecision } from './reason-codes.ts';
import type { Unit } from './usage.ts';

/** So much of the hash of a policy says whether it is another one, and takes little of each record. */
export const CONTENT_HASH_DIGITS = 16;

export const EXECUTION_RECORD_SCHEMA = 'gw.execution_record.v1';

/**
 * Whether members of a record were left out of what is shown of it, as in a list (decision 7.13): no record has the
 * member `shortened` when it is hashed. Its `record_hash` is then that of the whole record, and nobody can recompute it
 * from what is left.
 */
export function isShortened(record: Readonly<Record<string, unknown>>): boolean {
  return record['shortened'] !== undefined;
}

/** What is said of a shortened record where a whole one is needed: what it lacks, and how whole ones are had. */
export const SHORTENED_RULE =
  'it is shortened (policy_trace.attributes is left out), so that neither its hash nor what policy saw can be told from it; whole ones: gw logs --json --whole, gw records list --json --whole, or GET /v1/records/{id}';

/**
 * Tokens and cost of one call. Absent is not zero: `usage_reported` says whether all counts are the provider's
 * (decision 7.5); tokens beside `false` were approximated by the gateway from what it saw.
 */
export interface Metering {
  readonly tokens_in: number;
  readonly tokens_out: number;
  /** Exact decimal text in USD. */
  readonly cost_usd: string;
  /** `plan`: a plan of the caller's pays for the call, which costs nothing by itself (decision 6.3). */
  readonly billing?: 'plan';
  readonly cached_tokens_in?: number;
  readonly cache_write_tokens_in?: number;
  readonly cache_write_1h_tokens_in?: number;
  readonly audio_tokens_in?: number;
  readonly audio_tokens_out?: number;
  readonly cached_audio_tokens_in?: number;
  readonly image_tokens_in?: number;
  readonly image_tokens_out?: number;
  readonly cached_image_tokens_in?: number;
  readonly video_tokens_in?: number;
  readonly video_tokens_out?: number;
  readonly reasoning_tokens_out?: number;
  readonly citation_tokens_out?: number;
  readonly model?: string;
  readonly usage_reported: boolean;
  /** USD per million tokens, decimal text. */
  readonly rate_in: string;
  readonly rate_out: string;
  readonly rate_cached_in?: string;
  readonly rate_cache_write?: string;
  readonly rate_cache_write_1h?: string;
  readonly rate_audio_in?: string;
  readonly rate_audio_out?: string;
  readonly rate_cached_audio_in?: string;
  readonly rate_image_in?: string;
  readonly rate_image_out?: string;
  readonly rate_cached_image_in?: string;
  readonly rate_video_in?: string;
  readonly rate_video_out?: string;
  readonly rate_reasoning_out?: string;
  readonly rate_citation_out?: string;
  /** `default`: for something that was charged the list has no rate. */
  readonly rate_source: RateSource;
  /**
   * What single models used inside of the call, where the answer tells it apart: together all of its tokens (decision
   * 6.3).
   */
  readonly passes?: readonly MeteredPass[];
  /** What was charged beside tokens, by unit; part of `cost_usd` (decision 6.16). */
  readonly units?: Readonly<Partial<Record<Unit, MeteredUnit>>>;
  /** Terms of billing that the answer states, such as `service_tier=priority`. */
  readonly terms?: readonly string[];
  /** Those of them that the list has no rates for: the usual ones were charged. */
  readonly unpriced?: readonly string[];
}

export type RateSource = 'catalogue' | 'override' | 'default';

/** Tokens and cost of one model inside of a call; names as in {@link Metering}. */
export interface MeteredPass {
  readonly model?: string;
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly cached_tokens_in?: number;
  readonly cache_write_tokens_in?: number;
  readonly cache_write_1h_tokens_in?: number;
  readonly image_tokens_in?: number;
  readonly image_tokens_out?: number;
  readonly reasoning_tokens_out?: number;
  readonly cost_usd: string;
  readonly rate_in: string;
  readonly rate_out: string;
  readonly rate_cached_in?: string;
  readonly rate_cache_write?: string;
  readonly rate_cache_write_1h?: string;
  readonly rate_image_in?: string;
  readonly rate_image_out?: string;
  readonly rate_source: RateSource;
}

/** So many of a unit, at `rate_usd` for `per` of them. */
export interface MeteredUnit {
  readonly count: number;
  readonly cost_usd: string;
  readonly per: number;
  readonly rate_usd: string;
}

/**
 * `action`: a call that policy was asked about; `connection`: a tunnel that was only seen as a host (decision 7.7).
 * `usage`: what the response to an earlier call cost that was made after the answer to it; no call by itself.
 */
export const RECORD_TIERS = ['action', 'connection', 'usage'] as const;
export type RecordTier = (typeof RECORD_TIERS)[number];

/** How a stream ended. */
export const STREAM_OUTCOMES = ['complete', 'aborted', 'error'] as const;

/**
 * What a second bundle would have decided (`GW_POLICIES_SHADOW`), from the facts of the same request. It was not
 * enforced.
 */
export interface ShadowTrace {
  readonly bundle_id: string;
  readonly decision: Decision;
  readonly matched_rule_ids: readonly string[];
  readonly reason_codes: readonly string[];
  readonly stopped_at: string | undefined;
  readonly version: string;
}

export interface PolicyTrace {
  readonly bundle_id: string;
  readonly version: string;
  /**
   * The first {@link CONTENT_HASH_DIGITS} hexadecimal digits of the SHA-256 over the texts that decided, those of the
   * org's overlays among them.
   */
  readonly content_hash?: string;
  readonly matched_rule_ids: readonly string[];
  /** Layer of each matched rule, same order: one id may stand in two layers. */
  readonly matched_layers?: readonly string[];
  /** Level (`base`, `org`, `node`) of each matched rule, same order. */
  readonly matched_levels?: readonly string[];
  /** Matched rules, as `layer/id`, in which a negative test on a missing field took the restrictive side. */
  readonly missing_field?: readonly string[];
  /**
   * What a matched rule of an overlay replaced (`layer/id@level`), and effects that gave way to those of a rule before
   * theirs (`layer/id@level#effect`).
   */
  readonly overridden?: readonly string[];
  readonly shadow?: ShadowTrace;
  /** The layer at which the evaluation ended early. */
  readonly stopped_at?: string;
  /** Observed values of the fields that the bundle's rules read, content left out (decision 7.4). */
  readonly attributes?: Readonly<Record<string, unknown>>;
}

/** One link of the delegation that a call was made under. */
export interface RecordedDelegation {
  readonly delegation_id: string;
  readonly expires_at: string;
  readonly issued_by?: string;
  readonly principal_id?: string;
  /** What may be spent under it over its life, exact decimal text; absent: no limit of its own. */
  readonly usd_max?: string;
}

/**
 * The record of one decided request (specification, "Execution record"; decisions 7.1 to 7.8). Written once, never
 * changed. No prompt and no completion is ever part of it. `record_hash` is lower-case hex SHA-256 over the RFC 8785
 * form of everything else.
 */
export interface ExecutionRecord {
  readonly schema: typeof EXECUTION_RECORD_SCHEMA;
  readonly record_id: string;
  readonly record_hash: string;
  readonly request_id: string;
  /** Of the trace that the call belongs to: its caller's, or one that began here (decision 12.7). */
  readonly trace_id?: string;
  readonly created_at: string;
  readonly completed_at: string;
  readonly org_id: string;
  readonly workload_id: string;
  readonly caller_id?: string;
  readonly caller_ip?: string;
  readonly node_id: string;
  readonly decision: RecordedDecision;
  readonly reason?: string;
  readonly reason_codes: readonly string[];
  readonly action_type: string;
  readonly action_method: string;
  /** Scheme, host and path, never a query. */
  readonly target: string;
  readonly target_host: string;
  /** With the names of the query's parameters only. */
  readonly target_path: string;
  readonly connection_type: ConnectionType;
  readonly traffic_class: TrafficClass;
  readonly record_tier: RecordTier;
  readonly connector_id?: string;
  readonly connector_version?: string;
  readonly credential_id?: string;
  readonly api_key_id?: string;
  readonly provider?: string;
  readonly model?: string;
  /** The record, of tier `usage`, that will say what this call cost: its response is made after its answer. */
  readonly usage_record_id?: string;
  /** The call whose cost this record says; tier `usage` only. */
  readonly settles_record_id?: string;
  readonly idempotency_key?: string;
  readonly customer_id?: string;
  readonly account_id?: string;
  readonly project_id?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly policy_trace?: PolicyTrace;
  readonly metering?: Metering;
  readonly status_code?: number;
  readonly upstream_status?: number;
  readonly latency_ms: number;
  readonly upstream_latency_ms?: number;
  readonly stream: boolean;
  readonly stream_outcome?: (typeof STREAM_OUTCOMES)[number];
  readonly request_sha256?: string;
  readonly response_sha256?: string;
  readonly request_bytes: number;
  readonly response_bytes: number;
  /** The caller's own Authorization went ahead of a stored credential (specification, "Authentication" 5). */
  readonly oauth_passthrough?: true;
  /**
   * How many refused calls the record stands for, of callers who have shown nothing and came too often for a record
   * each (decision 7.11); absent: one.
   */
  readonly summed_requests?: number;
  readonly risk_score?: number;
  readonly risk_signals?: readonly string[];
  readonly delegation_id?: string;
  /** Of a call whose delegation token was verified: root first. */
  readonly delegation_chain?: readonly RecordedDelegation[];
  readonly approval_id?: string;
  /** The cap for which the call was refused, or its stream ended. */
  readonly budget?: RecordedBudget;
  readonly error?: { readonly code: string; readonly message: string };
}
