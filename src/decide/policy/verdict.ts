import type { Attribution } from '../../base/model/attribution.ts';
import type { Decision } from '../../base/model/decision.ts';

export type Level = 'base' | 'org' | 'node';

export interface MatchedRule {
  readonly layer: string;
  readonly rule_id: string;
  readonly level: Level;
  /** True when a negative test on a missing field took the restrictive side (policy.md 13). */
  readonly missing_field?: boolean;
}

/** A key and the value it is set to, in merged order (specification, "mutations"). */
export interface Mutation {
  readonly key: string;
  readonly value: unknown;
}

/** The merged effects of all contributing rules ("Merging effects" of policy.md). */
export interface Effects {
  readonly usd_max?: string;
  readonly monthly_usd_max?: string;
  readonly rate_limits: readonly { readonly layer: string; readonly rule_id: string; readonly requests_per_minute: number }[];
  readonly select_connector?: string;
  readonly select_credential?: {
    readonly credential_id?: string;
    readonly provider?: string;
    readonly mode?: string;
    readonly billing_owner?: string;
  };
  readonly require_attribution: readonly string[];
  /** Undefined: unrestricted. */
  readonly allow_overrides?: readonly string[];
  readonly default_attribution: Attribution;
  readonly mutations: readonly Mutation[];
}

/** The answer of {@link decide}. `reason_codes` has no duplicates. */
export interface Verdict {
  readonly decision: Decision;
  readonly reason: string | undefined;
  readonly reason_codes: readonly string[];
  readonly matched: readonly MatchedRule[];
  /** The layer at which `stop_on` ended the evaluation. */
  readonly stopped_at: string | undefined;
  readonly effects: Effects;
  /**
   * What lost: rules that a matched rule of an overlay replaced (`layer/id@level`), and effects of matched rules that gave way to a rule before them
   * (`layer/id@level#select_connector`, `…#select_credential`, `…#mutations.<key>`).
   */
  readonly overridden: readonly string[];
  /** The further model of the call that decided (decision 6.3); absent where the call's own did. */
  readonly model?: string;
}
