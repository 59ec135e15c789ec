import { z } from 'zod';
import { isJsonObject } from '../../base/json/json-object.ts';
import { holdsMask, maskedUrl } from '../../base/lib/text.ts';
import { CREDENTIAL_BODY } from '../../operations/credential-body.ts';
import { EXPORT_DESTINATION_BODY } from '../../operations/management/export-operations.ts';
import { members } from '../../operations/members.ts';
import { READS, REMOVES, REPLACES } from '../../operations/operation.ts';
import { WORKLOAD_BODY } from '../../operations/workload-body.ts';
import type { EntityKind, OrgEntity } from '../state/control-plane-state.ts';
import { type AdminOperation, adminOperation, dataOf, ofOrg, oneOfOrg, org, REMOVED } from './admin-operation.ts';

/** One thing of an org in the gateway's own shape, with its id. */
const SHOWN = z.looseObject({ id: z.string() });

interface Kind {
  /** Also the segment of the path. */
  readonly kind: EntityKind;
  /** As operations and commands are called. */
  readonly name: string;
  readonly one: string;
  readonly many: string;
  /** What is said behind `Makes or replaces …`. */
  readonly note: string;
  /** The gateway's own members, but for those that the path says. */
  readonly body: z.ZodObject;
}

/** What a schema says of its members asks no registry. */
const NO_REGISTRY = { credentials: { keyedConnector: () => undefined, coversHost: () => false } };
const { workload_id: _workload, org_id: _org, ...WORKLOAD } = WORKLOAD_BODY.shape;
const { credential_id: _credential, org_id: _owner, ...CREDENTIAL } = CREDENTIAL_BODY.schema(NO_REGISTRY).shape;

const KINDS: readonly Kind[] = [
  { kind: 'workloads', name: 'workload', one: 'a workload', many: 'Workloads', note: '.', body: members(WORKLOAD) },
  {
    kind: 'credentials',
    name: 'credential',
    one: 'a credential',
    many: 'Credentials',
    note: '; its secret is sealed and never shown. One that is `org_wide` goes to every gateway of the org.',
    body: members(CREDENTIAL),
  },
  {
    kind: 'export-destinations',
    name: 'export_destination',
    one: 'an export destination',
    many: 'Export destinations',
    note: '; tokens and secrets are sealed and never shown.',
    body: EXPORT_DESTINATION_BODY,
  },
  {
    kind: 'addons',
    name: 'addon',
    one: 'an add-on',
    many: 'Add-ons',
    note: ' of the catalogue.',
    body: members({
      enabled: z.boolean('must be true or false'),
      config: z.record(z.string(), z.unknown()).optional().meta({ description: 'What is set of it, as its kind takes it' }),
    }),
  },
];

function operationsOf({ kind, name, one, many, note, body }: Kind): readonly AdminOperation[] {
  const params = oneOfOrg(`Id of the ${name.replaceAll('_', ' ')}`);
  const path = `/v1/orgs/{org}/${kind}`;
  const common = { scope: 'admin' as const, errors: ['not_found'] as const };
  return [
    adminOperation({
      ...common,
      id: `${name}.list`,
      method: 'GET',
      path,
      annotations: READS,
      summary: `${many} of an org; secrets are never shown.`,
      input: { params: ofOrg },
      output: { status: 200, schema: dataOf(SHOWN) },
      handle: async ({ params: { org: orgId } }, { state }) => ({
        json: { data: (await state.entities.list(orgId, kind)).map(shownEntity) },
      }),
    }),
    adminOperation({
      ...common,
      id: `${name}.read`,
      method: 'GET',
      path: `${path}/{id}`,
      annotations: READS,
      summary: `Shows ${one} of an org; secrets are never shown.`,
      input: { params },
      output: { status: 200, schema: SHOWN },
      handle: async ({ params: { org: orgId, id } }, { state }) => ({ json: shownEntity(await state.entities.get(orgId, kind, id)) }),
    }),
    adminOperation({
      ...common,
      id: `${name}.put`,
      method: 'PUT',
      path: `${path}/{id}`,
      annotations: REPLACES,
      summary: `Makes or replaces ${one}${note}`,
      input: { params, body: { schema: () => body, what: `The ${name.replaceAll('_', ' ')}`, toldOnly: true } },
      output: { status: 200, schema: SHOWN },
      handle: async ({ params: { org: orgId, id }, body: given, commit }, { state }) => ({
        json: shownEntity(await state.entities.put(orgId, kind, id, given, commit)),
      }),
    }),
    adminOperation({
      ...common,
      id: `${name}.remove`,
      method: 'DELETE',
      path: `${path}/{id}`,
      annotations: REMOVES,
      summary: `Removes ${one} of an org.`,
      input: { params },
      output: { status: 200, schema: REMOVED },
      handle: async ({ params: { org: orgId, id }, commit }, { state }) => {
        await state.entities.remove(orgId, kind, id, commit);
        return { json: { id, status: 'deleted' as const } };
      },
    }),
  ];
}

function assignment(method: 'PUT' | 'DELETE', id: string, summary: string): AdminOperation {
  return adminOperation({
    id,
    method,
    path: '/v1/orgs/{org}/credentials/{id}/nodes/{node}',
    scope: 'admin',
    annotations: method === 'PUT' ? REPLACES : REMOVES,
    summary,
    errors: ['not_found', 'conflict'],
    input: {
      params: z.object({ org, id: org.meta({ description: 'Id of the credential' }), node: org.meta({ description: 'Node id' }) }),
    },
    output: { status: 200, schema: SHOWN },
    handle: async ({ params, commit }, { state }) => ({
      json: shownEntity(await state.assignments.set(params.org, params.id, params.node, method === 'PUT', commit)),
    }),
  });
}

/** Of an address in a config that was stored before its path was masked nothing more is told than of others. */
function shownEntity({ id, value }: OrgEntity): { readonly id: string } & Readonly<Record<string, unknown>> {
  const { config } = value;
  if (!isJsonObject(config) || typeof config['url'] !== 'string' || holdsMask(config['url'])) return { id, ...value };
  return { id, ...value, config: { ...config, url: maskedUrl(config['url']) } };
}

/** What an org gives its gateways (decision 13.6). */
export const ENTITY_ADMIN_OPERATIONS: readonly AdminOperation[] = [
  ...KINDS.flatMap(operationsOf),
  assignment('PUT', 'credential.assign', 'Gives a `node_scoped` credential to a gateway.'),
  assignment('DELETE', 'credential.unassign', 'Takes a `node_scoped` credential from a gateway.'),
];
