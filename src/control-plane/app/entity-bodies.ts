import type { Catalogue } from '../../base/catalogue/types.ts';
import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { canonicalHost } from '../../base/lib/host.ts';
import { tierAllows } from '../../decide/policy/layers.ts';
import { parseCredential } from '../../operations/credential-body.ts';
import { EXPORT_DESTINATION_BODY } from '../../operations/management/export-operations.ts';
import { readBody } from '../../operations/read-input.ts';
import type { CredentialBodyContext } from '../../operations/services.ts';
import { WORKLOAD_BODY } from '../../operations/workload-body.ts';
import type { PolicyPresets } from '../../services/policy/policy-presets.ts';
import { maskedExport, readExportConfig } from '../../services/sending/exports/export-config.ts';
import type { AskedEntity, ReadBodies, ReadEntity } from '../state/org-entities.ts';

/** What an org has of one kind has ids in this form; they stand in paths and in keys. */
const ID = /^[\x21-\x7e]{1,128}$/;
const PRESET = 'policy-';
/** Connectors that an org makes at its gateways. */
export const CUSTOM_CONNECTOR: RegExp = /^custom:[0-9a-f-]{36}$/;
const MAX_CONFIG = 4_096;
const ADDON_MEMBERS = ['id', 'enabled', 'config'];

/**
 * How bodies of the admin API are judged: by the schemas of the gateway's own API, with the shipped catalogue.
 * Connectors that an org makes at its gateways are known there alone.
 */
export function entityBodies(catalogue: Catalogue, presets: PolicyPresets): ReadBodies {
  const context: CredentialBodyContext = {
    keyedConnector: (text) => catalogue.provider(text)?.id ?? (CUSTOM_CONNECTOR.test(text) ? text : undefined),
    coversHost: (connectorId, host) =>
      canonicalHost(host) === host && (CUSTOM_CONNECTOR.test(connectorId) || catalogue.providerForHost(host)?.id === connectorId),
  };
  const isAddon = (id: string) => addonIds(catalogue, presets).has(id);
  return {
    workloads: (asked) => readWorkload(named(asked, 'workload_id')),
    credentials: (asked) => readCredential(named(asked, 'credential_id'), context),
    'export-destinations': (asked) => readDestination(asked),
    addons: (asked) => readAddon(asked, isAddon, presets),
  };
}

/** The body with its id and its org, as the gateway's own API takes it. @throws GatewayError when it says others */
function named(asked: AskedEntity, member: string): AskedEntity {
  const { id, orgId, body } = asked;
  requireId(id);
  const details = [
    ...(body[member] === undefined || body[member] === id ? [] : [{ path: member, message: `must be ${id}, as in the path` }]),
    ...(body['org_id'] === undefined || body['org_id'] === orgId ? [] : [{ path: 'org_id', message: `must be ${orgId}, as in the path` }]),
  ];
  if (details.length > 0) throw new GatewayError('invalid_request', `The body has ${details.length} bad member(s).`, { details });
  return { ...asked, body: { ...body, [member]: id, org_id: orgId } };
}

function readWorkload({ body }: AskedEntity): ReadEntity {
  return { value: defined(readBody({ schema: WORKLOAD_BODY, what: 'The workload' }, body)), secret: undefined };
}

function readCredential({ body, before, hasSecret, at }: AskedEntity, context: CredentialBodyContext): ReadEntity {
  const { secret_ref: secret, ...change } = parseCredential(body, context);
  const distribution = change.distribution ?? before?.['distribution'] ?? 'org_wide';
  const value: JsonObject = {
    // What a secret that stays is bound to must not fall away because somebody left it out.
    ...(secret === undefined ? before : {}),
    ...change,
    type: change.type ?? before?.['type'] ?? 'ai_provider',
    distribution,
    ...(before?.['node_ids'] === undefined ? {} : { node_ids: before['node_ids'] }),
    created_at: before?.['created_at'] ?? at,
    updated_at: at,
  };
  if (before !== undefined && before['distribution'] !== distribution)
    throw bad('credential', 'distribution', 'is fixed when the credential is made');
  if (secret === undefined) {
    if (hasSecret && before?.['connector_id'] !== value['connector_id'])
      throw bad('credential', 'secret_ref', 'is needed when the connector changes: a secret goes to its own connector only');
    if (value['mode'] === 'alias' && !hasSecret) throw bad('credential', 'secret_ref', 'is needed for an alias: the secret, or env:NAME');
  }
  return { value, secret };
}

/** What is left out stays as it was, the config as a whole. */
function readDestination({ orgId, id, body, before, at }: AskedEntity): ReadEntity {
  requireId(id);
  const { created_at: created, config: kept, id: _id, org_id: _org, ...rest } = before ?? {};
  const given = readBody({ schema: EXPORT_DESTINATION_BODY, what: 'The export destination' }, { ...rest, config: kept, ...body });
  const isNew = body['config'] !== undefined;
  if (!isNew && rest['kind'] !== given.kind)
    throw bad('export destination', 'config', 'is needed when the kind changes: each kind has its own');
  // Which hosts may be called without TLS is for each gateway to say.
  const config = isNew ? readExportConfig(given.kind, body['config'], () => true) : undefined;
  return {
    value: {
      id,
      org_id: orgId,
      ...defined(given),
      config: config === undefined ? kept : maskedExport(config),
      enabled: given.enabled ?? true,
      created_at: created ?? at,
    },
    secret: config === undefined ? undefined : JSON.stringify(config),
  };
}

function readAddon({ id, body, tier }: AskedEntity, isAddon: (id: string) => boolean, presets: PolicyPresets): ReadEntity {
  if (!isAddon(id)) throw new GatewayError('not_found', `There is no add-on ${id} in the catalogue.`);
  const { enabled, config } = body;
  const details = Object.keys(body)
    .filter((name) => !ADDON_MEMBERS.includes(name))
    .map((path) => ({ path, message: 'is not a member of this body' }));
  if (typeof enabled !== 'boolean') details.push({ path: 'enabled', message: 'must be true or false' });
  if (config !== undefined && (!isJsonObject(config) || JSON.stringify(config).length > MAX_CONFIG))
    details.push({ path: 'config', message: `must be an object of at most ${MAX_CONFIG} characters` });
  if (details.length > 0) throw new GatewayError('invalid_request', `The add-on has ${details.length} bad member(s).`, { details });
  const preset = id.startsWith(PRESET) ? presets.get(id.slice(PRESET.length)) : undefined;
  if (enabled === true && preset !== undefined && !tierAllows(tier, preset.layer))
    throw new GatewayError(
      'invalid_policy',
      `The plan tier ${tier} does not include the layer ${preset.layer}, in which the rules of ${id} are.`,
    );
  return { value: { id, enabled, ...(config === undefined ? {} : { config }) }, secret: undefined };
}

/**
 * Routing to each provider, whose keys its calls carry, and presets of policy (specification, "Addon catalog entry").
 */
function addonIds(catalogue: Catalogue, presets: PolicyPresets): ReadonlySet<string> {
  const ofProviders = catalogue.providers.flatMap(({ id, takesOauth }) => [
    `provider-${id}`,
    `credential-byok-${id}`,
    ...(takesOauth ? [`credential-oauth-${id}`] : []),
  ]);
  return new Set([...ofProviders, ...presets.list().map(({ id }) => PRESET + id)]);
}

function requireId(id: string): void {
  if (!ID.test(id)) throw bad('path', 'id', 'must be 1 to 128 visible ASCII characters');
}

function bad(what: string, path: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `The ${what} is not valid.`, { details: [{ path, message }] });
}

function defined(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined));
}
