import { z } from 'zod';
import { timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { WorkloadRate } from '../../services/money/workload-rates.ts';
import { members, wholeNumber } from '../members.ts';
import { type GatewayOperation, operation, READS, REMOVES, REPLACES } from '../operation.ts';
import { pathId, time } from '../shapes.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

const PATH = '/mgmt/v1/ratelimit/workloads';
const ids = { id: 'workload_id' } as const;
const params = pathId('Workload id');

const LIMIT = z.object({ workload_id: z.string(), requests_per_minute: z.int(), created_at: time });
const BODY = members({ requests_per_minute: wholeNumber(1, 1_000_000) });

/** The org is that of who asks. */
function shown({ workload_id, requests_per_minute, created_at }: WorkloadRate): z.output<typeof LIMIT> {
  return { workload_id, requests_per_minute, created_at };
}

/** Rate limits of single workloads (decision 6.1). */
export const WORKLOAD_LIMIT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.workload_limits.list',
    method: 'GET',
    path: PATH,
    scope: 'read',
    summary: "Workloads that have a rate limit of their own; for all others that of the org's configuration holds.",
    annotations: READS,
    tools: [{ name: 'list_workload_ratelimits', title: 'List rate limits of workloads' }],
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(LIMIT) },
    handle: ({ principal, query }, { rateLimits }) => {
      const rates = rateLimits.configs.workloadRates(orgOf(principal)).map(shown);
      return { json: pageInMemory(rates, ({ workload_id: id }) => id, cursorPage('workload limits', query)) };
    },
  }),
  operation({
    id: 'mgmt.workload_limits.put',
    method: 'PUT',
    path: `${PATH}/{id}`,
    scope: 'write',
    summary:
      'Limits one workload to so many calls a minute, from its next call on, in place of another limit; only tighter than that of the org.',
    annotations: REPLACES,
    errors: ['not_found'],
    tools: [{ name: 'set_workload_ratelimit', title: 'Limit the calls of a workload', ids }],
    input: { params, body: { schema: () => BODY, what: 'The rate limit' } },
    output: { status: 200, schema: LIMIT },
    handle: async ({ principal, params: { id }, body, commit }, { rateLimits, workloads, budgets: { clock } }) => {
      const orgId = orgOf(principal);
      if (workloads.get(orgId, id) === undefined) throw new GatewayError('not_found', `There is no workload ${id}.`);
      const rate: WorkloadRate = { org_id: orgId, workload_id: id, ...body, created_at: timestamp(clock.now()) };
      await rateLimits.configs.putWorkloadRate(rate, commit);
      return { json: shown(rate) };
    },
  }),
  operation({
    id: 'mgmt.workload_limits.remove',
    method: 'DELETE',
    path: `${PATH}/{id}`,
    scope: 'write',
    summary: "Takes back the rate limit of one workload: that of the org's configuration holds again.",
    annotations: REMOVES,
    errors: ['not_found'],
    tools: [{ name: 'delete_workload_ratelimit', title: 'Remove the rate limit of a workload', ids }],
    input: { params },
    output: { status: 200, schema: z.object({ workload_id: z.string(), status: z.literal('deleted') }) },
    handle: async ({ principal, params: { id }, commit }, { rateLimits }) => {
      if (!(await rateLimits.configs.removeWorkloadRate(orgOf(principal), id, commit)))
        throw new GatewayError('not_found', `The workload ${id} has no rate limit of its own.`);
      return { json: { workload_id: id, status: 'deleted' as const } };
    },
  }),
];
