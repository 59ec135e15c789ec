import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { PROJECT_STATES } from '../../base/model/org.ts';
import { withEtag } from '../etag.ts';
import { choice, members, requiredId, text } from '../members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES, REPLACES } from '../operation.ts';
import { etag, pathId, time } from '../shapes.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

const ids = { id: 'project_id' } as const;
const params = pathId('Project id');
const status = choice(PROJECT_STATES);

const PROJECT = z.object({
  project_id: z.string(),
  org_id: z.string(),
  display_name: z.string(),
  description: z.string(),
  status: z.enum(PROJECT_STATES).meta({ description: '`archived`: calls that would be charged to it are denied' }),
  created_at: time,
});
const TEXTS = { display_name: text.optional(), description: text.optional() };

/** Projects of an org (specification, "Project"; decision 6.12). */
export const PROJECT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.projects.list',
    method: 'GET',
    path: '/mgmt/v1/projects',
    scope: 'read',
    summary: 'Registered projects of the org.',
    annotations: READS,
    tools: [{ name: 'list_projects', title: 'List projects' }],
    input: { query: { schema: () => z.strictObject({ status: status.optional(), ...CURSOR_PARAMETERS }) } },
    output: { status: 200, schema: dataPage(PROJECT.extend({ etag })) },
    handle: ({ principal, query }, { projects }) => {
      const found = projects.service.list(orgOf(principal), query.status);
      return { json: pageInMemory(found.map(withEtag), ({ project_id: id }) => id, cursorPage('projects', query)) };
    },
  }),
  operation({
    id: 'mgmt.projects.create',
    method: 'POST',
    path: '/mgmt/v1/projects',
    scope: 'write',
    summary: 'Registers a project, so that it has a name and can be archived; calls may name a project without that.',
    annotations: ADDS,
    errors: ['conflict'],
    versioned: true,
    tools: [{ name: 'create_project', title: 'Create project' }],
    input: { body: { schema: () => members({ project_id: requiredId(), ...TEXTS }), what: 'The project' } },
    output: { status: 201, schema: PROJECT },
    handle: async ({ principal, body: { project_id: id, ...texts }, commit }, { projects }) => {
      return { json: await projects.service.create(orgOf(principal), id, texts, commit) };
    },
  }),
  operation({
    id: 'mgmt.projects.update',
    method: 'PUT',
    path: '/mgmt/v1/projects/{id}',
    scope: 'write',
    summary: 'Changes what is given of a project and leaves the rest; `status` archives it, or takes that back.',
    annotations: REPLACES,
    errors: ['not_found', 'conflict'],
    versioned: true,
    tools: [{ name: 'update_project', title: 'Update project', ids }],
    input: { params, body: { schema: () => members({ ...TEXTS, status: status.optional() }), what: 'The project' } },
    output: { status: 200, schema: PROJECT },
    handle: async ({ principal, params: { id }, body, commit, expectShown }, { projects, workloads }) => {
      const changed = await projects.service.update(orgOf(principal), id, body, {
        mayArchive: (orgId, projectId) => workloads.orgDefaults.isNotDefault(orgId, projectId),
        expectShown,
        commit,
      });
      if (changed === undefined) throw unknown(id);
      return { json: changed };
    },
  }),
  operation({
    id: 'mgmt.projects.remove',
    method: 'DELETE',
    path: '/mgmt/v1/projects/{id}',
    scope: 'write',
    summary: 'Removes a project from the register: its id is a name like any other again, also when it was archived.',
    annotations: REMOVES,
    errors: ['not_found'],
    tools: [{ name: 'delete_project', title: 'Delete project', ids }],
    input: { params },
    output: { status: 200, schema: z.object({ project_id: z.string(), status: z.literal('deleted') }) },
    handle: async ({ principal, params: { id }, commit }, { projects }) => {
      if (!(await projects.service.remove(orgOf(principal), id, commit))) throw unknown(id);
      return { json: { project_id: id, status: 'deleted' as const } };
    },
  }),
];

function unknown(id: string): GatewayError {
  return new GatewayError('not_found', `There is no project ${id}.`);
}
