import { withoutByteOrderMark } from '../../base/lib/text.ts';
import type { ToldChanges } from '../registers/commit.ts';
import { type ActivePolicy, type Base, type CompileOptions, orgPolicy, orgPolicyUnless, textsOfOrg } from './active-policy.ts';
import { policyTold } from './audit-policy.ts';
import { type OrgLayers, type OrgOverlay, type OrgOverlays, type OverlayPlace, overlayFile } from './org-overlays.ts';
import { overlayIn, type Weighed, type WeighedSide, type WeighOptions, weigh } from './weigh-policy.ts';

/**
 * The text of an overlay from now on, or how it is made of the one that is there (empty: none).
 * @throws GatewayError
 */
export type OverlayText = string | ((before: string) => string);

/** What an overlay is laid over, and what it is compiled with. */
export interface TrialGround {
  readonly base: Base;
  readonly overlays: OrgOverlays;
  readonly options: CompileOptions & WeighOptions & { readonly nodeId: string };
}

/** An overlay that could be put. */
export interface TriedOverlay {
  readonly overlay: OrgOverlay;
  /** Whether it counts on this node. */
  readonly countsHere: boolean;
  /**
   * What the org is judged by with it, on the node that it is for; undefined: it lays nothing over the bundle any more.
   */
  readonly judged: ActivePolicy | undefined;
  readonly weighed: Weighed;
  /** For the audit trail. */
  readonly told: ToldChanges;
}

/**
 * Compiles an overlay as the node that it is for will, and compares it with what is there.
 * @param stored the one that is there; undefined: none
 * @throws GatewayError `invalid_policy` with every mistake in it; what is wrong elsewhere keeps nobody from a change
 */
export async function tryOverlay(
  { base, overlays, options }: TrialGround,
  place: OverlayPlace,
  text: OverlayText,
  stored: OrgOverlay | undefined,
): Promise<TriedOverlay> {
  const { nodeId, clock } = options;
  const { org_id: orgId, level } = place;
  const given = typeof text === 'string' ? text : text(stored?.bundle_yaml ?? '');
  const overlay: OrgOverlay = { ...place, bundle_yaml: withoutByteOrderMark(given), put_at: clock.now() };
  const countsHere = level === 'org' || place.node_id === nodeId;
  const here = (one: OrgOverlay): OrgOverlay => (level === 'node' ? { ...one, node_id: nodeId } : one);
  const file = overlayFile(level);
  const layers = overlays.layers(orgId, { overlay: here(overlay) });
  const judged = layers && (await orgPolicyUnless((one) => one === file, orgId, base, layers, options));
  const layersBefore = overlays.layers(orgId, { overlay: here(stored ?? { ...overlay, bundle_yaml: '' }) });
  const before = layersBefore && (await orgPolicy(orgId, base, layersBefore, options));
  const weighed = await weigh(sideOf(base, layersBefore, before), sideOf(base, layers, judged), overlayIn(file), options);
  return { overlay, countsHere, judged, weighed, told: policyTold(weighed) };
}

function sideOf(base: Base, layers: OrgLayers | undefined, { policy, notLoaded }: ActivePolicy = base.active): WeighedSide {
  return { texts: textsOfOrg(base, layers), policy: notLoaded === undefined ? policy : undefined };
}
