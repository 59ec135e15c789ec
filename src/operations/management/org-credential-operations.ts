import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { CREDENTIAL_MODES, CREDENTIAL_TYPES, DISTRIBUTIONS } from '../../base/model/keys.ts';
import type { ShownCredential } from '../../services/people/stored-credential.ts';
import { type CredentialBody, credentialChange, credentialParts, STRANGE_HOST, strangeHosts } from '../credential-body.ts';
import { CREDENTIAL, NODE_IDS } from '../credential-operations.ts';
import { withEtag } from '../etag.ts';
import { HANDED_ON, onlyOf } from '../hand-on.ts';
import { shownHere, watchedCredential, writtenCredential } from '../handed-on-credentials.ts';
import { ALSO_WHEN_WRONG, choice, members, optional, requiredId, text } from '../members.ts';
import { type GatewayOperation, operation, READS, REMOVES, REPLACES } from '../operation.ts';
import { providerFilter } from '../provider-filter.ts';
import type { OperationServices } from '../services.ts';
import { etag, pathId } from '../shapes.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

/** The environment is the operator's: a key of one org may not have its variables sent anywhere. */
const OWN_SECRET = 'must be the secret itself: variables of the environment are named by the admin API alone';

/** As the specification calls the members here ("Credential"). */
function ownBody(services: OperationServices) {
  const { connector, hosts, secret } = credentialParts(services);
  return members({
    id: requiredId(),
    provider: connector,
    mode: choice(CREDENTIAL_MODES),
    secret: secret
      .refine((value) => value?.startsWith('env:') !== true, OWN_SECRET)
      .meta({ description: 'The secret itself; never read back' }),
    name: text.optional(),
    scope: choice(DISTRIBUTIONS).optional().meta({ description: 'Fixed when it is made; default: `org_wide`' }),
    type: choice(CREDENTIAL_TYPES).optional(),
    billing_owner: text.optional(),
    target_hosts: hosts,
  }).superRefine(({ provider: named, target_hosts: given }, { addIssue }) => {
    for (const at of strangeHosts(named, given, services)) addIssue({ code: 'custom', path: ['target_hosts', at], message: STRANGE_HOST });
  }, ALSO_WHEN_WRONG);
}
type OwnBody = z.output<ReturnType<typeof ownBody>>;

const PATCH_BODY = members({
  name: text.optional(),
  node_ids: NODE_IDS.optional().meta({ description: 'Of a `node_scoped` one: the nodes that have it' }),
});

/** The same as on the admin API, with the names that the management API has. */
const SHOWN = CREDENTIAL.omit({ credential_id: true, connector_id: true, distribution: true }).extend({
  id: z.string(),
  org_id: z.string().optional().meta({ description: 'Absent: it is there for every org' }),
  provider: z.string(),
  scope: z.enum(DISTRIBUTIONS),
});

const params = pathId('Credential id');

/** Stored credentials of an org (specification, "Management API"; decision 10.6). No answer holds a secret. */
export const ORG_CREDENTIAL_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.credentials.list',
    method: 'GET',
    path: '/mgmt/v1/credentials',
    scope: 'read',
    summary: 'Stored credentials that the org may use, without their secrets.',
    annotations: READS,
    tools: [{ name: 'list_credentials', title: 'List credentials' }],
    input: { query: { schema: (services) => z.strictObject({ provider: providerFilter(services), ...CURSOR_PARAMETERS }) } },
    output: { status: 200, schema: dataPage(SHOWN.extend({ etag })) },
    handle: ({ principal, query }, { credentials }) => {
      const orgId = orgOf(principal);
      const usable = credentials.service.usableBy(orgId);
      return {
        json: pageInMemory(
          usable
            .map(shown)
            .filter((one) => (query.provider ?? one.provider) === one.provider)
            .map(withEtag),
          (one) => one.id,
          cursorPage('credentials', query),
        ),
      };
    },
  }),
  operation({
    id: 'mgmt.credentials.put',
    method: 'PUT',
    path: '/mgmt/v1/credentials',
    scope: 'write',
    summary: 'Creates or updates one credential of the org; an update without `secret` keeps the secret and what it leaves out.',
    annotations: REPLACES,
    ownedRemotely: true,
    versioned: true,
    errors: ['INVALID_ARGUMENT', 'conflict', ...HANDED_ON],
    tools: [
      {
        name: 'create_credential',
        title: 'Create a credential',
        description: 'Creates one credential of the org; one that is there stays as it is. Another secret: delete_credential, then this.',
        only: 'create',
      },
    ],
    input: { body: { schema: ownBody, what: 'The credential' } },
    output: { status: 200, schema: SHOWN },
    handle: async ({ principal, body, commit, expectShown }, { credentials }) => {
      const orgId = orgOf(principal);
      const next = (current: ShownCredential | undefined) => {
        if (current !== undefined) requireOwn(current, orgId);
        expectShown(current && shown(current));
        return credentialChange({ ...adminBody(body), org_id: orgId }, credentials, 'provider');
      };
      return { json: shown(await credentials.service.change({ org_id: orgId, credential_id: body.id }, next, commit)) };
    },
    handOn: async ({ principal, body, headers, expectShown }, services, handOn) => {
      const { credentials } = services;
      const { id } = body;
      const current = credentials.service.get(orgOf(principal), id);
      expectShown(current && shown(current));
      const change = credentialChange({ ...adminBody(body), org_id: orgOf(principal) }, credentials, 'provider');
      const write = { kind: 'credentials.put' as const, entries: [writtenCredential(change)], only: onlyOf(headers) };
      const [stored] = await handOn(write, watchedCredential(id, services));
      return { json: shown(shownHere(id, services, stored)) };
    },
  }),
  operation({
    id: 'mgmt.credentials.patch',
    method: 'PATCH',
    path: '/mgmt/v1/credentials/{id}',
    scope: 'write',
    summary: 'Changes the name of a credential of the org, or the nodes that have it; its scope is fixed.',
    annotations: REPLACES,
    ownedRemotely: true,
    versioned: true,
    errors: ['INVALID_ARGUMENT', 'not_found', 'conflict', ...HANDED_ON],
    tools: [{ name: 'update_credential', title: 'Update a credential', ids: { id: 'credential_id' } }],
    input: { params, body: { schema: () => PATCH_BODY, what: 'The change' } },
    output: { status: 200, schema: SHOWN },
    handle: async ({ principal, params: { id: name }, body, commit, expectShown }, { credentials }) => {
      const orgId = orgOf(principal);
      const before = ownOne(name, orgId, credentials.service.get(orgId, name));
      expectShown(shown(before));
      const { name: called, node_ids: nodes } = body;
      return { json: shown(await credentials.service.amend(before, { name: called, node_ids: nodes }, commit)) };
    },
    handOn: async ({ principal, params: { id: name }, body, expectShown }, services, handOn) => {
      const current = services.credentials.service.get(orgOf(principal), name);
      if (current !== undefined) expectShown(shown(current));
      const { name: called, node_ids: nodes } = body;
      const change = { ...optional('name', called), ...optional('node_ids', nodes) };
      const [stored] = await handOn(
        { kind: 'credentials.amend', entries: [{ id: name, body: change }] },
        watchedCredential(name, services),
      );
      return { json: shown(shownHere(name, services, stored)) };
    },
  }),
  operation({
    id: 'mgmt.credentials.remove',
    method: 'DELETE',
    path: '/mgmt/v1/credentials/{id}',
    scope: 'write',
    summary: 'Removes a credential of the org and its secret.',
    annotations: REMOVES,
    ownedRemotely: true,
    errors: ['not_found', 'conflict', ...HANDED_ON],
    tools: [{ name: 'delete_credential', title: 'Delete a credential', ids: { id: 'credential_id' } }],
    input: { params },
    output: { status: 200, schema: z.object({ id: z.string(), status: z.literal('deleted') }) },
    handle: async ({ principal, params: { id: name }, commit }, { credentials }) => {
      const orgId = orgOf(principal);
      await credentials.service.remove(ownOne(name, orgId, credentials.service.get(orgId, name)), commit);
      return { json: { id: name, status: 'deleted' as const } };
    },
    handOn: async ({ params: { id: name } }, services, handOn) => {
      await handOn({ kind: 'credentials.remove', entries: [{ id: name }] }, watchedCredential(name, services));
      return { json: { id: name, status: 'deleted' as const } };
    },
  }),
];

function adminBody({ id: credentialId, provider, secret, scope, ...rest }: OwnBody): CredentialBody {
  return {
    ...rest,
    credential_id: credentialId,
    connector_id: provider,
    ...optional('secret_ref', secret),
    ...optional('distribution', scope),
  };
}

function shown({ credential_id: id, connector_id: provider, distribution: scope, ...rest }: ShownCredential) {
  return { id, provider, scope, ...rest };
}

/** @throws GatewayError `not_found`, `conflict` for one of all orgs */
function ownOne(name: string, orgId: string, found: ShownCredential | undefined): ShownCredential {
  if (found === undefined) throw new GatewayError('not_found', `There is no credential ${name}.`);
  requireOwn(found, orgId);
  return found;
}

/** @throws GatewayError `conflict` for one that is there for every org */
function requireOwn({ credential_id: name, org_id: of }: ShownCredential, orgId: string): void {
  if (of !== orgId) throw new GatewayError('conflict', `The credential ${name} is there for every org: the admin API alone changes it.`);
}
