import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { ADDON_KINDS } from '../base/model/org.ts';
import { HANDED_ON } from './hand-on.ts';
import { switchElsewhere } from './handed-on-addons.ts';
import { id } from './members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from './operation.ts';
import type { OperationServices } from './services.ts';

const ADDON = z.object({
  addon_id: z.string(),
  display_name: z.string(),
  description: z.string(),
  enabled: z.boolean(),
  category: z.string(),
  kind: z.enum(ADDON_KINDS),
  version: z.string(),
  enabled_at: z.string().nullable().meta({ description: 'RFC 3339; null: it is off, or nobody has switched it' }),
});
const ORG = z.object({ orgID: z.string() });
const ONE = ORG.extend({ addonID: z.string().meta({ description: 'addon_id of an entry' }) });
const STATES = [
  ['enable', true, 'on'],
  ['disable', false, 'off'],
] as const;

/**
 * What an org of this gateway can switch, as the admin API has it (specification, "Gateway admin API"; decision 13.9).
 */
export const ADDON_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'addons.list',
    method: 'GET',
    path: '/v1/orgs/{orgID}/addons',
    scope: 'admin',
    summary: 'What the org can switch, as its control plane has switched it; 404 without one (`GW_CP_ADDR`).',
    annotations: READS,
    errors: ['not_found'],
    available: ({ managedRemotely }) => {
      if (!managedRemotely)
        throw new GatewayError('not_found', 'The add-ons of an org are listed where there is a control plane (GW_CP_ADDR).');
    },
    input: { params: ORG },
    output: { status: 200, schema: z.object({ addons: z.array(ADDON) }) },
    handle: ({ params: { orgID } }, services) => ({ json: { addons: services.addons.listed(servedHere(orgID, services)) } }),
  }),
  ...STATES.map(([verb, enabled, word]) =>
    operation({
      id: `addons.${verb}`,
      method: 'POST',
      path: `/v1/orgs/{orgID}/addons/{addonID}/${verb}`,
      scope: 'admin',
      summary: `Switches an add-on of the org ${word}, from its next call on.`,
      annotations: REPLACES,
      ownedRemotely: true,
      errors: ['not_found', 'invalid_policy', 'conflict', ...HANDED_ON],
      input: { params: ONE },
      output: { status: 200, schema: ADDON },
      handle: async ({ params: { orgID, addonID }, commit }, services) => {
        const { addons } = services;
        const orgId = servedHere(orgID, services);
        addons.known(orgId, addonID);
        return { json: await addons.switch(orgId, addonID, enabled, commit) };
      },
      handOn: async ({ params: { orgID, addonID } }, services, handOn) => {
        const { addons } = services;
        const orgId = servedHere(orgID, services);
        await switchElsewhere(addons.known(orgId, addonID), orgId, enabled, services, handOn);
        return { json: addons.listedOne(orgId, addonID) };
      },
    }),
  ),
];

/** @throws GatewayError `not_found` for an org that this gateway does not serve */
function servedHere(orgId: string, { orgs }: OperationServices): string {
  if (!id.safeParse(orgId).success || (orgs.orgId !== undefined && orgs.orgId !== orgId))
    throw new GatewayError('not_found', 'This gateway serves no org of this id.');
  return orgId;
}
