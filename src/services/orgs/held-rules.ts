import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Decision } from '../../base/model/reason-codes.ts';
import type { CompiledRule } from '../../decide/policy/compiled.ts';
import { compareLayers } from '../../decide/policy/layers.ts';
import type { Level } from '../../decide/policy/verdict.ts';
import { type RuleText, rulesIn } from '../../policy-tools/edit-overlay.ts';
import type { ActivePolicy } from '../policy/active-policy.ts';
import { type OrgOverlay, overlayFile } from '../policy/org-overlays.ts';

/** A rule that an org is judged by, or that stands in one of its overlays. */
export interface HeldRule {
  readonly rule_id: string;
  readonly layer: string;
  readonly level: Level;
  readonly node_id?: string;
  /** `generated`: by the gateway, of add-ons and credentials. */
  readonly from: 'bundle' | 'overlay' | 'generated';
  readonly in_force: boolean;
  readonly decision?: Decision;
  readonly priority?: number;
  /** As YAML; of overlays alone, and of such that are not too long to be changed rule by rule. */
  readonly rule?: string;
}

/**
 * Rules in the order in which layers are asked, in a layer those in force by rank.
 * @param active what the org is judged by on this node
 * @param nodeId of this node: overlays of others are told and not in force
 */
export function heldRules({ policy }: ActivePolicy, overlays: readonly OrgOverlay[], nodeId: string): readonly HeldRule[] {
  const written = new Map(overlays.flatMap((overlay) => writtenRules(overlay).map((rule) => [nameOf(rule), rule] as const)));
  const inForce = policy.layers.flatMap(({ rules }) =>
    rules.map((rule): HeldRule => {
      const told = toldOf(rule, nodeId);
      const own = told.from === 'overlay' ? written.get(nameOf(told)) : undefined;
      if (own !== undefined) written.delete(nameOf(own));
      return own?.rule === undefined ? told : { ...told, rule: own.rule };
    }),
  );
  return [...inForce, ...written.values()].toSorted((a, b) => compareLayers(a.layer, b.layer));
}

function toldOf({ id, layer, decision, priority, file, matched: { level } }: CompiledRule, nodeId: string): HeldRule {
  const isOverlay = level !== 'base' && file === overlayFile(level);
  return {
    rule_id: id,
    layer,
    level,
    ...(isOverlay && level === 'node' ? { node_id: nodeId } : {}),
    from: level === 'base' ? 'bundle' : isOverlay ? 'overlay' : 'generated',
    in_force: true,
    ...(decision === undefined ? {} : { decision }),
    priority,
  };
}

function nameOf({ level, node_id: node = '', layer, rule_id: id }: HeldRule): string {
  return `${level} ${node} ${layer} ${id}`;
}

/** The rules that stand in an overlay, whether they are in force or not. */
export function writtenRules(overlay: OrgOverlay): readonly HeldRule[] {
  const { level, node_id: node } = overlay;
  return textsOf(overlay).map(({ layer, rule_id: id, rule_yaml: rule }) => ({
    rule_id: id,
    layer,
    level,
    ...(node === undefined ? {} : { node_id: node }),
    from: 'overlay',
    in_force: false,
    rule,
  }));
}

const texts = new WeakMap<OrgOverlay, readonly RuleText[]>();

/** Read once for each text. */
function textsOf(overlay: OrgOverlay): readonly RuleText[] {
  const known = texts.get(overlay);
  if (known !== undefined) return known;
  const read = readRules(overlay.bundle_yaml);
  texts.set(overlay, read);
  return read;
}

/** None of a text that is too long, or that does not load any more. */
function readRules(text: string): readonly RuleText[] {
  try {
    return rulesIn(text);
  } catch (error) {
    if (error instanceof GatewayError) return [];
    throw error;
  }
}
