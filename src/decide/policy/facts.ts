import type { Reading } from '../../base/catalogue/reading.ts';
import type { Attribution, ConnectionType, TrafficClass } from '../../base/model/action-request.ts';

/**
 * Everything a rule may ask about one request. An undefined member is a missing field (policy.md 12). The pipeline
 * fills it; decide only reads it.
 */
export interface Facts {
  org_id: string;
  workload_id: string;
  caller_id: string | undefined;
  caller_ip: string | undefined;
  connection_type: ConnectionType;
  traffic_class: TrafficClass;
  /** Milliseconds since the epoch. */
  time: number;
  purpose: string | undefined;
  labels: Readonly<Record<string, string>>;
  action_type: string;
  action_method: string;
  target_host: string;
  /** Canonical path with query; in lower case where the provider ignores case. */
  target_path: string;
  /**
   * Parsed body; own properties only. `model` and `stream` are filled in from wherever the dialect puts them (decision
   * 3.19).
   */
  params: Readonly<Record<string, unknown>>;
  /** All models that the call names, its own first; undefined: no more than its own. */
  models: readonly string[] | undefined;
  /** Those beside its own: policy is asked about each (decision 6.3). */
  further: readonly FurtherModel[] | undefined;
  stream: boolean;
  /**
   * How much of the request is understood. What is hidden is missing above; whoever decides must not take it for that.
   */
  reading: Reading;
  /** Lower-case names of the request's headers. */
  header_names: ReadonlySet<string>;
  /** What the caller, its delegation and its workload gave, in that order. */
  attribution: Attribution;
  /** The org's last resort (decision 6.11): counts for `enforce_attribution`, after the rules' own defaults. */
  org_attribution: Attribution | undefined;
  estimates: { tokens_in: number; tokens_out_max: number /** Integer pico-dollars. */; cost_pico: bigint };
  risk: { score: number; signals: readonly string[] } | undefined;
  connector_id: string | undefined;
  credential_id: string | undefined;
  candidates: { connectors: readonly string[]; credentials: readonly string[] };
  delegation: DelegationFacts | undefined;
  /**
   * The rules for which a person has approved this very request, and nobody has used that yet (decision 9.1): one that
   * decides `require_approval` counts as `allow` then.
   */
  approved: Approved;
}

/** All such rules, none of them, or those of which it is true. */
export type Approved = boolean | ((rule: AskingRule) => boolean);

/** A rule that decides `require_approval`. */
export interface AskingRule {
  readonly layer: string;
  readonly id: string;
  /** SHA-256 of what it says; undefined of rules that decide something else. */
  readonly contentHash: string | undefined;
}

/** A model that a call names beside its own. */
export interface FurtherModel {
  readonly model: string;
  /** Members that hold for it in place of those of the body; undefined: none. */
  readonly said: Readonly<Record<string, unknown>> | undefined;
}

export interface DelegationFacts {
  issued_by: string | undefined;
  principal_id: string | undefined;
  audience: string | undefined;
  token_id: string;
  depth: number;
  policy_bundle_id: string | undefined;
  max_cost_usd: string | undefined;
  actions_allow: readonly string[] | undefined;
  targets_allow: readonly string[] | undefined;
}
