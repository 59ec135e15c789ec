import type { Attribution } from '../../base/model/action-request.ts';
import type { Decision } from '../../base/model/reason-codes.ts';
import { POLICY_BOUNDS } from '../../base/model/work-bounds.ts';

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
   * What lost: rules that a matched rule of an overlay replaced (`layer/id@level`), and effects of matched rules that
   * gave way to a rule before them (`layer/id@level#select_connector`, `…#select_credential`, `…#mutations.<key>`).
   */
  readonly overridden: readonly string[];
  /** The further model of the call that decided (decision 6.3); absent where the call's own did. */
  readonly model?: string;
}

/*
 * What judging one call may take. Each test of a text or a list says how long it may take before it begins (a pattern:
 * its instructions times the characters), so that rules and texts that are long together are refused before they are
 * tried. Outside of a verdict nothing is counted: whoever asks about one rule alone asks for as much as he likes.
 */

/**
 * Of one verdict, what is left; everything else has no end. Judging waits for nothing, so there is never more than one.
 * An array, since each other number that changes is an object; who begins a verdict sets it to {@link MOST_STEPS} less
 * what its rules take in any case, and back when it ends.
 */
export const left: Float64Array = new Float64Array([Number.POSITIVE_INFINITY]);

/** A call whose verdict would take more steps than one may. */
export class TooCostly extends Error {
  constructor() {
    super(`the rules would take more than ${POLICY_BOUNDS.verdict.one} steps`);
    this.name = 'TooCostly';
  }
}

/** Takes steps of the verdict that is being found. @throws TooCostly */
export function spend(steps: number): void {
  const rest = (left[0] ?? 0) - steps;
  left[0] = rest;
  if (rest < 0) throw new TooCostly();
}

/** Steps of one verdict. */
export const MOST_STEPS: number = POLICY_BOUNDS.verdict.one;
