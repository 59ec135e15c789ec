// What is written at a gateway and owned by its control plane is handed on to it (decision 13.12): by the admin API,
// the management API and as a tool, self-hosted and managed.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { AuditEntry } from '../../src/base/model/audit-entry.ts';
import type { TestGateway } from '../support/gateway.ts';
import { bundleOf, type Governed } from '../support/governed.ts';
import { type Linked, linked, until } from '../support/linked-gateway.ts';
import { codeIn, type Manage, managedOf } from '../support/managed.ts';
import { tempDir } from '../support/temp-dir.ts';

const SECRET = 'sk-secret-of-the-org';
/** No layer gates, and nothing is allowed but by keys, so that a generated rule shows. */
const BUNDLE = bundleOf('  risk: [{id: nothing, when: {field: context.purpose, equals: no}, effect: {decision: deny}}]\n');
const CREDENTIAL = { credential_id: 'cred-1', connector_id: 'openai', mode: 'alias', secret_ref: SECRET };

interface Place extends Linked, Governed {
  readonly manage: Manage;
  readonly mcp: { readonly key: string };
  /** Calls a tool as an assistant does. */
  tool(name: string, args: object): Promise<{ readonly isError: boolean; readonly text: string }>;
  stored(kind: 'credentials' | 'workloads' | 'addons', id: string): Promise<unknown>;
  /** Entries of both audit trails, the newest first. */
  audits(): Promise<{ readonly here: readonly AuditEntry[]; readonly there: readonly AuditEntry[] }>;
}

async function place(t: Test, env: Readonly<Record<string, string>> = {}): Promise<Place> {
  const one = await linked(t);
  await one.putBundle(BUNDLE);
  const governed = await one.start(env);
  const { gw } = governed;
  const { manage, keyOf } = await managedOf(gw);
  const mcp = await keyOf('acme', ['read', 'write'], 'mcp');
  const post = (message: object, session?: string): Promise<Response> =>
    fetch(`${gw.url}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${mcp.key}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(session === undefined ? {} : { 'mcp-session-id': session }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
    });
  return {
    ...one,
    ...governed,
    manage,
    mcp,
    tool: async (name, args) => {
      const params = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
      const session = (await post({ id: 1, method: 'initialize', params })).headers.get('mcp-session-id') ?? '';
      await post({ method: 'notifications/initialized' }, session);
      const text = await (await post({ id: 2, method: 'tools/call', params: { name, arguments: args } }, session)).text();
      return { isError: /"isError":true|"error":/.test(text), text };
    },
    stored: async (kind, id) => {
      try {
        return (await one.cp.plane.state.entities.get('acme', kind, id)).value;
      } catch {
        return undefined;
      }
    },
    audits: async () => ({
      here: ((await gw.admin('GET', '/v1/admin/audit?limit=50')).body as { items: readonly AuditEntry[] }).items,
      there: (await one.cp.plane.state.audit.page({}, { limit: 50, after: undefined })).items,
    }),
  };
}

async function isInBoth({ audits }: Place, t: Test, operation: string, object: string, kind: string): Promise<void> {
  const { here, there } = await audits();
  const find = (entries: readonly AuditEntry[]) => entries.find((one) => one.operation === operation && one.object === object);
  const [mine, theirs] = [find(here), find(there)];
  t.match(mine, { principal: { kind }, org_id: 'acme' }, `${operation} ${object}, here`);
  t.match(theirs, { principal: { kind }, org_id: 'acme', node_id: 'node-1' }, `${operation} ${object}, there`);
  t.equal(mine?.principal.id, theirs?.principal.id);
  t.ok((mine?.changes.length ?? 0) > 0, 'with what has changed');
  t.ok((theirs?.changes.length ?? 0) > 0);
}

const asked = async ({ execute }: Governed, host = 'api.openai.com', more: object = {}): Promise<unknown> => {
  const { status, body } = await execute({ org_id: 'acme', credential_hint: undefined, ...more }, { target_host: host });
  return status === 200 ? 'allow' : ((body['reason_codes'] as readonly string[] | undefined)?.[0] ?? body['error']);
};
const text = async (gw: TestGateway, path: string): Promise<string> => (await gw.admin('GET', path)).text;

for (const mode of ['self-hosted', 'managed'] as const) {
  t.test(`${mode}: credentials are stored there, with their rules, and in force here at once`, async (t) => {
    const one = await place(t, mode === 'managed' ? { GW_GATEWAY_MODE: 'managed', GW_MANAGED_MODE: 'false' } : {});
    const { gw, cp, stored } = one;
    t.equal(await asked(one), 'default_deny');
    const put = await gw.admin('PUT', '/v1/admin/credentials', CREDENTIAL);
    t.match(put, { status: 200, body: { credential_id: 'cred-1', org_id: 'acme', connector_id: 'openai', secret_source: 'stored' } });
    t.notMatch(put.text, SECRET);
    t.match(await stored('credentials', 'cred-1'), { connector_id: 'openai', mode: 'alias', org_id: 'acme' });
    t.equal(await asked(one), 'allow', 'auto.allow.openai allows what nothing else does');
    t.match(one.upstream.requests.at(-1)?.headers, { authorization: `Bearer ${SECRET}` });
    t.match((await one.manage('GET', 'policies')).body, { data: [{}, { source: 'generated', bundle_yaml: /auto\.allow\.openai/ }] });
    await isInBoth(one, t, 'credentials.put', 'cred-1', 'admin');
    t.match(await gw.admin('PUT', '/v1/admin/credentials', { ...CREDENTIAL, secret_ref: undefined, name: 'Named' }), {
      status: 200,
      body: { name: 'Named' },
    });
    t.equal(await asked(one), 'allow', 'a secret that is left out stays');

    const scoped = { credential_id: 'there', connector_id: 'anthropic', mode: 'alias', distribution: 'node_scoped', secret_ref: SECRET };
    t.match(await gw.admin('PUT', '/v1/admin/credentials', scoped), {
      status: 200,
      body: { distribution: 'node_scoped', secret_source: 'stored' },
    });
    t.notMatch(await text(gw, '/v1/admin/credentials'), '"there"', 'it is for no node yet');
    t.match(await gw.admin('PUT', '/v1/admin/credentials/there/nodes', { node_ids: ['node-1', 'other'] }), {
      status: 200,
      body: { node_ids: ['node-1', 'other'] },
    });
    t.match(await text(gw, '/v1/admin/credentials'), '"there"');
    t.match(await gw.admin('PUT', '/v1/admin/credentials/cred-1/nodes', { node_ids: ['other'] }), {
      status: 400,
      body: { error: { code: 'INVALID_ARGUMENT' } },
    });
    t.match(await gw.admin('PUT', '/v1/admin/credentials', { ...CREDENTIAL, org_id: 'globex' }), { status: 400 });
    t.match(await gw.admin('PUT', '/v1/admin/credentials', { ...CREDENTIAL, credential_id: 'bare', secret_ref: undefined }), {
      status: 400,
      body: { error: { code: 'invalid_request', details: [{ path: 'secret_ref' }] } },
    });

    t.match(await gw.admin('DELETE', '/v1/admin/credentials/cred-1'), { status: 200, body: { status: 'deleted' } });
    t.equal(await stored('credentials', 'cred-1'), undefined);
    t.equal(await asked(one), 'default_deny', 'the rule goes with its credential');
    await isInBoth(one, t, 'credentials.remove', 'cred-1', 'admin');
    t.match(await gw.admin('DELETE', '/v1/admin/credentials/cred-1'), { status: 404, body: { error: { code: 'not_found' } } });
    t.notMatch(JSON.stringify((await one.audits()).here) + JSON.stringify((await one.audits()).there), SECRET);
    t.ok(cp.plane.counts.calls.some(({ method, result }) => method === 'Write' && result === 'OK'));
  });
}

// Holds: handed-on-writes
t.test('what a management key and an assistant write goes the same way, in their name', async (t) => {
  const one = await place(t);
  const { manage, stored, tool } = one;
  t.match(await manage('PUT', 'credentials', { id: 'm-1', provider: 'openai', mode: 'alias', secret: SECRET }), {
    status: 200,
    body: { id: 'm-1' },
  });
  await isInBoth(one, t, 'mgmt.credentials.put', 'm-1', 'management_key');
  t.match(await manage('PATCH', 'credentials/m-1', { name: 'New name' }), { status: 200, body: { name: 'New name' } });
  t.match(await stored('credentials', 'm-1'), { name: 'New name' });
  t.match(codeIn(await manage('PATCH', 'credentials/m-1', { scope: 'node_scoped' })), 'invalid_request', 'its scope is fixed');
  t.equal((await manage('PATCH', 'credentials/none', { name: 'x' })).status, 404);
  t.match(await manage('PUT', 'credentials', { id: 'm-1', provider: 'openai', mode: 'alias', secret: SECRET }, { 'if-none-match': '*' }), {
    status: 412,
  });
  t.equal((await manage('DELETE', 'credentials/m-1')).status, 200);
  t.equal((await manage('DELETE', 'credentials/m-1')).status, 404);

  t.match(await manage('PUT', 'workloads', { workload_id: 'w-1', name: 'One' }), { status: 200, body: { org_id: 'acme', name: 'One' } });
  t.match(await stored('workloads', 'w-1'), { name: 'One' });
  t.equal(await asked(one, undefined, { workload_id: 'w-1' }), 'default_deny', 'it is registered');
  await isInBoth(one, t, 'mgmt.workloads.put', 'w-1', 'management_key');
  t.equal((await manage('PUT', 'workloads', { workload_id: 'default', name: 'Mine' })).status, 409, 'one that counts for every org');
  t.equal((await manage('DELETE', 'workloads/w-1')).status, 200);
  t.equal((await manage('DELETE', 'workloads/w-1')).status, 404);

  const made = await tool('create_workload', { workload_id: 'w-2', name: 'Two' });
  t.match(made, { isError: false, text: /Two/ });
  await isInBoth(one, t, 'mgmt.workloads.put', 'w-2', 'mcp_key');
  t.match(await tool('create_workload', { workload_id: 'w-2', name: 'Again' }), { isError: true, text: /precondition_failed|there/ });
  t.match(await tool('create_credential', { id: 't-1', provider: 'openai', mode: 'alias', secret: SECRET }), { isError: false });
  t.match(await stored('credentials', 't-1'), { connector_id: 'openai' });
  t.match(await tool('set_provider_mode', { provider: 'provider_b', mode: 'routing', state: 'disable' }), {
    isError: false,
    text: /provider-anthropic/,
  });
  t.match(await stored('addons', 'provider-anthropic'), { enabled: false });
});

t.test('writes of the same thing at the same moment all count, and the last one stays', async (t) => {
  const { gw, manage, stored } = await place(t);
  const many = async (write: (n: number) => Promise<{ readonly status: number }>): Promise<readonly number[]> => {
    const answers = await Promise.all(Array.from({ length: 8 }, (_, n) => write(n)));
    return answers.map(({ status }) => status).sort();
  };
  const ok = Array.from({ length: 8 }, () => 200);
  t.same(await many((n) => gw.admin('PUT', '/v1/admin/credentials', { ...CREDENTIAL, secret_ref: `${SECRET}-${n}` })), ok);
  t.same(await many((n) => manage('PUT', 'policies', { bundle_yaml: BUNDLE.replace('"7"', `"${n}"`) })), ok);
  t.same(await many((n) => manage('POST', `providers/openai/routing/${n % 2 === 0 ? 'enable' : 'disable'}`)), ok);
  t.same(await many(() => gw.admin('DELETE', '/v1/admin/credentials/cred-1')), [200, ...Array.from({ length: 7 }, () => 404)]);
  t.equal(await stored('credentials', 'cred-1'), undefined);
});

t.test('nodes of a credential are shown as they are, so that who changes the list takes it from nobody', async (t) => {
  const { manage, stored, tool } = await place(t);
  const scoped = { id: 'scoped', provider: 'openai', mode: 'alias', scope: 'node_scoped', secret: SECRET };
  t.match(await manage('PUT', 'credentials', scoped), { status: 200 });
  t.match(await manage('PATCH', 'credentials/scoped', { node_ids: ['node-2', 'node-1'] }), {
    status: 200,
    body: { node_ids: ['node-1', 'node-2'] },
  });
  const listed = (await manage('GET', 'credentials')).body as { data: readonly { node_ids?: readonly string[] }[] };
  t.same(listed.data[0]?.node_ids, ['node-1', 'node-2']);
  t.match(await tool('update_credential', { credential_id: 'scoped', node_ids: [...(listed.data[0]?.node_ids ?? []), 'node-3'] }), {
    isError: false,
    text: /node-3/,
  });
  t.match(await stored('credentials', 'scoped'), { node_ids: ['node-1', 'node-2', 'node-3'] });
});

t.test('a custom connector that is removed takes its credentials from the control plane', async (t) => {
  const one = await place(t);
  const { manage, cp, stored } = one;
  const make = async (host: string): Promise<string> => {
    const made = await manage('POST', 'connectors', { name: host, base_url: `https://${host}/v1`, auth_mode: 'bearer' });
    return (made.body as { id: string }).id;
  };
  const id = await make('llm.example.com');
  const secret = { mode: 'alias', secret: SECRET };
  t.equal((await manage('PUT', 'credentials', { id: 'of-it', provider: id, ...secret })).status, 200);
  t.equal((await manage('PUT', 'credentials', { id: 'elsewhere', provider: id, scope: 'node_scoped', ...secret })).status, 200);
  t.equal((await manage('PUT', 'credentials', { id: 'other', provider: 'openai', ...secret })).status, 200);
  t.match(await manage('DELETE', `connectors/${id}`, undefined, { 'if-match': '"another"' }), { status: 412 });
  t.ok(await stored('credentials', 'of-it'), 'nothing has changed');
  await cp.plane.state.orgs.put('acme', { gateway_writes: 'deny' }, cp.commit);
  t.match(await manage('DELETE', `connectors/${id}`), { status: 409, body: { error: { code: 'managed_remotely' } } });
  t.match(await manage('GET', `connectors/${id}`), { status: 200 }, 'its key would stay behind');
  t.equal((await manage('DELETE', `connectors/${await make('free.example.com')}`)).status, 200, 'one without a key needs nobody');
  await cp.plane.state.orgs.put('acme', { gateway_writes: 'allow' }, cp.commit);
  t.match(await manage('DELETE', `connectors/${id}`), { status: 200, body: { id, status: 'deleted' } });
  t.equal(await stored('credentials', 'of-it'), undefined);
  t.equal(await stored('credentials', 'elsewhere'), undefined, 'one that no node has goes, too');
  t.ok(await stored('credentials', 'other'));
  t.match((await manage('GET', 'credentials')).body, { data: [{ id: 'other' }] });
  t.notMatch(JSON.stringify((await manage('GET', 'policies')).body), /auto\.allow\.custom/, 'and the rule that allowed it');
  const { here, there } = await one.audits();
  const ofRemoval = ({ operation }: AuditEntry): boolean => operation === 'mgmt.connectors.remove';
  t.match(there.find(ofRemoval), { org_id: 'acme', node_id: 'node-1', principal: { kind: 'management_key' } });
  t.match(here.filter(ofRemoval).slice(0, 2), [{ object: id }, { object: 'of-it' }]);
  t.equal((await manage('DELETE', `connectors/${id}`)).status, 404);
});

t.test('a key of another org, from before there was a control plane, writes nothing of the org', async (t) => {
  const one = await linked(t);
  await one.putBundle(BUNDLE);
  const policies = tempDir(t);
  writeFileSync(join(policies, 'bundle.yaml'), BUNDLE);
  const free = await one.start({ GW_CP_ADDR: '', GW_ORG_ID: '', GW_BOOTSTRAP_TOKEN: '', GW_POLICIES_DIR: policies });
  const { key } = await (await managedOf(free.gw)).keyOf('globex');
  await free.gw.gateway.stop();

  const { state } = one.cp.plane;
  await state.entities.put('acme', 'credentials', 'theirs', { connector_id: 'openai', mode: 'alias', secret_ref: SECRET }, one.cp.commit);
  await state.entities.put('acme', 'workloads', 'theirs', { name: 'Theirs' }, one.cp.commit);
  const { gw } = await one.start();
  const globex = (await managedOf(gw)).with(key);
  t.equal((await globex('GET', 'credentials')).status, 200, 'the key is still one');
  const asks: readonly [string, string, unknown?][] = [
    ['PUT', 'credentials', { id: 'x', provider: 'openai', mode: 'alias', secret: SECRET }],
    ['PATCH', 'credentials/theirs', { name: 'Mine' }],
    ['DELETE', 'credentials/theirs'],
    ['PUT', 'workloads', { workload_id: 'x', name: 'X' }],
    ['DELETE', 'workloads/theirs'],
    ['PUT', 'policies', { bundle_yaml: BUNDLE }],
    ['POST', 'providers/openai/routing/disable'],
  ];
  for (const [method, path, body] of asks)
    t.match(await globex(method, path, body), { status: 403, body: { error: { code: 'insufficient_scope' } } }, `${method} ${path}`);
  t.match((await state.entities.get('acme', 'credentials', 'theirs')).value, { name: undefined });
  t.ok(await state.entities.get('acme', 'workloads', 'theirs'));
  t.same(await state.overlays.list('acme'), []);
  t.same(await state.entities.list('acme', 'addons'), []);
});

t.test('workloads of the admin API', async (t) => {
  const one = await place(t);
  const { gw, stored } = one;
  const workload = { workload_id: 'app', name: 'The app', default_attribution: { project_id: 'p-1' } };
  t.match(await gw.admin('PUT', '/v1/admin/workloads', workload), { status: 200, body: { ...workload, org_id: 'acme' } });
  t.match(await stored('workloads', 'app'), workload);
  t.match(await gw.admin('POST', '/v1/admin/workloads/app/token'), { status: 200 }, 'tokens are of this gateway');
  await isInBoth(one, t, 'workloads.put', 'app', 'admin');
  t.equal((await gw.admin('PUT', '/v1/admin/workloads', { ...workload, org_id: 'globex' })).status, 400);
  t.equal((await gw.admin('PUT', '/v1/admin/workloads', { ...workload, colour: 'red' })).status, 400);
  t.equal((await gw.admin('DELETE', '/v1/admin/workloads/app')).status, 200);
  t.equal((await gw.admin('DELETE', '/v1/admin/workloads/app')).status, 404);
});

t.test('add-ons, by the admin API and the management API', async (t) => {
  const one = await place(t);
  const { gw, manage, cp, stored } = one;
  await gw.admin('PUT', '/v1/admin/credentials', CREDENTIAL);
  const addon = (id: string, verb: string) => gw.admin('POST', `/v1/orgs/acme/addons/${id}/${verb}`);
  t.match(await addon('provider-openai', 'disable'), { status: 200, body: { addon_id: 'provider-openai', enabled: false, version: /\d/ } });
  t.match(await stored('addons', 'provider-openai'), { enabled: false });
  t.equal(await asked(one), 'provider_disabled');
  await isInBoth(one, t, 'addons.disable', 'provider-openai', 'admin');
  t.match(await addon('provider-openai', 'enable'), { status: 200, body: { enabled: true, enabled_at: /T/ } });
  t.equal(await asked(one), 'allow');
  t.equal((await addon('none', 'enable')).status, 404);
  t.equal((await gw.admin('POST', '/v1/orgs/globex/addons/provider-openai/enable')).status, 404);
  t.match(await manage('POST', 'providers/openai/byok/disable'), {
    status: 200,
    body: { addon_id: 'credential-byok-openai', enabled: false },
  });
  t.match(await stored('addons', 'credential-byok-openai'), { enabled: false });
  t.match(codeIn(await manage('POST', 'providers/openai/telepathy/disable')), 'mode_not_supported');
  t.match(await manage('POST', 'providers/policy-no-streaming/routing/enable'), {
    status: 200,
    body: { kind: 'policy_preset', enabled: true },
  });
  await cp.plane.state.orgs.put('acme', { plan_tier: 'starter' }, cp.commit);
  const refused = await manage('POST', 'providers/policy-eu-hosts-only/routing/enable');
  t.match([refused.status, codeIn(refused)], [400, 'invalid_policy'], 'the tier counts there');
});

t.test('overlays of the management API, which other nodes get too', async (t) => {
  const one = await place(t);
  const { gw, manage, cp, stop } = { ...one, stop: () => one.gw.gateway.stop() };
  const overlay = (rules: string): string => `schema: gw.policy_bundle.v1\ninline_rules:\n${rules}`;
  const ALLOW = overlay('  identity: [{id: all, effect: {decision: allow}}]\n');
  t.equal(await asked(one), 'default_deny');
  const put = await manage('PUT', 'policies', { bundle_yaml: ALLOW });
  t.match(put, {
    status: 200,
    body: {
      data: [
        { level: 'base', version: '7+1', sequence: 1 },
        { level: 'org', bundle_yaml: ALLOW },
      ],
    },
  });
  t.equal(await asked(one, undefined, { credential_hint: 'sk-mine' }), 'allow');
  await isInBoth(one, t, 'mgmt.policies.put', 'org', 'management_key');
  const BLOCK = overlay('  connectors: [{id: no, effect: {decision: deny, reason_codes: [not_here]}}]\n');
  t.equal((await manage('PUT', 'policies', { bundle_yaml: BLOCK, level: 'node', node_id: 'node-2' })).status, 200);
  t.equal(await asked(one, undefined, { credential_hint: 'sk-mine' }), 'allow', 'it is for another node');
  const kept = async () => (await cp.plane.state.overlays.list('acme')).find(({ id }) => id === 'org')?.bundle_yaml;
  const RULE = { layer: 'risk', rule: '{when: {field: context.purpose, equals: q}, effect: {decision: deny}}' };
  t.match(await manage('PUT', 'policies/rules/more', { ...RULE, dry_run: true }), {
    status: 200,
    body: { change: { added: ['risk/more@org'] } },
  });
  t.equal(await kept(), ALLOW, 'what is only tried is not handed on');
  const wiped = await one.tool('update_policy', { bundle_yaml: overlay('  risk: [{id: x, effect: {decision: deny}}]\n') });
  t.match(wiped.text, 'confirmation_needed');
  t.notOk((await one.tool('put_policy_rule', { rule_id: 'more', ...RULE })).isError);
  t.match(String(await kept()), /id: all[\s\S]*id: more/, 'one rule is handed on with all others as they are');
  t.equal((await manage('DELETE', 'policies/rules/more')).status, 200);
  t.notMatch(String(await kept()), 'more');
  t.match(await manage('PUT', 'policies', { bundle_yaml: 'nothing' }), {
    status: 400,
    body: { error: { code: 'invalid_policy', details: [{ line: 1 }] } },
  });
  t.same(
    (await cp.plane.state.overlays.list('acme')).map(({ id }) => id),
    ['node:node-2', 'org'],
  );
  const etag = String((await manage('GET', 'policies')).headers.get('etag'));
  t.equal((await manage('PUT', 'policies', { bundle_yaml: ALLOW, level: 'node' }, { 'if-match': etag })).status, 200);
  t.equal((await manage('PUT', 'policies', { bundle_yaml: ALLOW, level: 'node' }, { 'if-match': etag })).status, 412);
  t.equal((await manage('PUT', 'policies', { bundle_yaml: '', level: 'node' })).status, 200);

  const { token } = await cp.plane.state.tokens.issue('acme', 3_600, cp.commit);
  const dir = tempDir(t);
  const second = { GW_NODE_ID: 'node-2', GW_KEY_DIR: join(dir, 'keys'), GW_DATA_DIR: join(dir, 'data'), GW_BOOTSTRAP_TOKEN: token };
  t.equal(await asked(await one.start(second), undefined, { credential_hint: 'sk-mine' }), 'not_here', 'with what is laid over it there');
  t.equal((await manage('PUT', 'policies', { bundle_yaml: '' })).status, 200);
  t.equal(await asked(one, undefined, { credential_hint: 'sk-mine' }), 'default_deny', 'an empty text takes it away');
  await manage('PUT', 'policies', { bundle_yaml: ALLOW });
  await stop();
  await cp.plane.stop();
  t.equal(await asked(await one.start(), undefined, { credential_hint: 'sk-mine' }), 'allow', 'from what was fetched last');
  t.ok(gw);
});

t.test('an org is suspended and reactivated here', async (t) => {
  const one = await place(t);
  const { gw, cp } = one;
  await gw.admin('PUT', '/v1/admin/credentials', CREDENTIAL);
  t.match(await gw.admin('POST', '/v1/admin/org/suspend', { reason: 'unpaid' }), {
    status: 200,
    body: { org_id: 'acme', status: 'suspended', suspended_reason: 'unpaid' },
  });
  t.match(cp.plane.state.orgs.get('acme'), { status: 'suspended', suspended_reason: 'unpaid' });
  t.equal(await asked(one), 'org_suspended');
  await isInBoth(one, t, 'org.suspend', 'acme', 'admin');
  t.match(await gw.admin('POST', '/v1/admin/org/reactivate'), { status: 200, body: { status: 'active' } });
  t.equal(await asked(one), 'allow');
  await cp.plane.state.orgs.put('acme', { status: 'terminated' }, cp.commit);
  t.match(await gw.admin('POST', '/v1/admin/org/reactivate'), { status: 409, body: { error: { code: 'conflict' } } });
});

t.test('credentials of files are handed on by a reload, all of them or none', async (t) => {
  const dir = join(tempDir(t), 'credentials');
  mkdirSync(dir);
  const write = (body: string): void => writeFileSync(join(dir, 'a.yaml'), body, { mode: 0o600 });
  write(
    `credentials:\n  - {credential_id: f-1, connector_id: openai, mode: alias, secret_ref: ${SECRET}}\n  - {credential_id: f-2, connector_id: cohere, mode: alias, secret_ref: "env:NONE"}\n`,
  );
  const one = await place(t, { GW_CREDENTIALS_DIR: dir });
  t.equal(await asked(one), 'default_deny', 'a start reads none of them');
  t.match(await one.gw.admin('POST', '/v1/admin/credentials/reload'), { status: 200, body: { credentials: ['f-1', 'f-2'] } });
  t.match(await one.stored('credentials', 'f-2'), { connector_id: 'cohere' });
  t.equal(await asked(one), 'allow');
  write(
    'credentials:\n  - {credential_id: f-3, connector_id: openai, mode: alias, secret_ref: x}\n  - {credential_id: f-4, connector_id: none, mode: alias, secret_ref: x}\n',
  );
  t.equal((await one.gw.admin('POST', '/v1/admin/credentials/reload')).status, 400);
  t.equal(await one.stored('credentials', 'f-3'), undefined);
});

// Holds: handed-on-writes
t.test('where the org takes no writes they are 409, where nobody answers 503, and nothing changes', async (t) => {
  const one = await place(t);
  const { gw, manage, cp, stored } = one;
  const all = [
    () => gw.admin('PUT', '/v1/admin/credentials', CREDENTIAL),
    () => gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'w' }),
    () => gw.admin('POST', '/v1/admin/org/suspend', {}),
    () => gw.admin('POST', '/v1/orgs/acme/addons/provider-openai/disable'),
    () => manage('PUT', 'policies', { bundle_yaml: BUNDLE }),
    () => manage('POST', 'providers/openai/routing/disable'),
    () => manage('PUT', 'credentials', { id: 'x', provider: 'openai', mode: 'alias', secret: SECRET }),
    () => manage('DELETE', 'workloads/w'),
  ];
  await cp.plane.state.orgs.put('acme', { gateway_writes: 'deny' }, cp.commit);
  const before = (await one.audits()).here.length;
  for (const [at, ask] of all.entries())
    t.match(await ask(), { status: 409, body: { error: { code: 'managed_remotely' } } }, `write ${at}`);
  t.equal(await stored('credentials', 'cred-1'), undefined);
  t.equal((await one.audits()).here.length, before, 'a refused write is in no trail');
  await cp.plane.state.orgs.put('acme', { gateway_writes: 'allow' }, cp.commit);
  t.equal((await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'w' })).status, 200, 'as soon as it takes them again');
  await cp.plane.stop();
  for (const [at, ask] of all.entries())
    t.match(await ask(), { status: 503, body: { error: { code: 'control_plane_unreachable' } } }, `write ${at}`);
  one.clock.advance(2_000);
  await until('offline', async () => (await text(gw, '/healthz')).includes('"cp_status":"offline"'));
  t.equal((await gw.admin('GET', '/v1/admin/org')).status, 200, 'reading goes on');
});
