import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { OrgChange } from '../../src/control-plane/state/control-plane-state.ts';
import { type RunningControlPlane, runControlPlane } from '../support/control-plane.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const DAY_MS = 86_400_000;
/** How often it is looked whether a renewal is due. */
const LOOKS_EVERY_MS = 6 * 3_600_000;
const BUNDLE = 'schema: gw.policy_bundle.v1\nbundle_id: none\nversion: "1"\n';

interface Place extends RunningControlPlane {
  readonly env: Readonly<Record<string, string>>;
  token(orgId?: string): Promise<string>;
  org(change: OrgChange): Promise<unknown>;
}

/** A control plane with the org `acme`, and what a gateway of it is told. */
async function place(t: HasTeardown): Promise<Place> {
  const running = await runControlPlane(t);
  const org = (change: OrgChange) => running.plane.state.orgs.put('acme', change, running.commit);
  await org({});
  const dir = tempDir(t);
  return {
    ...running,
    org,
    token: async (orgId = 'acme') => (await running.plane.state.tokens.issue(orgId, 3_600, running.commit)).token,
    env: {
      GW_CP_ADDR: `127.0.0.1:${running.plane.grpcPort}`,
      GW_ORG_ID: 'acme',
      GW_NODE_ID: 'node-1',
      GW_KEY_DIR: join(dir, 'keys'),
      GW_DATA_DIR: join(dir, 'data'),
    },
  };
}

async function failureOf(t: HasTeardown, env: Readonly<Record<string, string>>): Promise<string> {
  return await startTestGateway(t, { env }).then(
    () => 'started',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
}

async function health({ url }: TestGateway): Promise<Record<string, unknown>> {
  return (await (await fetch(`${url}/healthz`)).json()) as Record<string, unknown>;
}

/** A structured call, which policy denies where nothing else does. */
async function call({ url }: TestGateway): Promise<{ status: number; body: string }> {
  const response = await fetch(`${url}/v1/actions:execute`, {
    method: 'POST',
    body: JSON.stringify({
      schema: 'gw.action_request.v2',
      org_id: 'acme',
      workload_id: 'default',
      credential_hint: 'sk-caller',
      action: {
        type: 'ai.infer',
        method: 'POST',
        target_host: 'api.openai.com',
        params: { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] },
      },
    }),
  });
  return { status: response.status, body: await response.text() };
}

const MOST_ASKED = 20_000;

/** Calls until the answer is such. @throws Error with the last answer where it never is */
async function until<T>(ask: () => Promise<T>, isSuch: (answer: T) => boolean): Promise<T> {
  for (let asked = 1; ; asked++) {
    const answer = await ask();
    if (isSuch(answer)) return answer;
    if (asked === MOST_ASKED) throw new Error(`asked ${asked} times, and it is still ${JSON.stringify(answer)}`);
    await new Promise(setImmediate);
  }
}

async function warningsOf(gateway: TestGateway): Promise<readonly string[]> {
  const { warnings } = await health(gateway);
  return (warnings as readonly { readonly code: string }[]).map(({ code }) => code);
}

t.test('a gateway enrols with its token, keeps key and certificate to itself, and starts again without either side', async (t) => {
  const { env, token, plane } = await place(t);
  const first = await startTestGateway(t, { env: { ...env, GW_BOOTSTRAP_TOKEN: await token() } });
  t.match(await health(first), { cp_status: 'connected', cp_posture: 'normal', cp_certificate_expires_at: /^20/ });
  t.equal(statSync(join(env['GW_KEY_DIR'] ?? '', 'node.pem')).mode & 0o777, 0o600);
  t.match(await plane.state.nodes.list('acme'), [{ node_id: 'node-1' }]);
  t.match(await (await fetch(`${first.url}/metrics`)).text(), /gw_cp_connected 1\n[\s\S]*gw_cp_checkins_total\{result="ok"\} [1-9]/);
  t.match(await (await fetch(`${first.url}/metrics`)).text(), /\ngw_hash_submissions_total 0\n[\s\S]*\ngw_hashes_lost_total 0\n/);
  await first.gateway.stop();
  const again = await startTestGateway(t, { env });
  t.equal((await health(again))['cp_status'], 'connected');
  await again.gateway.stop();
  await plane.stop();
  const alone = await startTestGateway(t, { env });
  t.match(await health(alone), { cp_status: 'offline', cp_posture: 'normal', cp_offline_since: /^20/ });
  t.match(await (await fetch(`${alone.url}/metrics`)).text(), /gw_cp_connected 0\n/);
});

t.test('a first start that cannot be enrolled ends with what to do', async (t) => {
  const { env, token, plane } = await place(t);
  t.match(await failureOf(t, env), /is not enrolled .*gw control-plane token create acme/);
  const spent = await token();
  await (await startTestGateway(t, { env: { ...env, GW_BOOTSTRAP_TOKEN: spent } })).gateway.stop();
  const fresh = (more: Record<string, string>) => failureOf(t, { ...env, GW_KEY_DIR: tempDir(t), ...more });
  t.match(await fresh({ GW_BOOTSTRAP_TOKEN: spent }), /takes no such bootstrap token: .*gw control-plane token create acme/);
  t.match(await fresh({ GW_BOOTSTRAP_TOKEN: 'gwb_x' }), /is no bootstrap token/);
  const other = await place(t);
  t.match(await fresh({ GW_BOOTSTRAP_TOKEN: await other.token() }), /^ca_mismatch: What answers at .* another CA\. Nothing was sent to it/);
  t.match(await fresh({ GW_BOOTSTRAP_TOKEN: await token(), GW_ORG_ID: 'other' }), /node node-1 of org other|takes no such/);
  t.match(await failureOf(t, { ...env, GW_NODE_ID: 'node-2' }), /is that of node node-1 of org acme, and this is node node-2/);
  const late = await token();
  await plane.stop();
  t.match(await fresh({ GW_BOOTSTRAP_TOKEN: late }), /cannot be reached: .* The first start of a gateway needs it/);
});

t.test('a suspension at the control plane lets one call pass at most, and the first denied one finds that it was lifted', async (t) => {
  const { env, token, org } = await place(t);
  const clock = fakeClock(Date.now());
  const gateway = await startTestGateway(t, { clock, bundle: BUNDLE, env: { ...env, GW_BOOTSTRAP_TOKEN: await token() } });
  t.notMatch((await call(gateway)).body, /org_suspended/);
  await org({ status: 'suspended', suspended_reason: 'unpaid' });
  clock.advance(2_000);
  await call(gateway);
  const told = await until(
    () => gateway.admin('GET', '/v1/admin/org'),
    ({ text }) => text.includes('suspended'),
  );
  t.same(told.body, { org_id: 'acme', status: 'suspended', suspended_reason: 'unpaid' });
  t.match(await call(gateway), { status: 403, body: /org_suspended/ });
  await org({ status: 'active' });
  clock.advance(2_000);
  t.match(await call(gateway), { status: 403, body: /org_suspended/ });
  await until(
    () => gateway.admin('GET', '/v1/admin/org'),
    ({ text }) => text.includes('active'),
  );
  t.notMatch((await call(gateway)).body, /org_suspended/);
  t.match(await gateway.admin('POST', '/v1/admin/org/suspend'), { status: 200, body: { status: 'suspended' } });
  t.match(await org({}), { status: 'suspended' }, 'what is written here is handed on');
});

async function offlineAfter(clock: FakeClock, gateway: TestGateway): Promise<void> {
  clock.advance(61_000);
  await until(
    () => health(gateway),
    ({ cp_status: status }) => status === 'offline',
  );
}

t.test('past the grace period a strict org is refused with a record, whatever is done to the time of day', async (t) => {
  const { env, token, org, plane } = await place(t);
  await org({ cp_down_policy: 'strict', grace_seconds: 600 });
  const clock = fakeClock(Date.now());
  const options = { clock, bundle: BUNDLE, env: { ...env, GW_BOOTSTRAP_TOKEN: await token() } };
  const gateway = await startTestGateway(t, options);
  await plane.stop();
  await offlineAfter(clock, gateway);
  clock.set(clock.now() + 3_600_000);
  t.equal((await health(gateway))['cp_posture'], 'normal', 'a clock that is set forward ends nothing');
  clock.set(clock.now() - 3_600_000);
  clock.advance(300_000);
  await gateway.gateway.stop();
  const again = await startTestGateway(t, { ...options, bundle: BUNDLE });
  t.match(await health(again), { cp_status: 'offline', cp_posture: 'normal' });
  t.notMatch((await call(again)).body, /control_plane_unreachable/);
  clock.advance(301_000);
  t.equal((await health(again))['cp_posture'], 'strict', 'a restart has not begun it anew');
  const refused = await call(again);
  t.equal(refused.status, 503);
  const record = JSON.parse(refused.body) as { record_id: string };
  t.match(await again.record(record.record_id), { decision: 'error', reason_codes: ['control_plane_unreachable'], status_code: 503 });
});

t.test('a node that was revoked behaves as offline and says so', async (t) => {
  const { env, token, plane, commit } = await place(t);
  const clock = fakeClock(Date.now());
  const gateway = await startTestGateway(t, { clock, env: { ...env, GW_BOOTSTRAP_TOKEN: await token() } });
  await plane.state.nodes.revoke('acme', 'node-1', commit);
  await offlineAfter(clock, gateway);
  t.ok((await warningsOf(gateway)).includes('cp_node_revoked'));
  await gateway.gateway.stop();
  const anew = await startTestGateway(t, { clock, env: { ...env, GW_BOOTSTRAP_TOKEN: await token() } });
  t.equal((await health(anew))['cp_status'], 'connected');
  t.notOk((await warningsOf(anew)).includes('cp_node_revoked'));
});

t.test('a certificate is renewed from 14 days before its end on, with a new key', async (t) => {
  const { env, token } = await place(t);
  const clock = fakeClock(Date.now());
  const gateway = await startTestGateway(t, { clock, env: { ...env, GW_BOOTSTRAP_TOKEN: await token() } });
  const file = join(env['GW_KEY_DIR'] ?? '', 'node.pem');
  const before = readFileSync(file, 'utf8');
  const ends = Date.parse(String((await health(gateway))['cp_certificate_expires_at']));
  clock.set(ends - 14 * DAY_MS - LOOKS_EVERY_MS - 1_000);
  clock.advance(LOOKS_EVERY_MS);
  t.equal(readFileSync(file, 'utf8'), before, 'not before');
  clock.set(ends - 13 * DAY_MS);
  clock.advance(LOOKS_EVERY_MS);
  const after = await until(
    () => Promise.resolve(readFileSync(file, 'utf8')),
    (now) => now !== before,
  );
  t.equal(statSync(file).mode & 0o777, 0o600);
  const keyIn = (pem: string) => pem.split('-----END PRIVATE KEY-----')[0];
  t.not(keyIn(after), keyIn(before));
  t.equal((await health(gateway))['cp_status'], 'connected');
});
