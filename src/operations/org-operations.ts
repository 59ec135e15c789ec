import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { ORG_STATES } from '../base/model/org.ts';
import { HANDED_ON, type HandOn } from './hand-on.ts';
import { members, text } from './members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from './operation.ts';
import type { OperationServices } from './services.ts';

const STATUS = z.object({
  org_id: z.string(),
  status: z.enum(ORG_STATES),
  suspended_reason: z.string().optional().meta({ description: 'Absent when the org is active, or nobody gave a reason' }),
});
const SUSPENSION = members({ reason: text.optional() });

/**
 * The status of the gateway's own org (specification, "Gateway admin API", "Org status"); in free mode there is none.
 */
export const ORG_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'org.status',
    method: 'GET',
    path: '/v1/admin/org',
    scope: 'admin',
    summary: 'Whether the org of this gateway may call.',
    annotations: READS,
    errors: ['not_found'],
    output: { status: 200, schema: STATUS },
    handle: (_call, { orgs }) => ({ json: orgs.service.status(own(orgs.orgId)) }),
  }),
  operation({
    id: 'org.suspend',
    method: 'POST',
    path: '/v1/admin/org/suspend',
    scope: 'admin',
    summary: 'Suspends the org of this gateway: from the next request on all of its calls are refused.',
    annotations: REPLACES,
    ownedRemotely: true,
    errors: ['not_found', 'conflict', ...HANDED_ON],
    input: { body: { schema: () => SUSPENSION, what: 'The suspension', optional: true } },
    output: { status: 200, schema: STATUS },
    handle: async ({ body, commit }, { orgs }) => ({ json: await orgs.service.suspend(own(orgs.orgId), body.reason, commit) }),
    handOn: ({ body: { reason } }, services, handOn) =>
      changeElsewhere('org.suspend', reason === undefined ? {} : { reason }, services, handOn),
  }),
  operation({
    id: 'org.reactivate',
    method: 'POST',
    path: '/v1/admin/org/reactivate',
    scope: 'admin',
    summary: 'Lifts the suspension of the org of this gateway.',
    annotations: REPLACES,
    ownedRemotely: true,
    errors: ['not_found', 'conflict', ...HANDED_ON],
    output: { status: 200, schema: STATUS },
    handle: async ({ commit }, { orgs }) => ({ json: await orgs.service.reactivate(own(orgs.orgId), commit) }),
    handOn: (_call, services, handOn) => changeElsewhere('org.reactivate', {}, services, handOn),
  }),
];

async function changeElsewhere(kind: 'org.suspend' | 'org.reactivate', body: object, { orgs }: OperationServices, handOn: HandOn) {
  const orgId = own(orgs.orgId);
  const show = () => orgs.service.status(orgId);
  await handOn({ kind, entries: [{ id: orgId, body }] }, { entity: 'org_status', object: orgId, show });
  return { json: show() };
}

/** @throws GatewayError `not_found` when the gateway serves every org (specification, "Errors", "Other conditions") */
function own(orgId: string | undefined): string {
  if (orgId === undefined) throw new GatewayError('not_found', 'This gateway has no org of its own (GW_ORG_ID).');
  return orgId;
}
