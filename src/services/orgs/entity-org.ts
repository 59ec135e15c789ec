import type { Store } from '../../storage/contract/store.ts';
import { LIMITS, OVERRIDES } from '../money/held-limits.ts';
import { RATE_LIMITS_OF_ORGS } from '../money/rate-limit-configs.ts';
import { WORKLOAD_RATES } from '../money/workload-rates.ts';
import { API_KEYS } from '../people/api-keys.ts';
import { CHAT_USERS } from '../people/chat-users.ts';
import { CREDENTIALS } from '../people/credentials.ts';
import { LOOKED_UP_KEYS } from '../people/looked-up-keys.ts';
import { MANAGEMENT_KEYS } from '../people/management-keys.ts';
import { ANY_ORG, ORG_DEFAULTS } from '../people/org-defaults.ts';
import { ORG_PLANS } from '../people/org-plans.ts';
import { ORG_STATUS } from '../people/orgs.ts';
import { PROJECTS } from '../people/projects.ts';
import { WORKLOAD_TOKENS, WORKLOADS } from '../people/workloads.ts';
import { CUSTOM_CONNECTORS } from '../policy/custom-connectors.ts';
import { ADDONS, AUTO_ALLOWED, OVERLAYS } from '../policy/org-overlays.ts';
import { STOPS } from '../review/stops.ts';
import { CHANNELS } from '../sending/alerts/alert-channels.ts';
import { SUBSCRIPTIONS } from '../sending/alerts/alert-subscriptions.ts';
import { EXPORTS } from '../sending/exports/export-destinations.ts';

/** What the key of an entity names: the org that it is of. */
const BY_KEY: ReadonlySet<string> = new Set([ORG_DEFAULTS, ORG_STATUS, ORG_PLANS, ADDONS, AUTO_ALLOWED, RATE_LIMITS_OF_ORGS]);

/** Where people lay down something for an org. */
export const SPACES_OF_ORGS: readonly string[] = [
  ...BY_KEY,
  WORKLOADS,
  CREDENTIALS,
  PROJECTS,
  LIMITS,
  API_KEYS,
  LOOKED_UP_KEYS,
  MANAGEMENT_KEYS,
  OVERLAYS,
  CUSTOM_CONNECTORS,
  CHANNELS,
  SUBSCRIPTIONS,
  EXPORTS,
  WORKLOAD_RATES,
  STOPS,
  CHAT_USERS,
];

/** Where something belongs to an entity of another space, by the same key. */
export const PART_OF: Readonly<Record<string, string>> = { [WORKLOAD_TOKENS]: WORKLOADS, [OVERRIDES]: LIMITS };

/** The org that an entity is of; undefined for one that is of none, or whose value does not say it. */
export function orgOfEntity(space: string, key: string, value: unknown): string | undefined {
  if (BY_KEY.has(space)) return key === ANY_ORG ? undefined : key;
  return orgIn(value);
}

/** The same of what is part of something else. @throws Error when the store cannot be read */
export async function orgOfWhole(store: Pick<Store, 'get'>, space: string, key: string): Promise<string | undefined> {
  const whole = PART_OF[space];
  return whole === undefined ? undefined : orgOfEntity(whole, key, await store.get(whole, key));
}

/** Some things stand in the store beside what only the gateway needs to know of them. */
function orgIn(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { org_id: own, credential, key } = value as { org_id?: unknown; credential?: unknown; key?: unknown };
  return typeof own === 'string' ? own : orgIn(credential ?? key);
}
