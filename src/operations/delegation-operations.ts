import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { members, requiredId, text } from './members.ts';
import { type GatewayOperation, operation, READS, REMOVES } from './operation.ts';
import type { OperationServices } from './services.ts';
import { pathId, time, timeToCome } from './shapes.ts';

const REVOKED = z.object({
  delegation_id: z.string(),
  revoked_at: time,
  reason: z.string().optional(),
  expires_at: z.string().optional(),
});

function bodyOf({ delegations }: Pick<OperationServices, 'delegations'>) {
  return members({
    delegation_id: requiredId('is required: that of its token, 1 to 128 visible ASCII characters').meta({
      description: 'As its token has it',
    }),
    reason: text.optional(),
    // A token that has ended is refused for that: a revocation of it would be removed without ever having counted.
    expires_at: timeToCome(() => delegations.clock.now())
      .optional()
      .meta({ description: 'When its token ends by itself: a day after that the revocation is removed. Left out: it is kept' }),
  });
}

/** Delegations under which nothing is done any more (decision 9.4). */
export const DELEGATION_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'delegations.revoked.list',
    method: 'GET',
    path: '/v1/admin/delegations/revoked',
    scope: 'admin',
    summary: 'Delegations that were revoked, the newest first.',
    annotations: READS,
    input: {},
    output: { status: 200, schema: z.object({ revoked: z.array(REVOKED) }) },
    handle: (_input, { delegations }) => ({ json: { revoked: delegations.revoked() } }),
  }),
  operation({
    id: 'delegations.revoked.put',
    method: 'PUT',
    path: '/v1/admin/delegations/revoked',
    scope: 'admin',
    summary: 'Revokes a delegation and all that were made of it, from the next request on.',
    annotations: { ...REMOVES, idempotent: true },
    errors: ['limit_reached'],
    input: { body: { schema: bodyOf, what: 'The revocation' } },
    output: { status: 200, schema: REVOKED },
    handle: async ({ body: { delegation_id, reason, expires_at }, commit }, { delegations }) => {
      const given = { ...(reason === undefined ? {} : { reason }), ...(expires_at === undefined ? {} : { expires_at }) };
      return { json: await delegations.revoke({ delegation_id, ...given }, commit) };
    },
  }),
  operation({
    id: 'delegations.revoked.remove',
    method: 'DELETE',
    path: '/v1/admin/delegations/revoked/{id}',
    scope: 'admin',
    summary: 'Takes a revocation back: tokens of the delegation that have not expired hold again.',
    annotations: { ...REMOVES, idempotent: true },
    errors: ['not_found'],
    input: { params: pathId('Delegation id') },
    output: { status: 204 },
    handle: async ({ params: { id: name }, commit }, { delegations }) => {
      if (!(await delegations.restore(name, commit))) throw new GatewayError('not_found', `The delegation ${name} is not revoked.`);
      return {};
    },
  }),
];
