import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { type GatewayOperation, operation, READS, REMOVES } from '../operation.ts';
import { BACKLOG, pathId, time, usd } from '../shapes.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';

const ALLOWANCES = z.object({
  accounts: z.int().meta({ description: 'Scopes of budgets, delegations and orgs’ months of which it holds something' }),
  usd: usd.meta({ description: 'Of the spend of scopes, US dollars; a call counts in each of its own' }),
});
const NODE = z.object({
  node_id: z.string(),
  registered_at: time.meta({ description: 'Its first start under this name' }),
  mode: z.enum(['embedded', 'distributed']).meta({ description: '`distributed`: it shares a database with the others' }),
  version: z.string().optional().meta({ description: 'Of the program; this and what follows only where `distributed`' }),
  last_seen_at: time.optional(),
  backlog: BACKLOG.optional().meta({ description: 'What it had not carried into the database when it was last heard of' }),
  allowances: ALLOWANCES.optional().meta({ description: 'What it has taken of the caps that nodes share, and not given back' }),
});
const FORGOTTEN = z.object({
  node_id: z.string(),
  last_seen_at: time,
  charged: ALLOWANCES.meta({
    description: 'What it held of shared caps, and may have spent: it counts as spent in the windows that are open now',
  }),
});
const summary = 'Gateways that serve the org: their names and since when they are known by them.';

/** Nodes (specification, "Node"). */
export const NODE_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.nodes.list',
    method: 'GET',
    path: '/mgmt/v1/nodes',
    scope: 'read',
    summary,
    annotations: READS,
    tools: [{ name: 'list_nodes', title: 'List nodes' }],
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(NODE) },
    handle: async (call, { nodes }) => ({
      json: pageInMemory(await nodes.list(), ({ node_id: id }) => id, cursorPage('nodes', call.query)),
    }),
  }),
  operation({
    id: 'nodes.list',
    method: 'GET',
    path: '/v1/admin/nodes',
    scope: 'admin',
    summary,
    annotations: READS,
    output: { status: 200, schema: z.object({ nodes: z.array(NODE) }) },
    handle: async (_call, { nodes }) => ({ json: { nodes: await nodes.list() } }),
  }),
  operation({
    id: 'nodes.forget',
    method: 'DELETE',
    path: '/v1/admin/nodes/{id}',
    scope: 'admin',
    summary:
      'Forgets a node that never comes back; what it held of shared caps counts as spent. 409 for the node itself, and for one that was heard of within a minute.',
    annotations: REMOVES,
    errors: ['not_found', 'conflict'],
    input: { params: pathId('Node id') },
    output: { status: 200, schema: FORGOTTEN },
    handle: async ({ params: { id }, commit }, { nodes }) => {
      const forgotten = await nodes.forget(id, commit);
      if (forgotten === undefined) throw new GatewayError('not_found', `There is no node ${id}.`);
      return { json: forgotten };
    },
  }),
];
