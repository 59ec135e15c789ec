/* The admin API of a control plane, over its real state (decision 13.6). */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { silentLogger } from '../../src/base/lib/log.ts';
import { ENTITY_BOUNDS } from '../../src/base/model/org-bounds.ts';
import type { AdminHealth } from '../../src/control-plane/admin/admin-operation.ts';
import { ADMIN_OPERATIONS } from '../../src/control-plane/admin/admin-operation-table.ts';
import { AdminServer } from '../../src/control-plane/admin/admin-server.ts';
import { CONTROL_PLANE_METRICS } from '../../src/surfaces/metrics/control-plane-metric-table.ts';
import { MONITORING } from '../support/monitoring-files.ts';
import { namesOfExpression } from '../support/promql-names.ts';
import { PLANE_BUNDLE, PLANE_TOKEN, type RunningPlane, startPlane } from '../support/running-control-plane.ts';

const SECRET = 'sk-planted-in-the-control-plane';
const CREDENTIAL = { connector_id: 'openai', mode: 'byok', distribution: 'node_scoped', secret_ref: SECRET };

/** A body that each operation takes. */
const OVERLAY = 'schema: gw.policy_bundle.v1\ninline_rules:\n  targets: [{id: no, effect: {decision: deny}}]\n';
const BODIES: Readonly<Record<string, unknown>> = {
  'org.put': {},
  'token.create': {},
  'key.create': { name: 'ci' },
  'bundle.put': { bundle_yaml: PLANE_BUNDLE },
  'workload.put': { name: 'App' },
  'credential.put': CREDENTIAL,
  'export_destination.put': { name: 'SIEM', kind: 'webhook', config: { url: `https://siem.example/${SECRET}?k=${SECRET}`, token: SECRET } },
  'addon.put': { enabled: true },
  'overlay.put': { bundle_yaml: OVERLAY },
  'cosignature.add': { sequence: 1, cosignature: '— w AAAAAAA=' },
  'keys.rotate': {},
  'keys.finish': {},
};
const IDS: Readonly<Record<string, string>> = { addon: 'provider-openai', overlay: 'org' };

function pathFor({ path, id }: { readonly path: string; readonly id: string }, org: string, thing?: string): string {
  const [kind = ''] = id.split('.');
  return path
    .replace('{org}', org)
    .replace('{id}', thing ?? IDS[kind] ?? 'one')
    .replace('{use}', id === 'keys.finish' ? 'bundle' : 'ledger')
    .replace('{node}', 'node-1')
    .replace('{hash}', '0'.repeat(64));
}

async function acme(t: Test, settings?: Parameters<typeof startPlane>[1]): Promise<RunningPlane> {
  const running = await startPlane(t, settings);
  t.match(await running.ask('PUT', '/v1/orgs/acme', {}), { status: 200 });
  return running;
}

function pathsIn({ json }: { readonly json: Readonly<Record<string, unknown>> }): readonly string[] {
  const { details = [] } = json['error'] as { details?: readonly { path: string }[] };
  return details.map(({ path }) => path).sort();
}

/** Parameters that an operation cannot do without. */
const QUERIES: Readonly<Record<string, string>> = { 'consistency.read': 'first=1&second=1' };
/** What an org without records has none of. */
const ABSENT: readonly string[] = ['proof.read', 'consistency.read', 'checkpoint.read', 'cosignature.add'];

// Holds: no-unknown-parameter
t.test('no operation takes parameters that it does not know', async (t) => {
  const { bare } = await acme(t);
  for (const operation of ADMIN_OPERATIONS) {
    const { method, id, scope } = operation;
    const ask = (query: string) =>
      bare(method, `${pathFor(operation, 'acme')}?${[QUERIES[id], query].filter(Boolean).join('&')}`, {
        headers: { 'CP-Admin-Token': PLANE_TOKEN },
        body: method === 'GET' ? undefined : BODIES[id],
      });
    const { status, json } = await ask('nonsense=1');
    t.match({ status, json }, { status: 400, json: { error: { code: 'invalid_request', details: [{ path: 'nonsense' }] } } }, id);
    if (scope === 'none' && !ABSENT.includes(id)) t.equal((await ask('_=1')).status, 200, `${id}: what passes caches`);
    else if (scope === 'admin') t.equal((await ask('_=1')).status, 400, id);
  }
  t.equal((await bare('GET', '/metrics?nonsense=1', { headers: {} })).status, 400);
});

// Holds: control-plane-asks-its-token
t.test('without the admin token, or with another one, only what is public is answered', async (t) => {
  const { bare } = await acme(t);
  for (const operation of ADMIN_OPERATIONS) {
    const { method, scope, id } = operation;
    const path = pathFor(operation, 'acme');
    for (const headers of [{}, { 'CP-Admin-Token': 'wrong' }, { Authorization: `Bearer ${PLANE_TOKEN}` }]) {
      const { status, json } = await bare(method, path, { headers, body: method === 'GET' ? undefined : BODIES[id] });
      if (scope === 'admin') t.match({ status, json }, { status: 401, json: { error: { code: 'unauthorized' } } }, `${method} ${path}`);
      else t.not(status, 401, `${method} ${path}`);
    }
  }
});

t.test('an org is made with its defaults, and changed by what is given of it', async (t) => {
  const { ask } = await startPlane(t);
  t.match(await ask('PUT', '/v1/orgs/acme'), {
    status: 200,
    json: {
      org_id: 'acme',
      status: 'active',
      plan_tier: 'enterprise',
      cp_down_policy: 'permissive',
      redis_down_policy: 'allow',
      grace_seconds: 300,
    },
  });
  t.match(await ask('PUT', '/v1/orgs/acme', { status: 'suspended', suspended_reason: 'unpaid' }), {
    status: 200,
    json: { status: 'suspended', suspended_reason: 'unpaid', grace_seconds: 300 },
  });
  t.match(await ask('PUT', '/v1/orgs/acme', { cp_down_policy: 'strict' }), { json: { status: 'suspended', cp_down_policy: 'strict' } });
  const { json } = await ask('PUT', '/v1/orgs/acme', { status: 'active', suspended_reason: null });
  t.notOk('suspended_reason' in json);
  await ask('PUT', '/v1/orgs/beta', {});
  const { json: all } = await ask('GET', '/v1/orgs');
  t.match(all, { data: [{ org_id: 'acme' }, { org_id: 'beta' }] });
});

t.test('of a body that is wrong every member is named', async (t) => {
  const { ask } = await acme(t);
  const org = await ask('PUT', '/v1/orgs/acme', { status: 'asleep', grace_seconds: -1, colour: 'red', plan_tier: 3 });
  t.match(org, { status: 400, json: { error: { code: 'invalid_request' } } });
  t.same(pathsIn(org), ['colour', 'grace_seconds', 'plan_tier', 'status']);
  const key = await ask('POST', '/v1/orgs/acme/api-keys', { expires_at: '2020-01-01T00:00:00Z' });
  t.same([key.status, pathsIn(key)], [400, ['expires_at', 'name']]);
  const token = await ask('POST', '/v1/orgs/acme/bootstrap-tokens', { ttl_seconds: 0 });
  t.same([token.status, pathsIn(token)], [400, ['ttl_seconds']]);
  const workload = await ask('PUT', '/v1/orgs/acme/workloads/app', { name: 7, allowed_connection_types: ['smoke'] });
  t.same([workload.status, pathsIn(workload)], [400, ['allowed_connection_types[0]', 'name']]);
  const credential = await ask('PUT', '/v1/orgs/acme/credentials/c', { mode: 'loud', connector_id: 'nobody', secret_ref: 'two\nlines' });
  t.same([credential.status, pathsIn(credential)], [400, ['connector_id', 'mode', 'secret_ref']]);
  t.notMatch(credential.text, 'lines');
  t.match(await ask('PUT', '/v1/orgs/acme', [1]), { status: 400 });
  t.match(await ask('PUT', '/v1/orgs/acme', '{'), { status: 400 });
  t.match(await ask('GET', '/v1/orgs/acme/roots?after=x&colour=red'), { status: 400 });
});

t.test('tiers are starter, pro and enterprise, and no older spelling or other word is taken', async (t) => {
  const { ask } = await acme(t);
  for (const tier of ['starter', 'pro', 'enterprise'])
    t.match(await ask('PUT', '/v1/orgs/acme', { plan_tier: tier }), { json: { plan_tier: tier } });
  for (const word of ['community', 'professional', 'free', 'Pro', '', null, 1]) {
    const refused = await ask('PUT', '/v1/orgs/acme', { plan_tier: word });
    t.same([refused.status, pathsIn(refused)], [400, ['plan_tier']], String(word));
  }
  t.match((await ask('GET', '/v1/orgs/acme')).json, { plan_tier: 'enterprise' });
});

t.test('an org has a monthly limit, and says whether it takes writes of gateways', async (t) => {
  const { ask } = await acme(t);
  t.match((await ask('GET', '/v1/orgs/acme')).json, { gateway_writes: 'allow', monthly_request_limit: null, overage_enabled: false });
  const said = { gateway_writes: 'deny', monthly_request_limit: 0, overage_enabled: true };
  t.match((await ask('PUT', '/v1/orgs/acme', said)).json, said);
  t.match((await ask('PUT', '/v1/orgs/acme', { monthly_request_limit: null })).json, { ...said, monthly_request_limit: null });
  const refused = await ask('PUT', '/v1/orgs/acme', { gateway_writes: 'maybe', monthly_request_limit: -1, overage_enabled: 'yes' });
  t.same([refused.status, pathsIn(refused)], [400, ['gateway_writes', 'monthly_request_limit', 'overage_enabled']]);
});

t.test(
  'overlays are laid over a bundle on the tier of their org, listed and taken away; a preset that the tier does not include is refused',
  async (t) => {
    const { ask } = await acme(t);
    t.match(await ask('PUT', '/v1/orgs/acme/overlays/org', { bundle_yaml: OVERLAY }), {
      status: 200,
      json: { id: 'org', level: 'org', kid: String },
    });
    t.match(await ask('PUT', '/v1/orgs/acme/overlays/node:eu-1', { bundle_yaml: OVERLAY }), { json: { level: 'node', node_id: 'eu-1' } });
    t.match((await ask('GET', '/v1/orgs/acme/overlays')).json, { data: [{ id: 'node:eu-1' }, { id: 'org', bundle_yaml: OVERLAY }] });
    await ask('PUT', '/v1/orgs/acme', { plan_tier: 'starter' });
    const refused = await ask('PUT', '/v1/orgs/acme/overlays/org', { bundle_yaml: OVERLAY });
    t.match(refused, { status: 400, json: { error: { code: 'invalid_policy', details: [{ line: 3, code: 'tier_not_allowed' }] } } });
    t.match(await ask('PUT', '/v1/orgs/acme/overlays/elsewhere', { bundle_yaml: OVERLAY }), { status: 400 });
    t.match(await ask('PUT', '/v1/orgs/acme/addons/policy-eu-hosts-only', { enabled: true }), {
      status: 400,
      json: { error: { code: 'invalid_policy' } },
    });
    t.match(
      await ask('PUT', '/v1/orgs/acme/addons/policy-eu-hosts-only', { enabled: false }),
      { status: 200 },
      'switching it off is always taken',
    );
    t.match(await ask('DELETE', '/v1/orgs/acme/overlays/org'), { status: 200, json: { id: 'org', status: 'deleted' } });
    t.match(await ask('DELETE', '/v1/orgs/acme/overlays/org'), { status: 404 });
  },
);

t.test(
  'the overlays of an org have one sum of patterns beside its bundle, as at its gateways, and each change is held against it',
  async (t) => {
    const { ask } = await acme(t);
    const text = (patterns: number, letter: string) => {
      const rules = Array.from(
        { length: patterns },
        (_, i) =>
          `{id: ${letter}${i}, when: {field: context.purpose, matches: "a{0,900}b{0,900}c{0,900}d{0,900}e{0,${880 - i}}${letter}"}, effect: {decision: deny}}`,
      );
      return `schema: gw.policy_bundle.v1\ninline_rules: {risk: [${rules.join(', ')}]}\n`;
    };
    const tooLarge = { status: 400, json: { error: { code: 'invalid_policy', details: [{ code: 'patterns_too_large' }] } } };
    const put = (what: string, patterns: number, letter: string) =>
      ask('PUT', `/v1/orgs/acme/${what}`, { bundle_yaml: text(patterns, letter) });
    t.match(await put('overlays/org', 6, 'x'), tooLarge, 'alone');
    t.match(await put('bundle', 34, 'x'), tooLarge);
    t.match(await put('bundle', 6, 'b'), { status: 200 });
    t.match(await put('overlays/org', 4, 'o'), { status: 200 });
    t.match(await put('overlays/node:eu-1', 2, 'n'), tooLarge, 'with that of the org');
    t.match(await put('overlays/node:eu-1', 1, 'n'), { status: 200 });
    t.match(await put('overlays/node:eu-1', 1, 'o'), { status: 200 }, 'the same pattern counts once');
  },
);

t.test('a bundle whose gating layer has lost its last rule is taken with a warning', async (t) => {
  const { ask } = await acme(t);
  const bundle = 'schema: gw.policy_bundle.v1\ninline_rules:\n  targets: [{id: off, disabled: true, effect: {decision: deny}}]\n';
  t.match(await ask('PUT', '/v1/orgs/acme/bundle', { bundle_yaml: bundle }), {
    status: 200,
    json: { sequence: 1, warnings: [{ code: 'empties_layer', path: 'inline_rules.targets' }] },
  });
});

t.test('anything below an org that there is not is 404', async (t) => {
  const { ask } = await acme(t);
  for (const operation of ADMIN_OPERATIONS.filter(({ path, id }) => path.includes('{org}') && id !== 'org.put')) {
    const { status, json } = await ask(
      operation.method,
      `${pathFor(operation, 'nobody')}?${QUERIES[operation.id] ?? ''}`,
      BODIES[operation.id],
    );
    t.match({ status, json }, { status: 404, json: { error: { code: 'not_found' } } }, operation.id);
  }
});

t.test('a bootstrap token and an API key are shown once', async (t) => {
  const { ask, clock } = await acme(t);
  const token = await ask('POST', '/v1/orgs/acme/bootstrap-tokens', { ttl_seconds: 60 });
  t.match(token, { status: 201, json: { token: /^gwb_[\w-]{43}\.[\w-]{43}$/, expires_at: new Date(clock.now() + 60_000).toISOString() } });
  t.match(await ask('POST', '/v1/orgs/acme/bootstrap-tokens'), {
    status: 201,
    json: { expires_at: new Date(clock.now() + 3_600_000).toISOString() },
  });
  const key = await ask('POST', '/v1/orgs/acme/api-keys', { name: 'ci' });
  t.match(key, { status: 201, json: { id: String, name: 'ci', key: /^gwk_/, key_prefix: /^gwk_/ } });
  const { id, key: plain } = key.json;
  const listed = await ask('GET', '/v1/orgs/acme/api-keys');
  t.match(listed.json, { data: [{ id, name: 'ci', revoked_at: undefined }] });
  t.notOk(listed.text.includes(String(plain)));
  t.match(await ask('DELETE', `/v1/orgs/acme/api-keys/${String(id)}`), { status: 200, json: { id, revoked_at: String } });
  t.match((await ask('GET', '/v1/orgs/acme/api-keys')).json, { data: [{ id, revoked_at: String }] });
  t.match(await ask('DELETE', '/v1/orgs/acme/api-keys/none'), { status: 404 });
});

t.test('a bundle is put as JSON or as its text, and one that does not load changes nothing', async (t) => {
  const { ask, bare } = await acme(t);
  t.match(await ask('GET', '/v1/orgs/acme/bundle'), { status: 404 });
  t.match(await ask('PUT', '/v1/orgs/acme/bundle', { bundle_yaml: PLANE_BUNDLE }), {
    status: 200,
    json: { bundle_id: 'acme', version: '1', sequence: 1, kid: String },
  });
  const second = PLANE_BUNDLE.replace('"1"', '"2"');
  const headers = { 'CP-Admin-Token': PLANE_TOKEN, 'Content-Type': 'application/yaml' };
  t.match(await bare('PUT', '/v1/orgs/acme/bundle', { headers, body: second }), { status: 200, json: { version: '2', sequence: 2 } });
  const broken = await ask('PUT', '/v1/orgs/acme/bundle', { bundle_yaml: PLANE_BUNDLE.replace('decision: allow', 'decision: perhaps') });
  t.match(broken, { status: 400, json: { error: { code: 'invalid_policy', details: [{ line: Number, column: Number }] } } });
  const { json } = await ask('GET', '/v1/orgs/acme/bundle');
  t.match(json, { version: '2', sequence: 2, bundle_yaml: second });
  const bad = await bare('PUT', '/v1/orgs/acme/bundle', { headers, body: '\xff' });
  t.equal(bad.status, 400);
});

t.test('a body is at most 1 MiB, that of a bundle 4 MiB', async (t) => {
  const { ask } = await acme(t);
  const long = 'x'.repeat(1024 * 1024);
  t.match(await ask('PUT', '/v1/orgs/acme', { suspended_reason: long }), { status: 413, json: { error: { code: 'body_too_large' } } });
  t.match(await ask('PUT', '/v1/orgs/acme/bundle', { bundle_yaml: `${PLANE_BUNDLE}# ${'€'.repeat(500_000)}\n` }), { status: 200 });
  t.match(await ask('PUT', '/v1/orgs/acme/bundle', { bundle_yaml: `${PLANE_BUNDLE}# ${long}\n` }), { status: 400 });
  t.match(await ask('PUT', '/v1/orgs/acme/bundle', { bundle_yaml: long.repeat(4) }), { status: 413 });
});

t.test('what an org gives its gateways is put, shown, listed and removed, and its secrets are never shown', async (t) => {
  const { ask } = await acme(t);
  for (const [kind, name, id] of [
    ['workloads', 'workload', 'app'],
    ['credentials', 'credential', 'openai'],
    ['export-destinations', 'export_destination', 'siem'],
    ['addons', 'addon', 'provider-openai'],
  ] as const) {
    const path = `/v1/orgs/acme/${kind}`;
    const put = await ask('PUT', `${path}/${id}`, BODIES[`${name}.put`]);
    t.match(put, { status: 200, json: { id } }, kind);
    const [one, all] = [await ask('GET', `${path}/${id}`), await ask('GET', path)];
    t.same(one.json, put.json, kind);
    t.same(all.json, { data: [one.json] }, kind);
    for (const { text } of [put, one, all]) t.notOk(text.includes(SECRET), kind);
    t.match(await ask('DELETE', `${path}/${id}`), { status: 200, json: { id, status: 'deleted' } }, kind);
    t.match(await ask('GET', `${path}/${id}`), { status: 404 }, kind);
    t.match(await ask('DELETE', `${path}/${id}`), { status: 404 }, kind);
  }
});

t.test('a credential that is node_scoped is given to gateways and taken from them', async (t) => {
  const { ask } = await acme(t);
  await ask('PUT', '/v1/orgs/acme/credentials/c', CREDENTIAL);
  t.match(await ask('PUT', '/v1/orgs/acme/credentials/c/nodes/node-1'), { status: 200, json: { node_ids: ['node-1'] } });
  t.match(await ask('DELETE', '/v1/orgs/acme/credentials/c/nodes/node-1'), { status: 200, json: { node_ids: [] } });
  await ask('PUT', '/v1/orgs/acme/credentials/wide', { ...CREDENTIAL, distribution: 'org_wide' });
  t.match(await ask('PUT', '/v1/orgs/acme/credentials/wide/nodes/node-1'), { status: 409 });
});

t.test('roots, proofs, keys and the CA are open to everybody', async (t) => {
  const { plane, bare, clock } = await acme(t);
  const hash = randomBytes(32);
  const proof = `/v1/orgs/acme/proofs/${hash.toString('hex')}`;
  t.match(await bare('GET', proof), { status: 404 });
  await plane.state.registers.ledgers.submit('acme', [hash]);
  t.match(await bare('GET', proof), { status: 409 });
  clock.advance(1_000);
  while (plane.counts.pendingHashes > 0) await new Promise((resolve) => setImmediate(resolve));
  t.match(await bare('GET', proof), { status: 200, json: { schema: 'gw.inclusion_proof.v1', record_hash: hash.toString('hex') } });
  const { json } = await bare('GET', '/v1/orgs/acme/roots');
  t.match(json, { data: [{ org_id: 'acme', sequence: 1, leaf_count: 1 }] });
  t.match((await bare('GET', '/v1/orgs/acme/roots?after=1')).json, { data: [] });
  t.match((await bare('GET', '/v1/keys')).json, { data: [{ alg: 'ed25519' }, { alg: 'ed25519' }] });
  t.match(await bare('GET', '/v1/ca.crt'), { status: 200, text: /^-----BEGIN CERTIFICATE-----/ });
});

// Holds: control-plane-asks-its-token
/** There is a former key then, and nothing that it has signed. */
async function replaceBundleKey(ask: RunningPlane['ask']): Promise<void> {
  await ask('POST', '/v1/keys/bundle/rotate', { switch_at: '2020-01-01T00:00:00Z' });
  while ((await ask('GET', '/v1/keys/bundle')).json['signed_by_former'] !== 0) await new Promise((resolve) => setImmediate(resolve));
}

t.test('each change has its entry in the audit trail, and what changes nothing has none', async (t) => {
  const { ask } = await startPlane(t);
  const trail = async () => ((await ask('GET', '/v1/audit')).json['items'] ?? []) as { operation: string; org_id?: string; from: string }[];
  const created = new Map<string, string>();
  // What anybody may hand in proves itself, and is nobody's change.
  const order = ADMIN_OPERATIONS.filter(
    ({ annotations, id, scope }) => !annotations.readOnly && scope !== 'none' && !/\.(?:remove|revoke)$/.test(id),
  );
  const ends = ADMIN_OPERATIONS.filter(
    ({ annotations, id }) => !annotations.readOnly && /\.(?:remove|revoke)$/.test(id) && id !== 'node.revoke',
  );
  for (const operation of [...order, ...ends]) {
    if (operation.id === 'keys.finish') await replaceBundleKey(ask);
    const before = await trail();
    const [kind = ''] = operation.id.split('.');
    const answer = await ask(operation.method, pathFor(operation, 'acme', created.get(kind)), BODIES[operation.id]);
    t.ok(answer.status < 300, `${operation.id}: ${answer.text}`);
    if (operation.id === 'key.create') created.set('key', String(answer.json['id']));
    const after = await trail();
    t.equal(after.length, before.length + 1, operation.id);
    t.match(after[0], { operation: operation.id, principal: { kind: 'admin' }, from: '127.0.0.1' });
  }
  const before = await trail();
  await ask('PUT', '/v1/orgs/acme/bundle', { bundle_yaml: 'no bundle' });
  await ask('GET', '/v1/orgs/acme');
  t.same(await trail(), before);
  const { text } = await ask('GET', '/v1/audit');
  t.notOk(text.includes(SECRET));
  t.match((await ask('GET', '/v1/audit?operation=org.put&limit=1')).json, { items: [{ operation: 'org.put' }], next_page_token: null });
});

t.test('the audit trail of a control plane tells which rules a bundle and an overlay change', async (t) => {
  const { ask } = await acme(t);
  const newest = async () => ((await ask('GET', '/v1/audit?limit=1')).json['items'] as readonly { changes: readonly object[] }[])[0];
  const text = (decision: string) =>
    `schema: gw.policy_bundle.v1\nbundle_id: b\nversion: "1"\ninline_rules:\n  targets: [{id: x, effect: {decision: ${decision}}}]\n`;
  const put = (path: string, decision: string) => ask('PUT', path, { bundle_yaml: text(decision) });
  const changed = { entity: 'policy_rule', member: 'effect.decision', before_value: 'deny', after_value: 'allow' };
  for (const [path, rule] of [
    ['/v1/orgs/acme/bundle', 'targets/x@base'],
    ['/v1/orgs/acme/overlays/org', 'targets/x@org'],
  ] as const) {
    for (const decision of ['deny', 'allow']) t.equal((await put(path, decision)).status, 200, path);
    t.match((await newest())?.changes, [{ ...changed, rule }], path);
  }
  t.ok((await ask('DELETE', '/v1/orgs/acme/overlays/org')).status < 300);
  t.match(await newest(), { operation: 'overlay.remove', changes: [{ rule: 'targets/x@org', member: 'rule', after: null }] });
});

// Holds: control-plane-asks-its-token
t.test('no page of a browser may ask, and no Host but its own', async (t) => {
  const { plane, bare } = await acme(t);
  t.match(await bare('GET', '/healthz', { headers: { Origin: 'http://127.0.0.1' } }), {
    status: 403,
    json: { error: { code: 'origin_not_allowed' } },
  });
  const withHost = (host: string) =>
    new Promise<number>((resolve, reject) => {
      const asked = request(
        { host: '127.0.0.1', port: plane.httpPort, path: '/healthz', headers: { Host: host }, agent: false },
        (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        },
      );
      asked.on('error', reject);
      asked.end();
    });
  t.equal(await withHost('evil.example'), 421);
  t.equal(await withHost(`localhost:${plane.httpPort}`), 200);
  t.equal(await withHost('127.0.0.1'), 200);
});

t.test('health and metrics tell how it is', async (t) => {
  const { ask, bare } = await acme(t, { metricsToken: 'metrics-token-0123' });
  t.match(await bare('GET', '/healthz'), {
    status: 200,
    json: { status: 'ok', enrolled_nodes: 0, open_streams: 0, pending_hashes: 0, certificate_expires_at: String },
  });
  t.match(await bare('GET', '/metrics'), { status: 401 });
  t.match(await ask('GET', '/metrics'), { status: 401 });
  const { text } = await bare('GET', '/metrics', { headers: { Authorization: 'Bearer metrics-token-0123' } });
  t.match(text, /^cp_orgs 1$/m);
  t.match(text, /^cp_admin_requests_total\{operation="org.put",status="200"\} 1$/m);
  t.match(text, /^cp_auth_failures_total\{surface="metrics",reason="missing_header"\} 2$/m);
  t.match(text, /^cp_changes_total\{operation="org.put"\} 1$/m);
  t.match(text, /^cp_certificate_expiry_timestamp_seconds 1\d{9}$/m);
});

t.test('what is nowhere is 404, another method 405 with those that there are', async (t) => {
  const { ask } = await acme(t);
  t.match(await ask('GET', '/v1/nothing'), {
    status: 404,
    json: { error: { code: 'not_found', message: 'There is nothing at /v1/nothing.' } },
  });
  const patch = await ask('PATCH', '/v1/orgs/acme', {});
  t.equal(patch.status, 405);
  t.equal(patch.headers.get('allow'), 'GET, HEAD, PUT');
});

t.test('every metric is shown, and the alert rules name no other metric or label', async (t) => {
  const { bare } = await acme(t);
  const { text } = await bare('GET', '/metrics');
  const rows = Object.values(CONTROL_PLANE_METRICS);
  for (const { name, type } of rows) t.match(text, `# TYPE ${name} ${type}\n`);
  const labels = new Map<string, readonly string[]>([['up', []], ...rows.map((row) => [row.name, row.labels] as const)]);
  const { groups } = parse(readFileSync(join(MONITORING, 'control-plane-alert-rules.yaml'), 'utf8')) as {
    groups: { rules: { alert: string; expr: string }[] }[];
  };
  for (const { alert, expr } of groups.flatMap(({ rules }) => rules)) {
    const { metrics, grouped } = namesOfExpression(expr);
    const known = ['job', 'instance', ...metrics.flatMap(({ name }) => labels.get(name) ?? [])];
    t.ok(metrics.length > 0, alert);
    for (const { name } of metrics) t.ok(labels.has(name), `${alert}: ${name}`);
    for (const label of [...grouped, ...metrics.flatMap((one) => one.labels)]) t.ok(known.includes(label), `${alert}: ${label}`);
  }
});

t.test('while it drains health is 503; a port that another has is said in words', async (t) => {
  const { plane, clock } = await acme(t);
  const status: { now: AdminHealth['status'] } = { now: 'ok' };
  const health = () => ({
    status: status.now,
    version: '1',
    enrolled_nodes: 0,
    open_streams: 0,
    pending_hashes: 0,
    certificate_expires_at: new Date(clock.now()).toISOString(),
  });
  const serverOn = (port: number) =>
    new AdminServer({
      host: '127.0.0.1',
      port,
      names: ['localhost'],
      adminToken: PLANE_TOKEN,
      metricsToken: undefined,
      services: { state: plane.state, audit: plane.state.audit, clock, health },
      clock,
      log: silentLogger,
      events: { emit: () => undefined, hears: () => false },
    });
  await t.rejects(serverOn(plane.httpPort).open(), { message: /^CP_HTTP_PORT: port \d+ of 127\.0\.0\.1 is in use/ });
  const server = serverOn(0);
  const url = `http://127.0.0.1:${await server.open()}/healthz`;
  t.teardown(() => server.close(AbortSignal.abort()));
  t.equal((await fetch(url)).status, 200);
  status.now = 'draining';
  const answer = await fetch(url);
  t.same([answer.status, ((await answer.json()) as { status: string }).status], [503, 'draining']);
});

t.test('an org that has laid down as much as it may is told so, and another org is not', async (t) => {
  const { ask } = await acme(t);
  t.match(await ask('PUT', '/v1/orgs/globex', {}), { status: 200 });
  const put = (org: string, id: string) => ask('PUT', `/v1/orgs/${org}/export-destinations/${id}`, BODIES['export_destination.put']);
  for (let n = 0; n < ENTITY_BOUNDS.exports.org; n += 1) t.match(await put('acme', `e${n}`), { status: 200 });
  t.match(await put('acme', 'one-more'), { status: 409, json: { error: { code: 'limit_reached', message: /acme/ } } });
  t.match(await put('acme', 'e1'), { status: 200 }, 'what is there can be changed');
  t.match(await put('globex', 'one'), { status: 200 });
});

t.test('a consistency proof is asked for by two roots in their order, without a token', async (t) => {
  const { bare } = await acme(t);
  const ask = (query: string) => bare('GET', `/v1/orgs/acme/consistency?${query}`, { headers: {} });
  for (const [query, path] of [
    ['first=1', 'second'],
    ['first=0&second=1', 'first'],
    ['first=1&second=x', 'second'],
    ['first=2&second=1', 'first'],
  ] as const)
    t.match(await ask(query), { status: 400, json: { error: { code: 'invalid_request', details: [{ path }] } } }, query);
  t.match(await ask('first=1&second=1'), { status: 404, json: { error: { code: 'not_found' } } });
});
