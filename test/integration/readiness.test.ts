// Whether calls should be sent to a gateway (decision 12.2), and what it says of itself.
import t from 'tap';
import { whyAllIsRefused } from '../../src/app/readiness.ts';
import type { PolicyService } from '../../src/services/policy/policies.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway } from '../support/gateway.ts';
import { bundleOf } from '../support/governed.ts';
import { connectPlain, h1Request } from '../support/raw-clients.ts';

async function ask(url: string, path = '/readyz') {
  const answer = await fetch(url + path);
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

t.test('it is 503 while the start-up grace lasts, then 200, on every port', async (t) => {
  const clock = fakeClock();
  const gw = await startTestGateway(t, { clock, env: { GW_HEALTHZ_STARTUP_GRACE: '10s', GW_MGMT_PORT: '0' } });
  const urls = [gw.port, gw.ambientPort, gw.gateway.managementPort].map((port) => `http://127.0.0.1:${port}`);
  for (const url of urls) t.match(await ask(url), { status: 503, body: { status: 'starting', reasons: ['starting'] } });
  t.match(await ask(gw.url, '/healthz'), { status: 200, body: { status: 'starting' } }, 'which lives all the same');
  clock.advance(10_000);
  for (const url of urls) t.strictSame(await ask(url), { status: 200, body: { status: 'ready' } });
});

t.test('it is 503 for as long as nothing can be stored', async (t) => {
  let writable = true;
  const gw = await startTestGateway(t, {
    store: (opened) => new Proxy(opened, { get: (target, name) => (name === 'writable' ? writable : bound(target, name)) }),
  });
  t.match(await ask(gw.url), { status: 200 });
  writable = false;
  t.match(await ask(gw.url), { status: 503, body: { status: 'record_store_unavailable', reasons: ['record_store_unavailable'] } });
  t.match(await ask(gw.url, '/healthz'), { status: 200, body: { warnings: [{ code: 'record_store_unavailable' }] } });
  writable = true;
  t.match(await ask(gw.url), { status: 200 });
  t.match(await ask(gw.url, '/healthz'), { status: 200, body: { warnings: [] } });
});

t.test('it is 503 while the gateway drains, to who is connected still', async (t) => {
  const gw = await startTestGateway(t);
  const socket = await connectPlain(gw.port);
  t.teardown(() => socket.destroy());
  // The server has taken the connection once it answers another one that came later.
  t.match(await ask(gw.url), { status: 200 });
  const stopped = gw.gateway.stop();
  const answer = await h1Request(socket, `127.0.0.1:${gw.port}`, { path: '/readyz' });
  t.equal(answer.status, 503);
  t.strictSame(JSON.parse(answer.body.toString()), { status: 'draining', reasons: ['draining'] });
  await stopped;
});

t.test('it is 503 with the reason while every call is refused, and 200 as soon as one may pass', async (t) => {
  const gw = await startTestGateway(t, { env: { GW_ORG_ID: 'acme' } });
  const put = (rules: string) => gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: bundleOf(rules) });
  const ready = { status: 200, body: { status: 'ready' } };
  const notReady = (...reasons: string[]) => ({ status: 503, body: { status: reasons[0], reasons } });
  t.strictSame(await ask(gw.url), ready);
  const rules: readonly (readonly [rules: string, ready: boolean])[] = [
    ['', false],
    ['  targets:\n    - {id: no, effect: {decision: deny}}\n', false],
    ['  targets:\n    - {id: no, priority: 9, effect: {decision: deny}}\n    - {id: all, effect: {decision: allow}}\n', false],
    ['  targets:\n    - {id: cap, priority: 9, effect: {budget: {usd_max: "1"}}}\n    - {id: all, effect: {decision: allow}}\n', true],
    [
      '  targets:\n    - {id: no, priority: 9, when: {field: action.target_host, equals: a.example}, effect: {decision: deny}}\n    - {id: all, effect: {decision: allow}}\n',
      true,
    ],
    ['  identity: []\n  targets:\n    - {id: all, effect: {decision: allow}}\n', false],
    ['  budgets: []\n  targets:\n    - {id: all, effect: {decision: allow}}\n', true],
    [
      '  targets:\n    - {id: one, priority: 9, when: {field: action.target_host, equals: a.example}, effect: {decision: deny}}\n    - {id: no, priority: 8, effect: {decision: deny}}\n    - {id: all, effect: {decision: allow}}\n',
      false,
    ],
    [
      '  targets:\n    - {id: one, priority: 9, when: {field: action.target_host, equals: a.example}, effect: {decision: allow}}\n    - {id: no, priority: 8, effect: {decision: deny}}\n',
      true,
    ],
    [
      '  targets:\n    - {id: all, effect: {decision: allow}}\n  budgets:\n    - {id: slow, priority: 9, effect: {decision: rate_limit, rate_limit: {requests_per_minute: 5}}}\n    - {id: no, effect: {decision: quarantine}}\n',
      false,
    ],
    [
      '  targets:\n    - {id: all, effect: {decision: allow}}\n  budgets:\n    - {id: who, effect: {decision: require_attribution, enforce_attribution: {require: [project_id]}}}\n',
      true,
    ],
    [
      '  targets:\n    - {id: all, effect: {decision: allow}}\n  budgets:\n    - {id: who, effect: {decision: require_attribution}}\n',
      false,
    ],
    [
      '  connectors:\n    - {id: c, when: {field: connector.id, equals: openai}, effect: {decision: allow}}\n  targets:\n    - {id: t, when: {field: action.target_host, equals: api.example.com}, effect: {decision: allow}}\n',
      false,
    ],
    ['  targets:\n    - {id: ask, effect: {decision: require_approval}}\n', true],
  ];
  for (const [text, isReady] of rules) {
    t.equal((await put(text)).status, 200);
    t.strictSame(await ask(gw.url), isReady ? ready : notReady('policy_denies_all'), text);
    const { body } = await ask(gw.url, '/healthz');
    const told = (body['warnings'] as { code: string }[]).map(({ code }) => code).includes('policy_denies_all');
    t.equal(told, !isReady, `${text}: health says it too`);
  }
  await gw.admin('POST', '/v1/admin/org/suspend');
  t.strictSame(await ask(gw.url), notReady('org_suspended'));
  t.match(await ask(gw.url, '/healthz'), { status: 200 }, 'a restart would not help');
  await put('');
  t.strictSame(await ask(gw.url), notReady('policy_denies_all', 'org_suspended'));
  await put('  targets:\n    - {id: all, effect: {decision: allow}}\n');
  await gw.admin('POST', '/v1/admin/org/reactivate');
  t.strictSame(await ask(gw.url), ready);
});

t.test('a rule that asks people lets nothing through where nobody can be asked', async (t) => {
  const gw = await startTestGateway(t, {
    env: { GW_APPROVAL_ENABLED: 'false' },
    bundle: bundleOf('  targets:\n    - {id: ask, effect: {decision: require_approval}}\n'),
  });
  t.match(await ask(gw.url), { status: 503, body: { reasons: ['policy_denies_all'] } });
  const rules = '  targets:\n    - {id: all, effect: {decision: allow}}\n  risk:\n    - {id: ask, effect: {decision: require_approval}}\n';
  await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: bundleOf(rules) });
  t.match(await ask(gw.url), { status: 503 }, 'beside one that allows');
});

t.test('under strict, one rule that always refuses is enough, whatever its place', async (t) => {
  const bundle = (strategy: string) =>
    `${bundleOf('  targets:\n    - {id: all, priority: 9, effect: {decision: allow}}\n    - {id: no, effect: {decision: deny}}\n')}evaluation: {merge_strategy: ${strategy}}\n`;
  const gw = await startTestGateway(t, { bundle: bundle('strict') });
  t.match(await ask(gw.url), { status: 503, body: { reasons: ['policy_denies_all'] } });
  await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: bundle('first_match') });
  t.match(await ask(gw.url), { status: 200 });
});

t.test('a layer that may not be asked refuses nothing for sure', async (t) => {
  const rules = '  identity:\n    - {id: all, effect: {decision: allow}}\n  targets:\n    - {id: no, effect: {decision: deny}}\n';
  const gw = await startTestGateway(t, { bundle: `${bundleOf(rules)}evaluation: {stop_on: [allow]}\n` });
  t.match(await ask(gw.url), { status: 200 });
  await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: bundleOf(rules) });
  t.match(await ask(gw.url), { status: 503 });
});

t.test('so is a gateway whose org is terminated, whose control plane is missed too long, and that never had a bundle', (t) => {
  const policy = { layers: [] } as unknown as ReturnType<PolicyService['current']>['policy'];
  const current = (bundle_id: string) => () =>
    ({ policy, bundle_id, source: 'control_plane' }) as unknown as ReturnType<PolicyService['current']>;
  const orgs = { status: (org_id: string) => ({ org_id, status: 'terminated' }) as const };
  const judged = (orgId: string | undefined, bundleId: string, barsAll: boolean) =>
    whyAllIsRefused({ orgId, approvalEnabled: true }, { policies: { current: current(bundleId) }, orgs, link: { barsAll } });
  t.strictSame(judged('acme', 'no_bundle', true), ['no_bundle', 'org_terminated', 'control_plane_unreachable']);
  t.strictSame(judged('acme', 'b', false), ['policy_denies_all', 'org_terminated']);
  t.strictSame(judged(undefined, 'b', false), ['policy_denies_all'], 'a gateway for every org has none of its own');
  t.end();
});

t.test('a port that others can reach and that speaks plain HTTP is a warning in its health', async (t) => {
  const open = await startTestGateway(t, { env: { GW_HOST: '0.0.0.0', GW_PROXY_AUTH: 'required' } });
  t.match(await ask(open.url, '/healthz'), { body: { warnings: [{ code: 'clear_text_beyond_loopback', message: /GW_TLS_CERT_FILE/ }] } });
  const closed = await startTestGateway(t);
  t.match(await ask(closed.url, '/healthz'), { body: { warnings: [] } });
});

function bound(target: object, name: string | symbol): unknown {
  const value: unknown = Reflect.get(target, name);
  return typeof value === 'function' ? value.bind(target) : value;
}
