import { z } from 'zod';
import { READS, REMOVES } from '../../operations/operation.ts';
import { time } from '../../operations/shapes.ts';
import { RESOURCES } from '../state/control-plane-state.ts';
import { type AdminOperation, adminOperation, dataOf, ofOrg, oneOfOrg } from './admin-operation.ts';

const NODE = z.object({
  node_id: z.string(),
  org_id: z.string(),
  enrolled_at: time,
  last_seen_at: z.string().optional().meta({ description: 'RFC 3339; absent: never since it enrolled' }),
  certificate_expires_at: time,
  revoked_at: z.string().optional(),
  gateway_version: z.string().optional(),
  policy_sequence: z.int().optional().meta({ description: 'Of the bundle that it has in force; absent: none' }),
  policy_kid: z.string().optional().meta({ description: 'The key that has signed it' }),
  versions: z
    .object(Object.fromEntries(RESOURCES.map((name) => [name, z.string()])))
    .meta({ description: 'What it has, as it last said; empty: nothing' }),
});

/** Gateways that have enrolled (decision 13.6). */
export const NODE_ADMIN_OPERATIONS: readonly AdminOperation[] = [
  adminOperation({
    id: 'node.list',
    method: 'GET',
    path: '/v1/orgs/{org}/nodes',
    scope: 'admin',
    annotations: READS,
    summary: 'Gateways of an org, when each was last heard of, and what it has.',
    errors: ['not_found'],
    input: { params: ofOrg },
    output: { status: 200, schema: dataOf(NODE) },
    handle: async ({ params }, { state }) => ({ json: { data: (await state.nodes.list(params.org)).map(shownNode) } }),
  }),
  adminOperation({
    id: 'node.revoke',
    method: 'DELETE',
    path: '/v1/orgs/{org}/nodes/{id}',
    scope: 'admin',
    annotations: REMOVES,
    summary: 'Revokes the certificate of a gateway: it is cut off, and erases the credentials and keys that it was given.',
    errors: ['not_found'],
    input: { params: oneOfOrg('Node id') },
    output: { status: 200, schema: NODE },
    handle: async ({ params, commit }, { state }) => ({ json: shownNode(await state.nodes.revoke(params.org, params.id, commit)) }),
  }),
];

function shownNode<N extends { readonly versions: Readonly<Record<string, string>> }>(node: N): N & { versions: Record<string, string> } {
  return { ...node, versions: { ...node.versions } };
}
