import type { PlanTier } from '../../base/model/org.ts';
import { BUNDLE_SCHEMA, type PolicyText } from '../../decide/policy/bundle.ts';
import { tierAllows } from '../../decide/policy/layers.ts';

/** No name of a file in a policies folder: those end in `.yaml`. */
export const AUTO_RULES_FILE = 'auto rules';
/**
 * Behind every rule that persons write: one of theirs in the same layer goes first, and one of the same id in an
 * overlay stands in its place.
 */
const LAST = -999_999_999_999_999;
const LAYERS = ['connectors', 'credentials'] as const;

/** The connectors for whose providers an org has been given credentials. */
export interface AutoAllowed {
  readonly org_id: string;
  readonly connector_ids: readonly string[];
}

/**
 * The rules `auto.allow.{provider}` of an org's overlay (specification, "Gateway admin API"), in those of their layers
 * that the tier includes; undefined when there are none.
 */
export function autoRules({ connector_ids: connectorIds }: AutoAllowed, tier: PlanTier): PolicyText | undefined {
  const layers = LAYERS.filter((layer) => tierAllows(tier, layer));
  if (connectorIds.length === 0 || layers.length === 0) return undefined;
  const rules = connectorIds.map((id) => ({
    id: `auto.allow.${id}`,
    priority: LAST,
    when: { field: 'context.connector.id', equals: id },
    effect: { decision: 'allow', reason: `the org has a credential for ${id}` },
  }));
  const text = JSON.stringify({ schema: BUNDLE_SCHEMA, inline_rules: Object.fromEntries(layers.map((layer) => [layer, rules])) });
  return { text, file: AUTO_RULES_FILE, ownRules: true };
}
