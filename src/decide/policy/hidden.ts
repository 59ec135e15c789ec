import { permits } from '../../base/model/reason-codes.ts';
import type { CompiledLayer, CompiledPolicy, CompiledRule } from './compiled.ts';
import { holdsIfKnown, type IsKnown, unknownFields } from './condition-logic.ts';
import type { Facts } from './facts.ts';
import type { Field } from './fields.ts';
import type { Verdict } from './verdict.ts';

/*
 * A request of which a part is not understood: its facts say `missing` where a value may well be, only nobody knows it.
 * Whatever depends on such a value is no answer.
 */

const MODEL = 'action.params.model';
const MODELS = 'action.models';
const COST = 'estimates.cost_usd';
const IN_BODY = /^(?:stream$|action\.params\.|estimates\.)/;

/** Whether something of the request is hidden, so that a verdict about it has to be looked at once more. */
export function hidesSomething({ reading }: Facts): boolean {
  return reading.hidesBody || reading.hidesModel;
}

/** Whether this request shows a field; missing counts as shown. */
export function showsField({ reading }: Facts, { name }: Field): boolean {
  if (name === MODEL || name === MODELS) return !reading.hidesModel;
  if (name === COST && reading.hidesPrice) return false;
  return !reading.hidesBody || !IN_BODY.test(name);
}

/** A rule that cannot be answered, and the fields that it would have to know. */
export interface OpenRule {
  readonly rule: CompiledRule;
  readonly fields: readonly string[];
}

/**
 * The rules of a layer that could turn its outcome and depend on what is not known. Behind a rule that certainly ends
 * the layer nothing can turn its decision; effects there count only when the request runs.
 */
export function openRulesOf(policy: CompiledPolicy, layer: CompiledLayer, facts: Facts, isKnown: IsKnown): readonly OpenRule[] {
  const open: OpenRule[] = [];
  let ended = false;
  for (const rule of layer.rules) {
    if (ended && rule.decision !== undefined) continue;
    const matches = holds(rule, facts, isKnown);
    if (matches === undefined) open.push({ rule, fields: unknownFields(rule.condition, isKnown) });
    if (matches !== true || policy.strategy !== 'first_match' || !endsLayer(rule)) continue;
    if (refuses(rule)) break;
    ended = true;
  }
  return open;
}

/**
 * The first rule that makes a verdict depend on what the request hides; undefined when the verdict is the same whatever
 * that is, or no milder than with any other value.
 * @param verdict of the facts as they are, so with what is hidden taken for missing; undefined: no opinion
 */
export function firstOpenRule(
  policy: CompiledPolicy,
  layers: readonly CompiledLayer[],
  facts: Facts,
  verdict: Verdict | undefined,
): OpenRule | undefined {
  const isKnown: IsKnown = (field) => showsField(facts, field);
  const allowed = verdict === undefined || permits(verdict.decision);
  for (const layer of layers) {
    const open = openRulesOf(policy, layer, facts, isKnown);
    // Of what is allowed without it a plain allow can take nothing away.
    const first = open.find(({ rule }) => !(allowed && policy.strategy === 'first_match' && onlyAllows(rule)));
    if (first !== undefined) return first;
    if (layer.name === verdict?.stopped_at) break;
  }
  // Defaults of rules behind the end count too, if the request runs.
  return allowed ? openOf(policy.defaultRules, facts, isKnown)[0] : undefined;
}

/** Rules, wherever they stand, that depend on what is not known. */
export function openOf(rules: readonly CompiledRule[], facts: Facts, isKnown: IsKnown): readonly OpenRule[] {
  return rules.flatMap((rule) =>
    holds(rule, facts, isKnown) === undefined ? [{ rule, fields: unknownFields(rule.condition, isKnown) }] : [],
  );
}

function holds(rule: CompiledRule, facts: Facts, isKnown: IsKnown): boolean | undefined {
  return holdsIfKnown(rule.condition, refuses(rule), facts, isKnown);
}

function refuses({ decision }: CompiledRule): boolean {
  return decision !== undefined && !permits(decision);
}

/** Rules that may have no opinion end no layer for certain (policy.md 2, decision 6.11). */
function endsLayer({ decision }: CompiledRule): boolean {
  return decision !== undefined && decision !== 'rate_limit' && decision !== 'require_attribution';
}

function onlyAllows({ decision, effects }: CompiledRule): boolean {
  return decision === 'allow' && Object.keys(effects).every((name) => name === 'decision' || name === 'reason' || name === 'reasonCodes');
}
