// What the management API tells of projects, defaults, records, budgets and use, through a gateway that has calls; and
// that an org sees nothing of another.
import t from 'tap';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ALLOW_ALL, bundleOf, chat, type Governed, startGoverned } from '../support/governed.ts';
import { type Answer, codeIn, type Managed, managedAs } from '../support/managed.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

type Json = Readonly<Record<string, unknown>>;

interface Page {
  readonly data: readonly Json[];
  readonly next_cursor: string | null;
  readonly has_more: boolean;
}

const START = Date.UTC(2026, 10, 24, 21, 50);
const HOUR = 3_600_000;
const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no, priority: 9, when: {field: attribution.project_id, equals: forbidden}, effect: {decision: deny}}
    - {id: slow, priority: 9, when: {field: attribution.project_id, equals: slow}, effect: {decision: require_approval}}
`);

interface Scene extends Governed, Managed {
  readonly clock: ReturnType<typeof fakeClock>;
}

async function scene(t: HasTeardown, bundle = ALLOW_ALL): Promise<Scene> {
  const clock = fakeClock(START);
  const governed = await startGoverned(t, { clock, bundle });
  return { ...governed, ...(await managedAs(governed.gw, 'default')), clock };
}

const pageOf = ({ body }: Answer): Page => body as Page;
const detailsOf = ({ body }: Answer): readonly string[] =>
  (body as { error: { details: readonly { path: string }[] } }).error.details.map(({ path }) => path).sort();

t.test('projects are made, listed, changed in parts and removed, each org its own', async (t) => {
  const { manage, keyOf, with: withKey } = await scene(t);
  const other = withKey((await keyOf('globex')).key);
  const made = await manage('POST', 'projects', { project_id: 'apollo', display_name: 'Apollo' });
  t.equal(made.status, 201);
  t.same(made.body, {
    project_id: 'apollo',
    org_id: 'default',
    display_name: 'Apollo',
    description: '',
    status: 'active',
    created_at: new Date(START).toISOString(),
  });
  t.equal(codeIn(await manage('POST', 'projects', { project_id: 'apollo' })), 'conflict');
  t.equal((await other('POST', 'projects', { project_id: 'apollo' })).status, 201, 'its own of the same id');
  for (const id of ['b', 'a']) await manage('POST', 'projects', { project_id: id });
  const changed = await manage('PUT', 'projects/apollo', { status: 'archived', description: 'done' });
  t.match(changed.body, { display_name: 'Apollo', description: 'done', status: 'archived' });
  t.same(
    pageOf(await manage('GET', 'projects?limit=2')).data.map(({ project_id: id }) => id),
    ['a', 'apollo'],
  );
  t.same(
    pageOf(await manage('GET', 'projects?status=archived')).data.map(({ project_id: id }) => id),
    ['apollo'],
  );
  t.match(pageOf(await other('GET', 'projects')).data, [{ project_id: 'apollo', status: 'active', org_id: 'globex' }]);
  t.equal(codeIn(await other('PUT', 'projects/a', { status: 'archived' })), 'not_found');
  t.equal(codeIn(await other('DELETE', 'projects/a')), 'not_found');
  const stale = { 'if-match': made.headers.get('etag') ?? '' };
  t.equal(codeIn(await manage('PUT', 'projects/apollo', { description: 'x' }, stale)), 'precondition_failed');
  const fresh = { 'if-match': changed.headers.get('etag') ?? '' };
  t.equal((await manage('PUT', 'projects/apollo', { description: 'x' }, fresh)).status, 200);
  t.same(detailsOf(await manage('POST', 'projects', { project_id: 'a b', display_name: 7, more: 1 })), [
    'display_name',
    'more',
    'project_id',
  ]);
  t.same(detailsOf(await manage('PUT', 'projects/a', { status: 'gone' })), ['status']);
  t.same((await manage('DELETE', 'projects/a')).body, { project_id: 'a', status: 'deleted' });
  t.equal(codeIn(await manage('DELETE', 'projects/a')), 'not_found');
});

t.test('org defaults are those of the next call, and the trail has them', async (t) => {
  const { gw, manage, send, recordOf } = await scene(t);
  t.match((await manage('GET', 'org/defaults')).body, { org_id: 'default', workload_id: 'default', project_id: null, updated_at: null });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  await manage('POST', 'projects', { project_id: 'old' });
  await manage('PUT', 'projects/old', { status: 'archived' });
  t.equal(codeIn(await manage('PATCH', 'org/defaults', { project_id: 'old' })), 'conflict');
  t.same(detailsOf(await manage('PATCH', 'org/defaults', { workload_id: 'nobody' })), ['workload_id']);
  t.same(detailsOf(await manage('PATCH', 'org/defaults', { workload_id: 'a b', org_id: 'x' })), ['org_id', 'workload_id']);
  const set = await manage('PATCH', 'org/defaults', { workload_id: 'ci', project_id: 'apollo' });
  t.match(set.body, { workload_id: 'ci', project_id: 'apollo', updated_at: new Date(START).toISOString() });
  t.match(await recordOf(await send(chat())), { workload_id: 'ci', project_id: 'apollo' });
  const stale = await manage('PATCH', 'org/defaults', { project_id: null }, { 'if-match': '"0"' });
  t.equal(codeIn(stale), 'precondition_failed');
  t.match((await manage('PATCH', 'org/defaults', { project_id: null }, { 'if-match': set.headers.get('etag') ?? '' })).body, {
    project_id: null,
  });
  await manage('PATCH', 'org/defaults', { project_id: 'apollo' });
  t.match((await manage('PATCH', 'org/defaults', { project_id: '' })).body, { project_id: null }, 'what tools say for null');
  const record = await recordOf(await send(chat()));
  t.equal(record['workload_id'], 'ci');
  t.notOk('project_id' in record);
  const trail = (await gw.admin('GET', '/v1/admin/audit?operation=mgmt.org_defaults.change&org_id=default')).body as {
    items: readonly Json[];
  };
  t.equal(trail.items.length, 4);
});

t.test('records are listed by every filter, the newest first, without what policy observed; one is shown whole', async (t) => {
  const { manage, keyOf, with: withKey, send, recordOf, clock } = await scene(t, BUNDLE);
  const made: Json[] = [];
  for (const project of ['apollo', 'forbidden', 'slow', 'zeus', 'apollo']) {
    clock.advance(60_000);
    const headers = [
      'X-GW-Project-ID',
      project,
      'X-GW-Customer-ID',
      `c-${project}`,
      'X-GW-Account-ID',
      'acc',
      'X-GW-Label-team',
      `t-${project}`,
    ];
    made.unshift(await recordOf(await send(chat(headers))));
  }
  const list = async (query: string): Promise<readonly unknown[]> =>
    pageOf(await manage('GET', `records${query}`)).data.map(({ record_id: id }) => id);
  const ids = (way: (record: Json) => boolean) => made.filter(way).map(({ record_id: id }) => id);
  const all = pageOf(await manage('GET', 'records')).data;
  t.same(
    all.map(({ record_id: id }) => id),
    ids(() => true),
  );
  for (const [at, shown] of all.entries()) {
    const { policy_trace: trace, ...rest } = made[at] ?? {};
    const { attributes: observed, ...left } = trace as Json;
    t.strictSame(shown, { ...rest, policy_trace: left, shortened: true });
    t.ok(observed !== undefined);
  }
  const [newest] = made;
  const text = (name: string) => encodeURIComponent(String(newest?.[name]));
  for (const [query, way] of [
    ['?decision=allow', ({ decision }) => decision === 'allow'],
    ['?decision=deny', ({ decision }) => decision !== 'allow'],
    ['?decision=require_approval', ({ decision }) => decision === 'require_approval'],
    ['?decision=error', () => false],
    ['?project=apollo', ({ project_id: id }) => id === 'apollo'],
    ['?customer=c-zeus', ({ project_id: id }) => id === 'zeus'],
    ['?account=acc', () => true],
    ['?label_key=team', () => true],
    ['?label_key=team&label_value=t-zeus', ({ project_id: id }) => id === 'zeus'],
    ['?model=4o-mi', () => true],
    [`?record_id=${text('record_id')}`, (record) => record === newest],
    ['?provider=openai', () => true],
    ['?workload_id=default&traffic_class=developer&connection_type=sdk_redirect&record_tier=action', () => true],
    [`?action_type=${text('action_type')}&node=${text('node_id')}&target_host=api.openai.com`, () => true],
    ['?stream_outcome=complete', () => false],
    ['?min_cost_usd=0.0000001', ({ decision }) => decision === 'allow'],
    ['?min_cost_usd=1e-7', ({ decision }) => decision === 'allow'],
    ['?min_cost_usd=5', () => false],
    ['?api_key_id=x', () => false],
    ['?credential_id=x', () => false],
    ['?from=2026-11-24T21:53:00Z&to=2026-11-24T21:54:00Z', ({ project_id: id }) => id === 'slow'],
    ['?from=2026-11-25&to=2026-11-26', () => false],
    ['?from=2026-11-24&to=2026-11-24', () => true],
    ['?from=2026-11-25&tz=Asia/Tokyo', () => true],
    ['?to=2026-11-24T21:52:00Z', ({ project_id: id, created_at: at }) => id === 'apollo' && String(at) < '2026-11-24T21:52'],
  ] as readonly (readonly [string, (record: Json) => boolean])[]) {
    t.same(await list(query), ids(way), query);
  }
  const bad = 'records?decision=maybe&record_tier=x&min_cost_usd=-1&from=x&label_value=v&limit=501&nothing=1&tz=Mars';
  t.same(
    detailsOf(await manage('GET', bad)),
    ['decision', 'from', 'label_value', 'limit', 'min_cost_usd', 'nothing', 'record_tier', 'tz'].sort(),
  );
  t.same(detailsOf(await manage('GET', 'records?from=2026-11-25&to=2026-11-24')), ['from']);
  t.strictSame((await manage('GET', `records/${text('record_hash')}`)).body, newest, 'whole');
  t.strictSame((await manage('GET', `records/${text('record_id')}`)).body, newest);
  const other = withKey((await keyOf('globex')).key);
  t.equal(codeIn(await other('GET', `records/${text('record_hash')}`)), 'not_found');
  t.same(pageOf(await other('GET', 'records')).data, []);
  t.equal(codeIn(await manage('GET', 'records/nothing')), 'not_found');
});

t.test('pages of records neither repeat nor skip while calls are made and time goes by', async (t) => {
  const { manage, send, recordOf, clock } = await scene(t);
  const before: unknown[] = [];
  const call = async (): Promise<unknown> => {
    clock.advance(60_000);
    return (await recordOf(await send(chat())))['record_id'];
  };
  for (let at = 0; at < 7; at += 1) before.unshift(await call());
  clock.advance(24 * HOUR - 8 * 60_000);
  const seen: unknown[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const page = pageOf(await manage('GET', `records?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`));
    t.equal(page.has_more, page.next_cursor !== null);
    seen.push(...page.data.map(({ record_id: id }) => id));
    cursor = page.next_cursor;
    await call();
  }
  t.same(seen, before, 'also those that have become older than a day meanwhile');
  const [first] = [pageOf(await manage('GET', 'records?limit=2'))];
  t.same(detailsOf(await manage('GET', `records?limit=2&project=x&cursor=${first.next_cursor}`)), ['cursor'], 'with other filters');
  const forged = Buffer.from(JSON.stringify({ ...JSON.parse(Buffer.from(first.next_cursor ?? '', 'base64url').toString()), a: '0 ffff' }));
  t.same(detailsOf(await manage('GET', `records?limit=2&cursor=${forged.toString('base64url')}`)), ['cursor']);
});

t.test('budget limits have their spend, their override, and an org of their own', async (t) => {
  const { gw, manage, keyOf, with: withKey, send, clock } = await scene(t);
  const { limit_id: id } = (await manage('POST', 'budgets/limits', { scope: 'org', limit_usd: '0.000001', actions: ['cap'] })).body as {
    limit_id: string;
  };
  t.equal((await send(chat())).status, 403, 'a cap that is too low');
  const until = new Date(START + HOUR).toISOString();
  const raised = await manage('POST', `budgets/limits/${id}/override`, { limit_usd: '5.0', until, reason: 'launch' });
  t.match(raised.body, {
    limit_usd: exactly('0.000001'),
    effective_limit_usd: exactly('5'),
    override: { limit_usd: exactly('5'), until, reason: 'launch' },
  });
  t.notOk('org_id' in ((raised.body as Json)['override'] as Json));
  t.equal((await send(chat())).status, 200);
  const [listed] = pageOf(await manage('GET', 'budgets/limits')).data;
  t.match(listed, { limit_id: id, org_id: 'default', effective_limit_usd: exactly('5') });
  t.not(listed?.['spent_usd'], '0');
  clock.advance(HOUR);
  t.equal((await send(chat())).status, 403, 'by itself it is as before');
  t.equal(codeIn(await manage('DELETE', `budgets/limits/${id}/override`)), 'not_found');
  await manage('POST', `budgets/limits/${id}/override`, { limit_usd: '5', until: new Date(START + 2 * HOUR).toISOString() });
  const other = withKey((await keyOf('globex')).key);
  t.same(pageOf(await other('GET', 'budgets/limits')).data, []);
  t.equal(codeIn(await other('POST', `budgets/limits/${id}/override`, { limit_usd: '9', until: '2030-01-01T00:00:00Z' })), 'not_found');
  t.equal(codeIn(await other('DELETE', `budgets/limits/${id}/override`)), 'not_found');
  t.equal(codeIn(await other('DELETE', `budgets/limits/${id}`)), 'not_found');
  t.same((await manage('DELETE', `budgets/limits/${id}/override`)).body, { limit_id: id, status: 'ended' });
  t.equal((await send(chat())).status, 403);
  t.same(detailsOf(await manage('POST', `budgets/limits/${id}/override`, { limit_usd: 5, until })), ['limit_usd', 'until']);
  t.same(
    detailsOf(await manage('POST', 'budgets/limits', { scope: 'provider', scope_id: 'api.openai.com', limit_usd: '1', org_id: 'x' })),
    ['org_id', 'scope_id'],
  );
  const trail = (await gw.admin('GET', '/v1/admin/audit?org_id=default')).body as { items: readonly Json[] };
  t.equal(trail.items.filter(({ operation }) => String(operation).includes('override')).length, 3);
  t.same((await manage('DELETE', `budgets/limits/${id}`)).body, { limit_id: id, status: 'deleted' });
  t.match((await manage('GET', 'budgets/config')).body, {
    cp_down_policy: 'permissive',
    redis_status: 'unconfigured',
    grace_seconds_override: null,
  });
});

t.test('what is used is told by decision, bucket, day of the reader and who is charged', async (t) => {
  const { manage, keyOf, with: withKey, send, clock, gw } = await scene(t, BUNDLE);
  const call = (project: string) => send(chat(['X-GW-Project-ID', project, 'X-GW-Label-team', `t-${project}`]));
  for (const project of ['apollo', 'forbidden']) await call(project);
  clock.advance(20 * 60_000);
  for (const project of ['apollo', 'slow', 'zeus']) await call(project);
  await send(chat());
  clock.advance(HOUR);
  t.match((await manage('GET', 'dashboard')).body, {
    total_requests: 6,
    allow_count: 4,
    deny_count: 1,
    approval_count: 1,
    quarantine_count: 0,
  });
  t.match(
    (await manage('GET', 'dashboard?from=2026-11-24&to=2026-11-24')).body,
    { total_requests: 6 },
    'both hours are of that day in UTC',
  );
  t.match((await manage('GET', 'dashboard?from=2026-11-25&to=2026-11-25&tz=Europe/Berlin')).body, { total_requests: 0 });
  t.match((await manage('GET', 'dashboard?from=2026-11-25&to=2026-11-25&tz=Europe/Athens')).body, {
    total_requests: 4,
    from: '2026-11-24T22:00:00.000Z',
  });
  t.same((await manage('GET', 'dashboard/decisions')).body, {
    decisions: [
      { decision: 'allow', count: 4 },
      { decision: 'require_approval', count: 1 },
      { decision: 'deny', count: 1 },
    ],
  });
  for (const [query, bucket, count] of [
    ['', '1h', 24],
    ['?window=6h', '30m', 12],
    ['?window=1h', '5m', 12],
    ['?window=2d', '5m', 12],
  ] as const) {
    const spend = (await manage('GET', `spend${query}`)).body as {
      bucket: string;
      buckets: readonly { allow_count: number; deny_count: number }[];
    };
    t.same([spend.bucket, spend.buckets.length], [bucket, count], query);
    const allowed = spend.buckets.reduce((sum, { allow_count: some }) => sum + some, 0);
    t.equal(allowed, bucket === '5m' ? 0 : 4, 'the last hour had no calls');
  }
  t.same(detailsOf(await manage('GET', 'spend?windows=1h')), ['windows']);
  const bill = (await manage('GET', 'billing/summary')).body as Json;
  t.match(bill, { period: '2026-11', period_start: '2026-11-01', total_requests: 6 });
  const days = (await manage('GET', 'billing/summary?from=2026-11-24&to=2026-11-25&tz=Europe/Athens')).body as {
    by_day: Json;
    by_workload: Json;
  } & Json;
  t.match(days, {
    period: '2026-11-24/2026-11-25',
    period_start: '2026-11-24',
    total_cost_usd: exactly(String(bill['total_cost_usd'])),
    total_requests: 6,
  });
  t.same(Object.keys(days.by_day), ['2026-11-24', '2026-11-25']);
  t.ok(Object.values(days.by_day).every((cost) => cost !== '0'));
  t.match(days.by_workload, { default: { requests: 6, cost_usd: exactly(String(bill['total_cost_usd'])) } });
  t.same(detailsOf(await manage('GET', 'billing/summary?from=2026-11-24')), ['to']);
  t.same(detailsOf(await manage('GET', 'billing/summary?from=2026-11-31&to=2026-12-01')), ['from']);
  t.same(detailsOf(await manage('GET', 'billing/summary?from=2026-11-24T00:00:00Z&to=2026-12-01')), ['from']);
  const summary = (await manage('GET', 'attribution/summary')).body as Json;
  t.match(summary, { org_id: 'default', from: '2026-11-01T00:00:00.000Z' });
  t.same(Object.keys(summary['by_project'] as Json), ['apollo', 'forbidden', 'slow', 'zeus']);
  t.match(summary, { by_project: { apollo: { requests: 2 } }, unattributed: { project: { requests: 1 }, customer: { requests: 6 } } });
  const late = (await manage('GET', 'attribution/summary?from=2026-11-25&tz=Europe/Athens')).body as Json;
  t.match(late, { by_project: { apollo: { requests: 1 } } });
  t.same((await manage('GET', 'attribution/labels')).body, { data: [{ key: 'team', values: 4, requests: 5 }] });
  const team = (await manage('GET', 'attribution/labels/team')).body as { data: readonly Json[] };
  t.same(
    team.data.map(({ value, requests }) => [value, requests]),
    [
      ['t-apollo', 2],
      ['t-forbidden', 1],
      ['t-slow', 1],
      ['t-zeus', 1],
    ],
  );
  t.same((await manage('GET', 'attribution/labels/nothing')).body, { key: 'nothing', data: [] });
  t.same(detailsOf(await manage('GET', 'attribution/summary?from=2030-01-01&to=x')), ['from', 'to']);
  const other = withKey((await keyOf('globex')).key);
  t.match((await other('GET', 'dashboard')).body, { total_requests: 0 });
  t.match((await other('GET', 'billing/summary')).body, { total_requests: 0, by_workload: {} });
  t.match((await other('GET', 'attribution/summary')).body, { by_project: {} });
  t.same((await other('GET', 'attribution/labels')).body, { data: [] });
  const nodes = pageOf(await manage('GET', 'nodes')).data;
  t.match(nodes, [{ mode: 'embedded', registered_at: new Date(START).toISOString() }]);
  t.same((await gw.admin('GET', '/v1/admin/nodes')).body, { nodes });
});

t.test('rates are listed as they hold now, in pages', async (t) => {
  const { manage } = await scene(t);
  const first = pageOf(await manage('GET', 'pricing?model=gpt-4o&limit=3'));
  t.equal(first.data.length, 3);
  t.ok(first.data.every(({ model, rate_in: rate }) => String(model).includes('gpt-4o') && typeof rate === 'string'));
  const rest = pageOf(await manage('GET', `pricing?model=gpt-4o&limit=500&cursor=${first.next_cursor}`));
  const names = [...first.data, ...rest.data].map(({ provider, model }) => `${String(provider)} ${String(model)}`);
  t.equal(new Set(names).size, names.length);
  t.match(
    [...first.data, ...rest.data].find(({ model }) => model === 'gpt-4o'),
    { provider: '*', rate_in: exactly('2.5'), rate_out: exactly('10'), rate_cached_in: exactly('1.25'), rate_source: 'catalogue' },
  );
  t.match(
    pageOf(await manage('GET', 'pricing?provider=*&model=*')).data,
    [{ rate_in: exactly('10'), rate_out: exactly('30'), rate_source: 'default' }],
    'what no row is for',
  );
});
