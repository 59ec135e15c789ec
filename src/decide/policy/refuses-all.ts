import type { Decision } from '../../base/model/decision.ts';
import type { CompiledLayer, CompiledPolicy } from './compiled.ts';
import { ALWAYS } from './condition.ts';

/** Decisions by which a request is let through, at once or when a person has said yes. */
const LETS_THROUGH: ReadonlySet<Decision | undefined> = new Set<Decision>(['allow', 'downgrade', 'require_approval']);
const REFUSES: ReadonlySet<Decision | undefined> = new Set<Decision>(['deny', 'quarantine']);

/** True for a policy by which no request can ever be let through: it has no rule that does so, or a layer refuses before anything else (policy.md 1, 4, 7). */
export function refusesAll({ layers }: CompiledPolicy): boolean {
  return layers.some(refusesFirst) || !layers.some(({ rules }) => rules.some(({ decision }) => LETS_THROUGH.has(decision)));
}

/** Its first rule with a decision always matches, and refuses. */
function refusesFirst({ rules }: CompiledLayer): boolean {
  const first = rules.find(({ decision }) => decision !== undefined);
  return first !== undefined && REFUSES.has(first.decision) && isAlways(first.condition);
}

function isAlways(condition: CompiledLayer['rules'][number]['condition']): boolean {
  return condition === ALWAYS || (condition.kind === 'all' && condition.parts.length === 0);
}
