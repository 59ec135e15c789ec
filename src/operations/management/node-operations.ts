import { z } from 'zod';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { BACKLOG, time } from '../shapes.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';

const NODE = z.object({
  node_id: z.string(),
  registered_at: time.meta({ description: 'Its first start under this name' }),
  mode: z.enum(['embedded', 'distributed']).meta({ description: '`distributed`: it shares a database with the others' }),
  version: z.string().optional().meta({ description: 'Of the program; this and what follows only where `distributed`' }),
  last_seen_at: time.optional(),
  backlog: BACKLOG.optional().meta({ description: 'What it had not carried into the database when it was last heard of' }),
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
];
