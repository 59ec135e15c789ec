import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { doorFindings } from '../../decide/policy/door-fields.ts';
import type { LintCode } from '../../decide/policy/lint.ts';
import { deniesAllMessage, type PassageOptions, whyNothingPasses } from '../../decide/policy/refuses-all.ts';

/** Something of a policy that loads and is probably not meant. */
export interface PolicyWarning {
  readonly path: string;
  readonly code: LintCode;
  readonly message: string;
  readonly files: readonly string[];
}

/** Rules that a log and an answer name. */
const MOST_TOLD = 20;
/** Policies never change, and lists of them are asked for often. */
const known = new WeakMap<CompiledPolicy, readonly PolicyWarning[]>();

/**
 * What `gw policy check` says of it too, and concerns all of its calls: that nothing can be allowed, and rules that
 * wait for what never comes by a door.
 */
export function doubtsOf(policy: CompiledPolicy, passage: PassageOptions = {}): readonly PolicyWarning[] {
  const found = known.get(policy) ?? doubts(policy, passage);
  known.set(policy, found);
  return found;
}

function doubts(policy: CompiledPolicy, passage: PassageOptions): readonly PolicyWarning[] {
  const why = whyNothingPasses(policy, passage);
  const none: readonly PolicyWarning[] =
    why === undefined
      ? []
      : [{ path: '', code: 'denies_all', message: deniesAllMessage(why, policy.unusedFiles), files: policy.unusedFiles }];
  const rules = policy.layers.flatMap((layer) => layer.rules);
  const doors = rules.flatMap(({ layer, id, file, condition, decision }) =>
    doorFindings(condition, decision).map(({ message, hint }): PolicyWarning => {
      const told = `${layer}/${id}: ${message} (${hint})`;
      return { path: `inline_rules.${layer}`, code: 'never_at_door', message: told, files: [file] };
    }),
  );
  const more = doors.length - MOST_TOLD;
  if (more <= 0) return [...none, ...doors];
  const rest: PolicyWarning = {
    path: '',
    code: 'never_at_door',
    message: `the same is so of ${more} more: gw policy check shows all of it`,
    files: [],
  };
  return [...none, ...doors.slice(0, MOST_TOLD), rest];
}
