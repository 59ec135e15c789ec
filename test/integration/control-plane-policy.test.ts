// Policy and add-ons of a gateway come from a real control plane: by check-ins, by the stream of managed mode, and from
// what is kept when it is away.
import t from 'tap';
import type { TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, CHAT, type Governed } from '../support/governed.ts';
import { linked, named, until } from '../support/linked-gateway.ts';

const PATH = '/v1/chat/completions';
const chat = (headers: readonly string[] = [], path = `/proxy/openai${PATH}`) => ({
  method: 'POST',
  path,
  headers: ['Content-Type', 'application/json', 'Authorization', 'Bearer sk-caller', ...headers],
  body: JSON.stringify(CHAT),
});
const active = async (gw: TestGateway): Promise<unknown> =>
  ((await gw.admin('GET', '/v1/admin/policies')).body as { bundle_id: unknown }).bundle_id;
const inForce = (gw: TestGateway, bundleId: string): Promise<void> => until(bundleId, async () => (await active(gw)) === bundleId);
const warnings = async (gw: TestGateway): Promise<readonly string[]> => {
  const { warnings: told = [] } = (await gw.admin('GET', '/healthz')).body as { warnings?: readonly { code: string }[] };
  return told.map(({ code }) => code);
};

// Holds: bundles-are-signed
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

t.test('the tier of the control plane counts over GW_PLAN_TIER, also before it answers', async (t) => {
  const { cp, clock, start, putBundle } = await linked(t);
  const custom = ALLOW_ALL.replace(
    'inline_rules:\n',
    'inline_rules:\n  custom.own: [{id: x, when: {field: context.purpose, equals: no}, effect: {decision: deny}}]\n',
  );
  await putBundle(custom);
  const one = await start({ GW_PLAN_TIER: 'starter' });
  const asked = async ({ execute }: Governed): Promise<unknown> => {
    const { status, body } = await execute({ org_id: 'acme' });
    return status === 200 ? 'allow' : (body['reason_codes'] as readonly string[] | undefined)?.[0];
  };
  t.equal(await asked(one), 'allow', 'enterprise includes custom layers');
  const tell = async (tier: 'pro' | 'enterprise'): Promise<void> => {
    await cp.plane.state.orgs.put('acme', { plan_tier: tier }, cp.commit);
    clock.advance(61_000);
  };
  await tell('pro');
  await until('denied', async () => (await asked(one)) === 'bundle_not_loaded');
  t.match((await one.gw.admin('GET', '/healthz')).body, {
    bundle_id: 'test',
    warnings: [{ code: 'policy_not_loaded', message: /everything is denied.*pro does not include the layer custom\.own/ }],
  });
  await tell('enterprise');
  await until('allowed again', async () => (await asked(one)) === 'allow');
  t.same(await warnings(one.gw), []);
  await one.gw.gateway.stop();
  await cp.plane.stop();
  t.equal(await asked(await start({ GW_PLAN_TIER: 'starter' })), 'allow', 'from what was heard last');
});

t.test('versions of bundles are shown alike on both sides', async (t) => {
  const { cp, clock, start, putBundle } = await linked(t);
  await putBundle(named('first'));
  const { gw } = await start();
  await putBundle(named('second'));
  clock.advance(61_000);
  await inForce(gw, 'second');
  const there = await cp.plane.state.bundles.get('acme');
  const names = { version: '7+2', sequence: 2, kid: there?.kid };
  t.match(there, names);
  t.match((await gw.admin('GET', '/v1/admin/policies')).body, names);
  t.match((await gw.admin('GET', '/healthz')).body, { bundle_version: names.version, bundle_sequence: 2, bundle_kid: names.kid });
  const listed = async () => (await cp.plane.state.nodes.list('acme'))[0];
  await until('a check-in', async () => (await listed())?.policy_sequence === 2);
  t.match(await listed(), { versions: { policy: names.version }, policy_sequence: 2, policy_kid: names.kid });
});

t.test('the monthly limit of the control plane counts', async (t) => {
  const { cp, start, putBundle, clock } = await linked(t);
  await putBundle(named('first'));
  await cp.plane.state.orgs.put('acme', { monthly_request_limit: 1 }, cp.commit);
  const { execute, gw } = await start({ GW_MONTHLY_REQUEST_LIMIT: '1000' });
  const asked = async (): Promise<unknown> => {
    const { status, body } = await execute({ org_id: 'acme' });
    return status === 200 ? 'allow' : body['reason'];
  };
  t.equal(await asked(), 'allow');
  t.equal(await asked(), 'monthly_request_limit_exceeded');
  const say = async (change: { monthly_request_limit?: number | null; overage_enabled?: boolean }): Promise<void> => {
    await cp.plane.state.orgs.put('acme', change, cp.commit);
    clock.advance(61_000);
  };
  await say({ overage_enabled: true });
  await until('over the limit', async () => (await asked()) === 'allow');
  await say({ monthly_request_limit: 1, overage_enabled: false });
  await until('refused', async () => (await asked()) === 'monthly_request_limit_exceeded');
  await say({ monthly_request_limit: null });
  await until('as the settings say', async () => (await asked()) === 'allow');
  t.match(await gw.admin('PUT', '/v1/admin/org-plans/acme', { monthly_request_limit: 5 }), { status: 409 });
});

t.test('what the control plane alone makes is not written here', async (t) => {
  const { start, putBundle } = await linked(t);
  await putBundle(named('first'));
  const { gw } = await start();
  t.equal(await active(gw), 'first', 'it is fetched before the ports are open');
  t.match(await gw.admin('POST', '/v1/admin/policies/reload'), { status: 400, body: { error: { code: 'invalid_request' } } });
  const owned = { status: 409, body: { error: { code: 'managed_remotely' } } };
  t.match(await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: ALLOW_ALL }), owned);
  t.match(await gw.admin('POST', '/v1/admin/api-keys', { name: 'mine' }), owned);
  t.equal((await gw.admin('POST', '/v1/orgs/acme/addons/none/disable')).status, 404);
  t.equal((await gw.admin('GET', '/v1/orgs/globex/addons')).status, 404);
});

t.test(
  'what was fetched last is in force from the start when the control plane is away; a cleared cache denies everything then',
  async (t) => {
    const { cp, start, putBundle } = await linked(t);
    await putBundle(named('first'));
    const one = await start();
    const fetched = (await one.gw.admin('GET', '/v1/admin/audit?operation=policies.fetch')).body as { items: readonly object[] };
    t.match(fetched.items, [
      { principal: { kind: 'node' }, changes: [{ member: 'bundle_id', after_value: 'first' }, { member: 'version' }] },
    ]);
    t.equal(fetched.items.length, 1);
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
