import type { Decision } from '../../base/model/reason-codes.ts';
import type { AttributionKey } from './attribution-keys.ts';
import type { MergeStrategy } from './bundle.ts';
import type { Condition } from './condition.ts';
import type { RuleEffects } from './effects.ts';
import type { Field } from './fields.ts';
import type { Predicate } from './predicate.ts';
import type { RuleIndex } from './rule-index.ts';
import type { MatchedRule } from './verdict.ts';

/** A rule as it is evaluated. Everything here is immutable and shared by all requests of the snapshot. */
export interface CompiledRule {
  readonly layer: string;
  readonly id: string;
  readonly priority: number;
  readonly decision: Decision | undefined;
  /**
   * SHA-256 of what a rule that asks for an approval says, its description left out: what is approved is approved for
   * that (decision 9.1). Undefined of others.
   */
  readonly contentHash: string | undefined;
  readonly matches: Predicate;
  /** Undefined when no negative test of the rule can take the restrictive side. */
  readonly missingMark: Predicate | undefined;
  readonly require: readonly AttributionKey[];
  readonly effects: RuleEffects;
  /** The two forms of this rule in a verdict, made once. */
  readonly matched: MatchedRule;
  readonly matchedMissing: MatchedRule;
  /** For tools that explain: what was compiled, and where it stands. */
  readonly condition: Condition;
  readonly file: string;
  readonly line: number;
  /** What a rule of an overlay stands in the place of, `layer/id@level`, oldest first; for the trace. */
  readonly replaces: readonly string[];
}

export interface CompiledLayer {
  readonly name: string;
  /** By priority, then the more restrictive decision, then id (policy.md 6). */
  readonly rules: readonly CompiledRule[];
  readonly index: RuleIndex;
  /**
   * The reason code with which the layer denies when none of its rules has an opinion (policy.md 2, 3); undefined: no
   * opinion.
   */
  readonly gateCode: string | undefined;
  /** Position of the last rule without a decision: after the ending rule nothing beyond it can matter. */
  readonly lastEffectOnly: number;
}

/** A gating layer of which the last rule was taken away by `disabled: true`. */
export interface EmptiedLayer {
  readonly layer: string;
  /** The rule that says so. */
  readonly rule_id: string;
  readonly file: string;
  readonly line: number;
}

/** One immutable snapshot of a bundle with its overlays. A request keeps the one it started with. */
export interface CompiledPolicy {
  readonly bundle_id: string;
  readonly version: string;
  readonly strategy: MergeStrategy;
  readonly stopOn: ReadonlySet<Decision>;
  readonly layers: readonly CompiledLayer[];
  /** Rules that decide `require_approval`, by `layer/id`. */
  readonly askingRules: ReadonlyMap<string, CompiledRule>;
  /** Rules with `default_attribution`, in policy order (decision 6.11). */
  readonly defaultRules: readonly CompiledRule[];
  /** The fields that rules read, once each. */
  readonly fields: readonly Field[];
  /** Their names with the leading `context.`, sorted. */
  readonly fieldsRead: readonly string[];
  /** Whether one of them is about risk. */
  readonly readsRisk: boolean;
  readonly ruleCount: number;
  /** Instructions of all different patterns. */
  readonly patternSteps: number;
  /** Gating layers that have lost all of their rules and so count as absent (policy.md 9). */
  readonly emptied: readonly EmptiedLayer[];
  /** Names under `files` that do not count, since the bundle has `inline_rules` (specification, "Policy bundle"). */
  readonly unusedFiles: readonly string[];
}
