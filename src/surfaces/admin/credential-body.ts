import { CREDENTIAL_MODES, CREDENTIAL_TYPES, DISTRIBUTIONS } from '../../base/model/credential.ts';
import type { CredentialChange } from '../../services/credentials.ts';
import { BodyMembers } from '../http/body-members.ts';

export const CREDENTIAL_MEMBERS = [
  'credential_id',
  'org_id',
  'connector_id',
  'mode',
  'secret_ref',
  'type',
  'distribution',
  'name',
  'billing_owner',
  'target_hosts',
];
const MAX_SECRET = 65_536;
const MAX_HOSTS = 100;
const MAX_NODES = 1_000;
/** What can stand in a header (RFC 9110 §5.5) without spaces around it. */
const KEY = /^[\u0021-\u007e](?:[\u0020-\u007e]*[\u0021-\u007e])?$/;
const ENV_NAME = /^env:[A-Za-z_][A-Za-z0-9_]*$/;

export interface CredentialBodyContext {
  /** Canonical connector id that can have a key, undefined for any other text. */
  readonly keyedConnector: (text: string) => string | undefined;
  /** True when a canonical host is one of the connector's. */
  readonly coversHost: (connectorId: string, host: string) => boolean;
}

/** Checks one Credential body or map of a credentials file. @throws GatewayError `invalid_request`; no message repeats a secret */
export function parseCredential(body: unknown, context: CredentialBodyContext, what = 'The credential'): CredentialChange {
  const members = new BodyMembers(body, CREDENTIAL_MEMBERS);
  const type = members.choice('type', CREDENTIAL_TYPES);
  const distribution = members.choice('distribution', DISTRIBUTIONS);
  const mode = members.choice('mode', CREDENTIAL_MODES);
  if (members.value('mode') === undefined) members.problem('mode', `must be one of ${CREDENTIAL_MODES.join(', ')}`);
  const named = members.requiredId('connector_id');
  const connectorId = context.keyedConnector(named);
  if (named !== '' && connectorId === undefined) members.problem('connector_id', 'must be a connector that takes a key, such as openai');
  const hosts = targetHosts(members, connectorId ?? '', context);
  const change: CredentialChange = {
    credential_id: members.requiredId('credential_id'),
    ...optional('org_id', members.id('org_id')),
    connector_id: connectorId ?? named,
    mode: mode ?? 'alias',
    ...optional('type', type),
    ...optional('distribution', distribution),
    ...optional('name', members.text('name')),
    ...optional('billing_owner', members.text('billing_owner')),
    ...optional('target_hosts', hosts),
    ...optional('secret_ref', secretRef(members)),
  };
  members.check(what);
  return change;
}

/** Checks the body of an assignment. @throws GatewayError `invalid_request` */
export function parseAssignment(body: unknown): readonly string[] {
  const members = new BodyMembers(body, ['node_ids']);
  const value = members.value('node_ids');
  const ok =
    Array.isArray(value) && value.length <= MAX_NODES && value.every((id) => typeof id === 'string' && /^[\x21-\x7e]{1,128}$/.test(id));
  if (!ok) members.problem('node_ids', `must be a list of at most ${MAX_NODES} node ids`);
  members.check('The assignment');
  return value as readonly string[];
}

function optional<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: V });
}

function secretRef(members: BodyMembers): string | undefined {
  const value = members.value('secret_ref');
  if (value === undefined) return undefined;
  const fits = typeof value === 'string' && value.length <= MAX_SECRET && KEY.test(value);
  if (fits && (!value.startsWith('env:') || ENV_NAME.test(value))) return value;
  members.problem('secret_ref', 'must be a key as it stands in a header, or env:NAME');
  return undefined;
}

function targetHosts(members: BodyMembers, connectorId: string, context: CredentialBodyContext): readonly string[] | undefined {
  const value = members.value('target_hosts');
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_HOSTS) {
    members.problem('target_hosts', `must be a list of 1 to ${MAX_HOSTS} hosts`);
    return undefined;
  }
  const hosts: string[] = [];
  for (const [at, host] of value.entries()) {
    if (typeof host === 'string' && context.coversHost(connectorId, host)) hosts.push(host);
    else members.problem(`target_hosts[${at}]`, 'is no host of the connector');
  }
  return hosts;
}
