import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../base/lib/uuidv7.ts';
import type { BudgetService, LimitStatus } from '../../services/budgets.ts';
import { QueryMembers } from '../http/query-members.ts';
import type { Route } from '../http/route.ts';
import { type BudgetBodyContext, parseBudgetLimit } from './budget-body.ts';

export interface BudgetRouteOptions extends BudgetBodyContext {
  readonly service: BudgetService;
  readonly clock: Clock;
}

function shown({ limit, periodStart, spentUsd, reservedUsd }: LimitStatus): unknown {
  return { ...limit, period_start: periodStart, spent_usd: spentUsd, reserved_usd: reservedUsd };
}

/** Budget limits (specification, "Budget limit creation rules"; decision 6.2). */
export function budgetRoutes(options: BudgetRouteOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/admin/budgets/limits',
      auth: 'admin',
      summary: 'Budget limits with the spend of their current period; `org_id` narrows them.',
      handle: (request) => {
        const query = new QueryMembers(request.query, ['org_id']);
        const orgId = query.id('org_id');
        query.check();
        return { status: 200, json: { limits: options.service.list(orgId).map(shown) } };
      },
    },
    {
      method: 'POST',
      path: '/v1/admin/budgets/limits',
      auth: 'admin',
      summary: 'Creates a budget limit for an org, project, workload or provider.',
      handle: async (request) => {
        const parsed = parseBudgetLimit(await request.json(), options);
        const now = options.clock.now();
        const limit = { limit_id: uuidv7(now), ...parsed, created_at: timestamp(now) };
        await options.service.create(limit);
        return { status: 201, json: { limit_id: limit.limit_id, status: 'created' } };
      },
    },
    {
      method: 'DELETE',
      path: '/v1/admin/budgets/limits/{id}',
      auth: 'admin',
      summary: 'Removes a budget limit.',
      handle: async ({ params }) => {
        const id = params['id'] ?? '';
        if (!(await options.service.remove(id))) throw new GatewayError('not_found', `There is no budget limit ${id}.`);
        return { status: 200, json: { limit_id: id, status: 'deleted' } };
      },
    },
  ];
}
