// Policy and add-ons of a gateway come from a real control plane: by check-ins, by the stream of managed mode, and from what is kept when it is away.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type RunningControlPlane, runControlPlane } from '../support/control-plane.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import type { TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { tempDir } from '../support/temp-dir.ts';

const PATH = '/v1/chat/completions';
const chat = (headers: readonly string[] = [], path = `/proxy/openai${PATH}`) => ({
  method: 'POST',
  path,
  headers: ['Content-Type', 'application/json', 'Authorization', 'Bearer sk-caller', ...headers],
  body: JSON.stringify(CHAT),
});
const named = (bundleId: string): string => ALLOW_ALL.replace('bundle_id: test', `bundle_id: ${bundleId}`);

interface Linked {
  readonly cp: RunningControlPlane;
  readonly clock: FakeClock;
  /** Starts the gateway, in the same folders each time. */
  start(env?: Readonly<Record<string, string>>): Promise<Governed>;
  putBundle(yaml: string): Promise<unknown>;
}

async function linked(t: Test): Promise<Linked> {
  const clock = fakeClock(Date.now());
  const cp = await runControlPlane(t, { clock });
  await cp.plane.state.orgs.put('acme', {}, cp.commit);
  const { token } = await cp.plane.state.tokens.issue('acme', 3_600, cp.commit);
  const dir = tempDir(t);
  const settings = {
    GW_CP_ADDR: `127.0.0.1:${cp.plane.grpcPort}`,
    GW_ORG_ID: 'acme',
    GW_NODE_ID: 'node-1',
    GW_KEY_DIR: join(dir, 'keys'),
    GW_DATA_DIR: join(dir, 'data'),
    GW_POLICIES_DIR: join(dir, 'nowhere'),
    GW_BOOTSTRAP_TOKEN: token,
  };
  return {
    cp,
    clock,
    start: (env = {}) => startGoverned(t, { clock, env: { ...settings, ...env } }),
    putBundle: (yaml) => cp.plane.state.bundles.put('acme', yaml, cp.commit),
  };
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (let turns = 0; !(await holds()); turns++) {
    if (turns > 5_000) throw new Error(`never: ${what}`);
    await new Promise(setImmediate);
  }
}

const active = async (gw: TestGateway): Promise<unknown> =>
  ((await gw.admin('GET', '/v1/admin/policies')).body as { bundle_id: unknown }).bundle_id;
const inForce = (gw: TestGateway, bundleId: string): Promise<void> => until(bundleId, async () => (await active(gw)) === bundleId);
const warnings = async (gw: TestGateway): Promise<readonly string[]> => {
  const { warnings: told = [] } = (await gw.admin('GET', '/healthz')).body as { warnings?: readonly { code: string }[] };
  return told.map(({ code }) => code);
};

t.test('without a bundle every door denies, with a record; the bundle of the control plane counts from its check-in on', async (t) => {
  const { clock, start, putBundle } = await linked(t);
  const governed = await start();
  const { gw, send, through, execute, recordOf, upstream } = governed;
  const denied = { decision: 'deny', reason_codes: ['no_bundle'], org_id: 'acme' };
  const org = ['X-GW-Org-ID', 'acme'];
  for (const [door, answer] of [
    ['base URL', await send(chat(org))],
    ['absolute-form', await send({ ...chat(org, `http://api.openai.com${PATH}`), host: 'api.openai.com' })],
    ['in a tunnel', await through('api.openai.com:443', chat(org, PATH))],
  ] as const) {
    t.equal(answer.status, 403, door);
    t.match(await recordOf(answer), denied, door);
  }
  t.match(await execute({ org_id: 'acme' }), { status: 403, body: { decision: 'deny', reason_codes: ['no_bundle'] } });
  t.equal(upstream.requests.length, 0);
  t.match(await warnings(gw), ['no_bundle']);
  t.match((await gw.admin('GET', '/v1/admin/policies')).body, { bundle_id: 'no_bundle', source: 'control_plane' });

  await putBundle(named('first'));
  clock.advance(61_000);
  await inForce(gw, 'first');
  t.equal((await send(chat(org))).status, 200);
  t.match(await gw.admin('GET', '/v1/admin/policies'), { body: { bundle_id: 'first', source: 'control_plane' } });
  t.match((await gw.admin('GET', '/healthz')).body, { bundle_id: 'first' });
  t.same(await warnings(gw), []);
});

t.test('what the control plane owns is not written here', async (t) => {
  const { start, putBundle } = await linked(t);
  await putBundle(named('first'));
  const { gw } = await start();
  t.equal(await active(gw), 'first', 'it is fetched before the ports are open');
  t.match(await gw.admin('POST', '/v1/admin/policies/reload'), { status: 400, body: { error: { code: 'invalid_request' } } });
  const owned = { status: 409, body: { error: { code: 'managed_remotely' } } };
  t.match(await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: ALLOW_ALL }), owned);
  t.match(await gw.admin('POST', '/v1/orgs/acme/addons/provider-openai/disable'), owned);
  t.equal((await gw.admin('POST', '/v1/orgs/acme/addons/none/disable')).status, 404);
  t.equal((await gw.admin('GET', '/v1/orgs/globex/addons')).status, 404);
});

t.test(
  'what was fetched last is in force from the start when the control plane is away; a cleared cache denies everything then',
  async (t) => {
    const { cp, start, putBundle } = await linked(t);
    await putBundle(named('first'));
    const one = await start();
    t.equal((await one.gw.admin('DELETE', '/v1/admin/policy/cache')).status, 204);
    t.equal(await active(one.gw), 'first', 'what runs runs on');
    t.match((await one.gw.admin('GET', '/v1/admin/audit?limit=1')).body, { items: [{ operation: 'policy_cache.clear' }] });
    await one.gw.gateway.stop();
    const two = await start();
    t.equal(await active(two.gw), 'first', 'it is fetched anew');
    await two.gw.gateway.stop();
    await cp.plane.stop();
    const three = await start();
    t.equal(await active(three.gw), 'first', 'from the cache');
    t.equal((await three.send(chat(['X-GW-Org-ID', 'acme']))).status, 200);
    t.equal((await three.gw.admin('DELETE', '/v1/admin/policy/cache')).status, 204);
    await three.gw.gateway.stop();
    const four = await start();
    t.equal(await active(four.gw), 'no_bundle');
    t.equal((await four.send(chat(['X-GW-Org-ID', 'acme']))).status, 403);
  },
);

t.test('add-ons are switched at the control plane, listed here and kept', async (t) => {
  const { cp, clock, start, putBundle } = await linked(t);
  await putBundle(named('first'));
  const { gw, send, recordOf } = await start();
  const listed = async () => {
    const { body } = await gw.admin('GET', '/v1/orgs/acme/addons');
    const { addons } = body as { addons: readonly { addon_id: string; enabled: boolean }[] };
    return addons.find(({ addon_id: id }) => id === 'provider-openai');
  };
  const entry = { category: 'provider', kind: 'provider_integration', enabled_at: null };
  t.match(await listed(), { ...entry, enabled: true, version: /\d/ });
  await cp.plane.state.entities.put('acme', 'addons', 'provider-openai', { enabled: false }, cp.commit);
  clock.advance(61_000);
  await until('switched off', async () => (await listed())?.enabled === false);
  const answer = await send(chat(['X-GW-Org-ID', 'acme']));
  t.match([answer.status, await recordOf(answer)], [403, { reason_codes: ['provider_disabled'] }]);
  await cp.plane.state.entities.remove('acme', 'addons', 'provider-openai', cp.commit);
  clock.advance(61_000);
  await until('as it is for everybody', async () => (await listed())?.enabled === true);
  t.equal((await send(chat(['X-GW-Org-ID', 'acme']))).status, 200);
});

t.test('a managed gateway takes each change as it happens, without a check-in, and goes on where its stream broke', async (t) => {
  const { cp, clock, start, putBundle } = await linked(t);
  const managed = { GW_GATEWAY_MODE: 'managed' };
  const { gw, send } = await start(managed);
  t.equal((await send(chat(['X-GW-Org-ID', 'acme']))).status, 401, 'its callers need a key');
  await until('a stream', () => Promise.resolve(cp.plane.counts.connectedStreams === 1));
  // No time passes: nothing here waits for a timer.
  for (const name of ['one', 'two', 'three']) {
    await putBundle(named(name));
    await inForce(gw, name);
  }
  await cp.plane.state.entities.put('acme', 'addons', 'provider-openai', { enabled: false }, cp.commit);
  const isOff = async (): Promise<boolean> =>
    /"provider-openai"[^}]*"enabled":false/.test((await gw.admin('GET', '/v1/orgs/acme/addons')).text);
  await until('switched off', isOff);
  const count = async (): Promise<number> =>
    Number(/gw_config_sync_lag_seconds_count (\d+)/.exec((await gw.admin('GET', '/metrics')).text)?.[1] ?? 0);
  await until('four lags', async () => (await count()) >= 4);
  t.match((await gw.admin('GET', '/metrics')).text, /gw_config_sync_lag_seconds_bucket\{le="1"\} [4-9]/);
  clock.advance(1_000);
  // Another stream of the node ends its own, as a cut of the connection does.
  await gw.gateway.stop();
  await until('no stream', () => Promise.resolve(cp.plane.counts.connectedStreams === 0));
  await putBundle(named('four'));
  const again = await start(managed);
  await inForce(again.gw, 'four');
  t.ok(await until('a stream', () => Promise.resolve(cp.plane.counts.connectedStreams === 1)).then(() => true));
});

t.test('a self-hosted gateway holds no stream open', async (t) => {
  const { cp, start, putBundle } = await linked(t);
  await putBundle(named('first'));
  const { gw } = await start();
  t.equal(await active(gw), 'first');
  t.equal(cp.plane.counts.connectedStreams, 0);
});
