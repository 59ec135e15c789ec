import { type ErrorDetail, GatewayError } from '../../base/lib/gateway-error.ts';
import type { Attribution } from '../../base/model/attribution.ts';
import { CONNECTION_TYPES, type ConnectionType } from '../../base/model/connection.ts';
import type { Workload } from '../../base/model/workload.ts';

const ID = /^[\x21-\x7e]{1,128}$/;
const MAX_TEXT = 256;
const MAX_LABELS = 32;

type Problems = ErrorDetail[];

/** Checks a Workload body and names every bad member. @throws GatewayError `invalid_request` */
export function parseWorkload(body: unknown): Workload {
  const problems: Problems = [];
  const members = objectOf(body, '', problems);
  onlyKnown(members, ['workload_id', 'org_id', 'name', 'allowed_connection_types', 'default_attribution'], '', problems);
  const workload = {
    workload_id: idOf(members, 'workload_id', true, problems) ?? '',
    ...optional('org_id', idOf(members, 'org_id', false, problems)),
    ...optional('name', textOf(members, 'name', 'name', problems)),
    ...optional('allowed_connection_types', connectionTypes(members['allowed_connection_types'], problems)),
    ...optional('default_attribution', attribution(members['default_attribution'], problems)),
  };
  if (problems.length > 0)
    throw new GatewayError('invalid_request', `The workload has ${problems.length} bad member(s).`, { details: problems });
  return workload;
}

function optional<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: V });
}

function objectOf(value: unknown, path: string, problems: Problems): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  problems.push({ path, message: 'must be an object' });
  return {};
}

function onlyKnown(members: Record<string, unknown>, known: readonly string[], path: string, problems: Problems): void {
  for (const name of Object.keys(members)) {
    if (!known.includes(name)) problems.push({ path: path + name, message: 'is not a member of this body' });
  }
}

function idOf(members: Record<string, unknown>, name: string, required: boolean, problems: Problems): string | undefined {
  const value = members[name];
  if (value === undefined && !required) return undefined;
  if (typeof value === 'string' && ID.test(value)) return value;
  problems.push({ path: name, message: 'must be 1 to 128 visible ASCII characters' });
  return undefined;
}

function textOf(members: Record<string, unknown>, name: string, path: string, problems: Problems): string | undefined {
  const value = members[name];
  if (value === undefined) return undefined;
  if (typeof value === 'string' && value.length <= MAX_TEXT && value.isWellFormed()) return value;
  problems.push({ path, message: `must be text of at most ${MAX_TEXT} characters` });
  return undefined;
}

function connectionTypes(value: unknown, problems: Problems): readonly ConnectionType[] | undefined {
  if (value === undefined) return undefined;
  const path = 'allowed_connection_types';
  if (!Array.isArray(value)) {
    problems.push({ path, message: 'must be a list' });
    return undefined;
  }
  const known: ConnectionType[] = [];
  for (const [at, entry] of value.entries()) {
    const type = CONNECTION_TYPES.find((name) => name === entry);
    if (type) known.push(type);
    else problems.push({ path: `${path}[${at}]`, message: `must be one of ${CONNECTION_TYPES.join(', ')}` });
  }
  return known;
}

function attribution(value: unknown, problems: Problems): Attribution | undefined {
  if (value === undefined) return undefined;
  const path = 'default_attribution.';
  const members = objectOf(value, 'default_attribution', problems);
  onlyKnown(members, ['customer_id', 'account_id', 'project_id', 'labels'], path, problems);
  return {
    ...optional('customer_id', textOf(members, 'customer_id', `${path}customer_id`, problems)),
    ...optional('account_id', textOf(members, 'account_id', `${path}account_id`, problems)),
    ...optional('project_id', textOf(members, 'project_id', `${path}project_id`, problems)),
    ...optional('labels', labels(members['labels'], `${path}labels`, problems)),
  };
}

function labels(value: unknown, path: string, problems: Problems): Readonly<Record<string, string>> | undefined {
  if (value === undefined) return undefined;
  const members = objectOf(value, path, problems);
  if (Object.keys(members).length > MAX_LABELS) problems.push({ path, message: `at most ${MAX_LABELS} labels` });
  const entries: [string, string][] = [];
  for (const key of Object.keys(members)) {
    const text = textOf(members, key, `${path}.${key}`, problems);
    if (text !== undefined) entries.push([key, text]);
  }
  return Object.fromEntries(entries);
}
