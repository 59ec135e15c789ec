import { compilePolicy, type PolicyOptions, type PolicyResult } from '../decide/policy/compile.ts';
import type { CompiledPolicy, CompiledRule } from '../decide/policy/compiled.ts';
import type { Suite, SuiteCase } from '../decide/policy/suite.ts';
import { inputOf, type Mismatch, mismatches, type NamedPolicy, verdictOf } from '../decide/policy/suite-case.ts';

export interface CaseResult {
  readonly name: string;
  /** In the suite's file, from 1. */
  readonly line: number;
  /** Empty: passed. */
  readonly mismatches: readonly Mismatch[];
  /** The rules that took part in the decision, with what each decided, for whoever looks into a failure. */
  readonly matched: readonly CompiledRule[];
}

export interface SuiteReport {
  /** The suite's file. */
  readonly file: string;
  readonly results: readonly CaseResult[];
  /** Rules of the policy that the suite names, and those of them that took part in no decision of any of its cases. */
  readonly coverage: { readonly rules: number; readonly neverMatched: readonly CompiledRule[] };
}

/**
 * Runs all cases of a suite.
 * @param named what the suite names by path, read
 */
export function runSuite(file: string, suite: Suite, named: NamedPolicy, options: PolicyOptions): SuiteReport {
  const compiled = new Map<string, PolicyResult>();
  const compile = (one: SuiteCase): PolicyResult => {
    const key = JSON.stringify([one.policy, one.unsupported]);
    const known = compiled.get(key);
    if (known !== undefined) return known;
    const result = compilePolicy(inputOf(one, named), {
      ...options,
      allowUnsupported: one.unsupported ?? options.allowUnsupported ?? false,
    });
    compiled.set(key, result);
    return result;
  };
  const rules = new Map<string, CompiledRule>();
  const matchedNames = new Set<string>();
  const results = suite.cases.map((one): CaseResult => {
    const { name, line } = one;
    const result = compile(one);
    const matched = result.policy === undefined || one.errors !== undefined ? [] : matchedRules(one, result.policy);
    if (result.policy !== undefined && usesNamed(one, named)) {
      for (const rule of rulesOf(result.policy)) rules.set(nameOf(rule), rule);
      for (const rule of matched) matchedNames.add(nameOf(rule));
    }
    return { name, line, mismatches: mismatches(one, result), matched };
  });
  const neverMatched = [...rules].flatMap(([name, rule]) => (matchedNames.has(name) ? [] : [rule])).sort(byPlace);
  return { file, results, coverage: { rules: rules.size, neverMatched } };
}

/** Rules of a text inside a case exist for that case alone, so they count in no coverage. */
function usesNamed({ policy }: SuiteCase, { policies, addons }: NamedPolicy): boolean {
  return policy.bundle === undefined && (policies !== undefined || addons !== undefined);
}

function matchedRules(one: SuiteCase, policy: CompiledPolicy): readonly CompiledRule[] {
  const { matched, effects } = verdictOf(one, policy);
  const names = new Set(matched.map(({ layer, rule_id }) => `${layer}/${rule_id}`));
  const gaveDefaults = Object.keys(effects.default_attribution).length > 0;
  return rulesOf(policy).filter(
    (rule) => names.has(nameOf(rule)) || (gaveDefaults && policy.defaultRules.includes(rule) && rule.matches(one.facts)),
  );
}

function rulesOf(policy: CompiledPolicy): readonly CompiledRule[] {
  return policy.layers.flatMap((layer) => layer.rules);
}

function byPlace(a: CompiledRule, b: CompiledRule): number {
  return a.file === b.file ? a.line - b.line : a.file < b.file ? -1 : 1;
}

/** `layer/id`, by which a rule is named everywhere. */
export function nameOf({ layer, id }: CompiledRule): string {
  return `${layer}/${id}`;
}
