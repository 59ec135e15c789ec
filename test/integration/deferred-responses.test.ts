// Responses that are made after the answer to their calls (`background`): reserved until they have ended, then charged
// once, to whoever made the call.
import { join } from 'node:path';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { CatalogueInForce } from '../../src/base/catalogue/catalogue-in-force.ts';
import { EventBus } from '../../src/base/events/bus.ts';
import type { UsageSettledEvent } from '../../src/base/events/events.ts';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';
import { estimatedMetering } from '../../src/record/metering.ts';
import { Leases } from '../../src/services/keeper/lease.ts';
import { BudgetService } from '../../src/services/money/budgets.ts';
import { DeferredUsage } from '../../src/services/money/deferred-usage.ts';
import { MemoryAllowance } from '../../src/services/money/memory-allowance.ts';
import { takeRegardless } from '../../src/services/money/record-cost.ts';
import { RecordCounters } from '../../src/services/reports/record-counters.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { ALL_REGISTERED } from '../support/all-registered.ts';
import { backgroundUpstream } from '../support/background-upstream.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import type { TestGateway } from '../support/gateway.ts';
import { type GatewayProcess, startGatewayProcess, startGatewayWith } from '../support/gateway-process.ts';
import { ALLOW_ALL, type Governed, startGoverned } from '../support/governed.ts';
import type { RawResponse } from '../support/raw-clients.ts';
import { stainless } from '../support/sdk-clients.ts';
import { storedRecords } from '../support/stored-records.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { until } from '../support/upstream-calls.ts';
import { towards } from '../support/upstreams.ts';
import { WHOLE_MONTH } from '../support/whole-month.ts';

type Json = Record<string, unknown>;

/** A thousand tokens of gpt-4o's output cost 0.015 USD; a prompt of no tokens nothing. */
const ASK = { model: 'gpt-4o-2024-05-13', input: '', max_output_tokens: 1000, background: true };
const DAY = 24 * 3_600_000;

/** The gateway before an upstream of responses, and the official SDK as a caller of it. */
async function place(t: Test, options: Parameters<typeof startGoverned>[1] = {}) {
  const upstream = backgroundUpstream();
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler: upstream.handler, ...options });
  const sdk = (headers: Readonly<Record<string, string>> = {}) =>
    new OpenAI(stainless(governed.gw, 'sdk_redirect', '/openai/v1', { headers, retries: 0 }));
  const limit = async (limit_usd: string, more: object = {}) => {
    const made = await governed.gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd, actions: ['cap'], ...more });
    return (made.body as { limit_id: string }).limit_id;
  };
  return { ...governed, provider: upstream, sdk, limit };
}

async function spend(gw: Pick<TestGateway, 'admin'>, id?: string): Promise<{ spent: string; reserved: string }> {
  const { limits } = (await gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: Json[] };
  const found = limits.find(({ limit_id }) => id === undefined || limit_id === id);
  return { spent: String(found?.['spent_usd']), reserved: String(found?.['reserved_usd']) };
}

function post(path: string, body: unknown, headers: readonly string[] = []) {
  return {
    method: 'POST',
    path,
    headers: ['Authorization', 'Bearer k', 'Content-Type', 'application/json', ...headers],
    body: JSON.stringify(body),
  };
}

function get(path: string, headers: readonly string[] = []) {
  return { method: 'GET', path, headers: ['Authorization', 'Bearer k', ...headers] };
}

/** The record that will say, and says, what a call cost. */
async function usageOf({ gw, recordOf }: Governed, answer: RawResponse): Promise<{ call: Json; usage: Json }> {
  const call = await recordOf(answer);
  return { call, usage: await gw.record(String(call['usage_record_id'])) };
}

// Holds: deferred-charged-once
t.test('a cap holds for calls whose responses come later, and each is charged once', async (t) => {
  const { gw, provider, sdk, limit, send, recordOf } = await place(t);
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'other' });
  const id = await limit('0.045');
  const workload = await limit('1', { scope: 'workload', scope_id: 'default', actions: [] });
  const project = await limit('1', { scope: 'project', scope_id: 'apollo', actions: [] });
  const mine = sdk({ 'X-GW-Project-ID': 'apollo' });
  const first = await mine.responses.create(ASK);
  t.equal(first.status, 'queued');
  const second = await mine.responses.create(ASK);
  const third = await mine.responses.create(ASK);
  t.strictSame(await spend(gw, id), { spent: '0', reserved: '0.045' }, 'what was set aside stays so');
  const refused: unknown = await mine.responses.create(ASK).catch((error: unknown) => error);
  t.match(refused, { status: 403 }, 'nothing more fits under the cap');
  t.equal(provider.ids.length, 3);

  t.equal((await mine.responses.retrieve(second.id)).status, 'in_progress');
  t.strictSame(await spend(gw, id), { spent: '0', reserved: '0.045' }, 'it has not ended');
  provider.finish(second.id, { in: 40, out: 100 });
  const others = sdk({ 'X-GW-Workload-ID': 'other', 'X-GW-Org-ID': 'elsewhere' });
  t.match(await others.responses.retrieve(second.id), { status: 'completed', usage: { output_tokens: 100 } });
  const charged = { spent: '0.0017', reserved: '0.03' };
  t.strictSame(await spend(gw, id), charged, 'charged to who made the call, whoever asks');
  for (let again = 0; again < 3; again++) await mine.responses.retrieve(second.id);
  t.strictSame(await spend(gw, id), charged, 'once');
  t.equal((await spend(gw, workload)).spent, '0.0017');
  t.equal((await spend(gw, project)).spent, '0.0017');

  t.equal((await mine.responses.cancel(third.id)).status, 'cancelled');
  t.strictSame(await spend(gw, id), { spent: '0.0017', reserved: '0.015' }, 'cancelled: given back');
  provider.finish(first.id);
  t.equal((await mine.responses.retrieve(first.id)).status, 'failed');
  t.strictSame(await spend(gw, id), { spent: '0.0017', reserved: '0' }, 'failed: given back');
  t.strictSame(await mine.responses.create(ASK).then(({ status }) => status), 'queued', 'there is room again');

  const asked = await send(get(`/proxy/openai/v1/responses/${second.id}`));
  const record = await recordOf(asked);
  t.match(record, { action_type: 'http.request', record_tier: 'action', target_path: `/v1/responses/${second.id}` });
  t.notOk('metering' in record, 'to ask costs nothing');
  const text = (await gw.admin('GET', '/metrics')).text;
  t.match(text, /^gw_deferred_responses_open 1$/m);
  t.match(text, /^gw_deferred_responses_total\{org_id="default",outcome="reported"\} 1$/m);
  t.match(text, /^gw_deferred_responses_total\{org_id="default",outcome="unreported"\} 2$/m);
  const summary = (await gw.admin('GET', '/v1/dashboard/summary?org_id=default')).body;
  // Four calls, one refusal, three questions of the same org, one more cancelled, one failed, one by hand.
  t.match(summary, { total_requests: 12, total_denied: 1, total_tokens_in: 40, total_tokens_out: 100, total_cost_usd: exactly('0.0017') });
});

t.test('the two records of such a call name each other', async (t) => {
  const governed = await place(t);
  const { gw, provider, send } = governed;
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'asker' });
  const answer = await send(post('/proxy/openai/v1/responses', ASK, ['X-GW-Project-ID', 'apollo', 'X-GW-Caller-ID', 'someone']));
  const id = provider.ids[0] ?? '';
  const before = await usageOf(governed, answer);
  t.match(before.call, {
    record_tier: 'action',
    decision: 'allow',
    metering: { cost_usd: exactly('0'), tokens_out: 0, usage_reported: false },
  });
  t.match(before.usage, { error: { code: 'not_found' } }, 'not written yet');
  provider.finish(id, { in: 7, out: 11 });
  await send(get(`/proxy/openai/v1/responses/${id}?include=x`, ['X-GW-Workload-ID', 'asker']));
  const { call, usage } = await usageOf(governed, answer);
  t.strictSame(call, before.call, 'a record is never changed');
  t.match(usage, {
    record_tier: 'usage',
    settles_record_id: call['record_id'],
    org_id: 'default',
    workload_id: 'default',
    project_id: 'apollo',
    caller_id: 'someone',
    provider: 'openai',
    model: 'gpt-4o-2024-05-13',
    reason_codes: ['usage_settled'],
    created_at: call['created_at'],
    metering: {
      tokens_in: 7,
      tokens_out: 11,
      cost_usd: exactly('0.0002'),
      usage_reported: true,
      rate_in: exactly('5'),
      rate_out: exactly('15'),
    },
  });
  t.notOk('policy_trace' in usage || 'usage_record_id' in usage || 'request_sha256' in usage);
  t.match((await gw.admin('GET', `/v1/verify/${String(usage['record_hash'])}`)).body, { record_hash: usage['record_hash'] });
});

t.test('streams of such responses', async (t) => {
  const { gw, provider, sdk, limit } = await place(t);
  const id = await limit('0.06');
  const client = sdk();

  await t.test('one that is read to its end is charged there, and nowhere else', async (t) => {
    const stream = await client.responses.create({ ...ASK, stream: true });
    await provider.arrived(1);
    provider.finish(provider.ids[0] ?? '', { in: 0, out: 200 });
    const types: string[] = [];
    for await (const event of stream) types.push(event.type);
    t.equal(types.at(-1), 'response.completed');
    t.strictSame(await spend(gw, id), { spent: '0.003', reserved: '0' });
    await client.responses.retrieve(provider.ids[0] ?? '');
    t.strictSame(await spend(gw, id), { spent: '0.003', reserved: '0' });
  });

  await t.test('one that its client leaves goes on, and is charged when somebody takes it up again', async (t) => {
    const stream = await client.responses.create({ ...ASK, stream: true });
    for await (const event of stream) if (event.type === 'response.created') break;
    const made = provider.ids[1] ?? '';
    while ((await text(gw, 'gw_deferred_responses_open')) !== '1') await until(() => true);
    t.strictSame(await spend(gw, id), { spent: '0.003', reserved: '0.015' });
    provider.finish(made, { in: 0, out: 400 });
    const types: string[] = [];
    for await (const event of await client.responses.retrieve(made, { stream: true, starting_after: 1 })) types.push(event.type);
    t.strictSame(types, ['response.completed']);
    t.strictSame(await spend(gw, id), { spent: '0.009', reserved: '0' });
  });

  await t.test('one that was asked for before its call was over', async (t) => {
    const stream = await client.responses.create({ ...ASK, stream: true });
    const events = stream[Symbol.asyncIterator]();
    await events.next();
    const made = provider.ids[2] ?? '';
    await client.responses.cancel(made);
    t.strictSame(await spend(gw, id), { spent: '0.009', reserved: '0.015' });
    stream.controller.abort();
    while ((await spend(gw, id)).reserved !== '0') await until(() => true);
    t.strictSame(await spend(gw, id), { spent: '0.009', reserved: '0' }, 'what was told then counts');
  });
});

t.test('a client that leaves before the answer', async (t) => {
  const { gw, provider, limit, sdk } = await place(t);
  await limit('1');
  let open: () => void = () => undefined;
  provider.hold = new Promise<void>((resolve) => {
    open = resolve;
  });
  const leaving = new AbortController();
  const call = sdk()
    .responses.create(ASK, { signal: leaving.signal })
    .then(
      () => 'answered',
      () => 'left',
    );
  await provider.arrived(1);
  leaving.abort();
  t.equal(await call, 'left');
  open();
  while ((await text(gw, 'gw_deferred_responses_open')) !== '1') await until(() => true);
  t.strictSame(await spend(gw), { spent: '0', reserved: '0.015' }, 'the response goes on, and its name is known');
  provider.hold = undefined;
  provider.finish(provider.ids[0] ?? '', { in: 0, out: 10 });
  await sdk().responses.retrieve(provider.ids[0] ?? '');
  t.strictSame(await spend(gw), { spent: '0.00015', reserved: '0' });
});

t.test('an answer that names no response is charged at the estimate; one that refuses the call costs nothing', async (t) => {
  let status = 200;
  const governed = await startGoverned(t, {
    bundle: ALLOW_ALL,
    handler: (_request, response, body) =>
      void body.then(() =>
        response.writeHead(status, { 'content-type': 'application/json' }).end(status === 200 ? '{"object":"resp' : '{"error":{}}'),
      ),
  });
  const cut = await governed.send(post('/proxy/openai/v1/responses', ASK));
  t.match(await governed.recordOf(cut), { metering: { cost_usd: exactly('0.015'), tokens_out: 1000, usage_reported: false } });
  status = 429;
  const refused = await governed.send(post('/proxy/openai/v1/responses', ASK));
  t.match(await governed.recordOf(refused), { metering: { cost_usd: exactly('0'), usage_reported: false } });
  status = 200;
  const plain = await governed.send(post('/proxy/openai/v1/responses', { ...ASK, background: false }));
  t.match(await governed.recordOf(plain), { metering: { cost_usd: exactly('0') } }, 'without the switch nothing goes on');
});

t.test('a response that nobody asks for is charged what was set aside, after a day', async (t) => {
  const clock = fakeClock();
  const governed = await place(t, { clock });
  const { gw, provider, sdk, limit, send } = governed;
  await limit('1');
  const answer = await send(post('/proxy/openai/v1/responses', ASK));
  clock.advance(DAY - 1);
  t.strictSame(await spend(gw), { spent: '0', reserved: '0.015' });
  clock.advance(1_200_000);
  while ((await spend(gw)).reserved !== '0') await until(() => true);
  t.strictSame(await spend(gw), { spent: '0.015', reserved: '0' });
  t.match((await usageOf(governed, answer)).usage, {
    reason_codes: ['usage_assumed'],
    metering: { cost_usd: exactly('0.015'), usage_reported: false },
  });
  provider.finish(provider.ids[0] ?? '', { in: 0, out: 5 });
  await sdk().responses.retrieve(provider.ids[0] ?? '');
  t.strictSame(await spend(gw), { spent: '0.015', reserved: '0' }, 'once');
  t.match(await text(gw, 'gw_deferred_responses_total{org_id="default",outcome="assumed"}'), '1');
});

t.test('every format that has such responses, by every door', async (t) => {
  const governed = await place(t);
  const { gw, provider, through, execute, limit } = governed;
  await limit('1');
  const forms = [
    ['openai', 'api.openai.com', '/v1/responses', ASK],
    ['azure, first shape', 'res.openai.azure.com', '/openai/responses?api-version=2025-04-01-preview', ASK],
    ['azure, second shape', 'res.openai.azure.com', '/openai/v1/responses', ASK],
    ['gemini', 'generativelanguage.googleapis.com', '/v1beta/interactions', { model: 'gemini-2.5-pro', input: '', background: true }],
  ] as const;
  for (const [name, host, path, body] of forms) {
    const before = (await spend(gw)).spent;
    const call = await through(`${host}:443`, post(path, body));
    const made = provider.ids.at(-1) ?? '';
    t.not((await spend(gw)).reserved, '0', `${name}: set aside`);
    provider.finish(made, { in: 1_000, out: 1_000 });
    const [base = '', query = ''] = path.split('?');
    await through(`${host}:443`, get(`${base}/${made}${query === '' ? '' : `?${query}`}`));
    const { usage } = await usageOf(governed, call);
    t.match(
      usage,
      { record_tier: 'usage', target_host: host, metering: { tokens_in: 1_000, tokens_out: 1_000, usage_reported: true } },
      name,
    );
    const cost = picoFromUsd(String((usage['metering'] as Json)['cost_usd']));
    t.strictSame(await spend(gw), { spent: usdFromPico(picoFromUsd(before) + cost), reserved: '0' }, name);
  }
  const before = (await spend(gw)).spent;
  t.equal((await execute({}, { target_path: '/v1/responses', params: ASK })).status, 200);
  const made = provider.ids.at(-1) ?? '';
  t.equal((await spend(gw)).reserved, '0.015', 'structured API: set aside');
  provider.finish(made, { in: 0, out: 1_000 });
  const asked = await execute({}, { type: 'http.request', method: 'GET', target_path: `/v1/responses/${made}`, params: {} });
  t.match(asked, { status: 200, body: { result: { body: { status: 'completed' } } } });
  t.strictSame(await spend(gw), { spent: usdFromPico(picoFromUsd(before) + picoFromUsd('0.015')), reserved: '0' });
});

t.test('another host, were it of the same provider, does not say what a response cost', async (t) => {
  const governed = await place(t, { hosts: ['mine.openai.azure.com'] });
  const { gw, provider, through, limit } = governed;
  await limit('1');
  await through('res.openai.azure.com:443', post('/openai/v1/responses', ASK));
  const made = provider.ids[0] ?? '';
  provider.finish(made, { in: 0, out: 1 });
  t.equal((await through('mine.openai.azure.com:443', get(`/openai/v1/responses/${made}`))).status, 200);
  t.strictSame(await spend(gw), { spent: '0', reserved: '0.015' });
  await through('res.openai.azure.com:443', get(`/openai/v1/responses/${made}`));
  t.strictSame(await spend(gw), { spent: '0.000015', reserved: '0' });
});

// Holds: deferred-charged-once
t.test('a response survives a SIGKILL: reserved, then charged once', async (t) => {
  const provider = backgroundUpstream();
  const upstream = await startTlsUpstream({ hosts: ['api.openai.com'], handler: provider.handler });
  t.teardown(() => upstream.close());
  const env = { ...WHOLE_MONTH, ...towards(t, upstream, ['api.openai.com']) };
  const first = await startGatewayProcess(t, { bundle: ALLOW_ALL, env });
  await first.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '0.02', actions: ['cap'] });
  const client = (gw: GatewayProcess) => new OpenAI(stainless(gw, 'sdk_redirect', '/openai/v1', { retries: 0 }));
  const { id } = await client(first).responses.create(ASK);
  await kill(first);
  const second = await startGatewayWith(t, first.env);
  t.strictSame(await spend(second), { spent: '0', reserved: '0.015' });
  t.match(
    await client(second)
      .responses.create(ASK)
      .catch((error: unknown) => error),
    { status: 403 },
    'the cap holds on',
  );
  provider.finish(id, { in: 0, out: 600 });
  await client(second).responses.retrieve(id);
  t.strictSame(await spend(second), { spent: '0.009', reserved: '0' });
  await kill(second);
  const third = await startGatewayWith(t, first.env);
  t.strictSame(await spend(third), { spent: '0.009', reserved: '0' });
  await client(third).responses.retrieve(id);
  t.strictSame(await spend(third), { spent: '0.009', reserved: '0' }, 'once');
});

t.test('when the store fails, nothing is charged twice and nothing is lost', async (t) => {
  let fails = false;
  const clock = fakeClock();
  const store = (opened: Store): Store =>
    new Proxy(opened, {
      get: (target, name) => {
        if (name === 'commit' && fails) return () => Promise.reject(new GatewayError('record_store_unavailable', 'disk full'));
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  const { gw, provider, send, limit } = await place(t, { clock, store });
  await limit('1');
  await send(post('/proxy/openai/v1/responses', ASK));
  const made = provider.ids[0] ?? '';
  provider.finish(made, { in: 0, out: 100 });
  fails = true;
  t.equal((await send(get(`/proxy/openai/v1/responses/${made}`))).status, 503);
  fails = false;
  t.strictSame(await spend(gw), { spent: '0', reserved: '0.015' }, 'as it was');
  t.equal((await send(get(`/proxy/openai/v1/responses/${made}`))).status, 200);
  t.strictSame(await spend(gw), { spent: '0.0015', reserved: '0' });

  let open: () => void = () => undefined;
  provider.hold = new Promise<void>((resolve) => {
    open = resolve;
  });
  const call = send(post('/proxy/openai/v1/responses', ASK));
  await provider.arrived(2);
  fails = true;
  open();
  t.equal((await call).status, 503);
  t.strictSame(await spend(gw), { spent: '0.0015', reserved: '0.015' });
  fails = false;
  clock.advance(1_000);
  while ((await spend(gw)).reserved !== '0') await new Promise((resolve) => setImmediate(resolve));
  t.strictSame(await spend(gw), { spent: '0.0165', reserved: '0' }, 'nobody was told its name: charged at the estimate');
});

t.test('a stream that is ended at its cap is charged what its response cost in the end', async (t) => {
  const { gw, provider, sdk, limit } = await place(t, { env: { GW_STREAM_STOP_AT_CAP: 'true' } });
  // Room for the estimate of one token, not for the three that the first words make.
  await limit('0.000015');
  const stream = await sdk().responses.create({ ...ASK, max_output_tokens: 1, stream: true });
  const types: string[] = [];
  await (async () => {
    for await (const event of stream) types.push(event.type);
  })().catch(() => undefined);
  t.notOk(types.includes('response.completed'));
  t.equal(await text(gw, 'gw_deferred_responses_open'), '1');
  provider.finish(provider.ids[0] ?? '', { in: 0, out: 9 });
  await sdk().responses.retrieve(provider.ids[0] ?? '');
  t.strictSame(await spend(gw), { spent: '0.000135', reserved: '0' }, 'the provider bills it, so it is spent');
});

t.test('sums are exact whatever happens at the same time', async (t) => {
  const { gw, provider, sdk, limit } = await place(t);
  const id = await limit('3');
  const client = sdk();
  let expected = 0n;
  const one = async (n: number): Promise<void> => {
    const { id: made } = await client.responses.create(ASK);
    const used = { in: (n * 7919) % 500, out: (n * 104_729) % 1000 };
    if (n % 5 === 0) provider.finish(made);
    else provider.finish(made, used);
    if (n % 5 !== 0) expected += BigInt(used.in) * picoFromUsd('0.000005') + BigInt(used.out) * picoFromUsd('0.000015');
    await Promise.all([1, 2, 3].map(() => client.responses.retrieve(made)));
  };
  await Promise.all(Array.from({ length: 60 }, (_, n) => one(n)));
  t.strictSame(await spend(gw, id), { spent: usdFromPico(expected), reserved: '0' });
  const summary = (await gw.admin('GET', '/v1/dashboard/summary?org_id=default')).body as Json;
  t.equal(summary['total_cost_usd'], usdFromPico(expected));
  await gw.gateway.stop();
  const records = await storedRecords(gw.dataDir);
  const costs = records.map(({ metering }) => picoFromUsd(String((metering as Json | undefined)?.['cost_usd'] ?? '0')));
  t.equal(
    costs.reduce((sum, cost) => sum + cost, 0n),
    expected,
    'the sum of the records, to the last digit',
  );
  const settled = records.filter(({ record_tier: tier }) => tier === 'usage').map(({ settles_record_id: call }) => call);
  t.equal(new Set(settled).size, 60);
  t.equal(settled.length, 60, 'each once');
});

async function text(gw: Pick<TestGateway, 'admin'>, metric: string): Promise<string | undefined> {
  const line = (await gw.admin('GET', '/metrics')).text.split('\n').find((one) => one.startsWith(`${metric} `));
  return line?.slice(metric.length + 1);
}

async function kill(gw: GatewayProcess): Promise<void> {
  gw.child.kill('SIGKILL');
  await gw.child.ended;
}

const WATCHING = {
  scope: 'org',
  limit_usd: '1',
  period: 'monthly',
  warning_threshold_pct: 50,
  critical_threshold_pct: 80,
  actions: ['alert'],
  created_at: '',
} as const;

/** The service alone, and calls that have begun a response. */
async function service(t: Test) {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: join(tempDir(t), 'store'), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const events = new EventBus(silentLogger);
  const budgets = await BudgetService.open({ store, clock, events });
  const counters = await RecordCounters.open(store, clock, ALL_REGISTERED);
  const catalogues = new CatalogueInForce(loadCatalogue());
  const allowance = new MemoryAllowance({ rates: {} as never, months: {} as never, budgets });
  const deferred = await DeferredUsage.open({
    store,
    clock,
    allowance,
    counters,
    events,
    log: silentLogger,
    leases: new Leases({ store, clock, log: silentLogger, holder: 'node', isShared: false }),
    cachedRates: false,
    catalogues,
  });
  t.teardown(() => deferred.close());
  const settled: UsageSettledEvent[] = [];
  events.subscribe(['usageSettled'], (event) => void settled.push(event));
  const spender = { orgId: 'o', workloadId: 'w', projectId: '', connectorId: 'openai', providerId: 'openai' };
  const day = new Date(clock.now()).toISOString();
  const record = {
    record_id: 'first',
    org_id: 'o',
    workload_id: 'w',
    connector_id: 'openai',
    decision: 'allow',
    created_at: day,
  } as ExecutionRecord;
  const price = { in: '5', out: '15', source: 'catalogue', maxOutputTokens: undefined } as const;
  await budgets.create({ ...WATCHING, limit_id: 'watching', org_id: 'o' });
  const reserved = () => budgets.list().map(({ reservedUsd }) => reservedUsd);
  let begun = 0;
  const begin = (id: string) => {
    const grant = `grant ${begun++}`;
    void takeRegardless(allowance, grant, spender, 1_000n);
    const now = clock.now();
    const call = deferred.begin('api.openai.com', id, now);
    if (call === undefined) throw new Error('a new response');
    const assumed = estimatedMetering({ tokensIn: 0, tokensOutMax: 1, pico: 1_000n, price, model: undefined });
    return { deferral: { call, price, assumed, completedAt: now }, call, grant };
  };
  return { clock, store, deferred, settled, record, begin, reserved };
}

t.test('no more than ten thousand are waited for: the oldest is charged what was set aside', async (t) => {
  const { clock, store, deferred, settled, record, begin, reserved } = await service(t);
  for (let n = 0; n <= 10_000; n++) {
    const { deferral, call, grant } = begin(`resp_${n}`);
    if (n === 0) await store.commit(undefined, [deferred.effect(record, deferral)]);
    await deferred.hold(call, grant, clock.now(), record.org_id);
  }
  while (settled.length === 0) await new Promise((resolve) => setImmediate(resolve));
  t.equal(deferred.size, 10_000);
  t.match(settled, [{ outcome: 'assumed', record: { settles_record_id: 'first', metering: { cost_usd: exactly('0.000000001') } } }]);
  t.equal(settled.length, 1);

  // Nothing in the store stands for these: as where two calls were answered with one response, which was charged
  // between their commits.
  const last = begin('last');
  await store.commit(undefined, [deferred.effect({ ...record, record_id: 'last' }, last.deferral)]);
  await deferred.hold(last.call, last.grant, clock.now(), record.org_id);
  clock.set(clock.now() + DAY + 1);
  await deferred.sweep();
  t.equal(deferred.size, 0, 'what cannot be charged is given back, and keeps back none behind it');
  t.match(settled[1], { outcome: 'assumed', record: { settles_record_id: 'last' } });
  t.equal(settled.length, 2);
  t.same(reserved(), ['0']);
});

t.test('two calls that are answered with one response: it is charged once, whatever comes first', async (t) => {
  const { clock, store, deferred, settled, record, begin, reserved } = await service(t);
  const two = [begin('resp'), begin('resp')];
  for (const { deferral, call, grant } of two) {
    await store.commit(undefined, [deferred.effect(record, deferral)]);
    await deferred.hold(call, grant, clock.now(), record.org_id);
    await deferred.end({ host: 'api.openai.com', responseId: 'resp', usage: { tokens_in: 1, tokens_out: 1 }, model: undefined });
  }
  t.equal(deferred.size, 0);
  clock.set(clock.now() + DAY + 1);
  await deferred.sweep();
  t.equal(settled.length, 1);
  t.same(reserved(), ['0']);
  // Commits are made in their order: what was given to the store before is visible behind this one.
  await store.commit(undefined, [{ op: 'delete', space: 'deferred_usage', key: 'none' }]);
  t.strictSame(await store.list('deferred_usage'), [], 'nothing is waited for after a restart either');
});
