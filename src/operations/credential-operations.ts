import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { CREDENTIAL_MODES, CREDENTIAL_TYPES, DISTRIBUTIONS } from '../base/model/keys.ts';
import { CREDENTIAL_BODY, credentialChange } from './credential-body.ts';
import { HANDED_ON, ownOrg } from './hand-on.ts';
import { shownHere, storedCredential, watchedCredential, writtenCredential } from './handed-on-credentials.ts';
import { id, isId, members, ruled } from './members.ts';
import { type GatewayOperation, operation, READS, REMOVES, REPLACES } from './operation.ts';
import { pathId, time } from './shapes.ts';

const MAX_NODES = 1_000;
const NODES_RULE = `must be a list of at most ${MAX_NODES} node ids`;

export const NODE_IDS = ruled<readonly string[]>(
  (value) => Array.isArray(value) && value.length <= MAX_NODES && value.every(isId),
  NODES_RULE,
).meta({
  type: 'array',
  items: { type: 'string', pattern: '^[\\x21-\\x7e]{1,128}$' },
  maxItems: MAX_NODES,
});

const ASSIGNMENT_BODY = members({ node_ids: NODE_IDS });

export const CREDENTIAL = z.object({
  credential_id: z.string(),
  org_id: z.string().optional(),
  connector_id: z.string(),
  mode: z.enum(CREDENTIAL_MODES),
  type: z.enum(CREDENTIAL_TYPES),
  distribution: z.enum(DISTRIBUTIONS),
  name: z.string().optional(),
  billing_owner: z.string().optional(),
  target_hosts: z.array(z.string()).optional(),
  node_ids: z.array(z.string()).optional(),
  created_at: time,
  updated_at: time,
  secret_source: z.enum(['stored', 'environment', 'none']),
});

const params = pathId('Credential id');
const OF_ORG = z.strictObject({ org_id: id.optional().meta({ description: 'Its org, where several have a credential of this id' }) });

function unknown(name: string): GatewayError {
  return new GatewayError('not_found', `There is no credential ${name}.`);
}

/** Stored credentials (specification, "Gateway admin API"; decisions 6.6, 8.11). No answer holds a secret. */
export const CREDENTIAL_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'credentials.list',
    method: 'GET',
    path: '/v1/admin/credentials',
    scope: 'admin',
    summary: 'All stored credentials, without their secrets.',
    annotations: READS,
    output: { status: 200, schema: z.object({ credentials: z.array(CREDENTIAL) }) },
    handle: (_call, { credentials }) => ({ json: { credentials: credentials.service.list() } }),
  }),
  operation({
    id: 'credentials.put',
    method: 'PUT',
    path: '/v1/admin/credentials',
    scope: 'admin',
    summary: 'Creates or updates one credential; an update without `secret_ref` keeps the secret and what it leaves out.',
    annotations: REPLACES,
    ownedRemotely: true,
    errors: ['INVALID_ARGUMENT', 'conflict', ...HANDED_ON],
    input: { body: CREDENTIAL_BODY },
    output: { status: 200, schema: CREDENTIAL },
    handle: async ({ body, commit }, { credentials }) => ({
      json: await credentials.service.put(credentialChange(body, credentials), commit),
    }),
    handOn: async ({ body }, services, handOn) => {
      const { credentials } = services;
      const change = credentialChange({ ...body, org_id: ownOrg(body.org_id, services, 'The credential') }, credentials);
      const { credential_id: id } = change;
      const [stored] = await handOn({ kind: 'credentials.put', entries: [writtenCredential(change)] }, watchedCredential(id, services));
      return { json: shownHere(id, services, stored) };
    },
  }),
  operation({
    id: 'credentials.remove',
    method: 'DELETE',
    path: '/v1/admin/credentials/{id}',
    scope: 'admin',
    summary: 'Removes a credential and its secret.',
    annotations: REMOVES,
    ownedRemotely: true,
    errors: ['not_found', 'conflict', ...HANDED_ON],
    input: { params, query: { schema: () => OF_ORG } },
    output: { status: 200, schema: z.object({ credential_id: z.string(), status: z.literal('deleted') }) },
    handle: async ({ params: { id: name }, query: { org_id: orgId }, commit }, { credentials }) => {
      const found = credentials.service.named(name, orgId);
      if (found === undefined || !(await credentials.service.remove(found, commit))) throw unknown(name);
      return { json: { credential_id: name, status: 'deleted' as const } };
    },
    handOn: async ({ params: { id: name } }, services, handOn) => {
      await handOn({ kind: 'credentials.remove', entries: [{ id: name }] }, watchedCredential(name, services));
      return { json: { credential_id: name, status: 'deleted' as const } };
    },
  }),
  operation({
    id: 'credentials.assign',
    method: 'PUT',
    path: '/v1/admin/credentials/{id}/nodes',
    scope: 'admin',
    summary: 'Assigns a `node_scoped` credential to nodes: `node_ids` replaces the list.',
    annotations: REPLACES,
    ownedRemotely: true,
    errors: ['INVALID_ARGUMENT', 'not_found', 'conflict', ...HANDED_ON],
    input: { params, query: { schema: () => OF_ORG }, body: { schema: () => ASSIGNMENT_BODY, what: 'The assignment' } },
    output: { status: 200, schema: CREDENTIAL },
    handle: async ({ params: { id: name }, query: { org_id: orgId }, body, commit }, { credentials }) => {
      const found = credentials.service.named(name, orgId);
      const assigned = found && (await credentials.service.assign(found, body.node_ids, commit));
      if (!assigned) throw unknown(name);
      return { json: assigned };
    },
    handOn: async ({ params: { id: name }, body: { node_ids } }, services, handOn) => {
      const entries = [{ id: name, body: { node_ids } }];
      const [stored] = await handOn({ kind: 'credentials.assign', entries }, watchedCredential(name, services));
      return { json: storedCredential(stored) };
    },
  }),
  operation({
    id: 'credentials.reload',
    method: 'POST',
    path: '/v1/admin/credentials/reload',
    scope: 'admin',
    summary: 'Reads every `*.yaml` of `GW_CREDENTIALS_DIR` again and upserts what it holds; a mistake in one changes nothing.',
    annotations: REPLACES,
    ownedRemotely: true,
    errors: ['invalid_request', ...HANDED_ON],
    output: { status: 200, schema: z.object({ credentials: z.array(z.string()) }) },
    handle: async ({ commit }, { credentials }) => ({ json: { credentials: await credentials.reload(commit) } }),
    handOn: async (_call, services, handOn) => {
      const { credentials } = services;
      const changes = await credentials.inFiles();
      for (const { org_id: orgId } of changes) ownOrg(orgId, services, 'A credential of the files');
      const ids = changes.map(({ credential_id: id }) => id);
      const show = (): unknown => Object.fromEntries(ids.map((id) => [id, credentials.service.named(id, undefined)]));
      if (ids.length > 0)
        await handOn(
          { kind: 'credentials.put', entries: changes.map(writtenCredential) },
          { entity: 'credential', object: ids.length === 1 ? ids[0] : undefined, show },
        );
      return { json: { credentials: ids } };
    },
  }),
];
