import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { ORG_STATES } from '../base/model/org-status.ts';
import { members, text } from './members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from './operation.ts';

const STATUS = z.object({
  org_id: z.string(),
  status: z.enum(ORG_STATES),
  suspended_reason: z.string().optional().meta({ description: 'Absent when the org is active, or nobody gave a reason' }),
});
const SUSPENSION = members({ reason: text.optional() });

/** The status of the gateway's own org (specification, "Gateway admin API", "Org status"); in free mode there is none. */
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
    errors: ['not_found', 'conflict'],
    input: { body: { schema: () => SUSPENSION, what: 'The suspension', optional: true } },
    output: { status: 200, schema: STATUS },
    handle: async ({ body, commit }, { orgs }) => ({ json: await orgs.service.suspend(own(orgs.orgId), body.reason, commit) }),
  }),
  operation({
    id: 'org.reactivate',
    method: 'POST',
    path: '/v1/admin/org/reactivate',
    scope: 'admin',
    summary: 'Lifts the suspension of the org of this gateway.',
    annotations: REPLACES,
    errors: ['not_found', 'conflict'],
    output: { status: 200, schema: STATUS },
    handle: async ({ commit }, { orgs }) => ({ json: await orgs.service.reactivate(own(orgs.orgId), commit) }),
  }),
];

/** @throws GatewayError `not_found` when the gateway serves every org (specification, "Errors", "Other conditions") */
function own(orgId: string | undefined): string {
  if (orgId === undefined) throw new GatewayError('not_found', 'This gateway has no org of its own (GW_ORG_ID).');
  return orgId;
}
