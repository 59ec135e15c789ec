import { type Decision, permits } from '../../base/model/reason-codes.ts';
import type { CompiledLayer, CompiledPolicy, CompiledRule } from './compiled.ts';
import { ALWAYS } from './condition.ts';
import { type Contradiction, contradictionOf, type Passage } from './contradiction.ts';

/** What is asked beside the policy itself. */
export interface PassageOptions {
  /**
   * Whether somebody can be asked: without approvals a rule that asks is a refusal (`GW_APPROVAL_ENABLED`). Default:
   * yes.
   */
  readonly asksPeople?: boolean;
  /** Whether a connector takes calls to a host; undefined: that is not known. */
  readonly covers?: ((connectorId: string, host: string) => boolean | undefined) | undefined;
}

const REFUSES: ReadonlySet<Decision | undefined> = new Set<Decision>(['deny', 'quarantine']);
/** Policies never change, and health is asked often. */
const known = new WeakMap<CompiledPolicy, Map<string, string | undefined>>();

/**
 * True for a policy by which no request can ever be let through, as far as can be proved: see {@link whyNothingPasses}.
 */
export function refusesAll(policy: CompiledPolicy, options: PassageOptions = {}): boolean {
  return whyNothingPasses(policy, options) !== undefined;
}

/**
 * Why no request can ever be let through by a policy, as a sentence without its end: it has no rule that does so, a
 * layer refuses whatever comes, or layers exclude what others allow (policy.md 1, 2, 4, 7, 8). Undefined where
 * something may pass, or where that would take too long to rule out.
 */
export function whyNothingPasses(policy: CompiledPolicy, options: PassageOptions = {}): string | undefined {
  const asked = JSON.stringify([options.asksPeople ?? true, options.covers !== undefined]);
  const kept = known.get(policy) ?? new Map<string, string | undefined>();
  if (kept.has(asked)) return kept.get(asked);
  const why = reasonFor(policy, options);
  known.set(policy, kept.set(asked, why));
  return why;
}

/** What people are told of such a policy. */
export function deniesAllMessage(why: string, unusedFiles: readonly string[] = []): string {
  const besides = unusedFiles.length === 0 ? '' : ` (the rules in ${unusedFiles.join(', ')} do not count beside inline_rules)`;
  return `nothing can be allowed by this policy: ${why}${besides}`;
}

function reasonFor(policy: CompiledPolicy, { asksPeople = true, covers }: PassageOptions): string | undefined {
  const { layers, strategy, stopOn } = policy;
  const letsThrough = ({ decision }: CompiledRule): boolean =>
    decision !== undefined && (permits(decision) || (asksPeople && decision === 'require_approval'));
  const refuses = (rule: CompiledRule): boolean =>
    REFUSES.has(rule.decision) || (!asksPeople && rule.decision === 'require_approval') || requiresNothing(rule);
  if (!layers.some(({ rules }) => rules.some(letsThrough))) return 'no rule of it allows anything';
  // Where an allow may end the evaluation, a request may never come to the layers behind it (policy.md 5).
  const ends = ({ decision }: CompiledRule): boolean =>
    decision !== undefined && permits(decision) && (stopOn.has('allow') || stopOn.has('downgrade'));
  const last = layers.findIndex(({ rules }) => rules.some(ends));
  const reached = last === -1 ? layers : layers.slice(0, last + 1);
  const passage: Passage = { letsThrough, refuses, strategy, covers };
  for (const layer of reached) {
    const why = whyLayerRefuses(layer, passage);
    if (why !== undefined) return why;
  }
  const found = contradictionOf(reached, layers, passage);
  return found && told(found);
}

function whyLayerRefuses({ name, rules, gateCode }: CompiledLayer, { letsThrough, refuses, strategy }: Passage): string | undefined {
  const refusal = rules.findIndex((rule) => refuses(rule) && isAlways(rule.condition));
  const passage = rules.findIndex(letsThrough);
  if (gateCode !== undefined && passage === -1)
    return `the layer ${name} ${rules.length === 0 ? 'is written down without a rule' : 'has no rule that allows anything'}, so it denies everything (${gateCode})`;
  if (refusal === -1 || (strategy !== 'strict' && passage !== -1 && refusal > passage)) return undefined;
  return `rule "${rules[refusal]?.id}" of the layer ${name} has no condition and refuses everything`;
}

function told({ layers, rule }: Contradiction): string {
  if (rule !== undefined) return `rule "${rule.id}" of the layer ${rule.layer} refuses all that others allow`;
  if (layers.length < 2) return 'no rule that allows can ever match';
  return `the layers ${layers.join(' and ')} are allow-lists, and no call can match an allowing rule of each of them`;
}

/** What asks for attribution and names none cannot be satisfied (decision 6.11). */
function requiresNothing({ decision, require }: CompiledRule): boolean {
  return decision === 'require_attribution' && require.length === 0;
}

function isAlways(condition: CompiledRule['condition']): boolean {
  return condition === ALWAYS || (condition.kind === 'all' && condition.parts.length === 0);
}
