/*
 * The four ways in which a gateway runs, each from its first start to a verified record (specification, "Deployment
 * modes"; decision 13.11): free, self-hosted with a control plane, managed, and the start without a control plane that
 * was there before.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { eventually, run } from '../support/child.ts';
import { ControlPlanePlace, PLACE_BUNDLE, PLACE_SECRET, PLACE_WORKLOAD, remoteBundle } from '../support/control-plane-place.ts';
import { type GatewayProcess, gatewayEnvironment, MAIN, startGatewayProcess, startGatewayWith } from '../support/gateway-process.ts';
import { isVerified } from '../support/is-verified.ts';
import { askPublicly, LedgerJudge, strangeHash, verifiedProof } from '../support/ledger-judge.ts';
import { callThrough, PLACE_DOORS } from '../support/place-calls.ts';
import { becomes, healthOf } from '../support/said-health.ts';
import { startTlsUpstream, type TestUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const HOST = 'api.openai.com';
/** Longer than the longest wait of a channel between two attempts, on a busy machine. */
const RECONNECT_MS = 120_000;

async function startUpstream(t: Test): Promise<{ upstream: TestUpstream; env: Record<string, string> }> {
  const upstream = await startTlsUpstream({
    hosts: [HOST],
    handler: (_request, response, whole) =>
      void whole.then(() =>
        response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":11,"completion_tokens":7}}'),
      ),
  });
  t.teardown(() => upstream.close());
  return { upstream, env: towards(t, upstream, [HOST]) };
}

async function metric(gateway: GatewayProcess, name: string): Promise<number> {
  const { text } = await gateway.admin('GET', '/metrics');
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
}

/**
 * The record of a call is verified: asked of the gateway, checked against what the control plane shows to everybody.
 */
async function isProven(t: Test, place: ControlPlanePlace, gateway: GatewayProcess, recordId: string | undefined): Promise<void> {
  const record = await gateway.record(recordId);
  t.ok(isVerified(record), 'the record has the hash that it states');
  const hash = String(record['record_hash']);
  const proof = await verifiedProof((path) => gateway.admin('GET', path), hash, RECONNECT_MS);
  const judge = await LedgerJudge.read(askPublicly(place.controlPlane.url), place.org);
  t.equal(judge.check(proof, hash).record_hash, hash, 'its proof leads to a root of the chain');
}

/** Calls until policy has changed as the model says. */
function decides(t: Test, gateway: GatewayProcess, model: string, status: number, apiKey?: string): Promise<true> {
  return eventually(`${model} answered ${status}`, async () => {
    const answer = await callThrough(t, gateway, 'structured API', { model, apiKey });
    return answer.status === status ? true : undefined;
  });
}

t.test('free: files of its own, nobody else', async (t) => {
  const { env } = await startUpstream(t);
  const gateway = await startGatewayProcess(t, { bundle: PLACE_BUNDLE, env });
  t.match(await healthOf(gateway), { cp_status: 'unconfigured', bundle_id: 'small-models' });
  t.match(await gateway.admin('PUT', '/v1/admin/workloads', { workload_id: PLACE_WORKLOAD, org_id: 'acme', name: 'App' }), { status: 200 });
  const credential = { credential_id: 'mine', connector_id: 'openai', mode: 'alias', secret_ref: 'sk-mine' };
  t.match(await gateway.admin('PUT', '/v1/admin/credentials', credential), { status: 200 });
  const { status, recordId } = await callThrough(t, gateway, 'structured API');
  t.equal(status, 200);
  const record = await gateway.record(recordId);
  t.ok(isVerified(record));
  const hash = String(record['record_hash']);
  t.match(await gateway.admin('GET', `/v1/verify/${hash}`), { status: 200, body: { status: 'pending_inclusion', record_hash: hash } });
  t.match(await gateway.admin('GET', `/v1/verify/${strangeHash('nobody')}`), { status: 404 });
  t.equal(await metric(gateway, 'gw_pending_hash_submissions'), 0, 'nothing waits for whom there is not');
  t.match(await gateway.admin('POST', '/v1/admin/policies/reload'), { status: 200 });
});

t.test('self-hosted with a control plane', async (t) => {
  const { upstream, env } = await startUpstream(t);
  const place = await ControlPlanePlace.start(t);
  const gateway = await place.gateway('node-1', env);

  await t.test('it enrols, its key stays with it, and both sides say so', async (t) => {
    await becomes(gateway, { cp_status: 'connected', bundle_id: 'small-models', node_id: 'node-1' });
    const [node] = await place.listOf('/nodes');
    t.match(node, { node_id: 'node-1', org_id: place.org });
    const folder = String(gateway.env['GW_KEY_DIR']);
    const private_ = readdirSync(folder).filter((file) => /PRIVATE KEY/.test(readFileSync(join(folder, file), 'utf8')));
    t.ok(private_.length > 0);
    for (const file of private_) t.equal(statSync(join(folder, file)).mode & 0o777, 0o600, file);
  });

  for (const door of PLACE_DOORS) {
    await t.test(`${door}: policy, workload and key of the provider come from the control plane, and the record is proven`, async (t) => {
      const allowed = await callThrough(t, gateway, door);
      t.equal(allowed.status, 200, JSON.stringify(allowed.body));
      t.equal(upstream.requests.at(-1)?.headers['authorization'], `Bearer ${PLACE_SECRET}`);
      const sent = upstream.requests.length;
      const denied = await callThrough(t, gateway, door, { model: 'gpt-4o' });
      t.equal(denied.status, 403);
      t.equal(upstream.requests.length, sent, 'nothing was sent');
      const stranger = await callThrough(t, gateway, door, { workload: 'nobody-knows' });
      t.equal(stranger.status, 403);
      await Promise.all([allowed, denied, stranger].map(({ recordId }) => isProven(t, place, gateway, recordId)));
    });
  }

  await t.test('what the control plane owns is not written here', async (t) => {
    const workload = { workload_id: 'mine', org_id: place.org, name: 'Mine' };
    t.match(await gateway.admin('PUT', '/v1/admin/workloads', workload), { status: 200, text: /Mine/ });
    t.match(await place.does('GET', '/workloads/mine'), { name: 'Mine' }, 'it is handed on');
    t.match(await gateway.admin('DELETE', '/v1/admin/workloads/mine'), { status: 200 });
    await place.does('PUT', '', { gateway_writes: 'deny' });
    t.match(await gateway.admin('PUT', '/v1/admin/workloads', workload), { status: 409, text: /managed_remotely/ });
    const credential = { credential_id: 'mine', connector_id: 'openai', mode: 'alias', secret_ref: 'sk-mine' };
    t.match(await gateway.admin('PUT', '/v1/admin/credentials', credential), { status: 409, text: /managed_remotely/ });
    t.match(await gateway.admin('PUT', '/v1/admin/policies', { bundle_yaml: PLACE_BUNDLE }), { status: 409, text: /managed_remotely/ });
    t.match(await gateway.admin('POST', '/v1/admin/org/suspend', {}), { status: 409, text: /managed_remotely/ });
    t.match(await gateway.admin('POST', '/v1/admin/policies/reload'), { status: 400 });
    await place.does('PUT', '', { gateway_writes: 'allow' });
  });

  await t.test('a new bundle is in force a call later', async (t) => {
    await place.does('PUT', '/bundle', { bundle_yaml: remoteBundle('large-models', 'gpt-4o') });
    await decides(t, gateway, 'gpt-4o', 200);
    t.equal((await callThrough(t, gateway, 'structured API')).status, 403);
    await place.does('PUT', '/bundle', { bundle_yaml: PLACE_BUNDLE });
    await decides(t, gateway, 'gpt-4o-mini', 200);
  });

  await t.test('of a suspended org one request passes at most; the first that is denied learns that it is active again', async (t) => {
    await suspendAndReactivate(t, place, gateway);
  });

  await t.test('the secret of the control plane is in no file and no line of the gateway', async (t) => {
    const folders = ['GW_DATA_DIR', 'GW_KEY_DIR'].map((name) => String(gateway.env[name]));
    t.strictSame(
      folders.flatMap((folder) => filesWith(folder, PLACE_SECRET)),
      [],
    );
    t.notMatch(gateway.child.stdout + gateway.child.stderr, PLACE_SECRET);
    t.notMatch(place.controlPlane.child.stdout + place.controlPlane.child.stderr, PLACE_SECRET);
    t.strictSame(filesWith(String(place.controlPlane.env['CP_DATA_DIR']), PLACE_SECRET), []);
  });

  await t.test('a node that is revoked gives up what it was given in confidence, also when it starts again', async (t) => {
    await place.does('DELETE', '/nodes/node-1');
    await eventually('a call without a key', async () => {
      const { status } = await callThrough(t, gateway, 'structured API');
      return status === 200 ? undefined : true;
    });
    t.match(await healthOf(gateway), { cp_status: 'offline' });
    t.match((await gateway.admin('GET', '/v1/admin/credentials')).text, /^(?!.*cred-openai)/s);
    gateway.child.kill('SIGTERM');
    t.match(await gateway.child.ended, { code: 0 });
    const again = await startGatewayWith(t, gateway.env);
    const sent = upstream.requests.length;
    t.not((await callThrough(t, again, 'structured API')).status, 200);
    t.equal(upstream.requests.length, sent);
  });
});

/** A call whose hash is acknowledged: the answer to that says what has become of the org. */
async function hearsOfIt(t: Test, gateway: GatewayProcess): Promise<void> {
  const { last_hash_submit_at: before } = await healthOf(gateway);
  await callThrough(t, gateway, 'structured API');
  await eventually('the acknowledgement', async () => ((await healthOf(gateway))['last_hash_submit_at'] === before ? undefined : true));
}

/** A first call that may pass, and more when the gateway has heard of it. */
async function suspendAndReactivate(t: Test, place: ControlPlanePlace, gateway: GatewayProcess): Promise<void> {
  await place.does('PUT', '', { status: 'suspended', suspended_reason: 'unpaid' });
  await hearsOfIt(t, gateway);
  for (const door of PLACE_DOORS) {
    const { status, body, recordId } = await callThrough(t, gateway, door);
    t.equal(status, 403, door);
    t.match(body, { error: 'org_suspended' }, door);
    t.equal((await gateway.record(recordId))['decision'], 'deny', door);
  }
  await place.does('PUT', '', { status: 'active', suspended_reason: null });
  await eventually('the first that passes', async () => {
    const { status } = await callThrough(t, gateway, 'structured API');
    return status === 200 ? true : undefined;
  });
}

function filesWith(folder: string, secret: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => readFileSync(file).includes(secret));
}

t.test('managed', async (t) => {
  const { upstream, env } = await startUpstream(t);
  const place = await ControlPlanePlace.start(t);
  const gateway = await place.gateway('node-m', { ...env, GW_GATEWAY_MODE: 'managed' });
  await becomes(gateway, { cp_status: 'connected', bundle_id: 'small-models' });
  const made = await place.does('POST', '/api-keys', { name: 'the app' });
  const apiKey = String(made['key']);

  for (const door of PLACE_DOORS) {
    await t.test(`${door}: an API key of the control plane is needed`, async (t) => {
      const sent = upstream.requests.length;
      const none = await callThrough(t, gateway, door);
      t.equal(none.status, door === 'CONNECT' ? 407 : 401);
      const wrong = await callThrough(t, gateway, door, { apiKey: `gwk_${'A'.repeat(43)}` });
      t.equal(wrong.status, door === 'CONNECT' ? 407 : 401);
      t.equal(upstream.requests.length, sent);
      const good = await callThrough(t, gateway, door, { apiKey });
      t.equal(good.status, 200, JSON.stringify(good.body));
      t.equal(upstream.requests.at(-1)?.headers['authorization'], `Bearer ${PLACE_SECRET}`, 'the key that was shown is not sent on');
      await isProven(t, place, gateway, good.recordId);
    });
  }

  await t.test('what changes is in force without any call, and its delay is measured', async (t) => {
    await place.does('PUT', '/bundle', { bundle_yaml: remoteBundle('large-models', 'gpt-4o') });
    await becomes(gateway, { bundle_id: 'large-models' });
    t.equal((await callThrough(t, gateway, 'structured API', { model: 'gpt-4o', apiKey })).status, 200);
    t.ok((await metric(gateway, 'gw_config_sync_lag_seconds_count')) > 0);
    await place.does('PUT', '/bundle', { bundle_yaml: PLACE_BUNDLE });
    await becomes(gateway, { bundle_id: 'small-models' });
  });

  await t.test('updates go on where they were when the link was away', async () => {
    place.link.cut();
    await place.does('PUT', '/bundle', { bundle_yaml: remoteBundle('while-away', 'gpt-4o') });
    place.link.resume();
    await becomes(gateway, { bundle_id: 'while-away', cp_status: 'connected' }, RECONNECT_MS);
    await place.does('PUT', '/bundle', { bundle_yaml: PLACE_BUNDLE });
    await becomes(gateway, { bundle_id: 'small-models' });
  });

  await t.test('a key that is revoked lets nobody in any more', async (t) => {
    const second = await place.does('POST', '/api-keys', { name: 'for a while' });
    const short = String(second['key']);
    t.equal((await callThrough(t, gateway, 'structured API', { apiKey: short })).status, 200);
    await place.does('DELETE', `/api-keys/${String(second['id'])}`);
    await eventually('the refusal', async () =>
      (await callThrough(t, gateway, 'structured API', { apiKey: short })).status === 401 ? true : undefined,
    );
    t.equal((await callThrough(t, gateway, 'structured API', { apiKey })).status, 200, 'the other goes on');
  });

  await t.test('a suspended org is noticed without a call', async (t) => {
    await place.does('PUT', '', { status: 'suspended' });
    await eventually('the refusal', async () =>
      (await callThrough(t, gateway, 'structured API', { apiKey })).status === 403 ? true : undefined,
    );
    await place.does('PUT', '', { status: 'active' });
    await eventually('the next that passes', async () =>
      (await callThrough(t, gateway, 'structured API', { apiKey })).status === 200 ? true : undefined,
    );
  });

  await t.test('a key that was used goes on without the control plane, and one that never was does not', async (t) => {
    const unused = String((await place.does('POST', '/api-keys', { name: 'not used yet' }))['key']);
    await place.killControlPlane();
    const { status, recordId } = await callThrough(t, gateway, 'structured API', { apiKey });
    t.equal(status, 200);
    t.equal((await callThrough(t, gateway, 'structured API', { apiKey: unused })).status, 503);
    await place.startControlPlane();
    await isProven(t, place, gateway, recordId);
    t.equal((await callThrough(t, gateway, 'structured API', { apiKey: unused })).status, 200);
  });
});

t.test('without its control plane', async (t) => {
  const { env } = await startUpstream(t);
  const place = await ControlPlanePlace.start(t);
  const first = await place.gateway('node-1', env);
  await becomes(first, { cp_status: 'connected', bundle_id: 'small-models' });
  t.equal((await callThrough(t, first, 'structured API')).status, 200);

  const waiting: (string | undefined)[] = [];
  // What a subtest starts, the next one uses.
  const outlives = t;
  await t.test('it serves on from what it last fetched, and hashes wait', async (t) => {
    await place.killControlPlane();
    for (const door of PLACE_DOORS) {
      const { status, recordId } = await callThrough(t, first, door);
      t.equal(status, 200, door);
      waiting.push(recordId);
    }
    await becomes(first, { cp_status: 'offline', cp_posture: 'normal' });
    await eventually('three wait', async () => ((await metric(first, 'gw_pending_hash_submissions')) >= 3 ? true : undefined));
  });

  first.child.kill('SIGKILL');
  await first.child.ended;
  let second = first;
  await t.test('so it does when it starts so, and denies what it denied', async (t) => {
    second = await startGatewayWith(outlives, { ...first.env, GW_BOOTSTRAP_TOKEN: '' });
    t.match(await healthOf(second), { cp_status: 'offline', bundle_id: 'small-models' });
    for (const door of PLACE_DOORS) {
      const { status, recordId } = await callThrough(t, second, door);
      t.equal(status, 200, door);
      waiting.push(recordId);
      const denied = await callThrough(t, second, door, { model: 'gpt-4o' });
      t.equal(denied.status, 403, door);
      waiting.push(denied.recordId);
    }
    await eventually('what waited before the end waits still', async () =>
      (await metric(second, 'gw_pending_hash_submissions')) >= waiting.length ? true : undefined,
    );
  });

  await t.test('what waited is verified, each once, when the control plane is back', async (t) => {
    await place.startControlPlane();
    await Promise.all(waiting.map((recordId) => isProven(t, place, second, recordId)));
    await eventually('nothing waits', async () => ((await metric(second, 'gw_pending_hash_submissions')) === 0 ? true : undefined));
    await becomes(second, { cp_status: 'connected' }, RECONNECT_MS);
    t.match(String((await healthOf(second))['last_hash_submit_at']), /^\d{4}-\d\d-\d\dT/);
  });

  await t.test(
    'strict: past the grace period it refuses, with a record that is verified later; a new start changes nothing of it',
    async (t) => {
      await place.does('PUT', '', { cp_down_policy: 'strict', grace_seconds: 1 });
      await hearsOfIt(t, second);
      place.link.cut();
      const refused = await eventually('the refusal', async () => {
        const answer = await callThrough(t, second, 'structured API');
        return answer.status === 503 ? answer : undefined;
      });
      const record = await second.record(refused.recordId);
      t.match(record, { decision: 'error', reason_codes: ['control_plane_unreachable'] });
      t.match(await healthOf(second), { cp_status: 'offline', cp_posture: 'strict' });
      t.ok((await metric(second, 'gw_cp_offline_seconds')) >= 1);
      second.child.kill('SIGKILL');
      await second.child.ended;
      const third = await startGatewayWith(t, second.env);
      t.equal((await callThrough(t, third, 'structured API')).status, 503, 'grace does not begin anew');
      place.link.resume();
      await becomes(third, { cp_status: 'connected', cp_posture: 'normal' }, RECONNECT_MS);
      t.equal((await callThrough(t, third, 'structured API')).status, 200);
      await isProven(t, place, third, refused.recordId);
      third.child.kill('SIGTERM');
      t.match(await third.child.ended, { code: 0 });
    },
  );
});

t.test('permissive: past the grace period it goes on and says so', async (t) => {
  const { env } = await startUpstream(t);
  const place = await ControlPlanePlace.start(t, { cp_down_policy: 'permissive', grace_seconds: 1 });
  const gateway = await place.gateway('node-1', env);
  await becomes(gateway, { cp_status: 'connected', bundle_id: 'small-models' });
  place.link.hold();
  await eventually('the posture', async () => {
    const { status } = await callThrough(t, gateway, 'structured API');
    t.equal(status, 200);
    return (await healthOf(gateway))['cp_posture'] === 'permissive' ? true : undefined;
  });
  place.link.resume();
  await becomes(gateway, { cp_status: 'connected', cp_posture: 'normal' }, RECONNECT_MS);
});

t.test('a first start that cannot enrol ends and says what to do; one without a bundle denies', async (t) => {
  const { env } = await startUpstream(t);
  const place = await ControlPlanePlace.start(t);
  const used = await place.gatewayEnvironment('node-1', env);
  const gateway = await startGatewayWith(t, used);
  await becomes(gateway, { cp_status: 'connected' });
  const replayed = { ...(await place.gatewayEnvironment('node-2', env)), GW_BOOTSTRAP_TOKEN: String(used['GW_BOOTSTRAP_TOKEN']) };
  const refused = await run(t, process.execPath, [MAIN, 'start'], { env: replayed });
  t.equal(refused.code, 1);
  t.match(refused.stderr, /bootstrap token/i);
  const { GW_BOOTSTRAP_TOKEN: _none, ...without } = await place.gatewayEnvironment('node-3', env);
  const lacking = await run(t, process.execPath, [MAIN, 'start'], { env: { ...gatewayEnvironment(t), ...without } });
  t.equal(lacking.code, 1);
  t.match(lacking.stderr, 'GW_BOOTSTRAP_TOKEN');

  await place.controlPlane.does('PUT', '/v1/orgs/bare', {});
  const token = String((await place.controlPlane.does('POST', '/v1/orgs/bare/bootstrap-tokens', {}))['token']);
  const bare = await startGatewayWith(t, {
    ...(await place.gatewayEnvironment('node-b', env)),
    GW_ORG_ID: 'bare',
    GW_BOOTSTRAP_TOKEN: token,
  });
  await becomes(bare, { cp_status: 'connected' });
  const response = await fetch(`${bare.url}/proxy/openai/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer sk-own' },
    body: JSON.stringify({ model: 'gpt-4o-mini', messages: [] }),
  });
  t.equal(response.status, 403);
  t.match((await bare.record(response.headers.get('x-gw-record-id') ?? ''))['reason_codes'], ['no_bundle']);
});
