import type { CompiledPolicy } from './compiled.ts';
import type { MatchedRule } from './verdict.ts';

/** A rule that asks for an approval of a request, whether or not one was given for it. */
export interface AskedByRule {
  /** `layer/id`. */
  readonly id: string;
  /** SHA-256 of what it says. */
  readonly hash: string;
  readonly reason: string | undefined;
}

const NONE: readonly AskedByRule[] = [];

/** Those of the rules that a request matched. */
export function askedBy({ askingRules }: CompiledPolicy, matched: readonly MatchedRule[]): readonly AskedByRule[] {
  if (askingRules.size === 0) return NONE;
  return matched.flatMap(({ layer, rule_id: name }) => {
    const id = `${layer}/${name}`;
    const rule = askingRules.get(id);
    return rule?.contentHash === undefined ? [] : [{ id, hash: rule.contentHash, reason: rule.effects.reason }];
  });
}
