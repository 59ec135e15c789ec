import type { YamlNode } from '../base/lib/yaml.ts';
import { type Decision, permits } from '../base/model/reason-codes.ts';
import type { CompiledLayer, CompiledPolicy, CompiledRule } from '../decide/policy/compiled.ts';
import type { Condition } from '../decide/policy/condition.ts';
import { holdsIfKnown, type IsKnown } from '../decide/policy/condition-logic.ts';
import { contextOf, decide } from '../decide/policy/evaluate.ts';
import { factsWith } from '../decide/policy/every-model.ts';
import type { Facts } from '../decide/policy/facts.ts';
import type { Field } from '../decide/policy/fields.ts';
import { openRulesOf, showsField } from '../decide/policy/hidden.ts';
import { type CallCost, type JudgedCap, judgeCaps } from '../decide/policy/judge-caps.ts';
import { type RateLimited, runLayer } from '../decide/policy/layer-run.ts';
import { OPERATORS } from '../decide/policy/operators.ts';
import type { Level, Mutation, Verdict } from '../decide/policy/verdict.ts';
import { isSameContent, type RecordedRequest } from './recorded-request.ts';

/** One test of a rule on one field, or a group of them. */
export type ExplainedTest =
  | { readonly group: 'all' | 'any'; readonly holds: boolean | null; readonly tests: readonly ExplainedTest[] }
  | {
      readonly field: string;
      /** As the rule says it: `in [a, b]`, `not equals x`. */
      readonly test: string;
      /** Null: the value is not known. */
      readonly holds: boolean | null;
      /** What the request had, as a record would keep it: content of the body is never shown. */
      readonly observed: unknown;
      readonly state: 'value' | 'missing' | 'hidden' | 'unknown';
    };

export type RuleOutcome =
  /** Took part in the decision. */
  | 'matched'
  /** Its condition holds, but a rule before it ended the layer. */
  | 'after_the_end'
  | 'not_matched'
  /** Its layer was not asked. */
  | 'not_evaluated'
  /** It depends on values that are not known. */
  | 'unknown';

export interface ExplainedRule {
  readonly rule: string;
  readonly level: Level;
  readonly file: string;
  readonly line: number;
  readonly decision: Decision | null;
  readonly outcome: RuleOutcome;
  /** A negative test on a missing field counted against the caller (policy.md 13). */
  readonly missing_field: boolean;
  /** Rules of earlier levels that this one stands for. */
  readonly replaces: readonly string[];
  /** Undefined for a rule without a condition. */
  readonly condition: ExplainedTest | undefined;
}

export interface ExplainedLayer {
  readonly layer: string;
  /** What no match means here (policy.md 2, 3). */
  readonly kind: 'allow_list' | 'empty' | 'block_list' | 'open';
  readonly evaluated: boolean;
  readonly stopped: boolean;
  /** Null: no opinion. */
  readonly decision: Decision | null;
  /** Reason code of a denial by the layer itself. */
  readonly code: string | null;
  readonly rules: readonly ExplainedRule[];
}

export interface Explanation {
  readonly bundle_id: string;
  readonly version: string;
  /** By the rules, and by the caps that they set. */
  readonly verdict: Verdict;
  /** Those caps, of a call that the rules let run. */
  readonly caps: readonly JudgedCap[];
  readonly layers: readonly ExplainedLayer[];
  /** Of a record whose decision is another one than that of its rules: what it says, and why. */
  readonly recorded?: RecordedOutcome;
  /** Of a record: what decided then. */
  readonly decided_by?: DecidedBy;
  /** Of a record: what it does not hold of that which the verdict hangs on. */
  readonly not_known?: readonly string[];
}

/** The policy that decided about a record. */
export interface DecidedBy {
  readonly bundle_id: string;
  readonly version: string;
  /** The first digits. */
  readonly content_hash?: string;
  /**
   * Whether it is the one of the explanation; null: its name and version are, and nothing says whether its content is.
   */
  readonly same: boolean | null;
}

type OfARecord = Required<Pick<Explanation, 'decided_by' | 'not_known'>>;

export interface RecordedOutcome {
  readonly decision: string;
  readonly reason_codes: readonly string[];
  /**
   * `after_the_rules`: the same rules let the call run, and a later check refused it or it failed; `other_rules`: other
   * rules took part then.
   */
  readonly because: 'after_the_rules' | 'other_rules';
}

export interface ExplainOptions {
  readonly rateLimited?: RateLimited | undefined;
  /** Default: everything that the request shows. */
  readonly isKnown?: IsKnown;
  /** What the call may cost once it is mutated so; undefined: that is not known, and no cap is judged. */
  readonly costAfter?: (mutations: readonly Mutation[]) => CallCost;
  /** What its project has spent this month, pico-dollars; default: nothing. */
  readonly spentPico?: bigint;
}

/** Decides, and says of every rule why it took part or not. */
export function explain(policy: CompiledPolicy, asked: Facts, options: ExplainOptions = {}): Explanation {
  const { rateLimited, costAfter, spentPico = 0n } = options;
  const isKnown: IsKnown = (field) => showsField(asked, field) && options.isKnown?.(field) !== false;
  const byRules = decide(policy, asked, rateLimited);
  const { verdict, caps } =
    costAfter === undefined ? { verdict: byRules, caps: [] } : judgeCaps(byRules, costAfter(byRules.effects.mutations), spentPico);
  const facts = factsThatDecided(asked, verdict);
  const context = contextOf(policy, facts, rateLimited);
  const matched = new Set(verdict.matched.map(({ layer, rule_id }) => `${layer}/${rule_id}`));
  const end = policy.layers.findIndex((layer) => layer.name === verdict.stopped_at);
  const layers = policy.layers.map((layer, i): ExplainedLayer => {
    const evaluated = end === -1 || i <= end;
    const outcome = evaluated ? runLayer(layer, context) : undefined;
    const rules = layer.rules.map((rule) => explainRule(rule, facts, isKnown, evaluated, matched.has(`${layer.name}/${rule.id}`)));
    return {
      layer: layer.name,
      kind: kindOf(layer),
      evaluated,
      stopped: i === end,
      decision: outcome?.decision ?? null,
      code: outcome?.code ?? null,
      rules,
    };
  });
  return { bundle_id: policy.bundle_id, version: policy.version, verdict, caps, layers };
}

/** Those with the model in it that the verdict is about. */
function factsThatDecided(facts: Facts, { model }: Verdict): Facts {
  const further = model === undefined ? undefined : facts.further?.find((one) => one.model === model);
  return further === undefined ? facts : factsWith(facts, further);
}

/** What is known of the policy that a record is held against. */
export interface ExplainedBy {
  /** SHA-256 over its texts, as the gateway makes it. */
  readonly contentHash?: string | undefined;
}

/**
 * The explanation of a record by a policy, which may be another one than that which decided, and which says something
 * else where more than rules decided: a budget, a bucket. The one place where a record is explained, whoever asks (`gw
 * policy explain --record`, the management API).
 */
export function explainRecorded(policy: CompiledPolicy, request: RecordedRequest, by: ExplainedBy = {}): Explanation & OfARecord {
  const { facts, isKnown, decision, reasonCodes, bundleId, version, contentHash } = request;
  const explanation = explain(policy, facts, { isKnown });
  const { verdict } = explanation;
  const isNamedSo = bundleId === policy.bundle_id && version === policy.version;
  const same = isNamedSo ? (isSameContent(contentHash, by.contentHash) ?? null) : false;
  const decided: DecidedBy = { bundle_id: bundleId, version, ...(contentHash === undefined ? {} : { content_hash: contentHash }), same };
  const told = { ...explanation, decided_by: decided, not_known: notKnown(policy, request, verdict) };
  if (decision === verdict.decision && (permits(verdict.decision) || sameTexts(reasonCodes, verdict.reason_codes))) return told;
  const rules = verdict.matched.map(({ layer, rule_id }) => `${layer}/${rule_id}`).sort();
  const because = permits(verdict.decision) && sameTexts(rules, request.matched) ? 'after_the_rules' : 'other_rules';
  return { ...told, recorded: { decision, reason_codes: reasonCodes, because } };
}

/**
 * What the record does not hold and could turn the verdict, and what the verdict leaves to checks of which no record
 * tells.
 */
function notKnown(policy: CompiledPolicy, { facts, isKnown }: RecordedRequest, { stopped_at: end, effects }: Verdict): readonly string[] {
  const at = policy.layers.findIndex(({ name }) => name === end);
  const asked = at === -1 ? policy.layers : policy.layers.slice(0, at + 1);
  const open = asked.flatMap((layer) => openRulesOf(policy, layer, facts, (field) => showsField(facts, field) && isKnown(field)));
  const fields = new Set(open.flatMap((rule) => rule.fields));
  return [
    ...fields,
    ...(effects.usd_max === undefined ? [] : [`the estimate that budget.usd_max (${effects.usd_max} USD) was held against`]),
    ...(effects.monthly_usd_max === undefined
      ? []
      : [`what its project had spent of budget.monthly_usd_max (${effects.monthly_usd_max} USD)`]),
    ...effects.rate_limits.map(({ layer, rule_id: id }) => `whether the bucket of ${layer}/${id} was empty`),
  ];
}

function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, i) => text === b[i]);
}

function kindOf({ rules, gateCode }: CompiledLayer): ExplainedLayer['kind'] {
  if (rules.length === 0) return 'empty';
  if (gateCode !== undefined) return 'allow_list';
  return rules.some(({ decision }) => decision !== undefined && !permits(decision)) ? 'block_list' : 'open';
}

function explainRule(rule: CompiledRule, facts: Facts, isKnown: IsKnown, evaluated: boolean, matched: boolean): ExplainedRule {
  const { layer, id, decision, condition, file, line, replaces } = rule;
  const refuses = decision !== undefined && !permits(decision);
  const holds = holdsIfKnown(condition, refuses, facts, isKnown);
  const outcome = (): RuleOutcome => {
    if (!evaluated) return 'not_evaluated';
    if (holds === undefined) return 'unknown';
    if (matched) return 'matched';
    return holds ? 'after_the_end' : 'not_matched';
  };
  return {
    rule: `${layer}/${id}`,
    level: rule.matched.level,
    file,
    line,
    decision: decision ?? null,
    outcome: outcome(),
    missing_field: holds === true && rule.missingMark?.(facts) === true,
    replaces,
    condition: condition.kind === 'all' && condition.parts.length === 0 ? undefined : explainTest(condition, refuses, facts, isKnown),
  };
}

function explainTest(condition: Condition, refuses: boolean, facts: Facts, isKnown: IsKnown): ExplainedTest {
  const holds = holdsIfKnown(condition, refuses, facts, isKnown) ?? null;
  if ('parts' in condition) {
    return { group: condition.kind, holds, tests: condition.parts.map((part) => explainTest(part, refuses, facts, isKnown)) };
  }
  const { field } = condition;
  return { field: `context.${field.name}`, test: testText(condition), holds, ...observedValue(field, facts, isKnown) };
}

function observedValue(
  field: Field,
  facts: Facts,
  isKnown: IsKnown,
): { observed: unknown; state: 'value' | 'missing' | 'hidden' | 'unknown' } {
  if (!isKnown(field)) return { observed: null, state: 'unknown' };
  const value = field.get(facts) ?? undefined;
  if (value === undefined) return { observed: null, state: 'missing' };
  const kept = field.observed === undefined ? value : field.observed(value);
  return kept === undefined ? { observed: null, state: 'hidden' } : { observed: kept, state: 'value' };
}

function testText(test: Extract<Condition, { kind: 'value' } | { kind: 'exists' }>): string {
  if (test.kind === 'exists') return `exists ${test.present}`;
  const { operator, negated, entry } = test;
  return `${negated === OPERATORS[operator]?.negates ? '' : 'not '}${operator} ${literalText(entry.value)}`;
}

function literalText(node: YamlNode): string {
  if (node.kind === 'scalar') return node.quoted ? JSON.stringify(node.source) : node.source;
  if (node.kind === 'seq') return `[${node.items.map(literalText).join(', ')}]`;
  return `{${node.entries.map(({ key, value }) => `${key.source}: ${literalText(value)}`).join(', ')}}`;
}
