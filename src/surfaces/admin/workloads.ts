/*
 * The admin surface: what an operator with the admin token may see and change on this gateway. Handlers check the body and call a service.
 */
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { WorkloadService } from '../../services/workloads.ts';
import type { Route } from '../http/route.ts';
import { parseWorkload } from './workload-body.ts';

function unknown(id: string): GatewayError {
  return new GatewayError('not_found', `There is no workload ${id}.`);
}

/** Workloads and their tokens (specification, "Gateway admin API"; decisions 4.5, 8.9). */
export function workloadRoutes(workloads: WorkloadService): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/admin/workloads',
      auth: 'admin',
      summary: 'All registered workloads.',
      handle: () => ({ status: 200, json: { workloads: workloads.list() } }),
    },
    {
      method: 'PUT',
      path: '/v1/admin/workloads',
      auth: 'admin',
      summary: 'Creates or replaces one workload.',
      handle: async (request) => {
        const workload = parseWorkload(await request.json());
        await workloads.put(workload);
        return { status: 200, json: workload };
      },
    },
    {
      method: 'DELETE',
      path: '/v1/admin/workloads/{id}',
      auth: 'admin',
      summary: 'Removes a workload and its token.',
      handle: async ({ params }) => {
        const id = params['id'] ?? '';
        if (!(await workloads.remove(id))) throw unknown(id);
        return { status: 200, json: { workload_id: id, status: 'deleted' } };
      },
    },
    {
      method: 'POST',
      path: '/v1/admin/workloads/{id}/token',
      auth: 'admin',
      summary: 'Issues a token for a workload, replacing an older one; the answer shows it this once.',
      handle: async ({ params }) => {
        const id = params['id'] ?? '';
        const token = await workloads.issueToken(id);
        if (token === undefined) throw unknown(id);
        return { status: 200, json: { token } };
      },
    },
    {
      method: 'DELETE',
      path: '/v1/admin/workloads/{id}/token',
      auth: 'admin',
      summary: 'Removes the token of a workload.',
      handle: async ({ params }) => {
        const id = params['id'] ?? '';
        if (!(await workloads.removeToken(id))) throw new GatewayError('not_found', `Workload ${id} has no token.`);
        return { status: 200, json: { workload_id: id, status: 'deleted' } };
      },
    },
  ];
}
