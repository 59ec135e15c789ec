/*
 * How overlays are changed, whole or rule by rule: what is told before, who is refused, and what is answered (decision
 * 5.10).
 */
import type { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { OrgOverlay, OverlayPlace } from '../../services/policy/org-overlays.ts';
import type { OverlayText, TriedOverlay } from '../../services/policy/overlay-trial.ts';
import type { Weighed } from '../../services/policy/weigh-policy.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { HandOn } from '../hand-on.ts';
import { choice, id, members } from '../members.ts';
import type { Call } from '../operation.ts';
import { acceptChange, type ChangeAsked, type ChangeShown, shownChange, shownTrial } from '../policy-change-shapes.ts';
import type { OperationServices } from '../services.ts';
import { type ShownPolicy, shownPolicy } from './shown-policy.ts';

const LEVELS = ['org', 'node'] as const;

/** Members that say which overlay is meant. */
export const PLACE_MEMBERS = {
  level: choice(LEVELS).optional().meta({ description: 'org when left out' }),
  node_id: id.optional().meta({ description: 'With level node; this node when left out' }),
};
const PLACE = members(PLACE_MEMBERS);

/** @throws GatewayError `invalid_request` for a node of the level `org` */
export function placeOf({ level = 'org', node_id: named }: z.output<typeof PLACE>, orgId: string, here: string): OverlayPlace {
  if (level === 'org' && named !== undefined) throw onlyOfNodes();
  return { org_id: orgId, level, ...(level === 'node' ? { node_id: named ?? here } : {}) };
}

function onlyOfNodes(): GatewayError {
  const details = [{ path: 'node_id', message: 'belongs to the level node' }];
  return new GatewayError('invalid_request', 'The overlay has 1 bad member(s).', { details });
}

/** A change of an overlay. */
export interface OverlayChange extends ChangeAsked {
  readonly text: OverlayText;
  /** Rules that it takes away by name, `layer/id`. */
  readonly named?: ReadonlySet<string>;
  /** Which rule it is about, for the audit trail; absent: the whole overlay. */
  readonly object?: string;
}

/** What is answered to a change of an overlay. */
export interface OverlayAnswer {
  readonly json: ShownPolicy & { readonly change: ChangeShown };
  readonly tagged: ShownPolicy;
  /** The overlay, as it is then or would be. */
  readonly after: OrgOverlay;
}

type Asker = Pick<Call<z.ZodObject, z.ZodObject, z.ZodObject>, 'commit' | 'expectShown'>;

/**
 * Puts an overlay, or says what that would do.
 * @throws GatewayError as `PolicyService.putOverlay`, `precondition_failed`, `confirmation_needed`
 */
export async function putOverlay(
  { commit, expectShown }: Asker,
  services: OperationServices,
  place: OverlayPlace,
  asked: OverlayChange,
): Promise<OverlayAnswer> {
  const { policies } = services;
  const { org_id: orgId } = place;
  await policies.ready(orgId);
  let done: { readonly overlay: OrgOverlay; readonly weighed: Weighed } | undefined;
  const accept = (before: readonly OrgOverlay[], { overlay, weighed }: Pick<TriedOverlay, 'overlay' | 'weighed'>): void => {
    const shown = shownPolicy(policies, orgId, before);
    expectShown(shown);
    acceptChange(asked, shown, weighed, asked.named);
    done = { overlay, weighed };
  };
  if (asked.dry_run === true) return tried(services, place, asked, expectShown);
  const { object } = asked;
  const noted: Commit = object === undefined ? commit : (_org, ...what) => commit(object, ...what);
  const judged = await policies.putOverlay(place, asked.text, accept, noted);
  if (done === undefined) throw new TypeError('a change that was made has been weighed');
  return answered(shownPolicy(policies, orgId, undefined, judged), shownChange(done.weighed, false), done.overlay);
}

/** The same where a control plane owns overlays: it is tried here, and stored there. */
export async function handOnOverlay(
  { expectShown }: Asker,
  services: OperationServices,
  handOn: HandOn,
  place: OverlayPlace,
  asked: OverlayChange,
): Promise<OverlayAnswer> {
  const { policies } = services;
  const { org_id: orgId, level, node_id: nodeId } = place;
  await policies.ready(orgId);
  if (asked.dry_run === true) return tried(services, place, asked, expectShown);
  const { overlay, weighed, told } = await policies.tryOverlay(place, asked.text);
  const before = shownPolicy(policies, orgId);
  expectShown(before);
  acceptChange(asked, before, weighed, asked.named);
  const id = level === 'org' ? level : `node:${nodeId ?? ''}`;
  const show = (): unknown => policies.overlays(orgId).find((one) => one.level === level && one.node_id === nodeId);
  await handOn(
    { kind: 'overlays.put', entries: [{ id, body: { bundle_yaml: overlay.bundle_yaml } }] },
    { entity: 'policy_overlay', object: asked.object ?? id, show, told },
  );
  return answered(shownPolicy(policies, orgId), shownChange(weighed, false), overlay);
}

async function tried(services: OperationServices, place: OverlayPlace, asked: OverlayChange, expectShown: Asker['expectShown']) {
  const { policies } = services;
  const { overlay, weighed } = await policies.tryOverlay(place, asked.text);
  const shown = shownPolicy(policies, place.org_id);
  expectShown(shown);
  // Whether it would be refused is for the change itself to say.
  acceptChange({ if_match: asked.if_match }, shown, weighed);
  return answered(shown, await shownTrial(weighed, place.org_id, services), overlay);
}

function answered(shown: ShownPolicy, change: ChangeShown, after: OrgOverlay): OverlayAnswer {
  return { json: { ...shown, change }, tagged: shown, after };
}
