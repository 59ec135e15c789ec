import { z } from 'zod';
import { customConnectorId } from '../../base/catalogue/connector-id.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { CUSTOM_AUTH_MODES, CUSTOM_DIALECTS, type CustomConnector } from '../../base/model/custom-connector.ts';
import { removeConnector } from '../../services/orgs/connector-removal.ts';
import type { CustomConnectorChange } from '../../services/policy/custom-connectors.ts';
import { HANDED_ON } from '../hand-on.ts';
import { choice, members, optional, orNothing, text, textThere } from '../members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES, REPLACES } from '../operation.ts';
import type { OperationServices } from '../services.ts';
import { pathId, time } from '../shapes.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

const flag = z.boolean('must be true or false');
const URL_TEXT = 'https://HOST[:PORT][/PATH], as an SDK of its dialect takes it';

const OWN_MEMBERS = {
  name: textThere,
  base_url: textThere.meta({ description: URL_TEXT, examples: ['https://llm.example.com/v1'] }),
  auth_mode: choice(CUSTOM_AUTH_MODES).meta({ description: 'How the stored key is sent' }),
  auth_header: text.optional().meta({ description: 'With auth_mode header: its name' }),
  auth_query: text.optional().meta({ description: 'With auth_mode query: its name' }),
  dialect: choice(CUSTOM_DIALECTS).optional().meta({ description: 'The wire format that it speaks; openai when left out' }),
  default_model: orNothing(textThere)
    .optional()
    .meta({ description: 'Of a structured call that names none; null or empty: there is none' }),
  enabled: flag.optional(),
};

const NEW_BODY = members(OWN_MEMBERS);
const CHANGE_BODY = members({
  ...OWN_MEMBERS,
  name: textThere.optional(),
  base_url: OWN_MEMBERS.base_url.optional(),
  auth_mode: choice(CUSTOM_AUTH_MODES).optional(),
});

const SHOWN = z.object({
  id: z.string(),
  connector_id: z.string().meta({ description: 'What routing, policy, credentials and records call it' }),
  org_id: z.string(),
  name: z.string(),
  base_url: z.string(),
  dialect: z.enum(CUSTOM_DIALECTS),
  auth_mode: z.enum(CUSTOM_AUTH_MODES),
  auth_header: z.string().optional(),
  auth_query: z.string().optional(),
  default_model: z.string().nullable(),
  enabled: z.boolean(),
  not_used: z.string().optional().meta({
    description: 'Of one that is enabled: why traffic does not use it, such as a host of GW_CONNECTOR_HOSTS_DENY; absent when it does',
  }),
  created_at: time,
  updated_at: time,
});

const params = pathId('Id of a custom connector');
const ids = { id: 'connector_id' } as const;

function shown(connector: CustomConnector, customConnectors: OperationServices['customConnectors']) {
  const { default_model: model, ...own } = connector;
  const notUsed = optional('not_used', customConnectors.notUsed(connector));
  return { ...own, connector_id: customConnectorId(own.id), default_model: model ?? null, ...notUsed };
}

function unknown(id: string): GatewayError {
  return new GatewayError('not_found', `There is no custom connector ${id}.`);
}

/** What a body says; what it leaves out is not there. */
function changeOf(body: z.output<typeof CHANGE_BODY>): CustomConnectorChange {
  return {
    ...optional('name', body.name),
    ...optional('base_url', body.base_url),
    ...optional('auth_mode', body.auth_mode),
    ...optional('auth_header', body.auth_header),
    ...optional('auth_query', body.auth_query),
    ...optional('dialect', body.dialect),
    ...optional('default_model', body.default_model),
    ...optional('enabled', body.enabled),
  };
}

/** Enabling and disabling differ in one word. */
function switching(id: 'enable' | 'disable', enabled: boolean, summary: string): GatewayOperation {
  return operation({
    id: `mgmt.connectors.${id}`,
    method: 'POST',
    path: `/mgmt/v1/connectors/{id}/${id}`,
    scope: 'write',
    summary,
    annotations: REPLACES,
    errors: ['not_found', 'conflict', 'precondition_failed'],
    versioned: true,
    tools: [{ name: `${id}_custom_provider`, title: `${enabled ? 'Enable' : 'Disable'} a custom provider`, ids }],
    input: { params },
    output: { status: 200, schema: SHOWN },
    handle: async ({ principal, params: { id: name }, commit, expectShown }, { customConnectors }) => {
      const expect = (before: CustomConnector): void => expectShown(shown(before, customConnectors));
      const changed = await customConnectors.change(orgOf(principal), name, { enabled }, expect, commit);
      if (changed === undefined) throw unknown(name);
      return { json: shown(changed, customConnectors) };
    },
  });
}

/** Connectors that an org makes itself (specification, "Custom connector"; decision 10.11). */
export const CUSTOM_CONNECTOR_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.connectors.list',
    method: 'GET',
    path: '/mgmt/v1/connectors',
    scope: 'read',
    summary: 'The custom connectors of the org.',
    annotations: READS,
    tools: [{ name: 'list_custom_providers', title: 'List custom providers' }],
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(SHOWN) },
    handle: ({ principal, query }, { customConnectors }) => ({
      json: pageInMemory(
        customConnectors.list(orgOf(principal)).map((one) => shown(one, customConnectors)),
        ({ id }) => id,
        cursorPage('connectors', query),
      ),
    }),
  }),
  operation({
    id: 'mgmt.connectors.create',
    method: 'POST',
    path: '/mgmt/v1/connectors',
    scope: 'write',
    summary: 'Makes a custom connector; traffic uses it from its next call on.',
    annotations: ADDS,
    errors: ['conflict'],
    versioned: true,
    tools: [{ name: 'create_custom_provider', title: 'Create a custom provider' }],
    input: { body: { schema: () => NEW_BODY, what: 'The connector' } },
    output: { status: 201, schema: SHOWN },
    handle: async ({ principal, body, commit }, { customConnectors }) => {
      const { name, base_url, auth_mode } = body;
      const given = { ...changeOf(body), name, base_url, auth_mode };
      return { json: shown(await customConnectors.create(orgOf(principal), given, commit), customConnectors) };
    },
  }),
  operation({
    id: 'mgmt.connectors.get',
    method: 'GET',
    path: '/mgmt/v1/connectors/{id}',
    scope: 'read',
    summary: 'One custom connector.',
    annotations: READS,
    errors: ['not_found'],
    versioned: true,
    input: { params },
    output: { status: 200, schema: SHOWN },
    handle: ({ principal, params: { id } }, { customConnectors }) => {
      const found = customConnectors.get(orgOf(principal), id);
      if (found === undefined) throw unknown(id);
      return { json: shown(found, customConnectors) };
    },
  }),
  operation({
    id: 'mgmt.connectors.update',
    method: 'PUT',
    path: '/mgmt/v1/connectors/{id}',
    scope: 'write',
    summary: 'Changes the members that are given, and leaves the others.',
    annotations: REPLACES,
    errors: ['not_found', 'conflict', 'precondition_failed'],
    versioned: true,
    tools: [{ name: 'update_custom_provider', title: 'Update a custom provider', ids, like: 'create_custom_provider' }],
    input: { params, body: { schema: () => CHANGE_BODY, what: 'The connector' } },
    output: { status: 200, schema: SHOWN },
    handle: async ({ principal, params: { id }, body, commit, expectShown }, { customConnectors }) => {
      const expect = (before: CustomConnector): void => expectShown(shown(before, customConnectors));
      const changed = await customConnectors.change(orgOf(principal), id, changeOf(body), expect, commit);
      if (changed === undefined) throw unknown(id);
      return { json: shown(changed, customConnectors) };
    },
  }),
  operation({
    id: 'mgmt.connectors.remove',
    method: 'DELETE',
    path: '/mgmt/v1/connectors/{id}',
    scope: 'write',
    summary: 'Removes a custom connector, its credentials and its budget limits: from the next call on its host has none.',
    annotations: REMOVES,
    ownedRemotely: true,
    errors: ['not_found', 'conflict', 'precondition_failed', ...HANDED_ON],
    tools: [{ name: 'delete_custom_provider', title: 'Delete a custom provider', ids }],
    input: { params },
    output: { status: 200, schema: z.object({ id: z.string(), status: z.literal('deleted') }) },
    handle: async ({ principal, params: { id }, commit, expectShown }, services) => {
      const { customConnectors, alerts, budgets, credentials } = services;
      const expect = (before: CustomConnector): void => expectShown(shown(before, customConnectors));
      const ground = { customConnectors, alerts, budgets: budgets.service, credentials: credentials.service };
      if (!(await removeConnector(ground, orgOf(principal), id, expect, commit))) throw unknown(id);
      return { json: { id, status: 'deleted' as const } };
    },
    // Its credentials are the control plane's, itself it is not: those go first, so that what fails between leaves a
    // connector that can be removed again.
    handOn: async ({ principal, params: { id }, commit, expectShown }, services, handOn) => {
      const { customConnectors, alerts, budgets, credentials } = services;
      const expect = (before: CustomConnector): void => expectShown(shown(before, customConnectors));
      const orgId = orgOf(principal);
      const found = customConnectors.get(orgId, id);
      if (found === undefined) throw unknown(id);
      expect(found);
      const connectorId = customConnectorId(found.id);
      const keys = credentials.service.namesFor(connectorId);
      const show = (): unknown =>
        Object.fromEntries(keys.map((one) => [one.credential_id, credentials.service.named(one.credential_id, one.org_id)]));
      const watched = { entity: 'credential', object: keys.length === 1 ? keys[0]?.credential_id : undefined, show };
      try {
        await handOn({ kind: 'credentials.remove_of', entries: [{ id: connectorId }] }, watched);
      } catch (error) {
        // Without a credential here there is nothing that its removal would leave behind on this gateway.
        if (keys.length > 0) throw error;
      }
      const ground = { customConnectors, alerts, budgets: budgets.service, credentials: undefined };
      if (!(await removeConnector(ground, orgId, id, expect, commit))) throw unknown(id);
      return { json: { id, status: 'deleted' as const } };
    },
  }),
  switching('enable', true, 'Switches a custom connector on.'),
  switching('disable', false, 'Switches a custom connector off: its host has none until it is on again.'),
];
