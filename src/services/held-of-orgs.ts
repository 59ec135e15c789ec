import { ENTITY_BOUNDS } from '../base/model/org-bounds.ts';
import { CHANNELS } from './alerts/alert-channels.ts';
import { SUBSCRIPTIONS } from './alerts/alert-subscriptions.ts';
import { API_KEYS } from './api-keys.ts';
import { CREDENTIALS } from './credentials.ts';
import { CUSTOM_CONNECTORS } from './custom-connectors.ts';
import { orgOfEntity } from './entity-org.ts';
import { EXPORTS } from './exports/export-destinations.ts';
import { LIMITS } from './held-limits.ts';
import { MANAGEMENT_KEYS } from './management-keys.ts';
import type { HeldThings } from './org-holdings.ts';
import { OVERLAYS } from './org-overlays.ts';
import { PROJECTS } from './projects.ts';
import type { StoredCredential } from './stored-credential.ts';
import { WORKLOAD_RATES } from './workload-rates.ts';
import { WORKLOADS } from './workloads.ts';

/** What people lay down for orgs at a gateway, and how much of it one org may have (decision 7.12). */
export const HELD_OF_ORGS: readonly HeldThings[] = [
  ...(
    [
      [WORKLOADS, ENTITY_BOUNDS.workloads],
      [CREDENTIALS, ENTITY_BOUNDS.credentials],
      [PROJECTS, ENTITY_BOUNDS.projects],
      [LIMITS, ENTITY_BOUNDS.limits],
      [OVERLAYS, ENTITY_BOUNDS.overlays],
      [CUSTOM_CONNECTORS, ENTITY_BOUNDS.connectors],
      [CHANNELS, ENTITY_BOUNDS.channels],
      [SUBSCRIPTIONS, ENTITY_BOUNDS.subscriptions],
      [EXPORTS, ENTITY_BOUNDS.exports],
      [WORKLOAD_RATES, ENTITY_BOUNDS.workloadRates],
    ] as const
  ).map(([space, bound]): HeldThings => ({ space, bound, orgOf: (key, value) => orgOfEntity(space, key, value) })),
  {
    space: CREDENTIALS,
    bound: ENTITY_BOUNDS.assignments,
    orgOf: (key, value) => orgOfEntity(CREDENTIALS, key, value),
    countOf: assignedNodes,
  },
  ...(
    [
      [API_KEYS, ENTITY_BOUNDS.apiKeys],
      [MANAGEMENT_KEYS, ENTITY_BOUNDS.managementKeys],
    ] as const
  ).map(
    ([space, bound]): HeldThings => ({
      space,
      bound,
      orgOf: (key, value) => (isRevoked(value) ? undefined : orgOfEntity(space, key, value)),
    }),
  ),
];

/** Nodes that a credential names, as it is stored. */
function assignedNodes(value: unknown): number {
  const { node_ids: nodes } = (value as Partial<StoredCredential>).credential ?? {};
  return nodes?.length ?? 0;
}

/** Whether a key, as it is stored, opens nothing any more. */
function isRevoked(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'revoked_at' in value;
}
