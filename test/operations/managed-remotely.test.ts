import { test } from 'tap';
import { openApi } from '../../src/operations/openapi.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import type { OperationServices } from '../../src/operations/services.ts';
import { TOOLS } from '../../src/operations/tool-table.ts';

const REMOTE = { managedRemotely: true } as OperationServices;
const ASKED = {
  principal: { kind: 'anyone', id: 'anyone', scopes: ['none'] },
  params: {},
  query: new URLSearchParams(),
  headers: {},
  from: '',
} as const;
const OWNED = OPERATIONS.filter(({ ownedRemotely }) => ownedRemotely === true);

test('what a control plane owns is managed_remotely on the API, before its input is read', async (t) => {
  const json = (): Promise<unknown> => Promise.reject(new TypeError('the body was read'));
  for (const { id, annotations, bind } of OWNED) {
    t.equal(annotations.readOnly, false, id);
    await t.rejects(bind(REMOTE)({ ...ASKED, json }), { code: 'managed_remotely', status: 409 }, id);
  }
});

test('workloads, credentials, API keys and export destinations are owned; tokens of workloads and org defaults are not', (t) => {
  const owned = new Set(OWNED.map(({ id }) => id));
  for (const id of [
    'workloads.put',
    'workloads.remove',
    'mgmt.workloads.put',
    'mgmt.workloads.remove',
    'credentials.put',
    'credentials.remove',
    'credentials.assign',
    'credentials.reload',
    'mgmt.credentials.put',
    'mgmt.credentials.patch',
    'mgmt.credentials.remove',
    'api_keys.create',
    'api_keys.revoke',
    'mgmt.exports.create',
    'mgmt.exports.update',
    'mgmt.exports.remove',
    'policies.put',
    'mgmt.policies.put',
    'mgmt.policies.rules.put',
    'mgmt.policies.rules.remove',
    'mgmt.providers.switch',
    'mgmt.connectors.remove',
  ])
    t.ok(owned.has(id), id);
  for (const id of ['workloads.issue_token', 'workloads.remove_token', 'mgmt.exports.test', 'mgmt.org_defaults.change', 'mgmt.keys.create'])
    t.notOk(owned.has(id), id);
  t.end();
});

test('tools say the same', async (t) => {
  const asker = { principal: { kind: 'mcp_key', id: 'k', orgId: 'acme', scopes: ['read', 'write'] }, from: '' } as const;
  const set = TOOLS.boundTo(REMOTE);
  const tools = OWNED.flatMap(({ tools: named = [] }) => named.map(({ name }) => name));
  t.ok(tools.length >= 8);
  const ids = {
    workload_id: 'w',
    credential_id: 'c',
    connector_id: 'x',
    destination_id: 'd',
    provider: 'openai',
    mode: 'routing',
    state: 'enable',
    rule_id: 'r',
  };
  for (const name of tools) {
    const { required = [] } = set.tools.find((tool) => tool.name === name)?.inputSchema ?? {};
    const words = name === 'create_credential' ? { ...ids, mode: 'byok' } : ids;
    const args = Object.fromEntries(Object.entries(words).filter(([id]) => Array.isArray(required) && required.includes(id)));
    await t.rejects(set.call(name, args, asker), { code: 'managed_remotely' }, name);
  }
});

test('the description lists the refusal with each, and with no other', (t) => {
  const text = JSON.stringify(openApi(OWNED.slice(0, 1), {} as OperationServices, '1'));
  t.match(text, '`managed_remotely`');
  const reads = OPERATIONS.filter(({ ownedRemotely }) => ownedRemotely !== true).slice(0, 5);
  t.notMatch(JSON.stringify(openApi(reads, {} as OperationServices, '1')), 'managed_remotely');
  t.end();
});
