import { z } from 'zod';
import { isJsonObject } from '../base/json/json-object.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { CONNECTION_TYPES } from '../base/model/connection.ts';
import type { Workload } from '../base/model/workload.ts';
import type { RemoteWrite } from '../link/handed-on-writes.ts';
import { withEtag } from './etag.ts';
import { HANDED_ON, type HandOn, onlyOf, ownOrg, type Watched } from './hand-on.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './management/cursor-pages.ts';
import { orgOf } from './management/org-of.ts';
import { choice, id, members, optional, requiredId, text } from './members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES, REPLACES } from './operation.ts';
import { readBody } from './read-input.ts';
import type { OperationServices } from './services.ts';
import { attribution, etag, pathId } from './shapes.ts';

const MAX_LABELS = 32;

/** Read by hand: an object of zod's would lose a label that is called `__proto__`. */
const labels = z
  .unknown()
  .superRefine((value, { addIssue }) => {
    if (value === undefined) return;
    if (!isJsonObject(value)) return addIssue({ code: 'custom', message: 'must be an object' });
    const entries = Object.entries(value);
    if (entries.length > MAX_LABELS) addIssue({ code: 'custom', message: `at most ${MAX_LABELS} labels` });
    for (const [name, label] of entries) {
      const mistakes = [...(text.safeParse(name).error?.issues ?? []), ...(text.safeParse(label).error?.issues ?? [])];
      for (const { message } of mistakes.slice(0, 1)) addIssue({ code: 'custom', message, path: [name] });
    }
  })
  .meta({ type: 'object', maxProperties: MAX_LABELS, additionalProperties: { type: 'string', maxLength: 256 } })
  .transform((value) => Object.fromEntries(Object.entries(isJsonObject(value) ? value : {}).map(([name, label]) => [name, String(label)])));

export const WORKLOAD_BODY = members({
  workload_id: requiredId(),
  org_id: id.optional(),
  name: text.optional(),
  allowed_connection_types: z.array(choice(CONNECTION_TYPES), 'must be a list').optional(),
  default_attribution: members({
    customer_id: text.optional(),
    account_id: text.optional(),
    project_id: text.optional(),
    labels: labels.optional(),
  }).optional(),
});

const OWN_BODY = WORKLOAD_BODY.extend({ org_id: id.optional().meta({ description: 'The org of the key, or left out' }) });

const WORKLOAD = z.object({
  workload_id: z.string(),
  org_id: z.string().optional().meta({ description: 'The one org it counts for; absent: every org' }),
  name: z.string().optional(),
  allowed_connection_types: z.array(z.enum(CONNECTION_TYPES)).optional().meta({ description: 'Absent: all; empty: none' }),
  default_attribution: attribution.optional(),
});

/** A workload as the admin API takes it. @throws GatewayError `invalid_request` */
export function parseWorkload(body: unknown): Workload {
  return workloadOf(readBody({ schema: WORKLOAD_BODY, what: 'The workload' }, body));
}

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
    summary: 'Creates or replaces one workload.',
    annotations: REPLACES,
    ownedRemotely: true,
    errors: HANDED_ON,
    input: { body: { schema: () => WORKLOAD_BODY, what: 'The workload' } },
    output: { status: 200, schema: WORKLOAD },
    handle: async ({ body, commit }, { workloads }) => {
      const workload = workloadOf(body);
      await workloads.put(workload, commit);
      return { json: workload };
    },
    handOn: async ({ body }, services, handOn) => {
      const orgId = ownOrg(body.org_id, services, 'The workload');
      return { json: await putElsewhere({ ...workloadOf(body), org_id: orgId }, services, handOn) };
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
    input: { query: { schema: () => z.strictObject({ workload_id: id.optional(), ...CURSOR_PARAMETERS }) } },
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
    summary: 'Creates or replaces one workload of the org. One that counts for every org is changed by the admin API alone.',
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
        title: 'Replace a workload',
        description: 'Replaces one workload of the org as a whole: what is left out is gone.',
        only: 'update',
        like: 'create_workload',
      },
    ],
    input: { body: { schema: () => OWN_BODY, what: 'The workload' } },
    output: { status: 200, schema: WORKLOAD },
    handle: async ({ principal, body, commit, expectShown }, { workloads }) => {
      const orgId = orgOf(principal);
      requireOrgOfKey(body.org_id, orgId);
      const workload = { ...workloadOf(body), org_id: orgId };
      const next = (current: Workload | undefined) => {
        if (current === undefined) requireNotShared(workload, workloads);
        expectShown(current);
        return workload;
      };
      return { json: await workloads.change(workload, next, commit) };
    },
    handOn: async ({ principal, body, headers, expectShown }, services, handOn) => {
      const orgId = orgOf(principal);
      requireOrgOfKey(body.org_id, orgId);
      const workload = { ...workloadOf(body), org_id: orgId };
      requireNotShared(workload, services.workloads);
      expectShown(services.workloads.get(orgId, body.workload_id));
      return { json: await putElsewhere(workload, services, handOn, onlyOf(headers)) };
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
    summary:
      'Issues a token for a workload of the org, which its calls must show from then on; an older one counts no longer. The answer shows it this once.',
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
    summary: 'Removes the token of a workload of the org: it lets nobody in from the next request on, and calls of the workload need none.',
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
  workload: Workload & { readonly org_id: string },
  services: OperationServices,
  handOn: HandOn,
  only?: RemoteWrite['only'],
): Promise<Workload> {
  const { workload_id: id, org_id: orgId } = workload;
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

function workloadOf({
  workload_id,
  org_id,
  name,
  allowed_connection_types,
  default_attribution: given,
}: z.output<typeof WORKLOAD_BODY>): Workload {
  const attribution = given && {
    ...optional('customer_id', given.customer_id),
    ...optional('account_id', given.account_id),
    ...optional('project_id', given.project_id),
    ...optional('labels', given.labels),
  };
  return {
    workload_id,
    ...optional('org_id', org_id),
    ...optional('name', name),
    ...optional('allowed_connection_types', allowed_connection_types),
    ...optional('default_attribution', attribution),
  };
}

function unknown(name: string): GatewayError {
  return new GatewayError('not_found', `There is no workload ${name}.`);
}
