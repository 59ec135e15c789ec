import { permits, severityOf } from '../../base/model/reason-codes.ts';
import type { CompiledLayer, CompiledPolicy, CompiledRule } from './compiled.ts';
import { asFarAsKnown, contextOf, decideLayers, refusedAsCostly } from './evaluate.ts';
import { factsOfEveryModel } from './every-model.ts';
import type { Facts } from './facts.ts';
import { hidesSomething } from './hidden.ts';
import type { MatchedRule, Verdict } from './verdict.ts';
import { left, MOST_STEPS } from './verdict.ts';

const RECHECKED: ReadonlySet<string> = new Set(['connectors', 'credentials', 'targets']);
const TARGET_HOST = 'action.target_host';

/** How the final choice came about. */
export interface Choice {
  /** What policy first saw. */
  readonly before: Facts;
  /** What it said of that. */
  readonly verdict: Verdict;
}

/**
 * Whether policy has to be asked again: what it first saw goes by another connector, with another credential or to
 * another host, or a mutation of its path has made another kind of action of it.
 */
export function isAnotherChoice(
  before: Facts,
  now: Pick<Facts, 'action_type' | 'connector_id' | 'credential_id' | 'target_host'>,
): boolean {
  return (
    before.connector_id !== now.connector_id ||
    before.credential_id !== now.credential_id ||
    before.target_host !== now.target_host ||
    before.action_type !== now.action_type
  );
}

/**
 * Asks the connectors, credentials and targets layers once more about the final choice, after a selection, a hint or a
 * mutation changed what policy first saw (decision 5.4). Its effects are not applied again. The rule that made the
 * change counts as its layer's allow: what else the layer refuses stands.
 * @param matched takes the rules that it comes to
 * @returns the refusal that stands, or undefined
 */
export function recheck(policy: CompiledPolicy, facts: Facts, choice?: Choice, matched?: MatchedRule[]): Verdict | undefined {
  left[0] = MOST_STEPS;
  try {
    return worstOf(policy, facts, choice, matched);
  } catch (error) {
    return refusedAsCostly(error, facts);
  } finally {
    left[0] = Number.POSITIVE_INFINITY;
  }
}

function worstOf(policy: CompiledPolicy, facts: Facts, choice?: Choice, matched?: MatchedRule[]): Verdict | undefined {
  let worst: Verdict | undefined;
  for (const one of facts.further === undefined ? [facts] : factsOfEveryModel(facts)) {
    const verdict = recheckOne(policy, one, choice);
    if (verdict === undefined) continue;
    matched?.push(...verdict.matched);
    if (permits(verdict.decision)) continue;
    if (worst === undefined || severityOf(verdict.decision) > severityOf(worst.decision)) worst = verdict;
  }
  return worst;
}

function recheckOne(policy: CompiledPolicy, facts: Facts, choice: Choice | undefined): Verdict | undefined {
  const allowed = choice === undefined ? NONE : layersThatChose(policy, facts, choice);
  const layers = policy.layers
    .filter((layer) => RECHECKED.has(layer.name))
    .map((layer): CompiledLayer => (allowed.has(layer.name) ? { ...layer, gateCode: undefined } : layer));
  const context = contextOf(policy, facts, undefined);
  const found = decideLayers(policy, layers, context);
  return hidesSomething(facts) ? asFarAsKnown(policy, layers, context, found) : found;
}

const NONE: ReadonlySet<string> = new Set();

/** Of rules whose effect is what it came to: a hint may have stood before a selection. */
function layersThatChose(policy: CompiledPolicy, facts: Facts, { before, verdict }: Choice): ReadonlySet<string> {
  const { matched } = verdict;
  const connector = facts.connector_id === before.connector_id ? undefined : facts.connector_id;
  const host = facts.target_host === before.target_host ? undefined : facts.target_host;
  const anotherCredential = facts.credential_id !== before.credential_id;
  const chose = ({ effects: own }: CompiledRule): boolean =>
    (connector !== undefined && own.selectConnector === connector) ||
    (anotherCredential && own.selectCredential !== undefined) ||
    (host !== undefined && own.mutations?.some(({ key, value }) => key === TARGET_HOST && value === host) === true);
  const names = new Set(matched.map(({ layer, rule_id }) => `${layer}/${rule_id}`));
  const layers = policy.layers.filter(({ name, rules }) => rules.some((rule) => names.has(`${name}/${rule.id}`) && chose(rule)));
  return new Set(layers.map(({ name }) => name));
}
