import { permits } from '../base/model/reason-codes.ts';
import type { CompiledPolicy } from '../decide/policy/compiled.ts';
import { replay, type Side, sideOf, sideText } from './diff.ts';
import { type DecidedBy, type ExplainedBy, type ExplainedRule, explainRecorded } from './explain.ts';
import type { RecordedRequest } from './recorded-request.ts';
import { namesOf, ruleLines } from './render-explanation.ts';
import type { Paint } from './render-problem.ts';
import { seen } from './render-suite.ts';

/** One record, decided again. */
export interface DecisionReplay {
  readonly record_id: string;
  /**
   * Whether the decision is the same, with its reason codes where it refuses; null: the record does not hold enough.
   */
  readonly same: boolean | null;
  /** What the record says, `error` included. */
  readonly before: {
    readonly decision: string;
    readonly reason_codes: readonly string[];
    readonly matched: readonly string[];
    readonly policy: DecidedBy;
  };
  readonly now: Side & { readonly policy: Pick<DecidedBy, 'bundle_id' | 'version'> };
  /** The rules let the call run now as then, and what is checked after them did not: that is not decided again. */
  readonly after_the_rules: boolean;
  /** Rules that took part on one side alone. */
  readonly rules: readonly RuleDifference[];
  /** Fields that the record does not hold and that could turn the decision. */
  readonly cannot_say: readonly string[];
  /** What else the decision may hang on, of which no record tells: estimates, what was spent, buckets. */
  readonly not_known: readonly string[];
}

export interface RuleDifference {
  /** `layer/id`. */
  readonly rule: string;
  readonly took_part: 'then' | 'now';
  /** What becomes of it now; null: the policy has no such rule. */
  readonly now: ExplainedRule | null;
}

/** Decides the request behind a record again, by a policy that may be another one, and says what differs. */
export function replayDecision(policy: CompiledPolicy, request: RecordedRequest, by: ExplainedBy = {}): DecisionReplay {
  const { recordId, decision, reasonCodes, matched } = request;
  const explanation = explainRecorded(policy, request, by);
  const { recorded, decided_by: decidedBy, not_known: notKnown, layers, bundle_id: id, version } = explanation;
  const unknown = [...new Set(replay(policy, request).unknown)];
  const now = sideOf(explanation.verdict);
  // A call that failed had been let through.
  const ranThen = decision === 'error' && permits(now.decision);
  const isSame = recorded === undefined || recorded.because === 'after_the_rules' || ranThen;
  const rules = new Map(layers.flatMap((layer) => layer.rules).map((rule) => [rule.rule, rule]));
  const only = (side: readonly string[], other: readonly string[], part: RuleDifference['took_part']): readonly RuleDifference[] =>
    side.filter((rule) => !other.includes(rule)).map((rule) => ({ rule, took_part: part, now: rules.get(rule) ?? null }));
  return {
    record_id: recordId,
    same: unknown.length > 0 ? null : isSame,
    before: { decision, reason_codes: reasonCodes, matched, policy: decidedBy },
    now: { ...now, policy: { bundle_id: id, version } },
    after_the_rules: recorded !== undefined && isSame,
    rules: [...only(matched, now.matched, 'then'), ...only(now.matched, matched, 'now')],
    cannot_say: unknown,
    not_known: notKnown.filter((one) => !unknown.includes(one)),
  };
}

/** Then and now, then each rule that took part on one side alone. */
export function renderReplay(told: DecisionReplay, paint: Paint): string {
  const { before, now, rules, not_known: notKnown } = told;
  const side = (name: string, text: string, policy: string): string => `${name}  ${text}  ${paint.dim(seen(`(${policy})`))}`;
  const lines = [
    headLine(told, paint),
    side('then', sideText({ ...before, effects: {} }), namesOf(before.policy)),
    side('now ', sideText(now), namesOf(now.policy)),
  ];
  if (told.after_the_rules) lines.push('what was checked after the rules (caps, buckets, the way to the provider) is not decided again');
  if (notKnown.length > 0) lines.push(paint.yellow(`not known of this call, since no record holds it: ${notKnown.map(seen).join(', ')}`));
  for (const { part, title } of PARTS) {
    const some = rules.filter((rule) => rule.took_part === part);
    if (some.length > 0) lines.push('', paint.bold(title), ...some.flatMap((rule) => differenceLines(rule, paint)));
  }
  if (rules.length === 0) lines.push('the same rules took part');
  return `${lines.join('\n')}\n`;
}

const PARTS = [
  { part: 'then', title: 'took part then, and does not now' },
  { part: 'now', title: 'takes part now, and did not then' },
] as const;

function headLine({ same, before, now, cannot_say: unknown }: DecisionReplay, paint: Paint): string {
  if (same === null) return paint.yellow(`it cannot be said: rules read what this record does not hold: ${unknown.map(seen).join(', ')}`);
  if (same) return paint.green('the same decision');
  return paint.red(before.decision === now.decision ? 'another reason' : `another decision: ${seen(before.decision)} -> ${now.decision}`);
}

function differenceLines({ rule, now }: RuleDifference, paint: Paint): readonly string[] {
  return now === null ? [`  - ${seen(rule)}: the policy has no such rule`] : ruleLines(now, paint);
}
