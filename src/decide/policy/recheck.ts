import { permits } from '../../base/model/decision.ts';
import type { CompiledPolicy } from './compiled.ts';
import { asFarAsKnown, contextOf, decideLayers } from './evaluate.ts';
import type { Facts } from './facts.ts';
import { hidesSomething } from './hidden.ts';
import type { Verdict } from './verdict.ts';

const RECHECKED: ReadonlySet<string> = new Set(['connectors', 'credentials', 'targets']);

/**
 * Asks the connectors, credentials and targets layers once more about the final choice, after a selection, a hint or a mutation changed what policy first saw
 * (decision 5.4). Its effects are not applied again.
 * @returns the refusal that stands, or undefined
 */
export function recheck(policy: CompiledPolicy, facts: Facts): Verdict | undefined {
  const layers = policy.layers.filter((layer) => RECHECKED.has(layer.name));
  const context = contextOf(policy, facts, undefined);
  const found = decideLayers(policy, layers, context);
  const verdict = hidesSomething(facts) ? asFarAsKnown(policy, layers, context, found) : found;
  return verdict === undefined || permits(verdict.decision) ? undefined : verdict;
}
