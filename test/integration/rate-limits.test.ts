import t from 'tap';
import { fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { bundleOf, chat, startGoverned } from '../support/governed.ts';
import { managedAs } from '../support/managed.ts';

const RULES = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: slow, when: {field: context.action.params.model, equals: gpt-4o}, effect: {rate_limit: {requests_per_minute: 2}}}
  budgets:
    - {id: stop, when: {field: context.action.params.model, equals: o3}, effect: {decision: rate_limit, reason: o3 is scarce, rate_limit: {requests_per_minute: 1}}}
`);

t.test('the bucket of a workload', async (t) => {
  const clock = fakeClock();
  const env = { GW_RATELIMIT_REFILL_RATE: '6', GW_RATELIMIT_MAX_TOKENS: '3', GW_RATELIMIT_WINDOW: '1m' };
  const { execute, send, through, recordOf, upstream, gw } = await startGoverned(t, { clock, env });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'other' });

  for (let call = 0; call < 3; call += 1) t.equal((await execute()).status, 200);
  const refused = await execute();
  t.match(refused, {
    status: 429,
    body: { decision: 'rate_limit', reason_codes: ['rate_limited'], reason: /default is above its rate limit/ },
  });
  t.equal(refused.headers.get('retry-after'), '10', 'a token flows in every ten seconds');
  t.equal(upstream.requests.length, 3, 'nothing was forwarded');
  t.match(await gw.record(String(refused.body['record_id'])), { decision: 'rate_limit', status_code: 429, reason_codes: ['rate_limited'] });

  const redirected = await send(chat());
  t.equal(redirected.status, 403, 'the proxied doors know only 403');
  t.equal(redirected.headers['retry-after'], undefined);
  t.match(JSON.parse(redirected.body.toString()), { decision: 'rate_limit', error: { message: /rate_limited/ } });
  t.match(await recordOf(redirected), { decision: 'rate_limit', status_code: 403 });
  t.equal((await through('api.openai.com:443', chat([], '/v1/chat/completions'))).status, 403, 'one bucket for all doors');

  t.equal((await execute({ workload_id: 'other' })).status, 200, 'another workload has its own');
  t.same((await gw.admin('GET', '/v1/admin/ratelimit/keys')).body, { keys: ['default', 'other'] });
  clock.advance(10_000);
  t.equal((await execute()).status, 200, 'one token has flowed in');
  t.equal((await execute()).status, 429, 'and no more: refused requests took none');
  clock.advance(120_000);
  t.same((await gw.admin('GET', '/v1/admin/ratelimit/keys')).body, { keys: [] }, 'full buckets are not listed');
  t.match((await gw.admin('GET', '/metrics')).text, /gw_rate_limit_hits\{org_id="default"\} 4/);
});

t.test('the bucket of a rule', async (t) => {
  const clock = fakeClock();
  const { execute, gw } = await startGoverned(t, { clock, bundle: RULES });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'other' });
  const call = (model: string, workload = 'default') => execute({ workload_id: workload }, { params: { model, messages: [] } });

  t.equal((await call('gpt-4o')).status, 200);
  t.equal((await call('gpt-4o')).status, 200);
  const refused = await call('gpt-4o');
  t.match(refused, { status: 429, body: { reason: /2 requests per minute \(rule "slow"\)/ } });
  t.equal(refused.headers.get('retry-after'), '30');
  t.equal((await call('gpt-4o-mini')).status, 200, 'the rule limits what it matches');
  t.equal((await call('gpt-4o', 'other')).status, 200, 'per workload');

  t.equal((await call('o3')).status, 200, 'a rule that decides has no opinion while its bucket has tokens');
  const decided = await call('o3');
  t.match(decided, {
    status: 429,
    body: { decision: 'rate_limit', reason: 'o3 is scarce', decision_trace: { matched_rule_ids: ['all', 'stop'] } },
  });
  t.equal(decided.headers.get('retry-after'), '60');
  clock.advance(59_000);
  t.equal((await call('o3')).headers.get('retry-after'), '1');
  clock.advance(1_000);
  t.equal((await call('o3')).status, 200);
});

t.test('what a budget refuses takes no token, neither of the workload nor of a rule', async (t) => {
  const env = { GW_RATELIMIT_REFILL_RATE: '1', GW_RATELIMIT_MAX_TOKENS: '3', GW_RATELIMIT_WINDOW: '24h' };
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow, rate_limit: {requests_per_minute: 2}}}
`);
  const { execute, gw } = await startGoverned(t, { clock: fakeClock(), env, bundle });
  await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '0.001', actions: ['cap'] });
  const call = async (max_tokens: number) => {
    const { status, body } = await execute({}, { params: { model: 'gpt-4', messages: [], max_tokens } });
    return [status, body['reason_codes'] ?? 'allowed'];
  };
  for (let at = 0; at < 5; at++) t.same(await call(1000), [403, ['budget_limit_exceeded']]);
  t.same(
    [await call(1), await call(1)].map(([status]) => status),
    [200, 200],
    'both tokens of the rule are there',
  );
  t.same(await call(1), [429, ['rate_limited']], 'and no more');
  t.same(await call(1000), [429, ['rate_limited']], 'the rate is asked first');
});

t.test('64 callers at once get no token more than there is', async (t) => {
  const { execute, upstream } = await startGoverned(t, {
    clock: fakeClock(),
    env: { GW_RATELIMIT_MAX_TOKENS: '20', GW_RATELIMIT_REFILL_RATE: '1' },
  });
  const answers = await Promise.all(Array.from({ length: 64 }, () => execute()));
  t.equal(answers.filter(({ status }) => status === 200).length, 20);
  t.equal(upstream.requests.length, 20);
});

t.test('the configuration', async (t) => {
  const { gw, execute } = await startGoverned(t, { clock: fakeClock() });
  const config = (body: unknown) => gw.admin('PUT', '/v1/admin/ratelimit/config', body);
  t.same((await gw.admin('GET', '/v1/admin/ratelimit/config')).body, { refill_rate: 60000, max_tokens: 10000, window_duration: '1m' });

  const wanted = { refill_rate: 0.5, max_tokens: 2, window_duration: '1h30m' };
  t.same(await config(wanted).then(({ status, body }) => ({ status, body })), { status: 200, body: wanted });
  t.same((await gw.admin('GET', '/v1/admin/ratelimit/config')).body, wanted);
  t.equal((await execute()).status, 200);
  t.equal((await execute()).status, 200);
  t.equal((await execute()).headers.get('retry-after'), String(3 * 3600), 'the new size and rate hold at once');

  for (const [body, path] of [
    [{ ...wanted, refill_rate: 0 }, 'refill_rate'],
    [{ ...wanted, refill_rate: -1 }, 'refill_rate'],
    [{ ...wanted, refill_rate: '5' }, 'refill_rate'],
    [{ ...wanted, max_tokens: 0 }, 'max_tokens'],
    [{ ...wanted, max_tokens: 0.5 }, 'max_tokens'],
    [{ refill_rate: 1, window_duration: '1m' }, 'max_tokens'],
    [{ ...wanted, window_duration: '1' }, 'window_duration'],
    [{ ...wanted, window_duration: '0' }, 'window_duration'],
    [{ ...wanted, window_duration: '-1m' }, 'window_duration'],
    [{ ...wanted, window_duration: '48h' }, 'window_duration'],
    [{ ...wanted, window_duration: 60 }, 'window_duration'],
    [{ ...wanted, burst: 1 }, 'burst'],
  ] as const) {
    t.match(await config(body), { status: 400, body: { error: { code: 'invalid_request', details: [{ path }] } } }, JSON.stringify(body));
  }
  t.same(
    await config({ ...wanted, window_duration: 60 }).then(({ body }) => (body as { error: { details: unknown[] } }).error.details.length),
    1,
    'one mistake is told once',
  );
  t.match(await config([]), {
    status: 400,
    body: { error: { message: 'The configuration must be a JSON object.', details: [{ path: '' }] } },
  });
  t.same((await gw.admin('GET', '/v1/admin/ratelimit/config')).body, wanted, 'a bad one changes nothing');

  await config({ refill_rate: 1e-300, max_tokens: 1, window_duration: '1m' });
  await execute();
  t.equal((await execute()).headers.get('retry-after'), String(365 * 24 * 3600), 'a header that clients can read');

  const anyone = await fetch(`${gw.url}/v1/admin/ratelimit/config`);
  t.equal(anyone.status, 401);
  t.equal((await fetch(`${gw.url}/v1/admin/ratelimit/keys`, { headers: { 'GW-Admin-Token': ADMIN_TOKEN } })).status, 200);
});

t.test('the gateway and its own org have one configuration, whoever reads or writes it', async (t) => {
  for (const [env, own, other] of [
    [{}, 'default', 'acme'],
    [{ GW_ORG_ID: 'acme' }, 'acme', undefined],
  ] as const) {
    const { gw, execute } = await startGoverned(t, { clock: fakeClock(), env });
    const { manage } = await managedAs(gw, own);
    const admin = (method: string, body?: object) => gw.admin(method, '/v1/admin/ratelimit/config', body);
    const wide = { refill_rate: 90_000, max_tokens: 20_000, window_duration: '1m' };
    t.match(await manage('PUT', 'ratelimit/config', wide), { status: 200, body: wide }, 'its own org may raise it');
    t.strictSame((await admin('GET')).body, wide);
    const brake = { refill_rate: 1, max_tokens: 1, window_duration: '1h' };
    t.equal((await admin('PUT', brake)).status, 200);
    t.strictSame((await manage('GET', 'ratelimit/config')).body, brake);
    const call = async () => (await execute({ org_id: own })).status;
    t.strictSame([await call(), await call()], [200, 429], 'the brake works after management has written');
    if (other === undefined) continue;
    const { manage: theirs } = await managedAs(gw, other);
    t.strictSame((await theirs('GET', 'ratelimit/config')).body, brake, 'and for every other org');
    const shown = await gw.admin('GET', '/v1/admin/ratelimit/config?org_id=acme');
    t.strictSame(shown.body, brake);
  }
});

t.test('another org can tighten the configuration and never loosen it; the tighter of both holds and is shown', async (t) => {
  const env = { GW_RATELIMIT_REFILL_RATE: '60', GW_RATELIMIT_MAX_TOKENS: '10', GW_RATELIMIT_WINDOW: '1m' };
  const clock = fakeClock();
  const { gw, execute } = await startGoverned(t, { clock, env });
  const { manage } = await managedAs(gw, 'acme');
  const put = async (...[refill_rate, max_tokens, window_duration]: [number, number, string]) =>
    await manage('PUT', 'ratelimit/config', { refill_rate, max_tokens, window_duration });
  const bound = { refill_rate: 60, max_tokens: 10, window_duration: '1m' };
  const looser: readonly [[number, number, string], string[]][] = [
    [[61, 10, '1m'], ['refill_rate']],
    [[60, 10, '59s'], ['refill_rate']],
    [[60, 11, '1m'], ['max_tokens']],
    [[1, 10, '500ms'], ['refill_rate']],
    [
      [3601, 11, '1h'],
      ['refill_rate', 'max_tokens'],
    ],
  ];
  for (const [config, paths] of looser) {
    const { status, body } = await put(...config);
    t.match({ status, paths: pathsIn(body) }, { status: 400, paths }, config.join(' '));
    t.strictSame((await manage('GET', 'ratelimit/config')).body, bound);
  }
  t.equal((await put(3600, 10, '1h')).status, 200, 'as fast by another window');
  const tight = { refill_rate: 1, max_tokens: 4, window_duration: '1m' };
  t.match(await put(1, 4, '1m'), { status: 200, body: tight });

  // A rate that is higher and a size that is lower: of each the tighter one.
  const brake = { refill_rate: 30, max_tokens: 2, window_duration: '1m' };
  await gw.admin('PUT', '/v1/admin/ratelimit/config', brake);
  const both = { ...tight, max_tokens: 2 };
  t.strictSame((await manage('GET', 'ratelimit/config')).body, both);
  t.strictSame((await gw.admin('GET', '/v1/admin/ratelimit/config?org_id=acme')).body, both);
  t.strictSame((await gw.admin('GET', '/v1/admin/ratelimit/config')).body, brake);
  const call = async () => (await execute({ org_id: 'acme' })).status;
  t.strictSame([await call(), await call(), await call()], [200, 200, 429]);
  clock.advance(59_000);
  t.equal(await call(), 429, 'the rate is that of the org');
  clock.advance(1_000);
  t.equal(await call(), 200);
  await gw.admin('PUT', '/v1/admin/ratelimit/config', bound);
  t.strictSame((await manage('GET', 'ratelimit/config')).body, tight, 'what the org has laid down is there again');
});

function pathsIn(body: unknown): readonly string[] {
  return ((body as { error?: { details?: { path: string }[] } }).error?.details ?? []).map(({ path }) => path);
}

t.test('a workload can have a limit of its own, which holds at every door, over a restart, and until it is taken back', async (t) => {
  const clock = fakeClock();
  const { gw, execute, send } = await startGoverned(t, { clock });
  const { manage } = await managedAs(gw, 'default');
  for (const workload_id of ['ci', 'batch']) await manage('PUT', 'workloads', { workload_id });
  const call = async (workload: string) => (await execute({ workload_id: workload })).status;
  const times = async (count: number, workload = 'ci') => {
    const all: number[] = [];
    for (let at = 0; at < count; at += 1) all.push(await call(workload));
    return all;
  };
  t.match(await manage('PUT', 'ratelimit/workloads/ci', { requests_per_minute: 2 }), {
    status: 200,
    body: { workload_id: 'ci', requests_per_minute: 2 },
  });
  t.match((await manage('GET', 'ratelimit/workloads')).body, { data: [{ workload_id: 'ci', requests_per_minute: 2 }], has_more: false });
  t.strictSame(await times(3), [200, 200, 429], 'exactly so many');
  t.equal((await execute({ workload_id: 'ci' })).headers.get('retry-after'), '30', 'one flows in every half minute');
  t.equal((await send(chat(['X-GW-Workload-ID', 'ci']))).status, 403, 'one bucket for all doors');
  t.strictSame(await times(5, 'batch'), [200, 200, 200, 200, 200], 'others are as they were');
  clock.advance(30_000);
  t.strictSame(await times(2), [200, 429]);

  t.equal((await manage('PUT', 'ratelimit/workloads/ci', { requests_per_minute: 60 })).status, 200);
  clock.advance(1_000);
  t.strictSame(await times(2), [200, 429], 'another one replaces it; what the bucket held is kept');
  t.equal((await manage('DELETE', 'ratelimit/workloads/ci')).status, 200);
  t.equal((await manage('DELETE', 'ratelimit/workloads/ci')).status, 404);
  clock.advance(1_000);
  t.strictSame(await times(5), [200, 200, 200, 200, 200]);

  await manage('PUT', 'ratelimit/workloads/ci', { requests_per_minute: 1 });
  await gw.gateway.stop();
  const again = await startGoverned(t, { clock, env: { GW_DATA_DIR: gw.dataDir } });
  const after = async () => (await again.execute({ workload_id: 'ci' })).status;
  t.strictSame([await after(), await after()], [200, 429], 'it is there after a restart');
  const { manage: later } = await managedAs(again.gw, 'default');
  t.equal((await later('DELETE', 'workloads/ci')).status, 200);
  t.match((await later('GET', 'ratelimit/workloads')).body, { data: [] }, 'it goes with its workload');
});

t.test('the limit of a workload is tighter than that of its org, whichever was laid down last, and of its org alone', async (t) => {
  const env = { GW_RATELIMIT_REFILL_RATE: '60', GW_RATELIMIT_MAX_TOKENS: '10', GW_RATELIMIT_WINDOW: '1m' };
  const { gw, execute } = await startGoverned(t, { clock: fakeClock(), env });
  const { manage } = await managedAs(gw, 'acme');
  const { manage: theirs } = await managedAs(gw, 'globex');
  for (const one of [manage, theirs]) await one('PUT', 'workloads', { workload_id: 'ci' });
  const put = (requests_per_minute: unknown, workload = 'ci') => manage('PUT', `ratelimit/workloads/${workload}`, { requests_per_minute });
  const looser = await put(61);
  t.match(looser, { status: 400, body: { error: { details: [{ path: 'requests_per_minute', message: /at most 60 per 1m/ }] } } });
  for (const bad of [0, -1, 1.5, '10', null, 1_000_001]) t.match(await put(bad), { status: 400 }, String(bad));
  t.match(await put(5, 'nothing'), { status: 404, body: { error: { code: 'not_found' } } });
  t.equal((await put(5)).status, 200);
  t.match((await theirs('GET', 'ratelimit/workloads')).body, { data: [] }, 'another org sees nothing of it');
  t.equal((await theirs('DELETE', 'ratelimit/workloads/ci')).status, 404);
  const calls = async (org_id: string, count: number) => {
    const all: number[] = [];
    for (let at = 0; at < count; at += 1) all.push((await execute({ org_id, workload_id: 'ci' })).status);
    return all.filter((status) => status === 200).length;
  };
  t.equal(await calls('acme', 8), 5);
  t.equal(await calls('globex', 8), 8, 'the same id of another org has what that org has');
  await manage('PUT', 'ratelimit/config', { refill_rate: 2, max_tokens: 2, window_duration: '1h' });
  await manage('PUT', 'workloads', { workload_id: 'other' });
  t.equal((await put(5)).status, 400, 'a limit that the org has tightened since is the bound');
  await manage('DELETE', 'ratelimit/workloads/ci');
  t.equal(await calls('acme', 3), 0, 'and what the bucket holds is never more than before');
});
