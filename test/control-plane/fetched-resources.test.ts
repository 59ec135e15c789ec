import { createPublicKey, verify } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { canonicalJson } from '../../src/base/json/jcs.ts';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import type { ControlPlaneCalls, OrgState, Versions } from '../../src/control-plane/proto/messages.ts';
import type { ProtocolClient } from '../../src/control-plane/proto/protocol-client.ts';
import { checkInclusion, readProof } from '../../src/ledger/inclusion-proof.ts';
import { readKeys } from '../../src/ledger/ledger-answers.ts';
import { checkSignature } from '../../src/ledger/merkle-root.ts';
import { faultOfCall, NOTHING_YET, PROTOCOL, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';

const SECRET = 'sk-planted-secret-of-an-org';
const BUNDLE = `schema: gw.policy_bundle.v1
bundle_id: acme-policy
version: "1.0.0"
inline_rules:
  targets:
    - {id: all, effect: {decision: allow}}
`;

function staleOf(org: OrgState | null): readonly string[] {
  return Object.entries(org?.stale ?? {}).flatMap(([name, is]) => (is === true ? [name] : []));
}

async function checkIn(client: ProtocolClient, versions: Partial<Versions> = {}): Promise<readonly string[]> {
  const request = { versions: { ...NOTHING_YET, ...versions }, gateway_version: '1.2.3', policy_sequence: '0', policy_kid: '' };
  return staleOf((await client.call(PROTOCOL.controlPlane, 'CheckIn', request, TIMEOUT_MS)).org);
}

function ask<K extends 'FetchWorkloads' | 'FetchCredentials' | 'FetchExportConfig'>(client: ProtocolClient, name: K, cursor = '') {
  return client.call<ControlPlaneCalls, K>(PROTOCOL.controlPlane, name, { cursor } as never, TIMEOUT_MS);
}

/** Members that are named by what is refused. */
async function badMembers(refused: Promise<unknown>): Promise<readonly string[]> {
  try {
    await refused;
    return ['none'];
  } catch (error) {
    return error instanceof GatewayError ? (error.details ?? []).map(({ path }) => path) : [String(error)];
  }
}

t.test('what a gateway lacks is told with every answer, by what it has said last', async (t) => {
  const { plane, commit, enrol } = await runControlPlane(t);
  const { client, answer } = await enrol('acme', 'node-1');
  const { client: other } = await enrol('acme', 'node-2');
  const all = ['workloads', 'credentials', 'export_config', 'addons', 'api_keys', 'keys', 'overlays'];
  t.same(staleOf(answer.org), all, 'of a policy there is nothing to fetch yet');
  t.same(await checkIn(client), all);
  const versions = {
    workloads: (await ask(client, 'FetchWorkloads')).version,
    credentials: (await ask(client, 'FetchCredentials')).version,
    export_config: (await ask(client, 'FetchExportConfig')).version,
    addons: (await client.call(PROTOCOL.controlPlane, 'FetchAddons', {}, TIMEOUT_MS)).version,
    keys: (await client.call(PROTOCOL.controlPlane, 'FetchKeys', {}, TIMEOUT_MS)).version,
    overlays: (await client.call(PROTOCOL.controlPlane, 'FetchOverlays', {}, TIMEOUT_MS)).version,
  };
  t.same(await checkIn(client, versions), [], 'one that names no version of API keys has heard that it is to forget them');
  await plane.state.entities.put('acme', 'workloads', 'w-1', { name: 'One' }, commit);
  const { org } = await client.call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: [] }, TIMEOUT_MS);
  t.same(staleOf(org), ['workloads'], 'also with what has nothing to do with it');
  await plane.state.apiKeys.create('acme', { name: 'key' }, commit);
  t.same(await checkIn(client, versions), ['workloads', 'api_keys']);
  const { version } = await ask(client, 'FetchWorkloads');
  t.same(await checkIn(client, { ...versions, workloads: version }), []);
  t.same(staleOf((await ask(other, 'FetchWorkloads')).org), all, 'another node is told what it lacks itself');
  t.match((await plane.state.nodes.list('acme'))[0], { gateway_version: '1.2.3', versions: { workloads: version } });
});

t.test('the state of an org is told with every answer', async (t) => {
  const { plane, commit, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  await plane.state.orgs.put('acme', { status: 'suspended', suspended_reason: 'unpaid', grace_seconds: 10 }, commit);
  const state = async () => (await ask(client, 'FetchWorkloads')).org;
  t.match(await state(), {
    status: 'suspended',
    suspended_reason: 'unpaid',
    grace_seconds: 10,
    cp_down_policy: 'permissive',
    redis_down_policy: 'allow',
  });
  await plane.state.orgs.put('acme', { status: 'active', cp_down_policy: 'strict' }, commit);
  t.match(await state(), { status: 'active', suspended_reason: '', plan_tier: 'enterprise', cp_down_policy: 'strict' });
});

t.test('a bundle is signed with its org and a sequence that never goes back; one that does not load changes nothing', async (t) => {
  const { plane, commit, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  const fetched = async () => (await client.call(PROTOCOL.controlPlane, 'FetchBundle', {}, TIMEOUT_MS)).bundle;
  t.equal(await fetched(), null);
  await plane.state.bundles.put('acme', BUNDLE, commit);
  t.same(await checkIn(client, { policy: 'other' }), [
    'policy',
    'workloads',
    'credentials',
    'export_config',
    'addons',
    'api_keys',
    'keys',
    'overlays',
  ]);
  const wrong = BUNDLE.replace('decision: allow', 'decision: perhaps');
  const refused = await plane.state.bundles.put('acme', wrong, commit).catch((error: unknown) => error);
  t.match(refused, { code: 'invalid_policy', details: [{ line: 6 }] });
  const again = await plane.state.bundles.put('acme', BUNDLE, commit);
  t.match(again, { bundle_id: 'acme-policy', sequence: 2 });
  const bundle = await fetched();
  const keys = readKeys(plane.state.keys(), 'bundle');
  const signed = { schema: 'gw.signed_bundle.v1', org_id: 'acme', version: bundle?.version, sequence: 2, sha256: sha256Hex(BUNDLE) };
  const key = keys.find(bundle?.kid ?? '');
  t.equal(Buffer.from(bundle?.bundle_yaml ?? []).toString(), BUNDLE);
  t.ok(
    key &&
      verify(
        undefined,
        Buffer.from(canonicalJson(signed)),
        createPublicKey(key.export({ format: 'pem', type: 'spki' })),
        bundle?.signature ?? Buffer.alloc(0),
      ),
  );
  t.notOk((await checkIn(client, { policy: bundle?.version ?? '' })).includes('policy'));
});

// Holds: nodes-get-their-own-org
t.test(
  'credentials go to the nodes that they are for, with their secrets, which are sealed at rest and shown to nobody else',
  async (t) => {
    const { plane, commit, enrol, dataDir } = await runControlPlane(t);
    const { client: one } = await enrol('acme', 'node-1');
    const { client: two } = await enrol('acme', 'node-2');
    const { client: stranger } = await enrol('other', 'node-1');
    const put = (id: string, body: Readonly<Record<string, unknown>>) => plane.state.entities.put('acme', 'credentials', id, body, commit);
    await put('wide', { mode: 'alias', connector_id: 'openai', secret_ref: SECRET });
    await put('scoped', { mode: 'alias', connector_id: 'openai', secret_ref: `${SECRET}-2`, distribution: 'node_scoped' });
    await put('export', { mode: 'alias', connector_id: 'openai', secret_ref: `${SECRET}-3`, type: 'export_auth' });
    const idsFor = async (client: ProtocolClient) =>
      (await ask(client, 'FetchCredentials')).credentials.map(({ credential, secret }) => [
        (JSON.parse(credential) as { credential_id: string }).credential_id,
        secret,
      ]);
    t.same(await idsFor(one), [['wide', SECRET]]);
    const assigned = await plane.state.assignments.set('acme', 'scoped', 'node-2', true, commit);
    t.same(assigned.value['node_ids'], ['node-2']);
    t.same(await idsFor(one), [['wide', SECRET]]);
    t.same(await idsFor(two), [
      ['scoped', `${SECRET}-2`],
      ['wide', SECRET],
    ]);
    t.same(await idsFor(stranger), []);
    await put('scoped', { mode: 'alias', connector_id: 'openai', name: 'Renamed' });
    t.same((await idsFor(two))[0], ['scoped', `${SECRET}-2`], 'a secret that nobody names stays, and so do the nodes');
    await plane.state.assignments.set('acme', 'scoped', 'node-2', false, commit);
    t.same(await idsFor(two), [['wide', SECRET]]);
    await t.rejects(plane.state.assignments.set('acme', 'wide', 'node-2', true, commit), { code: 'conflict' });
    t.same(await badMembers(put('scoped', { mode: 'alias', connector_id: 'openai', distribution: 'org_wide' })), ['distribution']);
    t.same(await badMembers(put('scoped', { mode: 'alias', connector_id: 'anthropic' })), ['secret_ref']);
    t.same(await badMembers(put('new', { mode: 'alias', connector_id: 'nobody', secret_ref: '\n', other: 1 })), [
      'other',
      'connector_id',
      'secret_ref',
    ]);
    const shown = JSON.stringify([
      await plane.state.entities.list('acme', 'credentials'),
      await plane.state.audit.page({}, { limit: 100, after: undefined }),
    ]);
    t.notMatch(shown, SECRET);
    const files = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    for (const { parentPath, name } of files) t.notOk(readFileSync(join(parentPath, name)).includes(SECRET), name);
  },
);

t.test('workloads, add-ons and export destinations are judged as the gateway judges them, and come in pages', async (t) => {
  const { plane, commit, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  const { entities } = plane.state;
  for (let n = 0; n < 501; n++) await entities.put('acme', 'workloads', `w-${String(n).padStart(3, '0')}`, {}, commit);
  const first = await ask(client, 'FetchWorkloads');
  const second = await ask(client, 'FetchWorkloads', first.next_cursor);
  t.same([first.workloads.length, second.workloads.length, second.next_cursor, second.version], [500, 1, '', first.version]);
  t.same(JSON.parse(second.workloads[0] ?? ''), { workload_id: 'w-500', org_id: 'acme' });
  t.same(await badMembers(entities.put('acme', 'workloads', 'w', { workload_id: 'x', org_id: 'other' }, commit)), [
    'workload_id',
    'org_id',
  ]);
  const config = { url: 'https://example.com/hook', token: SECRET };
  const shown = await entities.put('acme', 'export-destinations', 'd-1', { name: 'Hook', kind: 'webhook', config }, commit);
  t.notMatch(JSON.stringify(shown), SECRET);
  await entities.put('acme', 'export-destinations', 'd-2', { name: 'Of another', kind: 'webhook', config, node_id: 'node-2' }, commit);
  await entities.put('acme', 'export-destinations', 'd-1', { name: 'Renamed' }, commit);
  const { destinations } = await ask(client, 'FetchExportConfig');
  t.same(
    destinations.map((text) => JSON.parse(text) as unknown),
    [{ id: 'd-1', name: 'Renamed', kind: 'webhook', config, enabled: true }],
  );
  await t.rejects(entities.put('acme', 'addons', 'provider-nobody', { enabled: true }, commit), { code: 'not_found' });
  t.same(await badMembers(entities.put('acme', 'addons', 'provider-openai', { enabled: 'yes', other: 1 }, commit)), ['other', 'enabled']);
  await entities.put('acme', 'addons', 'provider-openai', { enabled: false }, commit);
  const { addons } = await client.call(PROTOCOL.controlPlane, 'FetchAddons', {}, TIMEOUT_MS);
  t.same(addons, [{ id: 'provider-openai', enabled: false, config: '' }]);
  await entities.remove('acme', 'addons', 'provider-openai', commit);
  await t.rejects(entities.get('acme', 'addons', 'provider-openai'), { code: 'not_found' });
  await t.rejects(entities.list('nobody', 'addons'), { code: 'not_found' });
});

// Holds: nodes-get-their-own-org
t.test('an API key is looked up by its hash, by nodes of its org', async (t) => {
  const { plane, commit, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  const { client: stranger } = await enrol('other', 'node-1');
  const { key, plain } = await plane.state.apiKeys.create('acme', { name: 'CI', expires_at: '2099-01-01T00:00:00Z' }, commit);
  const look = (one: ProtocolClient) =>
    one.call(PROTOCOL.controlPlane, 'LookUpApiKey', { key_hash: Buffer.from(sha256Hex(plain), 'hex') }, TIMEOUT_MS);
  t.match((await look(client)).key, { id: key.id, name: 'CI', org_id: 'acme', expires_at: '2099-01-01T00:00:00.000Z', revoked_at: '' });
  t.equal((await look(stranger)).key, null);
  const { version } = await look(client);
  await plane.state.apiKeys.revoke('acme', key.id, commit);
  const revoked = await look(client);
  t.ok(revoked.key?.revoked_at);
  t.not(revoked.version, version);
  t.notMatch(JSON.stringify(await plane.state.apiKeys.list('acme')), plain);
});

t.test('hashes are acknowledged, come under a signed root and are proved, each to its own org', async (t) => {
  const clock = fakeClock(Date.now());
  const { plane, enrol } = await runControlPlane(t, { clock });
  const { client } = await enrol('acme', 'node-1');
  const { client: stranger } = await enrol('other', 'node-1');
  const hashes = Array.from({ length: 300 }, (_, n) => Buffer.from(sha256Hex(`record ${n}`), 'hex'));
  t.equal((await client.call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes }, TIMEOUT_MS)).acknowledged, 300);
  const proofOf = (one: ProtocolClient, at: number) =>
    one.call(PROTOCOL.controlPlane, 'FetchProof', { hash: hashes[at] ?? Buffer.alloc(32) }, TIMEOUT_MS);
  while (plane.counts.pendingHashes > 44) await new Promise((resolve) => setImmediate(resolve));
  t.equal((await proofOf(client, 299)).status, 'pending_inclusion');
  t.equal((await proofOf(stranger, 0)).status, 'unknown');
  while (plane.counts.pendingHashes > 0) {
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { status, inclusion_proof: text } = await proofOf(client, 299);
  t.equal(status, 'verified');
  const proof = readProof(JSON.parse(text));
  checkInclusion(proof, hashes[299]?.toString('hex') ?? '');
  checkSignature(proof.root, readKeys(plane.state.keys(), 'ledger'));
  t.same(
    (await plane.state.ledger.roots('acme', 0, 500)).map(({ sequence, leaf_count }) => [sequence, leaf_count]),
    [
      [1, 256],
      [2, 44],
    ],
  );
  t.same(await plane.state.ledger.roots('other', 0, 500), []);
});

t.test('a report of usage is summed and says nothing else; whatever is out of bounds is refused by its name', async (t) => {
  const { plane, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  const report = (value: unknown) =>
    faultOfCall(client.call(PROTOCOL.controlPlane, 'ReportTelemetry', { report: JSON.stringify(value) }, TIMEOUT_MS));
  const usage = { requests: 2, tokens_in: 10, tokens_out: 20, models: {}, domains: {}, connection_types: {} };
  t.equal(await report({ schema: 'gw.telemetry.v2', providers: { openai: usage, 'a stranger': usage }, risk_alerts: 0 }), 'none');
  t.match(await report({ schema: 'gw.telemetry.v2', providers: { openai: { ...usage, requests: -1 } } }), /^INVALID_ARGUMENT: report /);
  t.match(await report({ schema: 'gw.telemetry.v1', providers: {} }), /^INVALID_ARGUMENT: report /);
  t.equal(plane.counts.telemetryReports, 1);
  const call = (name: 'SubmitHashes' | 'LookUpApiKey' | 'FetchProof' | 'FetchWorkloads' | 'CheckIn', request: unknown) =>
    faultOfCall(client.call(PROTOCOL.controlPlane, name, request as never, TIMEOUT_MS));
  t.match(await call('SubmitHashes', { hashes: [Buffer.alloc(31)] }), 'INVALID_ARGUMENT: hashes[0] must have 32 bytes');
  t.match(await call('SubmitHashes', { hashes: Array.from({ length: 4_097 }, () => Buffer.alloc(32)) }), /^INVALID_ARGUMENT: hashes /);
  t.match(await call('LookUpApiKey', { key_hash: Buffer.alloc(0) }), /^INVALID_ARGUMENT: key_hash /);
  t.match(await call('FetchProof', { hash: Buffer.alloc(33) }), /^INVALID_ARGUMENT: hash /);
  t.match(await call('FetchWorkloads', { cursor: 'a b' }), /^INVALID_ARGUMENT: cursor /);
  t.match(await call('CheckIn', { versions: null, gateway_version: '' }), /^INVALID_ARGUMENT: versions /);
  t.match(
    await call('CheckIn', { versions: { ...NOTHING_YET, keys: 'x'.repeat(257) }, gateway_version: '' }),
    /^INVALID_ARGUMENT: versions\.keys /,
  );
  t.match(
    plane.counts.calls.find(({ method, result }) => method === 'SubmitHashes' && result === 'INVALID_ARGUMENT'),
    { count: 2 },
  );
});
