import type { JsonObject } from '../../base/json/json-object.ts';
import { ENTITY_BOUNDS } from '../../base/model/org-bounds.ts';
import type { HeldThings } from '../../services/orgs/org-holdings.ts';
import { ENTITY_SPACE, SPACE } from './control-plane-spaces.ts';
import { nodesOf } from './org-entities.ts';

/** What the control plane keeps of orgs, and how much of it one org may have: as at a gateway (decision 7.12). */
export const HELD_OF_PLANE: readonly HeldThings[] = [
  ...(
    [
      [ENTITY_SPACE.workloads, ENTITY_BOUNDS.workloads],
      [ENTITY_SPACE.credentials, ENTITY_BOUNDS.credentials],
      [ENTITY_SPACE['export-destinations'], ENTITY_BOUNDS.exports],
      [ENTITY_SPACE.addons, ENTITY_BOUNDS.addons],
      [SPACE.overlays, ENTITY_BOUNDS.overlays],
    ] as const
  ).map(([space, bound]): HeldThings => ({ space, bound, orgOf })),
  { space: ENTITY_SPACE.credentials, bound: ENTITY_BOUNDS.assignments, orgOf, countOf: assignedNodes },
  { space: SPACE.apiKeys, bound: ENTITY_BOUNDS.apiKeys, orgOf: (_key, value) => orgOfKey(value) },
];

function orgOf(key: string): string {
  return key.slice(0, key.indexOf(' '));
}

function assignedNodes(value: unknown): number {
  return nodesOf((value as { readonly value: JsonObject }).value).length;
}

/** Of one that is not revoked. */
function orgOfKey(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || 'revoked_at' in value || !('org_id' in value)) return undefined;
  return typeof value.org_id === 'string' ? value.org_id : undefined;
}
