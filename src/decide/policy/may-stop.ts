import { permits } from '../../base/model/reason-codes.ts';
import type { CompiledPolicy, CompiledRule } from './compiled.ts';
import { holdsIfKnown } from './condition-logic.ts';
import { BAREST } from './contradiction.ts';
import type { Facts } from './facts.ts';

/** Who calls, as far as that is known before the call. */
export interface ExpectedCaller {
  readonly orgId: string;
  readonly workloadId?: string | undefined;
}

export interface MayStop {
  readonly layer: string;
  readonly rule: CompiledRule;
}

/**
 * The rules that may refuse, hold, slow down or change a call of a caller: all but those that certainly hold for none
 * of its calls. Those that hold for all of them stand first.
 */
export function rulesThatMayStop({ layers }: CompiledPolicy, { orgId, workloadId }: ExpectedCaller): readonly MayStop[] {
  const facts: Facts = { ...BAREST, org_id: orgId, workload_id: workloadId ?? BAREST.workload_id };
  const known = new Set(workloadId === undefined ? ['org_id'] : ['org_id', 'workload.id']);
  const holds = ({ condition, decision }: CompiledRule): boolean | undefined =>
    holdsIfKnown(condition, decision !== undefined && !permits(decision), facts, ({ name }) => known.has(name));
  const all = layers.flatMap(({ name, rules }) => rules.filter(stops).map((rule) => ({ layer: name, rule, holds: holds(rule) })));
  return [...all.filter(({ holds: always }) => always === true), ...all.filter(({ holds: always }) => always === undefined)];
}

function stops({ decision, effects }: CompiledRule): boolean {
  if (decision !== undefined && (!permits(decision) || decision === 'downgrade')) return true;
  const { usdMaxPico, monthlyUsdMaxPico, requestsPerMinute, require } = effects;
  return [usdMaxPico, monthlyUsdMaxPico, requestsPerMinute, require].some((limit) => limit !== undefined);
}
