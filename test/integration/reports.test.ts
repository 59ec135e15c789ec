// Numbers for people: whatever the gateway's reports say equals a recount over all records, which is written here a
// second time.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';
import { rollUp } from '../../src/record/roll-up.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { eventually } from '../support/child.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock, runningClock } from '../support/fake-clock.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { startGatewayProcess, startGatewayWith } from '../support/gateway-process.ts';
import { bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { connectPlain, connectThrough, h1Request, openTunnel } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTlsUpstream, type UpstreamHandler } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';
import { WHOLE_MONTH } from '../support/whole-month.ts';

const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no, priority: 9, when: {field: context.action.params.user, equals: denied}, effect: {decision: deny}}
    - {id: milder, priority: 9, when: {field: context.action.params.user, equals: milder}, effect: {decision: downgrade, mutations: [{key: action.params.model, value: gpt-4.1-nano}]}}
    - {id: aside, priority: 9, when: {field: context.action.params.user, equals: aside}, effect: {decision: quarantine}}
`);
const USAGE = { prompt_tokens: 1_234_567, completion_tokens: 89, prompt_tokens_details: { cached_tokens: 11 } };
/** An id that a spreadsheet would run, and that CSV must quote. */
const ODD = '=1+1,"x"';
const HOUR = 3_600_000;
const START = Date.UTC(2026, 10, 30, 22, 58);

type Ask = Pick<TestGateway, 'admin'>;
type Json = Record<string, unknown>;

/** `user` says what becomes of a call. */
const handler: UpstreamHandler = (_request, response, whole) =>
  void whole.then((body) => {
    const { user = '' } = JSON.parse(body.toString() || '{}') as { user?: string };
    if (user === 'broken') return response.destroy();
    if (user === 'stream' || user === 'hang') {
      response.setHeader('content-type', 'text/event-stream').write('data: {"choices":[{"delta":{"content":"a"}}]}\n\n');
      if (user === 'stream') response.end(`data: ${JSON.stringify({ choices: [], usage: USAGE })}\n\ndata: [DONE]\n\n`);
      return undefined;
    }
    response.statusCode = user === 'refused' ? 429 : 200;
    return response.setHeader('content-type', 'application/json').end(JSON.stringify(user === 'silent' ? {} : { usage: USAGE }));
  });

async function recordsOf(store: Store): Promise<readonly ExecutionRecord[]> {
  return (await store.records({ limit: 10_000 })).map(({ text }) => JSON.parse(text) as ExecutionRecord);
}

/** Pico-dollars, read independently of the product's money. */
function pico(text = '0'): bigint {
  const [whole = '0', fraction = ''] = text.split('.');
  return BigInt(whole + fraction.padEnd(12, '0'));
}

function usd(amount: bigint): string {
  const digits = `${amount}`.padStart(13, '0');
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`.replace(/\.?0+$/, '');
}

function totals(records: readonly ExecutionRecord[]) {
  let [tokens_in, tokens_out, cost] = [0, 0, 0n];
  for (const { metering } of records) {
    tokens_in += metering?.tokens_in ?? 0;
    tokens_out += metering?.tokens_out ?? 0;
    cost += pico(metering?.cost_usd);
  }
  return { requests: records.length, tokens_in, tokens_out, cost_usd: usd(cost) };
}

/** What of it is in doubt, with members for what there is alone. @param total in the names of its members */
function doubts(records: readonly ExecutionRecord[], total = ''): Record<string, number | string> {
  const paid = records.filter(({ upstream_status: status = 200, usage_record_id: later }) => status < 400 && later === undefined);
  const silent = paid.filter(({ metering }) => metering?.usage_reported === false);
  const byDefault = records.filter(({ metering }) => metering?.rate_source === 'default' && metering.cost_usd !== '0');
  return Object.fromEntries(
    [['without_usage', silent] as const, ['priced_by_default', byDefault] as const]
      .filter(([, some]) => some.length > 0)
      .flatMap(([name, some]) => [
        [`${total}requests_${name}`, some.length],
        [`${total}cost_${name}_usd`, totals(some).cost_usd],
      ]),
  );
}

function groupBy(records: readonly ExecutionRecord[], name: (record: ExecutionRecord) => string): Map<string, ExecutionRecord[]> {
  const groups = new Map<string, ExecutionRecord[]>();
  for (const record of records) groups.set(name(record), [...(groups.get(name(record)) ?? []), record]);
  return new Map([...groups].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function mapGroups<T>(groups: ReadonlyMap<string, ExecutionRecord[]>, show: (name: string, group: ExecutionRecord[]) => T): T[] {
  return [...groups].map(([name, group]) => show(name, group));
}

async function dashboardAgrees(t: Test, gw: Ask, all: readonly ExecutionRecord[], org: string, from: string, to: string): Promise<void> {
  const query = new URLSearchParams({ org_id: org, from, to });
  const summary = (await gw.admin('GET', `/v1/dashboard/summary?${query}`)).body as Json;
  const asked = (text: string, dayLength: number) => new Date(Date.parse(text) + (text.length === 10 ? dayLength : 0)).toISOString();
  t.match(summary, { from: asked(from, 0), to: asked(to, 24 * HOUR) }, 'what was asked for, to the millisecond');
  const inside = all.filter(
    (record) =>
      record.record_tier === 'action' &&
      record.org_id === org &&
      Date.parse(record.completed_at) >= Date.parse(String(summary['from'])) &&
      Date.parse(record.completed_at) < Date.parse(String(summary['to'])),
  );
  const of = (...decisions: string[]) => inside.filter(({ decision }) => decisions.includes(decision)).length;
  const { requests, tokens_in, tokens_out, cost_usd } = totals(inside);
  t.strictSame(
    { ...summary, from: 0, to: 0 },
    {
      org_id: org,
      from: 0,
      to: 0,
      total_requests: requests,
      total_allowed: of('allow', 'downgrade'),
      total_denied: of('deny'),
      total_tokens_in: tokens_in,
      total_tokens_out: tokens_out,
      total_cost_usd: cost_usd,
      ...doubts(inside, 'total_'),
    },
    `${org} ${from} ${to}`,
  );
  const decisions = (await gw.admin('GET', `/v1/dashboard/decisions?${query}`)).body as { decision: string; count: number }[];
  const counted = mapGroups(
    groupBy(inside, ({ decision }) => decision),
    (decision, group) => ({ decision, count: group.length }),
  );
  t.strictSame(
    [...decisions].sort((a, b) => (a.decision < b.decision ? -1 : 1)),
    counted,
    `${org} ${from} ${to}: decisions`,
  );
}

async function monthAgrees(t: Test, gw: Ask, all: readonly ExecutionRecord[], period: string): Promise<void> {
  const month = all.filter((record) => record.record_tier === 'action' && record.completed_at.startsWith(period));
  const { requests, cost_usd } = totals(month);
  const breakdown = Object.fromEntries(
    mapGroups(
      groupBy(month, (record) => record.workload_id),
      (workload, group) => [
        workload,
        Object.fromEntries(
          mapGroups(
            groupBy(group, (record) => record.connector_id ?? ''),
            (connector, own) => [connector, { ...totals(own), ...doubts(own) }],
          ),
        ),
      ],
    ),
  );
  t.same(
    (await gw.admin('GET', `/v1/admin/billing/summary?period=${period}`)).body,
    { period, total_requests: requests, total_cost_usd: cost_usd, ...doubts(month, 'total_'), breakdown },
    period,
  );
  const key = (record: ExecutionRecord) => JSON.stringify([record.org_id, record.workload_id, record.connector_id ?? '']);
  const lines = mapGroups(groupBy(month, key), (name, group) => {
    const [org, workload, connector] = JSON.parse(name) as string[];
    const sum = totals(group);
    const cell = workload === ODD ? `"'=1+1,""x"""` : workload;
    return [period, org, cell, connector, sum.requests, sum.tokens_in, sum.tokens_out, sum.cost_usd].join(',');
  });
  const csv = (await gw.admin('GET', `/v1/admin/billing/export.csv?period=${period}`)).text.split('\r\n');
  t.equal(csv.shift(), 'period,org_id,workload_id,connector_id,request_count,tokens_in,tokens_out,cost_usd');
  t.equal(csv.pop(), '', 'the last line ends too');
  t.strictSame(csv.sort(), lines.sort(), `${period}: CSV`);
  for (const org of ['default', 'other', 'nobody']) await reportsAgree(t, gw, month, org, period);
}

async function reportsAgree(t: Test, gw: Ask, month: readonly ExecutionRecord[], org: string, period: string): Promise<void> {
  const own = month.filter((record) => record.org_id === org);
  const workloads = mapGroups(
    groupBy(own, (record) => record.workload_id),
    (workload_id, group) => {
      const { cost_usd: _, ...usage } = totals(group);
      return { workload_id, ...usage };
    },
  );
  t.same((await gw.admin('GET', `/v1/reports/usage?org_id=${org}&period=${period}`)).body, { org_id: org, period, workloads });
  const routed = own.filter((record) => record.connector_id !== undefined);
  const providers = mapGroups(
    groupBy(routed, (record) => record.connector_id ?? ''),
    (provider, group) => ({ provider, requests: group.length, cost_usd: totals(group).cost_usd, ...doubts(group) }),
  );
  const spend = { org_id: org, period, providers, total_cost_usd: totals(own).cost_usd };
  t.same((await gw.admin('GET', `/v1/reports/spend?org_id=${org}&period=${period}`)).body, spend);
}

/** Every number of every report, over ranges that begin and end inside hours, days, months and years. */
async function agrees(t: Test, gw: Ask, all: readonly ExecutionRecord[]): Promise<void> {
  for (const org of ['default', 'other', 'nobody']) {
    for (const [from, to] of [
      ['2026-11-30T22:00:00Z', '2026-11-30T23:00:00Z'],
      ['2026-11-30T22:59:59.999Z', '2026-12-01T00:00:00.001Z'],
      ['2026-11-30T22:58:00Z', '2026-11-30T22:58:00.001Z'],
      ['2026-11-30T22:57:59.999Z', '2026-11-30T22:58:00Z'],
      ['2026-11-30T22:58:00.001Z', '2026-11-30T23:58:00Z'],
      ['2026-11-30T23:58:00Z', '2026-12-01T00:58:00.001Z'],
      ['2026-12-01T00:00:00+02:00', '2026-12-01T02:00:00+02:00'],
      ['2026-11-30', '2026-11-30'],
      ['2026-11-01', '2026-11-30'],
      ['2026-11-30T23:30:00Z', '2026-12-31'],
      ['2026-12-01', '2026-12-01T05:00:00Z'],
      ['2025-03-04T05:06:07Z', '2027-02-03'],
      ['2020-01-01', '2020-12-31'],
    ] as const)
      await dashboardAgrees(t, gw, all, org, from, to);
  }
  for (const period of ['2026-10', '2026-11', '2026-12', '2027-01']) await monthAgrees(t, gw, all, period);
}

/** Through a CONNECT. The gateway's clock is not that of the machine, so its certificate is no use here. */
async function inTunnel({ gw }: Governed, body: object, headers: readonly string[] = []): Promise<void> {
  const socket = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { verify: false });
  await h1Request(socket, 'api.openai.com', chat(headers, '/v1/chat/completions', body));
  socket.destroy();
}

/** A round through every door: answers, streams, refusals by policy and provider, failures, a replay. */
async function traffic(governed: Governed, round: number): Promise<void> {
  const { execute, send } = governed;
  const call = (user: string, more: object = {}) => ({ ...CHAT, user, ...more });
  for (const user of ['', 'denied', 'milder', 'aside', 'broken', 'refused', 'silent']) {
    const who = user === '' ? {} : { caller_id: user };
    const named = user === '' ? [] : ['X-GW-Caller-ID', user];
    await execute(who, { params: call(user) });
    await execute({ ...who, org_id: 'other', workload_id: ODD }, { params: call(user, { model: 'gpt-4o' }) });
    await send(chat(named, undefined, call(user)));
    await send(chat([...named, 'X-GW-Workload-ID', ODD], 'http://api.openai.com:443/v1/chat/completions', call(user)));
    await inTunnel(governed, call(user, { model: 'nobody-lists-this' }), named);
  }
  await execute({}, { target_host: 'api.mistral.ai', params: call('', { model: 'mistral-large-latest' }) });
  await execute({}, { target_host: 'api.openai.com', params: call('stream', { stream: true }) });
  await inTunnel(governed, call('stream', { stream: true }));
  for (let times = 0; times < 3; times += 1) await execute({ idempotency_key: `k-${round}` });
}

/** A client that leaves in the middle of a stream. */
async function leave({ gw }: Governed, store: Store): Promise<void> {
  const before = (await recordsOf(store)).length;
  const socket = await connectPlain(gw.port);
  const { headers = [], body = '', path = '/' } = chat([], undefined, { ...CHAT, user: 'hang', stream: true });
  const fields = headers.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${headers[at + 1]}\r\n`] : [])).join('');
  socket.write(`POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${gw.port}\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body.toString()}`);
  await new Promise((resolve) => socket.once('data', resolve));
  socket.destroy();
  await eventually('the record of a client that left', async () => ((await recordsOf(store)).length > before ? true : undefined));
}

t.test('every number equals a recount over all records', async (t) => {
  const clock = fakeClock(START);
  let store: Store | undefined;
  const keep = (opened: Store) => {
    store = opened;
    return opened;
  };
  const governed = await startGoverned(t, { clock, bundle: BUNDLE, handler, store: keep });
  const { gw } = governed;
  if (store === undefined) throw new Error('the gateway opened no store');
  await agrees(t, gw, []);
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: ODD });
  for (const [round, advance] of [0, HOUR, HOUR, 31 * 24 * HOUR].entries()) {
    clock.advance(advance);
    await traffic(governed, round);
    await leave(governed, store);
  }
  const all = await recordsOf(store);
  const seen = (name: 'decision' | 'stream_outcome' | 'connector_id' | 'connection_type') => [
    ...new Set(all.map((record) => record[name])),
  ];
  t.same(seen('decision').sort(), ['allow', 'deny', 'downgrade', 'error', 'quarantine'], 'the traffic is as mixed as it was meant to be');
  t.ok(['aborted', 'complete'].every((outcome) => seen('stream_outcome').some((one) => one === outcome)));
  t.ok(seen('connector_id').includes('mistral'));
  await agrees(t, gw, all);
  const answer = (await gw.admin('GET', '/v1/dashboard/summary')).body as Json;
  t.match(
    answer,
    { org_id: 'default', from: new Date(clock.now() - 24 * HOUR).toISOString(), to: new Date(clock.now()).toISOString() },
    'the last 24 hours',
  );
  t.equal(((await gw.admin('GET', '/v1/admin/billing/summary')).body as Json)['period'], '2027-01', 'the current month');
  await gw.gateway.stop();

  t.test('after a restart, and with connections that were only seen as a host', async (t) => {
    let again: Store | undefined;
    const opened = (given: Store) => {
      again = given;
      return given;
    };
    const env = { ...towards(t, governed.upstream, ['api.openai.com']), GW_DATA_DIR: gw.dataDir, GW_PROXY_MITM_ENABLED: 'false' };
    const second = await startTestGateway(t, { clock, bundle: BUNDLE, env, store: opened });
    await agrees(t, second, all);
    const socket = await openTunnel(second.port, 'api.openai.com:443');
    socket.destroy();
    if (again === undefined) throw new Error('the gateway opened no store');
    const more = await recordsOf(again);
    t.equal(more.at(-1)?.record_tier, 'connection');
    t.equal(more.length, all.length + 1);
    await agrees(t, second, more);
  });

  t.test('a folder of a version that kept no totals by hour and month is counted once', async (t) => {
    const dataDir = tempDir(t);
    const older = await openEmbeddedStore({ dir: join(dataDir, 'store'), fsync: 'off', clock: runningClock, log: silentLogger });
    await older.commit(undefined, [{ op: 'put', space: 'workload', key: ODD, value: { workload_id: ODD } }]);
    for (const record of all) {
      const { record_id, record_hash, completed_at } = record;
      const commit = { record_id, record_hash, text: JSON.stringify(record), committed_at: Date.parse(completed_at) };
      const daily = rollUp(record).filter(({ space }) => space.endsWith('_day'));
      await older.commit(commit, daily);
    }
    await older.close();
    for (const start of ['first', 'second']) {
      const third = await startTestGateway(t, { clock, env: { GW_DATA_DIR: dataDir } });
      await agrees(t, third, all);
      t.pass(start);
      await third.gateway.stop();
    }
  });
});

t.test('after a SIGKILL in the middle of calls', async (t) => {
  let reached: () => void = () => undefined;
  const hanging = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const upstream = await startTlsUpstream({
    hosts: ['api.openai.com'],
    handler: (request, response, body) => {
      void body.then((bytes) => {
        if (bytes.includes('"hang"')) reached();
      });
      handler(request, response, body);
    },
  });
  t.teardown(() => upstream.close());
  const gw = await startGatewayProcess(t, { bundle: BUNDLE, env: { ...WHOLE_MONTH, ...towards(t, upstream, ['api.openai.com']) } });
  await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '1000000', actions: ['cap'] });
  const execute = (user: string) => {
    const who = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'k' };
    const params = { ...CHAT, user, max_tokens: 7, stream: user === 'hang' };
    const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params };
    return fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', body: JSON.stringify({ ...who, action }) });
  };
  for (const user of ['', 'denied', 'broken']) await (await execute(user)).text();
  void execute('hang').catch(() => undefined);
  await hanging;
  gw.child.kill('SIGKILL');
  await gw.child.ended;
  const next = await startGatewayWith(t, gw.env);
  const summary = (await next.admin('GET', '/v1/dashboard/summary')).body as Json;
  const billing = (await next.admin('GET', '/v1/admin/billing/summary')).body as Json;
  next.child.kill('SIGTERM');
  await next.child.ended;
  const store = await openEmbeddedStore({
    dir: join(String(gw.env['GW_DATA_DIR']), 'store'),
    fsync: 'off',
    clock: runningClock,
    log: silentLogger,
  });
  t.teardown(() => store.close());
  const all = await recordsOf(store);
  t.ok(
    all.some(({ reason_codes: codes }) => codes.includes('gateway_restarted')),
    'the call under way was charged at the start',
  );
  const { requests, cost_usd, tokens_in, tokens_out } = totals(all);
  t.match(summary, {
    total_requests: requests,
    total_cost_usd: exactly(cost_usd),
    total_tokens_in: tokens_in,
    total_tokens_out: tokens_out,
  });
  t.equal(requests, 4);
  t.match(billing, { total_requests: requests, total_cost_usd: exactly(cost_usd) });
});

t.test('queries that are not valid, and callers without the token', async (t) => {
  const gw = await startTestGateway(t, { clock: fakeClock(START) });
  const dashboard = ['/v1/dashboard/summary', '/v1/dashboard/decisions'];
  const billing = ['/v1/admin/billing/summary', '/v1/admin/billing/export.csv'];
  const reports = ['/v1/reports/usage', '/v1/reports/spend'];
  for (const [paths, query, path] of [
    [dashboard, 'from=yesterday', 'from'],
    [dashboard, 'to=2026-02-30', 'to'],
    [dashboard, 'to=9999-12-31', 'to'],
    [dashboard, 'from=2026-11-30T22:00:00', 'from'],
    [dashboard, 'from=2026-11-29T24:00:00Z', 'from'],
    [dashboard, 'from=2027-11-29', 'from'],
    [dashboard, 'from=', 'from'],
    [dashboard, 'from=2026-12-01&to=2026-11-01', 'from'],
    [dashboard, 'from=2026-12-01T00:00:00Z&to=2026-12-01T00:00:00Z', 'from'],
    [dashboard, 'from=2016-01-01&to=2026-11-01', 'from'],
    [dashboard, 'from=2026-11-01&from=2026-11-02', 'from'],
    [dashboard, 'org_id=', 'org_id'],
    [dashboard, 'org_id=%C3%A4', 'org_id'],
    [dashboard, 'form=2026-11-01', 'form'],
    [billing, 'period=2026-13', 'period'],
    [billing, 'period=2026-1', 'period'],
    [billing, 'period=2026-11|default', 'period'],
    [billing, 'month=2026-11', 'month'],
    [reports, 'period=2026-11', 'org_id'],
    [reports, 'org_id=default&period=last', 'period'],
  ] as const) {
    for (const at of paths) {
      const answer = await gw.admin('GET', `${at}?${query}`);
      t.match(answer, { status: 400, body: { error: { code: 'invalid_request', details: [{ path }] } } }, `${at}?${query}`);
    }
  }
  for (const path of [...dashboard, ...billing, ...reports]) t.equal((await fetch(gw.url + path)).status, 401, path);
  const csv = await fetch(`${gw.url}${billing[1]}`, { headers: { Authorization: 'Bearer test-admin-token-0123456789' } });
  t.match(csv.headers.get('content-type'), /^text\/csv/);
  t.equal(csv.headers.get('content-disposition'), 'attachment; filename="billing-2026-11.csv"');
  const zone = '/v1/dashboard/summary?from=2026-11-30T22:30:00+05:30&to=2026-11-30T18:15:00Z';
  const range = { from: '2026-11-30T17:00:00.000Z', to: '2026-11-30T18:15:00.000Z' };
  t.match((await gw.admin('GET', zone)).body, range, 'a plus sign that was not escaped');
  t.match((await gw.admin('GET', zone.replace('+', '%2B'))).body, range);
  t.match((await gw.admin('GET', '/v1/dashboard/summary?to=2026-11-30')).body, {
    from: '2026-11-30T00:00:00.000Z',
    to: '2026-12-01T00:00:00.000Z',
  });
});
