import { z } from 'zod';
import { RivalLimits } from '../../services/money/rival-limits.ts';
import { BUDGET_SCOPES } from '../../services/money/spend-book.ts';
import { BUDGET_OPERATIONS, CREATED_LIMIT, createLimit, LIMIT, limitBody, shownLimit } from '../budget-operations.ts';
import { choice, text } from '../members.ts';
import { ADDS, alike, entryOf, type GatewayOperation, operation, READS } from '../operation.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

const ids = { id: 'limit_id' } as const;
const PATH = '/mgmt/v1/budgets/limits';

const LISTED = z.strictObject({ scope: choice(BUDGET_SCOPES).optional(), scope_id: text.optional(), ...CURSOR_PARAMETERS });

const CONFIG = z.object({
  cp_down_policy: z.enum(['permissive', 'strict']).meta({ description: 'What becomes of calls when the control plane is away too long' }),
  redis_down_policy: z.enum(['allow', 'deny']).meta({ description: 'The same, of what nodes count together' }),
  grace_seconds: z.int().meta({ description: 'How long is not too long' }),
  grace_seconds_override: z.int().nullable(),
  redis_status: z.enum(['unconfigured', 'connected', 'offline']),
});

/** Budgets of an org (specification, "Budget limit creation rules", "Org budget config"). */
export const LIMIT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.budgets.list',
    method: 'GET',
    path: PATH,
    scope: 'read',
    summary: 'Budget limits of the org: spend of their period, and when each is reached at this rate.',
    annotations: READS,
    tools: [{ name: 'list_budget_limits', title: 'List budget limits' }],
    input: { query: { schema: () => LISTED } },
    output: { status: 200, schema: dataPage(LIMIT) },
    handle: ({ principal, query }, { budgets }) => {
      const all = budgets.service.list(orgOf(principal));
      const rivals = new RivalLimits(all);
      const { scope, scope_id: scopeId } = query;
      const limits = all
        .map((limit) => shownLimit(limit, rivals, budgets.clock.now()))
        .filter((limit) => (scope ?? limit.scope) === limit.scope && (scopeId ?? limit.scope_id) === limit.scope_id);
      return { json: pageInMemory(limits, ({ limit_id: id }) => id, cursorPage('budget limits', query)) };
    },
  }),
  operation({
    id: 'mgmt.budgets.create',
    method: 'POST',
    path: PATH,
    scope: 'write',
    summary: 'Creates a budget limit. Others of its scope and period hold beside it; the answer says so.',
    annotations: ADDS,
    tools: [{ name: 'create_budget_limit', title: 'Create budget limit' }],
    input: { body: { schema: limitBody, what: 'The budget limit' } },
    output: { status: 201, schema: CREATED_LIMIT },
    handle: ({ principal, body, commit }, services) => createLimit(orgOf(principal), body, services, commit),
  }),
  alike(entryOf(BUDGET_OPERATIONS, 'budgets.remove'), {
    id: 'mgmt.budgets.remove',
    path: `${PATH}/{id}`,
    scope: 'write',
    tools: [{ name: 'delete_budget_limit', title: 'Delete budget limit', ids }],
  }),
  alike(entryOf(BUDGET_OPERATIONS, 'budgets.override'), {
    id: 'mgmt.budgets.override',
    path: `${PATH}/{id}/override`,
    scope: 'write',
    tools: [
      {
        name: 'set_budget_override',
        title: 'Override a budget limit until a time',
        description: 'Raises or lowers a limit or cap until a time, then it ends by itself. The answer shows what holds now.',
        ids,
      },
    ],
  }),
  alike(entryOf(BUDGET_OPERATIONS, 'budgets.end_override'), {
    id: 'mgmt.budgets.end_override',
    path: `${PATH}/{id}/override`,
    scope: 'write',
    tools: [{ name: 'delete_budget_override', title: 'End the override of a budget limit', ids }],
  }),
  operation({
    id: 'mgmt.budgets.config',
    method: 'GET',
    path: '/mgmt/v1/budgets/config',
    scope: 'read',
    summary: 'What holds of budgets when something that counts them cannot be reached.',
    annotations: READS,
    tools: [{ name: 'get_org_budget_config', title: 'Get org budget config' }],
    output: { status: 200, schema: CONFIG },
    handle: (_call, { budgets }) => ({ json: budgets.config() }),
  }),
];
