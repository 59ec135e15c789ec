import t from 'tap';
import type { Destination, DurableEvent } from '../../src/base/events/destination.ts';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, chat, type Governed, startGoverned } from '../support/governed.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

/** Output of gpt-4o costs 15 USD per million tokens: a thousand cost 0.015. */
const THOUSAND = picoFromUsd('0.015');

/** Charges as many output tokens as the call allows, and no input. */
const chargeAll: UpstreamHandler = (_request, response, whole) =>
  void whole.then((body) => {
    const { max_tokens: out = 0 } = JSON.parse(body.toString()) as { max_tokens?: number };
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ usage: { prompt_tokens: 0, completion_tokens: out } }));
  });

function params(maxTokens: number, more: object = {}): object {
  return { model: 'gpt-4o-2024-05-13', messages: [], max_tokens: maxTokens, ...more };
}

function call(governed: Governed, maxTokens: number, attribution: object = {}, more: object = {}) {
  return governed.execute({ attribution, ...more }, { params: params(maxTokens) });
}

async function createLimit(gw: TestGateway, body: object): Promise<string> {
  const created = await gw.admin('POST', '/v1/admin/budgets/limits', body);
  const { limit_id: id, status } = created.body as { limit_id: string; status: string };
  if (created.status !== 201 || status !== 'created') throw new Error(created.text);
  return id;
}

/** What a person is told of a call that may cost 0.015015 USD. */
function sentence(cap: string, spent: string, resetsOn: string): string {
  return `This call may cost 0.015015 USD, with which it would pass ${cap} USD: ${spent} USD are spent and 0 USD set aside for calls under way. It resets at ${resetsOn}T00:00:00.000Z.`;
}

async function limits(gw: TestGateway): Promise<readonly Record<string, unknown>[]> {
  return ((await gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: Record<string, unknown>[] }).limits;
}

t.test('the cap of one request', async (t) => {
  const bundle = bundleOf('  budgets:\n    - {id: cap, effect: {decision: allow, budget: {usd_max: "0.015"}}}\n');
  const governed = await startGoverned(t, { bundle, handler: chargeAll });
  t.equal((await call(governed, 1000)).status, 200, 'an estimate that equals the cap passes');
  const refused = await call(governed, 1001);
  t.match(refused, {
    status: 403,
    body: {
      decision: 'deny',
      reason: 'budget_exceeded',
      reason_codes: ['budget_usd_max_exceeded'],
      details: [{ path: 'budget.usd_max', message: 'This call may cost 0.015015 USD, which is above the cap of one request, 0.015 USD.' }],
      decision_trace: { attributes: { cost_estimate_usd: exactly('0.015015'), budget_usd_max: exactly('0.015') } },
    },
  });
  t.match(await governed.gw.record(String(refused.body['record_id'])), { decision: 'deny', reason: 'budget_exceeded' });
  const proxied = await governed.send(chat([], undefined, params(1001)));
  t.match(
    [proxied.status, JSON.parse(proxied.body.toString())],
    [
      403,
      {
        reason: 'budget_exceeded',
        reason_codes: ['budget_usd_max_exceeded'],
        error: {
          message:
            'Refused by the AI gateway (budget_usd_max_exceeded): budget_exceeded. This call may cost 0.015015 USD, which is above the cap of one request, 0.015 USD. Ask for less: a cheaper model, a shorter prompt or fewer tokens.',
        },
      },
    ],
  );
  const inTunnel = await governed.through('api.openai.com:443', chat([], '/v1/chat/completions', params(1001)));
  t.equal(inTunnel.status, 403);
  t.equal(governed.upstream.requests.length, 1, 'nothing that was refused was forwarded');

  const estimate = { context: { estimates: { tokens_out_max: 2000 } } };
  t.match(await call(governed, 10, {}, estimate), {
    status: 403,
    body: { decision_trace: { attributes: { cost_estimate_usd: exactly('0.03') } } },
  });
});

t.test('the cap of a project and month', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 10, 29, 12));
  const bundle = bundleOf(`  budgets:
    - {id: all, effect: {decision: allow}}
    - {id: capped, when: {field: attribution.project_id, equals: apollo}, effect: {budget: {monthly_usd_max: "0.03"}}}
`);
  let failing = false;
  const handler: UpstreamHandler = (request, response, body) => (failing ? response.destroy() : chargeAll(request, response, body));
  const governed = await startGoverned(t, { clock, bundle, handler });
  const apollo = { project_id: 'apollo' };

  t.equal((await call(governed, 1000, apollo)).status, 200);
  t.match(await call(governed, 1001, apollo), {
    status: 403,
    body: {
      reason: 'budget_exceeded',
      reason_codes: ['budget_monthly_usd_max_exceeded'],
      decision_trace: {
        attributes: {
          budget_monthly_usd_max: exactly('0.03'),
          budget_limit_usd: exactly('0.03'),
          spent_usd: exactly('0.015'),
          budget_spent_usd: exactly('0.015'),
          cost_estimate_usd: exactly('0.015015'),
          budget_resets_at: '2026-12-01T00:00:00.000Z',
        },
      },
      details: [
        { path: 'budget.monthly_usd_max', message: sentence('the cap of its project for this month, 0.03', '0.015', '2026-12-01') },
      ],
    },
  });
  failing = true;
  t.equal((await call(governed, 1000, apollo)).status, 502, 'a call that fails');
  failing = false;
  t.equal((await call(governed, 1000, apollo)).status, 200, '... has given its reservation back');
  t.equal((await call(governed, 1, apollo)).status, 403, 'the month is used up');
  t.equal((await call(governed, 5000, { project_id: 'gemini' })).status, 200, 'for this project only');
  t.equal((await governed.send(chat(['X-GW-Project-ID', 'apollo'], undefined, params(1)))).status, 403, 'on every door');
  clock.advance(2 * 86_400_000);
  t.equal((await call(governed, 1000, apollo)).status, 200, 'December begins at zero');
});

t.test('a refusal by a budget limit says how much is spent of what, and when it begins anew; to a replay as well', async (t) => {
  // A Sunday.
  const clock = fakeClock(Date.UTC(2026, 10, 29, 12));
  for (const [period, resetsOn] of [
    ['daily', '2026-11-30'],
    ['weekly', '2026-11-30'],
    ['monthly', '2026-12-01'],
  ] as const) {
    const governed = await startGoverned(t, { clock, handler: chargeAll });
    const id = await createLimit(governed.gw, { scope: 'org', limit_usd: '0.02', period, actions: ['cap'] });
    await createLimit(governed.gw, { scope: 'workload', scope_id: 'other', limit_usd: '0.01', period, actions: ['cap'] });
    t.equal((await call(governed, 1000)).status, 200);
    const message = sentence(`the ${period} budget limit of its org, 0.02`, '0.015', resetsOn);
    const refused = await call(governed, 1001, {}, { idempotency_key: 'once' });
    const attributes = {
      limit_id: id,
      budget_limit_usd: exactly('0.02'),
      budget_spent_usd: exactly('0.015'),
      budget_resets_at: `${resetsOn}T00:00:00.000Z`,
    };
    const want = {
      status: 403,
      body: { reason: 'budget_exceeded', details: [{ path: `limits.${id}`, message }], decision_trace: { attributes } },
    };
    t.match(refused, want);
    t.match(await call(governed, 1001, {}, { idempotency_key: 'once' }), want, 'as it was told first');
    const proxied = await governed.send(chat([], undefined, params(1001)));
    const { error, next } = JSON.parse(proxied.body.toString()) as {
      readonly error: { readonly message: string };
      readonly next: { readonly message: string; readonly retry_after?: number; readonly request: string };
    };
    t.equal(error.message, `Refused by the AI gateway (budget_limit_exceeded): budget_exceeded. ${message} ${next.message}`);
    const seconds = (Date.parse(`${resetsOn}T00:00:00.000Z`) - clock.now()) / 1000;
    t.same([next.request, next.retry_after], ['change', seconds], 'in so many seconds the same one may pass');
  }
});

t.test('budget limits: every scope and period', async (t) => {
  // Saturday; the ISO week began on Monday 26 October, in the month before.
  const clock = fakeClock(Date.UTC(2026, 9, 31, 23));
  const governed = await startGoverned(t, { clock, handler: chargeAll });
  const { gw } = governed;
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'other' });
  const scopes = [
    ['org', undefined, {}],
    ['project', 'p1', { attribution: { project_id: 'p1' } }],
    ['workload', 'other', { workload_id: 'other' }],
    ['provider', 'provider_a', {}],
  ] as const;
  for (const [scope, scope_id, mine] of scopes) {
    const spent = async () => (await governed.execute(mine, { params: params(1000) })).status;
    for (const period of ['daily', 'weekly', 'monthly'] as const) {
      await spent();
      const before = await spentOf(gw, { scope, scope_id, period, limit_usd: '1000', actions: [] });
      const cap = usdFromPico(picoFromUsd(before) + THOUSAND);
      const id = await createLimit(gw, { scope, scope_id, period, limit_usd: cap, actions: ['cap'] });
      t.equal(await spent(), 200, `${scope} ${period}: up to the cap`);
      t.equal(await spent(), 403, `${scope} ${period}: not beyond`);
      t.equal((await gw.admin('DELETE', `/v1/admin/budgets/limits/${id}`)).status, 200);
      t.equal(await spent(), 200, `${scope} ${period}: removed`);
    }
  }
  const weekly = await createLimit(gw, { scope: 'org', period: 'weekly', limit_usd: '9' });
  const daily = await createLimit(gw, { scope: 'org', period: 'daily', limit_usd: '9' });
  const monthly = await createLimit(gw, { scope: 'org', limit_usd: '9' });
  const of = async (id: string) => (await limits(gw)).find((limit) => limit['limit_id'] === id);
  const all = (await of(daily))?.['spent_usd'];
  t.match(
    [await of(weekly), await of(monthly)],
    [
      { spent_usd: exactly(String(all)), period_start: '2026-10-26' },
      { spent_usd: exactly(String(all)), period_start: '2026-10-01', period: 'monthly' },
    ],
  );
  clock.advance(3_600_000);
  t.match(
    [await of(daily), await of(monthly)],
    [
      { spent_usd: exactly('0'), period_start: '2026-11-01' },
      { spent_usd: exactly('0'), period_start: '2026-11-01' },
    ],
  );
  t.match(await of(weekly), { spent_usd: exactly(String(all)), period_start: '2026-10-26' }, 'Sunday is of the same ISO week');
  clock.advance(86_400_000);
  t.match(await of(weekly), { spent_usd: exactly('0'), period_start: '2026-11-02' });
});

async function spentOf(gw: TestGateway, body: object): Promise<string> {
  const id = await createLimit(gw, body);
  const found = (await limits(gw)).find((limit) => limit['limit_id'] === id);
  await gw.admin('DELETE', `/v1/admin/budgets/limits/${id}`);
  return String(found?.['spent_usd']);
}

t.test("a provider's limit holds for what reaches its hosts as generic HTTP, too, also after a restart", async (t) => {
  const first = await startGoverned(t, { handler: chargeAll, bundle: ALLOW_ALL });
  await createLimit(first.gw, { scope: 'provider', scope_id: 'openai', limit_usd: '0.03', actions: ['cap'] });
  await createLimit(first.gw, { scope: 'provider', scope_id: 'generic_http', limit_usd: '1' });
  const generic = (maxTokens: number) =>
    first.execute(
      { connector_hint: 'generic_http', credential_hint: undefined },
      { target_path: '/v1/chat/completions', params: params(maxTokens) },
    );
  t.equal((await generic(1000)).status, 200);
  t.match(await limits(first.gw), [{ spent_usd: exactly('0.015') }, { spent_usd: exactly('0.015') }], 'it counts for both');
  t.equal((await call(first, 1000)).status, 200);
  t.match(await generic(1), { status: 403, body: { reason_codes: ['budget_limit_exceeded'] } });
  await first.gw.gateway.stop();
  const second = await startTestGateway(t, { env: { GW_DATA_DIR: first.gw.dataDir } });
  t.match(await limits(second), [{ spent_usd: exactly('0.03') }, { spent_usd: exactly('0.015') }]);
});

t.test('budget limits: alerts, drafts, and what a body must be', async (t) => {
  const clock = fakeClock();
  const governed = await startGoverned(t, { clock, handler: chargeAll });
  const { gw } = governed;
  await createLimit(gw, { scope: 'org', limit_usd: '0.15', warning_threshold_pct: 50, critical_threshold_pct: 80 });
  await createLimit(gw, { scope: 'org', limit_usd: '0.0001', actions: [] });
  const alerts = async () => {
    const text = (await gw.admin('GET', '/metrics')).text;
    return ['warning', 'critical', 'exceeded'].map((level) => Number(new RegExp(`level="${level}"\\} (\\d+)`).exec(text)?.[1] ?? 0));
  };
  const seen: (readonly number[])[] = [];
  for (let at = 0; at < 12; at += 1) {
    t.equal((await call(governed, 1000)).status, 200, 'neither an alert nor a draft refuses');
    seen.push(await alerts());
  }
  t.same(seen[3], [0, 0, 0]);
  t.same(seen[4], [1, 0, 0], 'at half');
  t.same(seen[7], [1, 1, 0], 'at four fifths');
  t.same(seen[11], [1, 1, 1], 'at the limit, and once each');
  t.match(await limits(gw), [
    { actions: ['alert'], spent_usd: exactly('0.18'), warning_threshold_pct: 50, period: 'monthly', org_id: 'default' },
    { actions: [] },
  ]);

  for (const [body, path] of [
    [{}, 'scope'],
    [{ scope: 'team', limit_usd: '1' }, 'scope'],
    [{ scope: 'project', limit_usd: '1' }, 'scope_id'],
    [{ scope: 'org', scope_id: 'x', limit_usd: '1' }, 'scope_id'],
    [{ scope: 'provider', scope_id: 'api.openai.com', limit_usd: '1' }, 'scope_id'],
    [{ scope: 'org', limit_usd: 5 }, 'limit_usd'],
    [{ scope: 'org', limit_usd: '1e3' }, 'limit_usd'],
    [{ scope: 'org', limit_usd: '-1' }, 'limit_usd'],
    [{ scope: 'org', limit_usd: '1', period: 'yearly' }, 'period'],
    [{ scope: 'org', limit_usd: '1', warning_threshold_pct: 0 }, 'warning_threshold_pct'],
    [{ scope: 'org', limit_usd: '1', critical_threshold_pct: 101 }, 'critical_threshold_pct'],
    [{ scope: 'org', limit_usd: '1', warning_threshold_pct: 90, critical_threshold_pct: 50 }, 'critical_threshold_pct'],
    [{ scope: 'org', limit_usd: '1', actions: ['mail'] }, 'actions'],
    [{ scope: 'org', limit_usd: '1', actions: 'cap' }, 'actions'],
    [{ scope: 'org', limit_usd: '1', colour: 'red' }, 'colour'],
  ] as const) {
    const answer = await gw.admin('POST', '/v1/admin/budgets/limits', body);
    t.equal(answer.status, 400, JSON.stringify(body));
    t.match(answer.text, `"path":"${path}"`, JSON.stringify(body));
  }
  await createLimit(gw, { scope: 'org', org_id: 'zeros', limit_usd: '007.50' });
  t.match((await gw.admin('GET', '/v1/admin/budgets/limits?org_id=zeros')).body, { limits: [{ org_id: 'zeros', limit_usd: /^7\.5$/ }] });
  for (const query of ['orgid=zeros', 'org_id=', 'org_id=a&org_id=b'])
    t.equal((await gw.admin('GET', `/v1/admin/budgets/limits?${query}`)).status, 400, query);
  for (const id of ['openai', 'Provider_E']) {
    t.equal((await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'provider', scope_id: id, limit_usd: '1' })).status, 201, id);
  }
  for (const id of ['custom:abc', 'catalog:xyz', 'custom:', 'nobody', 'api.openai.com']) {
    const answer = await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'provider', scope_id: id, limit_usd: '1' });
    t.equal(answer.status, 400, id);
    t.match(answer.text, '"path":"scope_id"', id);
  }
  t.match(
    (await limits(gw)).map((limit) => limit['scope_id']),
    [undefined, undefined, undefined, 'openai', 'cohere'],
  );
  const [first = {}, ...others] = await limits(gw);
  const removed = await Promise.all([1, 2].map(() => gw.admin('DELETE', `/v1/admin/budgets/limits/${String(first['limit_id'])}`)));
  t.same(removed.map(({ status }) => status).sort(), [200, 404], 'once, when two remove it together');
  t.same(await limits(gw), others);
  t.equal((await gw.admin('DELETE', '/v1/admin/budgets/limits/none')).status, 404);
  t.equal((await fetch(`${gw.url}/v1/admin/budgets/limits`)).status, 401);
});

// Holds: no-call-past-a-cap
t.test('64 callers at once never pass a cap together', async (t) => {
  const governed = await startGoverned(t, { handler: chargeAll });
  await createLimit(governed.gw, { scope: 'org', limit_usd: '0.3', actions: ['cap'] });
  const doors: [() => Promise<number>, ...(() => Promise<number>)[]] = [
    async () => (await call(governed, 1000)).status,
    async () => (await governed.send(chat([], undefined, params(1000)))).status,
    async () => (await governed.through('api.openai.com:443', chat([], '/v1/chat/completions', params(1000)))).status,
  ];
  const statuses = await Promise.all(Array.from({ length: 64 }, (_, at) => (doors[at % doors.length] ?? doors[0])()));
  t.equal(statuses.filter((status) => status === 200).length, 20);
  t.equal(statuses.filter((status) => status === 403).length, 44);
  t.match(await limits(governed.gw), [{ spent_usd: exactly('0.3'), reserved_usd: exactly('0') }]);
});

t.test('midnight, new limits and removed ones while calls are under way', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 10, 29, 23, 59));
  const held = holdAll();
  const governed = await startGoverned(t, { clock, handler: held.handler });
  const { gw } = governed;
  const daily = await createLimit(gw, { scope: 'org', period: 'daily', limit_usd: '0.04', actions: ['cap'] });
  const weekly = await createLimit(gw, { scope: 'org', period: 'weekly', limit_usd: '1', actions: ['cap'] });
  const of = async (id: string) => (await limits(gw)).find((limit) => limit['limit_id'] === id);
  const before = [call(governed, 1000), call(governed, 1000)];
  await held.arrived(2);
  clock.advance(120_000);
  t.match(
    await of(daily),
    { period_start: '2026-11-30', spent_usd: exactly('0'), reserved_usd: exactly('0.03') },
    'a new day, with the calls of the old one',
  );
  t.equal((await call(governed, 1000)).status, 403, 'what is set aside counts in the day in which it may be settled');
  const late = await createLimit(gw, { scope: 'workload', scope_id: 'default', limit_usd: '0.04', actions: ['cap'] });
  t.match(await of(late), { spent_usd: exactly('0'), reserved_usd: exactly('0.03') }, 'a limit made meanwhile knows of them');
  await gw.admin('DELETE', `/v1/admin/budgets/limits/${weekly}`);
  held.answerAll();
  t.same(
    (await Promise.all(before)).map(({ status }) => status),
    [200, 200],
  );
  t.match(
    [await of(daily), await of(late)],
    [{ spent_usd: exactly('0.03'), reserved_usd: exactly('0'), period_start: '2026-11-30' }, { spent_usd: exactly('0.03') }],
  );
  const again = await createLimit(gw, { scope: 'org', period: 'weekly', limit_usd: '1', actions: ['cap'] });
  t.match(await of(again), { spent_usd: exactly('0.03'), reserved_usd: exactly('0'), period_start: '2026-11-30' }, 'they ended on Monday');
});

/** Lets no call end before it is told to; then each is charged as much output as it allows. */
function holdAll(): { handler: UpstreamHandler; arrived(count: number): Promise<void>; answerAll(): void } {
  const waiting: (() => void)[] = [];
  let wanted: { count: number; resolve: () => void } | undefined;
  let open = false;
  const check = (): void => {
    if (wanted && waiting.length >= wanted.count) wanted.resolve();
  };
  return {
    handler: (request, response, body) => {
      if (open) return chargeAll(request, response, body);
      waiting.push(() => chargeAll(request, response, body));
      check();
    },
    arrived: (count) =>
      new Promise((resolve) => {
        wanted = { count, resolve };
        check();
      }),
    answerAll: () => {
      open = true;
      for (const answer of waiting.splice(0)) answer();
    },
  };
}

/** A store that can be made to refuse, as on a full disk. */
function failingStore(): { commits: boolean; readonly store: (opened: Store) => Store } {
  const state = {
    commits: true,
    store: (opened: Store): Store =>
      new Proxy(opened, {
        get(target, name) {
          if (name === 'commit' && !state.commits) return () => Promise.reject(new GatewayError('record_store_unavailable', 'disk full'));
          const member: unknown = Reflect.get(target, name, target);
          return typeof member === 'function' ? member.bind(target) : member;
        },
      }),
  };
  return state;
}

// Holds: no-call-past-a-cap
t.test('a call whose record cannot be stored is not spent, stays set aside under a cap, and is charged by the next start', async (t) => {
  const disk = failingStore();
  const held = holdAll();
  const governed = await startGoverned(t, { clock: fakeClock(), store: disk.store, handler: held.handler });
  const { gw } = governed;
  await createLimit(gw, { scope: 'project', scope_id: 'capped', limit_usd: '1', actions: ['cap', 'alert'] });
  await createLimit(gw, { scope: 'org', limit_usd: '1', actions: ['alert'] });
  const calls = [call(governed, 1000, { project_id: 'capped' }), call(governed, 1000, { project_id: 'free' })];
  await held.arrived(2);
  disk.commits = false;
  held.answerAll();
  t.same(
    (await Promise.all(calls)).map(({ status }) => status),
    [503, 503],
  );
  t.equal((await call(governed, 1000, { project_id: 'capped' })).status, 503, 'without its intent nothing is forwarded');
  t.match(await limits(gw), [
    { spent_usd: exactly('0'), reserved_usd: exactly('0.015') },
    { spent_usd: exactly('0'), reserved_usd: exactly('0.015') },
  ]);
  disk.commits = true;
  t.equal((await call(governed, 2000, { project_id: 'capped' })).status, 200);
  t.match(await limits(gw), [{ spent_usd: exactly('0.03'), reserved_usd: exactly('0.015') }, {}]);
  await gw.gateway.stop();
  const second = await startTestGateway(t, { clock: fakeClock(), env: { GW_DATA_DIR: gw.dataDir } });
  t.match(await limits(second), [
    { spent_usd: exactly('0.045'), reserved_usd: exactly('0') },
    { spent_usd: exactly('0.045'), reserved_usd: exactly('0') },
  ]);
});

// Holds: no-call-past-a-cap
t.test('... or as soon as the store works again, with a record of what it cost', async (t) => {
  const clock = fakeClock();
  const disk = failingStore();
  const held = holdAll();
  const governed = await startGoverned(t, { clock, store: disk.store, handler: held.handler });
  const { gw } = governed;
  await createLimit(gw, { scope: 'org', limit_usd: '0.04', actions: ['cap', 'alert'], warning_threshold_pct: 30 });
  const answer = call(governed, 1000, {}, { context: { estimates: { tokens_out_max: 2000 } } });
  await held.arrived(1);
  disk.commits = false;
  held.answerAll();
  const { status, headers } = await answer;
  t.equal(status, 503);
  const alerts = async () => /gw_budget_alerts_total\{[^}]*\} ([1-9]\d*)/.exec((await gw.admin('GET', '/metrics')).text)?.[1];
  clock.advance(1_000);
  await new Promise((resolve) => setImmediate(resolve));
  t.match(await limits(gw), [{ spent_usd: exactly('0'), reserved_usd: exactly('0.03') }], 'while it fails nothing changes');
  t.equal(await alerts(), undefined);
  disk.commits = true;
  clock.advance(1_000);
  const id = headers.get('x-gw-request-id') ?? '';
  let stored = await gw.admin('GET', `/v1/records/${id}`);
  while (stored.status !== 200) stored = await gw.admin('GET', `/v1/records/${id}`);
  t.match(stored.body, {
    decision: 'error',
    reason_codes: ['record_store_unavailable'],
    status_code: 503,
    upstream_status: 200,
    error: { code: 'record_store_unavailable' },
    metering: { tokens_out: 1000, cost_usd: exactly('0.015'), usage_reported: true },
  });
  t.equal((await gw.admin('GET', `/v1/verify/${(stored.body as { record_hash: string }).record_hash}`)).status, 200);
  t.match(
    await limits(gw),
    [{ spent_usd: exactly('0.015'), reserved_usd: exactly('0') }],
    'the cost stands in the place of what was set aside',
  );
  t.equal(await alerts(), '1');
  clock.advance(60_000);
  t.equal((await call(governed, 1000)).status, 200);
  await gw.gateway.stop();
  const second = await startTestGateway(t, { clock, env: { GW_DATA_DIR: gw.dataDir } });
  t.match(
    await limits(second),
    [{ spent_usd: exactly('0.03'), reserved_usd: exactly('0') }],
    'once: the intent is gone, and records and counters agree',
  );
});

t.test('... and so do a call that no cap holds, and one that the provider never answered', async (t) => {
  const clock = fakeClock();
  const disk = failingStore();
  const held = holdAll();
  const broken: (() => void)[] = [];
  const handler: UpstreamHandler = (request, response, body) =>
    void body.then((text) => {
      if (text.includes('"never"')) broken.push(() => response.destroy());
      else held.handler(request, response, body);
    });
  const governed = await startGoverned(t, { clock, store: disk.store, handler });
  const { gw } = governed;
  await createLimit(gw, { scope: 'project', scope_id: 'capped', limit_usd: '1', actions: ['cap'] });
  await createLimit(gw, { scope: 'org', limit_usd: '1', actions: ['alert'] });
  const calls = [
    call(governed, 1000, { project_id: 'free' }),
    governed.execute({ attribution: { project_id: 'capped' } }, { params: params(1000, { user: 'never' }) }),
  ];
  await held.arrived(1);
  while (broken.length === 0) await new Promise((resolve) => setImmediate(resolve));
  disk.commits = false;
  held.answerAll();
  for (const breakOff of broken) breakOff();
  const ids = (await Promise.all(calls)).map(({ status, headers }) => {
    t.equal(status, 503);
    return headers.get('x-gw-request-id') ?? '';
  });
  t.match(await limits(gw), [
    { spent_usd: exactly('0'), reserved_usd: exactly('0.015') },
    { spent_usd: exactly('0'), reserved_usd: exactly('0.015') },
  ]);
  disk.commits = true;
  clock.advance(1_000);
  const stored = async (id = '') => {
    for (;;) {
      const { status, body } = await gw.admin('GET', `/v1/records/${id}`);
      if (status === 200) return body;
    }
  };
  t.match(await stored(ids[0]), {
    error: { code: 'record_store_unavailable' },
    metering: { cost_usd: exactly('0.015'), usage_reported: true },
  });
  t.match(await stored(ids[1]), { decision: 'error', error: { code: /^upstream_/ } });
  t.match(await limits(gw), [
    { spent_usd: exactly('0'), reserved_usd: exactly('0') },
    { spent_usd: exactly('0.015'), reserved_usd: exactly('0') },
  ]);
  await gw.gateway.stop();
  const second = await startTestGateway(t, { clock, env: { GW_DATA_DIR: gw.dataDir } });
  t.match(
    await limits(second),
    [{ spent_usd: exactly('0') }, { spent_usd: exactly('0.015') }],
    'nobody is charged for what was never answered',
  );
});

t.test('the monthly request limit', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 10, 30, 12));
  const governed = await startGoverned(t, { clock, handler: chargeAll, env: { GW_MONTHLY_REQUEST_LIMIT: '3' } });
  for (let at = 0; at < 3; at += 1) t.equal((await call(governed, 1)).status, 200);
  t.match(await call(governed, 1), { status: 403, body: { decision: 'deny', reason: 'monthly_request_limit_exceeded' } });
  t.equal((await governed.send(chat())).status, 403);
  t.equal((await call(governed, 1, {}, { org_id: 'another' })).status, 200, 'per org');
  t.match((await governed.gw.admin('GET', '/metrics')).text, /gw_org_overage_enforced_total\{org_id="default"\} 2/);
  clock.advance(12 * 3_600_000);
  t.equal((await call(governed, 1)).status, 200, 'the first of December');
  clock.set(Date.UTC(2026, 10, 30, 13));
  t.equal((await call(governed, 1)).status, 403, 'a clock that is set back finds the month used up, as it was');

  const overage = await startGoverned(t, { handler: chargeAll, env: { GW_MONTHLY_REQUEST_LIMIT: '0', GW_OVERAGE_ENABLED: 'true' } });
  t.equal((await call(overage, 1)).status, 200);
});

t.test('what is spent and counted survives a restart', async (t) => {
  const env = { GW_MONTHLY_REQUEST_LIMIT: '2' };
  const first = await startGoverned(t, { handler: chargeAll, env });
  await createLimit(first.gw, { scope: 'project', scope_id: 'ä|%', limit_usd: '0.02', actions: ['cap', 'alert'] });
  t.equal((await call(first, 1000, { project_id: 'ä|%' })).status, 200);
  await first.gw.gateway.stop();
  const second = await startTestGateway(t, { env: { ...env, GW_DATA_DIR: first.gw.dataDir } });
  t.match(await limits(second), [{ spent_usd: exactly('0.015'), reserved_usd: exactly('0'), scope_id: 'ä|%' }]);
  const body = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'k' };
  const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: params(1000) };
  const again = () =>
    fetch(`${second.url}/v1/actions:execute`, {
      method: 'POST',
      body: JSON.stringify({ ...body, action, attribution: { project_id: 'ä|%' } }),
    });
  t.match(await (await again()).json(), {
    reason_codes: ['budget_limit_exceeded'],
    decision_trace: { attributes: { spent_usd: exactly('0.015') } },
  });
  t.match(await (await again()).json(), { reason: 'monthly_request_limit_exceeded' }, 'the second was counted, whatever became of it');
});

t.test('an alert waits for its destination, over a restart if need be, and then comes once', async (t) => {
  const clock = fakeClock();
  let tries = 0;
  const away = { id: 'hook', deliver: () => Promise.reject(new Error(`away, ${++tries}`)) };
  const first = await startGoverned(t, { clock, handler: chargeAll, destinations: [away] });
  const limitId = await createLimit(first.gw, { scope: 'org', limit_usd: '0.03', warning_threshold_pct: 40 });
  const waiting = async (gw: TestGateway) => /gw_outbox_waiting (\d+)/.exec((await gw.admin('GET', '/metrics')).text)?.[1];
  t.equal(await waiting(first.gw), '1', 'the limit is an entry of the audit trail, which waits as well');
  for (let at = 0; at < 3; at += 1) t.equal((await call(first, 1000)).status, 200, 'whoever calls does not wait for it');
  t.equal(await waiting(first.gw), '3', 'a warning, and that it is all spent');
  await first.gw.gateway.stop();
  t.ok(tries > 0, 'it was tried');

  let came: (events: readonly DurableEvent[]) => void = () => undefined;
  const arrived = new Promise<readonly DurableEvent[]>((resolve) => (came = resolve));
  const got: DurableEvent[] = [];
  const hook: Destination = {
    id: 'hook',
    deliver: (batch) => {
      got.push(...batch);
      came(batch);
      return Promise.resolve();
    },
  };
  const second = await startTestGateway(t, { clock, env: { GW_DATA_DIR: first.gw.dataDir }, destinations: [hook] });
  t.match(await arrived, [
    { name: 'audit', event: { operation: 'budgets.create', object: limitId } },
    { name: 'budgetAlert', event: { level: 'warning', spentUsd: '0.015', limit: { limit_id: limitId } } },
    { name: 'budgetAlert', event: { level: 'exceeded', spentUsd: '0.03' } },
  ]);
  await second.gateway.stop();
  const third = await startTestGateway(t, { clock, env: { GW_DATA_DIR: first.gw.dataDir }, destinations: [hook] });
  t.equal(await waiting(third), '0');
  t.equal(got.length, 3);
});
