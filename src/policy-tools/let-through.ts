/*
 * What would let a refused call through, in sentences for a person: made from its explanation and the codes of its
 * record.
 */
import { permits } from '../base/model/reason-codes.ts';
import { REMEDIES } from '../base/model/remedies.ts';
import type { ExplainedLayer, ExplainedRule, ExplainedTest, Explanation } from './explain.ts';

/** Rules of an allow-list that are named: those that miss the call by least. */
const NEAREST = 3;

export interface RecordedRefusal {
  readonly decision: string;
  readonly reasonCodes: readonly string[];
  /** `layer/id` of the rules that took part. */
  readonly matched: readonly string[];
}

/** @param explanation by the policy that is in force now; undefined: the rules were not asked about the call */
export function whatLetsThrough(recorded: RecordedRefusal, explanation: Explanation | undefined): readonly string[] {
  if (recorded.decision === 'allow' || recorded.decision === 'downgrade') return [];
  const remedies = recorded.reasonCodes.flatMap((code) => REMEDIES[code as keyof typeof REMEDIES] ?? []);
  if (explanation === undefined) return remedies;
  const { verdict, layers } = explanation;
  const unseen = layers.flatMap(({ rules }) => rules).filter((rule) => recorded.matched.includes(rule.rule) && isUnseenRefusal(rule));
  if (unseen.length > 0) return [...unseen.map(aboutUnseen), ...remedies];
  if (permits(verdict.decision)) {
    const isLater = explanation.recorded?.because === 'after_the_rules';
    return isLater ? remedies : ['The rules that are in force now let it run: send it again.', ...remedies];
  }
  const said = layers.filter(({ evaluated, decision }) => evaluated && decision !== null && !permits(decision)).flatMap(aboutLayer);
  return [...(said.length > 0 ? said : NOTHING_ALLOWS), ...remedies];
}

/** A rule that may have refused: the record does not hold what it reads. */
export function isUnseenRefusal({ outcome, decision }: ExplainedRule): boolean {
  return outcome === 'unknown' && decision !== null && !permits(decision);
}

function aboutUnseen(rule: ExplainedRule): string {
  const fields = rule.condition === undefined ? [] : unknownFields(rule.condition);
  return `${placeOf(rule)} decided ${rule.decision ?? ''} then; records do not keep what it reads (${fields.join(', ')}): change or remove it, or send a call that it does not match.`;
}

function unknownFields(test: ExplainedTest): readonly string[] {
  if ('group' in test) return [...new Set(test.tests.flatMap(unknownFields))];
  return test.holds === null ? [test.field] : [];
}

const NOTHING_ALLOWS = ['No rule allows it: add a rule with `effect: {decision: allow}` whose `when` holds for this call.'];

function aboutLayer({ layer, rules, code }: ExplainedLayer): readonly string[] {
  const refusing = rules.filter(({ outcome, decision }) => outcome === 'matched' && decision !== null && !permits(decision));
  if (refusing.length > 0)
    return refusing.map(
      (rule) =>
        `${placeOf(rule)} decides ${rule.decision ?? ''}${because(rule)}: change or remove it, or send a call for which this is not so.`,
    );
  if (code === null) return [];
  const allowing = rules.filter(({ decision }) => decision !== null && permits(decision));
  const nearest = allowing.toSorted((a, b) => failing(a.condition).length - failing(b.condition).length).slice(0, NEAREST);
  const first = `The layer ${layer} is an allow-list and no rule of it matched: add one that allows the call, or widen one that is there.`;
  return [first, ...nearest.map((rule) => `${placeOf(rule)} would allow it if ${failing(rule.condition).join(' and ')}.`)];
}

function placeOf({ rule, level, file, line }: ExplainedRule): string {
  return `Rule ${rule}${level === 'base' ? '' : ` of the ${level} overlay`} (${file}:${line})`;
}

function because({ condition }: ExplainedRule): string {
  const held = condition === undefined ? [] : testsThat(true, condition);
  return held.length === 0 ? '' : `, because ${held.join(' and ')}`;
}

function failing(condition: ExplainedTest | undefined): readonly string[] {
  return condition === undefined ? [] : testsThat(false, condition);
}

/** The tests of a condition that hold, or that do not, each with what the call had. */
function testsThat(holds: boolean, test: ExplainedTest): readonly string[] {
  if ('group' in test) return test.tests.flatMap((part) => testsThat(holds, part));
  return (test.holds === true) === holds ? [`${test.field} ${test.test} (${observedText(test)})`] : [];
}

/** What the call had at the place of a test. */
export function observedText({ state, observed }: Extract<ExplainedTest, { field: string }>): string {
  if (state === 'value') return `it was ${JSON.stringify(observed)}`;
  return { missing: 'it was missing', hidden: 'content, never shown', unknown: 'not known' }[state];
}
