import { cutShown } from '../base/lib/shown-text.ts';
import { shorten } from '../base/lib/text.ts';
import type { JudgedCap } from '../decide/policy/judge-caps.ts';
import type { DecidedBy, ExplainedLayer, ExplainedRule, ExplainedTest, Explanation, RecordedOutcome } from './explain.ts';
import type { Paint } from './render-problem.ts';
import { seen, shown } from './render-suite.ts';

const MAX_TEXT = 160;
/** What a layer is, in words. */
export const KINDS: Readonly<Record<ExplainedLayer['kind'], string>> = {
  allow_list: 'allow-list: no match is a denial',
  block_list: 'block-list: no match is no opinion',
  empty: 'no rules',
  open: 'no match is no opinion',
};
/** What became of a rule, in words. */
export const OUTCOMES: Readonly<Record<ExplainedRule['outcome'], string>> = {
  matched: 'matched',
  after_the_end: 'would match, but a rule before it ended the layer',
  not_matched: 'did not match',
  not_evaluated: 'not asked',
  unknown: 'cannot be said: it reads what is not known of this request',
};

/**
 * The decision, then each layer with its rules and, of each rule that was asked, its tests with the values that the
 * request had.
 */
export function renderExplanation(explanation: Explanation, paint: Paint): string {
  const { verdict, caps, layers, bundle_id: id, version, recorded, decided_by: decidedBy, not_known: notKnown = [] } = explanation;
  const codes = verdict.reason_codes.length === 0 ? '' : ` [${verdict.reason_codes.map(seen).join(', ')}]`;
  const colour = verdict.decision === 'allow' || verdict.decision === 'downgrade' ? paint.green : paint.red;
  const lines = [`${colour(paint.bold(verdict.decision))}${codes}${verdict.reason === undefined ? '' : `: ${seen(verdict.reason)}`}`];
  if (verdict.model !== undefined) lines.push(`about the model ${seen(shorten(verdict.model, MAX_TEXT))}, which the call also names`);
  if (recorded !== undefined) lines.push(paint.yellow(recordedLine(recorded, decidedBy)));
  else if (decidedBy?.same === false) lines.push(paint.yellow(`the record says the same, by another policy: ${seen(namesOf(decidedBy))}`));
  lines.push(paint.dim(seen(`bundle ${id}, version ${version}`)));
  if (verdict.overridden.length > 0) lines.push(`overridden: ${verdict.overridden.map(seen).join(', ')}`);
  lines.push(...effectLines(verdict.effects), ...caps.map(capLine));
  if (notKnown.length > 0) lines.push(paint.yellow(`not known of this call, since no record holds it: ${notKnown.map(seen).join(', ')}`));
  for (const layer of layers) lines.push('', ...layerLines(layer, paint));
  if (layers.length === 0) lines.push('', 'The bundle has no rules, so it denies everything.');
  return `${lines.join('\n')}\n`;
}

const AFTER_THE_RULES =
  'the rules let the call run; what is checked after them (caps, buckets, credentials, the way to the provider) did not';

function recordedLine({ decision, reason_codes: codes, because }: RecordedOutcome, decidedBy: DecidedBy | undefined): string {
  const why = because === 'after_the_rules' ? AFTER_THE_RULES : seen(otherRules(decidedBy));
  return `the record says ${seen(decision)}${codes.length === 0 ? '' : ` [${codes.map(seen).join(', ')}]`}: ${why}`;
}

/** Why other rules took part then than do now. */
function otherRules(decidedBy: DecidedBy | undefined): string {
  if (decidedBy?.same === true)
    return 'the same policy decided then; the record does not hold all that its rules read, or a bucket was empty';
  if (decidedBy?.same === false) return `another policy decided then, ${namesOf(decidedBy)}`;
  return 'other rules took part then, so the policy was changed since under the same name and version, or the record does not hold what they read';
}

/** A policy by its names. */
export function namesOf({ bundle_id: id, version, content_hash: hash }: Omit<DecidedBy, 'same'>): string {
  return `bundle ${id}, version ${version}${hash === undefined ? '' : `, content ${hash}`}`;
}

function effectLines(effects: Explanation['verdict']['effects']): readonly string[] {
  const stated = Object.entries(effects).filter(([, value]: [string, unknown]) => {
    if (Array.isArray(value)) return value.length > 0;
    return typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : value !== undefined;
  });
  return stated.map(([name, value]) => `effect ${name}: ${cut(shown(value))}`);
}

const CAPS: Readonly<Record<JudgedCap['effect'], string>> = {
  usd_max: 'the cap of one request',
  monthly_usd_max: 'the cap of its project for a month',
};

function capLine({ effect, cap_usd: cap, cost_estimate_usd: cost, spent_usd: spent, exceeded }: JudgedCap): string {
  const beside = spent === undefined ? '' : `, beside ${spent} USD that are spent,`;
  return `${CAPS[effect]}, ${cap} USD (budget.${effect}): the estimate of ${cost} USD${beside} ${exceeded ? 'is above it' : 'fits'}`;
}

function layerLines(layer: ExplainedLayer, paint: Paint): readonly string[] {
  const head = `${paint.bold(layer.layer)} (${layer.kind === 'empty' && layer.code !== null ? 'no rules: denies everything' : KINDS[layer.kind]})`;
  if (!layer.evaluated) return [`${head} not asked`, ...layer.rules.map((rule) => `  ${paint.dim(`- ${ruleText(rule)}`)}`)];
  const decision = layer.decision === null ? 'no opinion' : layer.decision;
  const code = layer.code === null ? '' : ` by the layer itself [${layer.code}]`;
  const stop = layer.stopped ? `, ${paint.bold('evaluation stopped here')}` : '';
  return [`${head} ${decision}${code}${stop}`, ...layer.rules.flatMap((rule) => ruleLines(rule, paint))];
}

/** A rule with what became of it, and its tests with the values that the request had. */
export function ruleLines(rule: ExplainedRule, paint: Paint): readonly string[] {
  const mark = rule.outcome === 'matched' ? paint.green('+') : rule.outcome === 'unknown' ? paint.yellow('?') : '-';
  const lines = [`  ${mark} ${ruleText(rule)}: ${OUTCOMES[rule.outcome]}  ${paint.dim(seen(`${rule.file}:${rule.line}`))}`];
  if (rule.replaces.length > 0) lines.push(`      in the place of ${rule.replaces.map(seen).join(', ')}`);
  if (rule.missing_field) lines.push('      a missing field counts against the caller here');
  if (rule.condition !== undefined) lines.push(...testLines(rule.condition, '      ', paint));
  return lines;
}

function ruleText({ rule, level, decision }: ExplainedRule): string {
  return `${seen(rule)}${level === 'base' ? '' : `@${level}`} (${decision ?? 'effects only'})`;
}

function testLines(test: ExplainedTest, indent: string, paint: Paint): readonly string[] {
  const word = test.holds === null ? paint.yellow('unknown') : test.holds ? paint.green('yes') : paint.red('no');
  if ('group' in test) {
    const inner = test.tests.flatMap((part) => testLines(part, `${indent}  `, paint));
    return [`${indent}${word.padEnd(4)} ${test.group === 'all' ? 'all of' : 'any of'}`, ...inner];
  }
  return [`${indent}${word.padEnd(4)} ${seen(test.field)} ${cut(seen(test.test))}  ${paint.dim(observedText(test))}`];
}

function observedText({ state, observed }: Extract<ExplainedTest, { field: string }>): string {
  if (state === 'missing') return '(missing)';
  if (state === 'hidden') return '(content, never shown)';
  return state === 'unknown' ? '(not known)' : `is ${cut(shown(observed))}`;
}

function cut(text: string): string {
  return cutShown(text, MAX_TEXT);
}
