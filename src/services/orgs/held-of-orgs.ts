import { ENTITY_BOUNDS } from '../../base/model/org-bounds.ts';
import { LIMITS } from '../money/held-limits.ts';
import { WORKLOAD_RATES } from '../money/workload-rates.ts';
import { API_KEYS } from '../people/api-keys.ts';
import { CHAT_USERS } from '../people/chat-users.ts';
import { CREDENTIALS } from '../people/credentials.ts';
import { MANAGEMENT_KEYS } from '../people/management-keys.ts';
import { PROJECTS } from '../people/projects.ts';
import type { StoredCredential } from '../people/stored-credential.ts';
import { WORKLOADS } from '../people/workloads.ts';
import { CUSTOM_CONNECTORS } from '../policy/custom-connectors.ts';
import { OVERLAYS } from '../policy/org-overlays.ts';
import { STOPS } from '../review/stops.ts';
import { CHANNELS } from '../sending/alerts/alert-channels.ts';
import { SUBSCRIPTIONS } from '../sending/alerts/alert-subscriptions.ts';
import { EXPORTS } from '../sending/exports/export-destinations.ts';
import { orgOfEntity } from './entity-org.ts';
import type { HeldThings } from './org-holdings.ts';

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
      [STOPS, ENTITY_BOUNDS.stops],
      [CHAT_USERS, ENTITY_BOUNDS.chatUsers],
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
