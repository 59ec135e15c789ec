import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { members, requiredId, wholeNumber } from './members.ts';
import { type GatewayOperation, operation, READS, REMOVES, REPLACES } from './operation.ts';

/** Beyond what any month has. */
const MAX_REQUESTS = 1_000_000_000_000;

const PLAN = z.object({
  org_id: z.string(),
  monthly_request_limit: z.int().nullable().optional().meta({ description: 'Absent: as `GW_MONTHLY_REQUEST_LIMIT` says; null: none' }),
  overage_enabled: z.boolean().optional().meta({ description: 'Absent: as `GW_OVERAGE_ENABLED` says' }),
});

const CHANGE = members({
  monthly_request_limit: wholeNumber(0, MAX_REQUESTS)
    .nullable()
    .optional()
    .meta({ description: 'Requests in a UTC calendar month, counted from when it is set; null: as many as it likes' }),
  overage_enabled: z.boolean('must be true or false').optional().meta({ description: 'Lets requests pass the limit' }),
});

const params = z.object({ orgID: requiredId().meta({ description: 'Org id' }) });

/** How many requests orgs may make in a month, where no control plane says so (decision 13.14). */
export const ORG_PLAN_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'org_plans.list',
    method: 'GET',
    path: '/v1/admin/org-plans',
    scope: 'admin',
    summary: 'Plans of orgs that have one of their own; all others have what the settings say.',
    annotations: READS,
    output: { status: 200, schema: z.object({ org_plans: z.array(PLAN) }) },
    handle: (_call, { orgPlans }) => ({ json: { org_plans: orgPlans.list() } }),
  }),
  operation({
    id: 'org_plans.put',
    method: 'PUT',
    path: '/v1/admin/org-plans/{orgID}',
    scope: 'admin',
    summary: 'Sets the monthly request limit of an org, and whether it may be passed, from its next request on; what is left out stays.',
    annotations: REPLACES,
    ownedRemotely: true,
    input: { params, body: { schema: () => CHANGE, what: 'The plan' } },
    output: { status: 200, schema: PLAN },
    handle: async ({ params: { orgID }, body, commit }, { orgPlans }) => ({
      json: await orgPlans.put(
        orgID,
        {
          ...(body.monthly_request_limit === undefined ? {} : { monthly_request_limit: body.monthly_request_limit }),
          ...(body.overage_enabled === undefined ? {} : { overage_enabled: body.overage_enabled }),
        },
        commit,
      ),
    }),
  }),
  operation({
    id: 'org_plans.remove',
    method: 'DELETE',
    path: '/v1/admin/org-plans/{orgID}',
    scope: 'admin',
    summary: 'Takes the plan of an org away: it has what the settings say again.',
    annotations: REMOVES,
    ownedRemotely: true,
    errors: ['not_found'],
    input: { params },
    output: { status: 200, schema: z.object({ org_id: z.string(), status: z.literal('deleted') }) },
    handle: async ({ params: { orgID }, commit }, { orgPlans }) => {
      if (!(await orgPlans.remove(orgID, commit))) throw new GatewayError('not_found', `The org ${orgID} has no plan of its own.`);
      return { json: { org_id: orgID, status: 'deleted' as const } };
    },
  }),
];
