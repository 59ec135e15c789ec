// A data folder that had a control plane, started without one: nothing of that stays in force (decision 13.13).
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ALLOW_ALL, type Governed } from '../support/governed.ts';
import { linked } from '../support/linked-gateway.ts';
import { managedOf } from '../support/managed.ts';

const overlay = (rules: string): string => `schema: gw.policy_bundle.v1\ninline_rules:\n${rules}`;

// Holds: no-former-control-plane
t.test('without GW_CP_ADDR the gateway is as one that never had a control plane, and what is made then stays', async (t) => {
  const { cp, start, putBundle, settings, clock } = await linked(t);
  const { state } = cp.plane;
  const denyAll = ALLOW_ALL.replace('decision: allow', 'decision: deny');
  await putBundle(denyAll);
  await state.orgs.put('acme', { plan_tier: 'starter', monthly_request_limit: 0 }, cp.commit);
  await state.entities.put('acme', 'credentials', 'cred', { connector_id: 'openai', mode: 'alias', secret_ref: 'sk-theirs' }, cp.commit);
  await state.entities.put('acme', 'workloads', 'theirs', { name: 'Theirs' }, cp.commit);
  await state.entities.put('acme', 'workloads', 'default', { name: 'Theirs too' }, cp.commit);
  await state.entities.put('acme', 'addons', 'provider-openai', { enabled: false }, cp.commit);
  const destination = { name: 'siem', kind: 'webhook', config: { url: 'https://siem.example.com/' } };
  await state.entities.put('acme', 'export-destinations', 'siem', destination, cp.commit);
  await state.overlays.put(
    'acme',
    'org',
    overlay('  identity: [{id: no, effect: {decision: deny, reason_codes: [by_overlay]}}]\n'),
    cp.commit,
  );
  const { plain } = await state.apiKeys.create('acme', { name: 'key' }, cp.commit);
  const one = await start();
  const look = { authorization: `Bearer ${plain}` };
  t.equal((await one.execute({ org_id: 'acme' }, {}, look)).status, 403, 'the key is known');
  t.match((await one.gw.admin('GET', '/v1/admin/workloads')).text, /Theirs too/);
  await state.orgs.put('acme', { status: 'terminated' }, cp.commit);
  clock.advance(61_000);
  await one.execute({ org_id: 'acme' });
  t.match((await one.gw.admin('POST', '/v1/admin/org/reactivate')).status, 409, 'it has heard of the end');
  await one.gw.gateway.stop();

  const policies = join(settings['GW_DATA_DIR'] ?? '', '..', 'policies');
  mkdirSync(policies);
  writeFileSync(join(policies, 'bundle.yaml'), ALLOW_ALL);
  const free = (more: Readonly<Record<string, string>> = {}): Promise<Governed> =>
    start({ GW_CP_ADDR: '', GW_POLICIES_DIR: policies, GW_BOOTSTRAP_TOKEN: '', ...more });
  const two = await free();
  const { gw, execute } = two;
  t.match((await gw.admin('GET', '/healthz')).body, { cp_status: 'unconfigured', bundle_id: 'test', bundle_version: '7', warnings: [] });
  t.match((await gw.admin('GET', '/v1/admin/policies')).body, { source: 'file', version: '7' });
  t.equal((await execute({ org_id: 'acme' })).status, 200, 'neither end, overlay, add-on, limit nor bundle');
  t.same((await gw.admin('GET', '/v1/admin/credentials')).body, { credentials: [] });
  t.same((await gw.admin('GET', '/v1/admin/workloads')).body, { workloads: [{ workload_id: 'default', name: 'Default workload' }] });
  t.same((await gw.admin('GET', '/v1/admin/api-keys')).body, { api_keys: [] });
  t.equal((await execute({ org_id: 'acme' }, {}, look)).status, 401, 'the key lets nobody in');
  const { manage } = await managedOf(gw);
  t.match((await manage('GET', 'policies')).body, { data: [{ level: 'base' }] });
  t.equal(((await manage('GET', 'policies')).body as { data: unknown[] }).data.length, 1);
  t.same(((await manage('GET', 'export/destinations')).body as { data: unknown }).data, []);
  t.equal((await manage('PUT', 'policies', { bundle_yaml: overlay('  risk: []\n') })).status, 200, 'the tier is that of the settings');
  t.equal((await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'mine' })).status, 200);
  t.equal((await gw.admin('POST', '/v1/admin/org/suspend', {})).status, 200);
  await gw.gateway.stop();

  const three = await free();
  t.match((await three.gw.admin('GET', '/v1/admin/workloads')).text, /"mine"/, 'what was made since then stays');
  t.match((await three.gw.admin('GET', '/v1/admin/org')).body, { status: 'suspended' });
  await three.gw.gateway.stop();

  await state.orgs.put('acme', { status: 'active', monthly_request_limit: null }, cp.commit);
  const four = await start();
  t.match(
    (await four.gw.admin('GET', '/v1/admin/workloads')).text,
    /Theirs too/,
    'and with the control plane everything of it is there again',
  );
  t.match((await four.execute({ org_id: 'acme' })).body, { reason_codes: ['by_overlay'] });
});

t.test('what was never fetched is of this gateway, and stays', async (t) => {
  const { start, settings, cp } = await linked(t);
  const policies = join(settings['GW_DATA_DIR'] ?? '', '..', 'policies');
  mkdirSync(policies);
  writeFileSync(join(policies, 'bundle.yaml'), ALLOW_ALL);
  const env = { GW_CP_ADDR: '', GW_POLICIES_DIR: policies, GW_BOOTSTRAP_TOKEN: '' };
  const one = await start(env);
  t.equal((await one.gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'mine' })).status, 200);
  t.equal((await one.gw.admin('POST', '/v1/admin/org/suspend', {})).status, 200);
  await one.gw.gateway.stop();
  const two = await start(env);
  t.match((await two.gw.admin('GET', '/v1/admin/workloads')).text, /"mine"/);
  t.match((await two.gw.admin('GET', '/v1/admin/org')).body, { status: 'suspended' });
  t.ok(cp);
});
