import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { CONNECTION_TYPES } from '../base/model/action-request.ts';
import type { Workload } from '../base/model/workload.ts';
import type { RemoteWrite } from '../link/handed-on-writes.ts';
import { withEtag } from './etag.ts';
import { HANDED_ON, type HandOn, onlyOf, ownOrg, type Watched } from './hand-on.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './management/cursor-pages.ts';
import { orgOf } from './management/org-of.ts';
import { id, optional, text } from './members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES, REPLACES } from './operation.ts';
import type { OperationServices } from './services.ts';
import { attribution, etag, pathId } from './shapes.ts';
import { changedWorkload, WORKLOAD_CHANGE } from './workload-body.ts';

const OWN_BODY = WORKLOAD_CHANGE.extend({ org_id: id.optional().meta({ description: 'That of the key' }) });

const WORKLOAD = z.object({
  workload_id: z.string(),
  org_id: z.string().optional().meta({ description: 'The one org it counts for; absent: every org' }),
  name: z.string().optional(),
  allowed_connection_types: z.array(z.enum(CONNECTION_TYPES)).optional().meta({ description: 'Absent: all; empty: none' }),
  default_attribution: attribution.optional(),
});

const REMOVED = z.object({ workload_id: z.string(), status: z.literal('deleted') });
const ISSUED = z.object({ workload_id: z.string(), token: z.string().meta({ description: 'Begins with `gwt_`; shown this once' }) });
const params = pathId('Workload id');
const OF_ORG = z.strictObject({ org_id: id.optional().meta({ description: 'Its org, where several have a workload of this id' }) });

/** Workloads and their tokens (specification, "Gateway admin API"; decisions 4.5, 8.9). */
const ADMIN: readonly GatewayOperation[] = [
  operation({
    id: 'workloads.list',
    method: 'GET',
    path: '/v1/admin/workloads',
    scope: 'admin',
    summary: 'All registered workloads.',
    annotations: READS,
    output: { status: 200, schema: z.object({ workloads: z.array(WORKLOAD) }) },
    handle: (_call, { workloads }) => ({ json: { workloads: workloads.list() } }),
  }),
  operation({
    id: 'workloads.put',
    method: 'PUT',
    path: '/v1/admin/workloads',
    scope: 'admin',
    summary: 'Creates or updates one workload: what is left out stays, null takes it away.',
    annotations: REPLACES,
    ownedRemotely: true,
    errors: HANDED_ON,
    input: { body: { schema: () => WORKLOAD_CHANGE, what: 'The workload' } },
    output: { status: 200, schema: WORKLOAD },
    handle: async ({ body, commit }, { workloads }) => ({
      json: await workloads.changeOrMove(nameOf(body), (current) => changedWorkload(current, body, body.org_id), commit),
    }),
    handOn: async ({ body }, services, handOn) => {
      const orgId = ownOrg(body.org_id, services, 'The workload');
      const current = services.workloads.get(orgId, body.workload_id);
      return { json: await putElsewhere(orgId, changedWorkload(current, body, orgId), services, handOn) };
    },
  }),
  operation({
    id: 'workloads.remove',
    method: 'DELETE',
    path: '/v1/admin/workloads/{id}',
    scope: 'admin',
    summary: 'Removes a workload and its token.',
    annotations: REMOVES,
    ownedRemotely: true,
    errors: ['not_found', 'conflict', ...HANDED_ON],
    input: { params, query: { schema: () => OF_ORG } },
    output: { status: 200, schema: REMOVED },
    handle: async ({ params: { id: name }, query, commit }, { workloads }) => {
      if (!(await workloads.remove(named(name, query, workloads), commit))) throw unknown(name);
      return { json: { workload_id: name, status: 'deleted' as const } };
    },
    handOn: ({ params: { id: name }, query }, services, handOn) =>
      removeElsewhere(name, ownOrg(query.org_id, services, 'The workload'), services, handOn),
  }),
  operation({
    id: 'workloads.issue_token',
    method: 'POST',
    path: '/v1/admin/workloads/{id}/token',
    scope: 'admin',
    summary: 'Issues a token for a workload, replacing an older one; the answer shows it this once.',
    annotations: { ...ADDS, destructive: true },
    errors: ['not_found', 'conflict'],
    input: { params, query: { schema: () => OF_ORG } },
    output: { status: 200, schema: z.object({ token: z.string() }) },
    handle: async ({ params: { id: name }, query, commit }, { workloads }) => {
      const token = await workloads.issueToken(named(name, query, workloads), commit);
      if (token === undefined) throw unknown(name);
      return { json: { token } };
    },
  }),
  operation({
    id: 'workloads.remove_token',
    method: 'DELETE',
    path: '/v1/admin/workloads/{id}/token',
    scope: 'admin',
    summary: 'Removes the token of a workload.',
    annotations: REMOVES,
    errors: ['not_found', 'conflict'],
    input: { params, query: { schema: () => OF_ORG } },
    output: { status: 200, schema: REMOVED },
    handle: async ({ params: { id: name }, query, commit }, { workloads }) => {
      if (!(await workloads.removeToken(named(name, query, workloads), commit)))
        throw new GatewayError('not_found', `Workload ${name} has no token.`);
      return { json: { workload_id: name, status: 'deleted' as const } };
    },
  }),
];

export const WORKLOAD_OPERATIONS: readonly GatewayOperation[] = [
  ...ADMIN,
  operation({
    id: 'mgmt.workloads.list',
    method: 'GET',
    path: '/mgmt/v1/workloads',
    scope: 'read',
    summary: 'Workloads that the org may use: its own, and those that count for every org.',
    annotations: READS,
    tools: [{ name: 'list_workloads', title: 'List workloads' }],
    input: { query: { schema: () => z.strictObject({ workload_id: text.optional(), ...CURSOR_PARAMETERS }) } },
    output: { status: 200, schema: dataPage(WORKLOAD.extend({ etag })) },
    handle: ({ principal, query }, { workloads }) => {
      const orgId = orgOf(principal);
      const found = workloads.usableBy(orgId).filter((one) => (query.workload_id ?? one.workload_id) === one.workload_id);
      return { json: pageInMemory(found.map(withEtag), (one) => one.workload_id, cursorPage('workloads', query)) };
    },
  }),
  operation({
    id: 'mgmt.workloads.put',
    method: 'PUT',
    path: '/mgmt/v1/workloads',
    scope: 'write',
    summary:
      'Creates or updates one workload of the org: what is left out stays, null takes it away. One that counts for every org is changed by the admin API alone.',
    annotations: REPLACES,
    ownedRemotely: true,
    versioned: true,
    errors: ['conflict', ...HANDED_ON],
    tools: [
      {
        name: 'create_workload',
        title: 'Create a workload',
        description: 'Creates one workload of the org; one that is there stays as it is.',
        only: 'create',
      },
      {
        name: 'update_workload',
        title: 'Update a workload',
        description: 'Changes what is given of one workload of the org; null takes it away.',
        only: 'update',
        like: 'create_workload',
      },
    ],
    input: { body: { schema: () => OWN_BODY, what: 'The workload' } },
    output: { status: 200, schema: WORKLOAD },
    handle: async ({ principal, body, commit, expectShown }, { workloads }) => {
      const orgId = orgOf(principal);
      requireOrgOfKey(body.org_id, orgId);
      const name = { workload_id: body.workload_id, org_id: orgId };
      const next = (current: Workload | undefined) => {
        if (current === undefined) requireNotShared(name, workloads);
        expectShown(current);
        return changedWorkload(current, body, orgId);
      };
      return { json: await workloads.change(name, next, commit) };
    },
    handOn: async ({ principal, body, headers, expectShown }, services, handOn) => {
      const orgId = orgOf(principal);
      requireOrgOfKey(body.org_id, orgId);
      requireNotShared({ workload_id: body.workload_id, org_id: orgId }, services.workloads);
      const current = services.workloads.get(orgId, body.workload_id);
      expectShown(current);
      return { json: await putElsewhere(orgId, changedWorkload(current, body, orgId), services, handOn, onlyOf(headers)) };
    },
  }),
  operation({
    id: 'mgmt.workloads.remove',
    method: 'DELETE',
    path: '/mgmt/v1/workloads/{id}',
    scope: 'write',
    summary: 'Removes a workload of the org and its token.',
    annotations: REMOVES,
    ownedRemotely: true,
    errors: ['not_found', 'conflict', ...HANDED_ON],
    tools: [{ name: 'delete_workload', title: 'Delete a workload', ids: { id: 'workload_id' } }],
    input: { params },
    output: { status: 200, schema: REMOVED },
    handle: async ({ principal, params: { id: name }, commit }, { workloads }) => {
      const found = workloads.get(orgOf(principal), name);
      if (found === undefined) throw unknown(name);
      if (found.org_id === undefined) throw notOwn(name);
      if (!(await workloads.remove(found, commit))) throw unknown(name);
      return { json: { workload_id: name, status: 'deleted' as const } };
    },
    handOn: ({ principal, params: { id: name } }, services, handOn) => {
      const orgId = orgOf(principal);
      const found = services.workloads.get(orgId, name);
      if (found !== undefined && found.org_id === undefined) throw notOwn(name);
      return removeElsewhere(name, orgId, services, handOn);
    },
  }),
  operation({
    id: 'mgmt.workloads.token',
    method: 'POST',
    path: '/mgmt/v1/workloads/{id}/token',
    scope: 'write',
    summary: 'Issues a token that calls of a workload must show from then on, in place of an older one; shown this once.',
    annotations: { ...ADDS, destructive: true },
    errors: ['not_found', 'conflict'],
    tools: [{ name: 'issue_workload_token', title: 'Issue a workload token', ids: { id: 'workload_id' } }],
    input: { params },
    output: { status: 200, schema: ISSUED },
    handle: async ({ principal, params: { id: name }, commit }, { workloads }) => {
      const token = await workloads.issueToken(own(name, orgOf(principal), workloads), commit);
      if (token === undefined) throw unknown(name);
      return { json: { workload_id: name, token } };
    },
  }),
  operation({
    id: 'mgmt.workloads.token.remove',
    method: 'DELETE',
    path: '/mgmt/v1/workloads/{id}/token',
    scope: 'write',
    summary: 'Removes the token of a workload of the org: from the next request on it lets nobody in, and none is needed.',
    annotations: REMOVES,
    errors: ['not_found', 'conflict'],
    tools: [{ name: 'remove_workload_token', title: 'Remove a workload token', ids: { id: 'workload_id' } }],
    input: { params },
    output: { status: 200, schema: REMOVED },
    handle: async ({ principal, params: { id: name }, commit }, { workloads }) => {
      if (!(await workloads.removeToken(own(name, orgOf(principal), workloads), commit)))
        throw new GatewayError('not_found', `Workload ${name} has no token.`);
      return { json: { workload_id: name, status: 'deleted' as const } };
    },
  }),
];

/** One that the org has itself. @throws GatewayError `not_found`, `conflict` for one that counts for every org */
function own(name: string, orgId: string, workloads: OperationServices['workloads']): Workload {
  const found = workloads.get(orgId, name);
  if (found === undefined) throw unknown(name);
  if (found.org_id !== undefined) return found;
  throw new GatewayError(
    'conflict',
    `The workload ${name} counts for every org: its token is issued and removed with the admin token, by /v1/admin/workloads/${name}/token.`,
  );
}

async function putElsewhere(
  orgId: string,
  workload: Workload,
  services: OperationServices,
  handOn: HandOn,
  only?: RemoteWrite['only'],
): Promise<Workload> {
  const { workload_id: id } = workload;
  await handOn({ kind: 'workloads.put', entries: [{ id, body: workload }], only }, watched(id, orgId, services));
  return services.workloads.get(orgId, id) ?? workload;
}

async function removeElsewhere(name: string, orgId: string, services: OperationServices, handOn: HandOn) {
  await handOn({ kind: 'workloads.remove', entries: [{ id: name }] }, watched(name, orgId, services));
  return { json: { workload_id: name, status: 'deleted' as const } };
}

function watched(id: string, orgId: string, { workloads }: OperationServices): Watched {
  return { entity: 'workload', object: id, show: () => workloads.get(orgId, id) };
}

function nameOf({ workload_id, org_id }: z.output<typeof WORKLOAD_CHANGE>): Pick<Workload, 'workload_id' | 'org_id'> {
  return { workload_id, ...optional('org_id', org_id) };
}

/** @throws GatewayError `conflict`, `not_found` */
function named(name: string, { org_id: orgId }: z.output<typeof OF_ORG>, workloads: OperationServices['workloads']): Workload {
  const found = workloads.named(name, orgId);
  if (found === undefined) throw unknown(name);
  return found;
}

function requireOrgOfKey(given: string | undefined, orgId: string): void {
  if (given === undefined || given === orgId) return;
  throw new GatewayError('invalid_request', 'The workload has 1 bad member(s).', {
    details: [{ path: 'org_id', message: `must be ${orgId}, the org of the key` }],
  });
}

/** @throws GatewayError `conflict` where the org has none of this id and there is one that counts for every org */
function requireNotShared({ org_id: orgId, workload_id: id }: Workload, workloads: OperationServices['workloads']): void {
  const found = orgId === undefined ? undefined : workloads.get(orgId, id);
  if (found !== undefined && found.org_id === undefined) throw notOwn(id);
}

function notOwn(name: string): GatewayError {
  return new GatewayError('conflict', `The workload ${name} counts for every org: the admin API alone changes it. Choose another id.`);
}

function unknown(name: string): GatewayError {
  return new GatewayError('not_found', `There is no workload ${name}.`);
}
