import { type Decision, permits } from '../../base/model/decision.ts';
import type { CompiledLayer, CompiledPolicy, CompiledRule } from './compiled.ts';
import { ALWAYS } from './condition.ts';

const REFUSES: ReadonlySet<Decision | undefined> = new Set<Decision>(['deny', 'quarantine']);

/**
 * True for a policy by which no request can ever be let through: it has no rule that does so, or a layer refuses whatever comes (policy.md 1, 2, 4, 7, 8).
 * @param asksPeople whether somebody can be asked: without approvals a rule that asks is a refusal (`GW_APPROVAL_ENABLED`)
 */
export function refusesAll({ layers, strategy, stopOn }: CompiledPolicy, asksPeople: boolean): boolean {
  const letsThrough = ({ decision }: CompiledRule) =>
    decision !== undefined && (permits(decision) || (asksPeople && decision === 'require_approval'));
  const refuses = (rule: CompiledRule) =>
    (REFUSES.has(rule.decision) || (!asksPeople && rule.decision === 'require_approval') || requiresNothing(rule)) &&
    isAlways(rule.condition);
  const refusesWhatComes = ({ rules, gateCode }: CompiledLayer): boolean => {
    const refusal = rules.findIndex(refuses);
    const passage = rules.findIndex(letsThrough);
    // Of a layer that denies what none of its rules allows, and of which none allows anything.
    if (gateCode !== undefined && passage === -1) return true;
    return refusal !== -1 && (strategy === 'strict' || passage === -1 || refusal < passage);
  };
  // Where an allow may end the evaluation, a request may never come to the layers behind it (policy.md 5).
  const ends = ({ decision }: CompiledRule) =>
    decision !== undefined && permits(decision) && (stopOn.has('allow') || stopOn.has('downgrade'));
  const last = layers.findIndex(({ rules }) => rules.some(ends));
  const reached = last === -1 ? layers : layers.slice(0, last + 1);
  return reached.some(refusesWhatComes) || !layers.some(({ rules }) => rules.some(letsThrough));
}

/** What asks for attribution and names none cannot be satisfied (decision 6.11). */
function requiresNothing({ decision, require }: CompiledRule): boolean {
  return decision === 'require_attribution' && require.length === 0;
}

function isAlways(condition: CompiledRule['condition']): boolean {
  return condition === ALWAYS || (condition.kind === 'all' && condition.parts.length === 0);
}
