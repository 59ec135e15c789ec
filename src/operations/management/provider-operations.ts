import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { ADDON_KINDS, PROVIDER_MODES } from '../../base/model/org.ts';
import { HANDED_ON } from '../hand-on.ts';
import { switchElsewhere } from '../handed-on-addons.ts';
import { choice } from '../members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from '../operation.ts';
import { pageLimit } from '../pages.ts';
import { providerFilter } from '../provider-filter.ts';
import type { OperationServices } from '../services.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

const ADDON = z.object({
  addon_id: z.string(),
  display_name: z.string(),
  description: z.string(),
  enabled: z.boolean(),
  category: z.string(),
  kind: z.enum(ADDON_KINDS),
  provider: z.string().optional().meta({ description: 'Its id; absent: it is a preset' }),
  logo_url: z.string().nullable(),
  docs_url: z.string().nullable(),
});

/** Without filters the catalogue is read as a whole: the interface shows it without pages. */
function catalogueQuery(services: OperationServices) {
  return z.strictObject({
    provider: providerFilter(services),
    kind: choice(ADDON_KINDS).optional(),
    enabled: choice(['true', 'false']).optional().meta({ type: 'boolean', description: 'What is on, or what is off' }),
    ...CURSOR_PARAMETERS,
    limit: pageLimit(500),
  });
}

const ENABLE = 'enable';
const STATES = [ENABLE, 'disable'] as const;

const params = z.object({
  provider: z.string().meta({ description: 'Id, neutral name or alias of a provider, or the addon_id of a preset' }),
  // Any other word is told as a mode that is not supported.
  mode: z.string().meta({ description: 'Of a preset: routing', enum: PROVIDER_MODES.slice() }),
  state: z.string().meta({ enum: STATES }),
});

/** What an org can switch (specification, "Addon catalog entry"; decision 10.12). */
export const PROVIDER_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.providers.list',
    method: 'GET',
    path: '/mgmt/v1/providers',
    scope: 'read',
    summary: 'What the org can switch: routing to each provider, whose keys its calls carry, and presets of policy.',
    annotations: READS,
    tools: [{ name: 'list_providers', title: 'List providers' }],
    input: { query: { schema: catalogueQuery } },
    output: { status: 200, schema: dataPage(ADDON) },
    handle: ({ principal, query }, { addons }) => {
      const { provider, kind, enabled } = query;
      const found = addons
        .list(orgOf(principal))
        .filter((addon) => (kind ?? addon.kind) === addon.kind && (enabled ?? `${addon.enabled}`) === `${addon.enabled}`)
        .filter(({ addon_id: id, provider: of }) => provider === undefined || of === provider || id === provider);
      const rows = found.map((addon, at) => ({ addon, place: String(at).padStart(5, '0') }));
      const page = pageInMemory(rows, ({ place }) => place, cursorPage('providers', query));
      return { json: { ...page, data: page.data.map(({ addon }) => addon) } };
    },
  }),
  operation({
    id: 'mgmt.providers.switch',
    method: 'POST',
    path: '/mgmt/v1/providers/{provider}/{mode}/{state}',
    scope: 'write',
    summary: 'Switches a mode of a provider (routing, byok, oauth), or a preset (routing), on or off, from the next call of the org on.',
    annotations: REPLACES,
    ownedRemotely: true,
    errors: ['not_found', 'mode_not_supported', 'invalid_policy', 'conflict', ...HANDED_ON],
    tools: [{ name: 'set_provider_mode', title: 'Switch a mode of a provider', defaults: { mode: 'routing' } }],
    input: { params },
    output: { status: 200, schema: ADDON },
    handle: async ({ principal, params: { provider, mode, state }, commit }, { addons }) => {
      requireState(state);
      return { json: await addons.set(orgOf(principal), provider, mode, state === ENABLE, commit) };
    },
    handOn: async ({ principal, params: { provider, mode, state } }, services, handOn) => {
      requireState(state);
      const orgId = orgOf(principal);
      const entry = services.addons.named(orgId, provider, mode);
      await switchElsewhere(entry, orgId, state === ENABLE, services, handOn);
      return { json: services.addons.known(orgId, entry.addon_id) };
    },
  }),
];

/** @throws GatewayError `not_found` for any other word */
function requireState(state: string): void {
  if (!STATES.some((known) => known === state)) throw new GatewayError('not_found', `A mode is switched by ${STATES.join(' or ')}.`);
}
