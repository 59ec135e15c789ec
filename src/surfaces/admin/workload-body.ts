import type { Attribution } from '../../base/model/attribution.ts';
import { CONNECTION_TYPES, type ConnectionType } from '../../base/model/connection.ts';
import type { Workload } from '../../base/model/workload.ts';
import { BodyMembers } from '../http/body-members.ts';

const MAX_LABELS = 32;

/** Checks a Workload body and names every bad member. @throws GatewayError `invalid_request` */
export function parseWorkload(body: unknown): Workload {
  const members = new BodyMembers(body, ['workload_id', 'org_id', 'name', 'allowed_connection_types', 'default_attribution']);
  const workload = {
    workload_id: members.requiredId('workload_id'),
    ...optional('org_id', members.id('org_id')),
    ...optional('name', members.text('name')),
    ...optional('allowed_connection_types', connectionTypes(members)),
    ...optional('default_attribution', attribution(members)),
  };
  members.check('The workload');
  return workload;
}

function optional<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: V });
}

function connectionTypes(members: BodyMembers): readonly ConnectionType[] | undefined {
  const path = 'allowed_connection_types';
  const value = members.value(path);
  if (value === undefined) return undefined;
  if (!Array.isArray(value)) {
    members.problem(path, 'must be a list');
    return undefined;
  }
  const known: ConnectionType[] = [];
  for (const [at, entry] of value.entries()) {
    const type = CONNECTION_TYPES.find((name) => name === entry);
    if (type) known.push(type);
    else members.problem(`${path}[${at}]`, `must be one of ${CONNECTION_TYPES.join(', ')}`);
  }
  return known;
}

function attribution(members: BodyMembers): Attribution | undefined {
  const nested = members.nested('default_attribution', ['customer_id', 'account_id', 'project_id', 'labels']);
  return (
    nested && {
      ...optional('customer_id', nested.text('customer_id')),
      ...optional('account_id', nested.text('account_id')),
      ...optional('project_id', nested.text('project_id')),
      ...optional('labels', labels(nested)),
    }
  );
}

function labels(members: BodyMembers): Readonly<Record<string, string>> | undefined {
  const value = members.value('labels');
  if (value === undefined) return undefined;
  const names = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
  const nested = members.nested('labels', names);
  if (names.length > MAX_LABELS) members.problem('labels', `at most ${MAX_LABELS} labels`);
  const entries: [string, string][] = [];
  for (const key of names) {
    const text = nested?.text(key);
    if (text !== undefined) entries.push([key, text]);
  }
  return Object.fromEntries(entries);
}
