// Refusals of keyed calls: told again to the same request alone, and not where what refused it lies outside of the
// request; and whose the kept answers are.
import t from 'tap';
import { DELEGATED_AT, everydayToken, Issuer } from '../decide/delegation/delegation-tokens.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { managedAs } from '../support/managed.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const ALLOW = '  targets:\n    - {id: all, effect: {decision: allow}}\n';
const issuer = new Issuer('ci');

type Answer = Awaited<ReturnType<Governed['execute']>>;
const isReplay = ({ headers }: Answer): boolean => headers.get('idempotent-replayed') === 'true';
const token = (more: object = {}) => issuer.text(everydayToken({ ...more }));

t.test('a refusal is told again to the identical request, and who has mended his call is judged anew', async (t) => {
  const bundle = bundleOf(`${ALLOW}  risk:
    - {id: whose, effect: {enforce_attribution: {require: [project_id]}}}
    - {id: why, when: {field: context.purpose, equals: play}, effect: {decision: deny, reason: no play}}
    - {id: who, when: {field: context.caller_id, equals: eve}, effect: {decision: deny, reason: not you}}
`);
  const env = { GW_DELEGATION_VERIFY_KEY: `ci=${issuer.publicKey}` };
  const { execute, upstream } = await startGoverned(t, { bundle, env, clock: fakeClock(DELEGATED_AT) });
  const good = { attribution: { project_id: 'p' } };
  const mended: readonly (readonly [why: string, wrong: object, right: object])[] = [
    ['attribution', {}, good],
    ['purpose', { ...good, context: { purpose: 'play' } }, { ...good, context: { purpose: 'work' } }],
    ['caller', { ...good, caller_id: 'eve' }, { ...good, caller_id: 'olga' }],
    ['delegation', { attribution: {} }, { delegation_token: token({ attribution: { defaults: { project_id: 'p' } } }) }],
  ];
  for (const [why, wrong, right] of mended) {
    const key = { idempotency_key: why };
    const first = await execute({ ...wrong, ...key });
    t.equal(first.status, 403, why);
    const again = await execute({ ...wrong, ...key, request_id: 'another' });
    t.same([isReplay(again), again.body], [true, first.body], `${why}: told again`);
    const ran = await execute({ ...right, ...key });
    t.match([ran.status, isReplay(ran)], [200, false], `${why}: judged anew`);
    const replayed = await execute({ ...right, ...key });
    t.same([isReplay(replayed), replayed.body], [true, ran.body], `${why}: what was executed is kept from then on`);
  }
  t.equal(upstream.requests.length, mended.length);
  const params = { params: { ...CHAT, temperature: 1 } };
  t.equal((await execute({ idempotency_key: 'action', ...good, caller_id: 'eve' })).status, 403);
  t.equal((await execute({ idempotency_key: 'action', ...good }, params)).status, 200, 'also with another action: nothing was executed');
  t.equal((await execute({ idempotency_key: 'action', ...good })).status, 409, 'now something was');
});

t.test(
  'whose operator has mended it is judged anew: policy, what is charged where nobody says it, the network that the call comes from',
  async (t) => {
    const rules = (more = '') => `${ALLOW}  risk:
    - {id: whose, effect: {enforce_attribution: {require: [project_id]}}}
    - {id: where, when: {field: context.caller_ip, cidr: 203.0.113.0/24}, effect: {decision: deny, reason: not from there}}
${more}`;
    const never = '    - {id: never, when: {field: context.caller_id, equals: eve}, effect: {decision: deny, reason: not you}}\n';
    const env = { GW_TRUSTED_PROXIES: '127.0.0.1' };
    const { gw, execute, upstream } = await startGoverned(t, { bundle: bundleOf(rules(never)), env });
    const given = { attribution: { project_id: 'p' } };
    const from = (ip: string) => execute({ idempotency_key: 'network', ...given }, {}, { 'x-forwarded-for': ip });
    t.equal((await from('203.0.113.9')).status, 403);
    t.equal(isReplay(await from('203.0.113.9')), true);
    t.equal((await from('198.51.100.9')).status, 200, 'from another network');

    const eve = () => execute({ idempotency_key: 'policy', caller_id: 'eve', ...given });
    t.equal((await eve()).status, 403);
    t.equal(isReplay(await eve()), true);
    const put = await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: bundleOf(rules()) });
    t.equal(put.status, 200, put.text);
    t.equal((await eve()).status, 200, 'policy lets it pass now');
    t.equal(isReplay(await eve()), true, 'and what was executed is kept');

    const bare = (key: string) => execute({ idempotency_key: key });
    for (const key of ['workload', 'org']) t.equal((await bare(key)).status, 403);
    t.equal(isReplay(await bare('workload')), true);
    const workload = { org_id: 'default', workload_id: 'default', default_attribution: { project_id: 'w' } };
    t.equal((await gw.admin('PUT', '/v1/admin/workloads', workload)).status, 200);
    t.equal((await bare('workload')).status, 200, 'its workload says it now');
    t.equal(
      (await gw.admin('PUT', '/v1/admin/workloads', { org_id: 'default', workload_id: 'default', default_attribution: null })).status,
      200,
    );
    t.equal((await bare('org')).status, 403);
    const { manage } = await managedAs(gw, 'default');
    const told = await manage('PATCH', 'org/defaults', { project_id: 'o' });
    t.equal(told.status, 200, JSON.stringify(told.body));
    t.equal((await bare('org')).status, 200, 'its org says it now');
    t.equal(upstream.requests.length, 4);
  },
);

t.test('what lies outside of the request is asked anew: money, project, credential, approval, the provider’s key', async (t) => {
  let status = 401;
  const handler: UpstreamHandler = (_request, response, body) =>
    void body.then(() => response.writeHead(status, { 'content-type': 'application/json' }).end('{}'));
  const bundle = bundleOf(`${ALLOW}  risk:
    - {id: ask, when: {field: context.action.params.user, equals: ask}, effect: {decision: require_approval, reason: ask first}}
`);
  const clock = fakeClock();
  const { gw, execute } = await startGoverned(t, { bundle, handler, clock, env: { GW_APPROVAL_REJECT_FOR: '1h' } });
  const call = (key: string, extra: object = {}, action: object = {}) => execute({ idempotency_key: key, ...extra }, action);
  for (const refused of [401, 402, 403]) {
    status = refused;
    const key = `upstream ${refused}`.replace(' ', '-');
    t.match((await call(key)).body, { result: { status_code: refused } });
    status = 200;
    t.match((await call(key)).body, { result: { status_code: 200 } }, key);
  }

  const { manage } = await managedAs(gw, 'default');
  await manage('POST', 'projects', { project_id: 'old' });
  await manage('PUT', 'projects/old', { status: 'archived' });
  const archived = { attribution: { project_id: 'old' } };
  t.match((await call('project', archived)).body, { reason_codes: ['project_archived'] });
  await manage('PUT', 'projects/old', { status: 'active' });
  t.equal((await call('project', archived)).status, 200);

  t.match((await call('credential', { credential_hint: undefined })).body, { reason_codes: ['no_credential_candidate'] });
  await gw.admin('PUT', '/v1/admin/credentials', { credential_id: 'c', connector_id: 'openai', mode: 'alias', secret_ref: 'sk-c' });
  t.equal((await call('credential', { credential_hint: undefined })).status, 200);

  const limit = await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '0.00000001', actions: ['cap'] });
  t.match((await call('limit')).body, { reason_codes: ['budget_limit_exceeded'] });
  await gw.admin('DELETE', `/v1/admin/budgets/limits/${String((limit.body as { limit_id: string }).limit_id)}`);
  t.equal((await call('limit')).status, 200);

  const ask = () => call('approval', {}, { params: { ...CHAT, user: 'ask' } });
  const waits = await ask();
  t.equal(waits.status, 202);
  await gw.admin('POST', `/v1/admin/approvals/${String(waits.body['approval_id'])}/deny`);
  t.match((await ask()).body, { reason_codes: ['approval_denied'] });
  clock.advance(3_600_000);
  const anew = await ask();
  t.equal(anew.status, 202, 'the denial is over');
  await gw.admin('POST', `/v1/admin/approvals/${String(anew.body['approval_id'])}/approve`);
  const ran = await ask();
  t.equal(ran.status, 200);
  t.same((await ask()).body, ran.body, 'and what ran is told again, though the approval is spent');
});

t.test('the key belongs to the place: a hint to another host is no replay, and nothing is executed', async (t) => {
  const { execute, upstream } = await startGoverned(t, { bundle: bundleOf(ALLOW), env: { GW_MONTHLY_REQUEST_LIMIT: '2' } });
  const first = await execute({ idempotency_key: 'k' });
  t.equal(first.status, 200);
  for (const other of [{ connector_hint: 'mistral' }, { connector_hint: 'generic_http' }])
    t.match(await execute({ idempotency_key: 'k', ...other }), { status: 409, body: { error: { code: 'idempotency_key_reused' } } });
  t.equal((await execute({ idempotency_key: 'k' }, { headers: { 'openai-organization': 'o' } })).status, 409);
  const same = [
    {},
    { connector_hint: 'openai' },
    { credential_hint: 'sk-other' },
    { attribution: { project_id: 'p' } },
    { request_id: 'r-2' },
  ];
  for (const extra of same) t.same((await execute({ idempotency_key: 'k', ...extra })).body, first.body);
  t.equal((await execute({}, { target_path: '/v1/chat/completions' })).status, 200, 'none of them has counted in the month');
  t.equal(upstream.requests.length, 2);
});

t.test('a keyed answer that was made under a delegation needs it again, and one without is none for who brings one', async (t) => {
  const env = { GW_DELEGATION_VERIFY_KEY: `ci=${issuer.publicKey}` };
  const { gw, execute, upstream } = await startGoverned(t, { bundle: bundleOf(ALLOW), env, clock: fakeClock(DELEGATED_AT) });
  const first = await execute({ idempotency_key: 'k', delegation_token: token() });
  t.equal(first.status, 200);
  const reused = { status: 409, body: { error: { code: 'idempotency_key_reused' } } };
  t.match(await execute({ idempotency_key: 'k' }), reused, 'without');
  t.match(await execute({ idempotency_key: 'k', delegation_id: 'root' }), reused, 'a name alone proves nothing');
  t.match(await execute({ idempotency_key: 'k', delegation_token: token({ delegation_id: 'other' }) }), reused);
  const narrow = token({ scope: { methods_allow: ['GET'] } });
  t.match((await execute({ idempotency_key: 'k', delegation_token: narrow })).body, { reason_codes: ['delegation_method_not_allowed'] });
  const elsewhere = token({ scope: { resource_patterns_allow: ['/v1/models'] } });
  t.match((await execute({ idempotency_key: 'k', delegation_token: elsewhere })).body, {
    reason_codes: ['delegation_resource_not_allowed'],
  });
  t.same((await execute({ idempotency_key: 'k', delegation_token: token() })).body, first.body, 'with it');
  t.equal((await gw.admin('PUT', '/v1/admin/delegations/revoked', { delegation_id: 'root' })).status < 300, true);
  t.match((await execute({ idempotency_key: 'k', delegation_token: token() })).body, { reason_codes: ['delegation_revoked'] });
  t.equal((await execute({ idempotency_key: 'bare' })).status, 200);
  t.match(await execute({ idempotency_key: 'bare', delegation_token: token({ delegation_id: 'second' }) }), reused);
  t.equal(upstream.requests.length, 2);
});

t.test(
  'no kept answer goes to who would not be let in: a suspended org, a caller in quarantine, a workload without its token',
  async (t) => {
    const bundle = bundleOf(`${ALLOW}  risk:
    - {id: hold, when: {field: context.purpose, equals: evil}, effect: {decision: quarantine, reason: held}}
`);
    const { gw, execute } = await startGoverned(t, { bundle, env: { GW_ORG_ID: 'default' } });
    const call = (extra: object = {}) => execute({ idempotency_key: 'k', caller_id: 'eve', ...extra });
    const first = await call();
    t.equal(first.status, 200);
    await execute({ caller_id: 'eve', context: { purpose: 'evil' } });
    t.match((await call()).body, { decision: 'quarantine' });
    t.same((await call({ caller_id: 'olga' })).body, first.body, 'another caller of the workload has the same key');
    await gw.admin('POST', '/v1/admin/workloads/default/token');
    t.equal((await call({ caller_id: 'olga' })).status, 401);
    await gw.admin('DELETE', '/v1/admin/workloads/default/token');
    t.equal((await gw.admin('POST', '/v1/admin/org/suspend', { reason: 'r' })).status, 200);
    t.equal((await call({ caller_id: 'olga' })).status, 403);
  },
);
