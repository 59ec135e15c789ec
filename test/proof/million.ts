/*
 * A store with a million records: what people ask for is answered from totals, at once and exactly, and a page of
 * records is read without looking at the others.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { countAgain } from '../../src/app/count-again.ts';
import { systemClock, timestamp } from '../../src/base/lib/clock.ts';
import { uuidv7 } from '../../src/base/lib/ids.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';
import { canonicalRecord, type UnhashedRecord } from '../../src/record/canonical-record.ts';
import { RecordCounters } from '../../src/services/reports/record-counters.ts';
import type { RecordFilters, RecordMembers } from '../../src/storage/contract/record-query.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { ALL_REGISTERED } from '../support/all-registered.ts';
import { type Checks, type CleanUp, prove } from './checks.ts';
import { threadsWaitedForCoreMs } from './process-state.ts';
import { ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { proofSettings } from './settings.ts';

/** Two months and a bit, so that ranges over whole and partial months have something to add up. */
const DAYS = 70;
const DAY_MS = 86_400_000;
const AT_ONCE = 256;
const PAGE = 50;
const SUMMARY_LIMIT_MS = 50;
const PAGE_LIMIT_MS = 20;
const QUERY_LIMIT_MS = 50;
/** A bill by model reads a row for each workload, connector, model and day. */
const ZONED_LIMIT_MS = 500;
/** 64 MB for a million records. */
const COLUMN_LIMIT_BYTES = 64;
/** The median of so many answers is held to the limit: a busy machine only ever adds, and not to all. */
const TIMES = 21;
const ORGS = ['default', 'research', 'sales'];
const WORKLOADS = 60;
/** Nearly all customers of a segment have one record in it. */
const CUSTOMERS = 20_000;
const MODELS = ['gpt-4o', 'gpt-4o-mini', 'claude-sonnet-4', 'gemini-2.5-flash', 'mistral-large-latest'];
const CONNECTORS = ['openai', 'openai', 'anthropic', 'gemini', 'mistral'];

/** Totals of the org `default`, counted beside the store. */
interface Tally {
  requests: number;
  tokens: number;
  pico: bigint;
}

/** The record of the n-th of `count` calls. Everything follows from its number. */
function recordAt(
  n: number,
  count: number,
  endMs: number,
): { readonly record: UnhashedRecord; readonly pico: bigint; readonly at: number } {
  const at = endMs - DAYS * DAY_MS + Math.floor(((n + 1) / count) * DAYS * DAY_MS) - 1;
  const model = n % MODELS.length;
  const denied = n % 17 === 0;
  const pico = BigInt(n % 1_000_003) * 1_000_000n + 250_000n;
  const usd = `${pico / 10n ** 12n}.${String(pico % 10n ** 12n).padStart(12, '0')}`;
  const record = {
    schema: 'gw.execution_record.v1',
    record_id: uuidv7(at),
    request_id: `request-${n}`,
    created_at: timestamp(at - 900),
    completed_at: timestamp(at),
    org_id: ORGS[n % ORGS.length],
    workload_id: `workload-${(n * 7) % WORKLOADS}`,
    node_id: 'proof',
    decision: denied ? 'deny' : n % 101 === 0 ? 'error' : 'allow',
    reason_codes: [],
    action_type: 'ai.infer',
    action_method: 'POST',
    target: 'https://api.openai.com/v1/chat/completions',
    target_host: 'api.openai.com',
    target_path: '/v1/chat/completions',
    connection_type: 'explicit_proxy',
    traffic_class: 'developer',
    record_tier: 'action',
    connector_id: CONNECTORS[model],
    provider: CONNECTORS[model],
    model: MODELS[model],
    credential_id: `credential-${model}`,
    api_key_id: `key-${n % 40}`,
    customer_id: `customer-${(n * 31) % CUSTOMERS}`,
    account_id: `account-${n % 200}`,
    ...(n % 4 === 0 ? { labels: { team: `team-${n % 9}`, env: n % 8 === 0 ? 'prod' : 'test' } } : {}),
    ...(n % 10 === 0 ? { stream_outcome: n % 30 === 0 ? 'aborted' : 'complete' } : {}),
    project_id: `project-${n % 12}`,
    latency_ms: 900,
    stream: false,
    request_bytes: 2_048,
    response_bytes: 4_096,
    policy_trace: { bundle_id: 'proof', version: '1', matched_rule_ids: ['targets.all'], matched_layers: ['targets'] },
    ...(denied
      ? {}
      : {
          upstream_status: 200,
          metering: {
            tokens_in: n % 4_001,
            tokens_out: n % 997,
            cost_usd: usd.replace(/\.?0+$/, ''),
            model: MODELS[model],
            usage_reported: true,
            rate_in: '5',
            rate_out: '15',
            rate_source: 'catalogue',
          },
        }),
  } as unknown as UnhashedRecord;
  return { record, pico: denied ? 0n : pico, at };
}

async function fill(store: Store, counters: RecordCounters, count: number, endMs: number): Promise<Tally> {
  const tally: Tally = { requests: 0, tokens: 0, pico: 0n };
  for (let first = 0; first < count; first += AT_ONCE) {
    const group: Promise<void>[] = [];
    for (let n = first; n < Math.min(count, first + AT_ONCE); n += 1) {
      const { record, pico, at } = recordAt(n, count, endMs);
      const { text, hash } = canonicalRecord(record);
      const effects = counters.effects(record as unknown as ExecutionRecord);
      const members = record as RecordMembers;
      group.push(store.commit({ record_id: record.record_id, record_hash: hash, text, committed_at: at, members }, effects));
      if (n % ORGS.length !== 0) continue;
      tally.requests += 1;
      tally.tokens += (record.metering?.tokens_in ?? 0) + (record.metering?.tokens_out ?? 0);
      tally.pico += pico;
    }
    await Promise.all(group);
  }
  return tally;
}

/** Milliseconds of the median of some calls, without what this process, and that of `pid`, waited for a core. */
async function median(call: () => Promise<unknown>, pid: number): Promise<number> {
  const pids = new Set([process.pid, pid]);
  const now = () => [...pids].reduce((time, waiting) => time - threadsWaitedForCoreMs(waiting), performance.now());
  const took: number[] = [];
  for (let times = 0; times < TIMES; times += 1) {
    const from = now();
    await call();
    took.push(now() - from);
  }
  took.sort((a, b) => a - b);
  return took[TIMES >> 1] ?? Number.NaN;
}

async function within(checks: Checks, name: string, limitMs: number, call: () => Promise<unknown>, pid = process.pid): Promise<void> {
  const ms = await median(call, pid);
  checks.check(`${name}: ${ms.toFixed(1)} ms, at most ${limitMs}`, ms <= limitMs ? [] : [`it takes ${ms.toFixed(1)} ms`]);
}

async function pages(checks: Checks, store: Store, count: number): Promise<void> {
  let after: string | undefined;
  for (let read = 0; read < count / 2; read += 1_000) {
    after = (await store.records({ limit: 1_000, ...(after === undefined ? {} : { after }) })).at(-1)?.position;
  }
  const middle = after === undefined ? {} : { after };
  await within(checks, `the newest ${PAGE} records`, PAGE_LIMIT_MS, () => store.records({ limit: PAGE, newestFirst: true }));
  await within(checks, `the oldest ${PAGE}`, PAGE_LIMIT_MS, () => store.records({ limit: PAGE }));
  await within(checks, `${PAGE} behind the middle`, PAGE_LIMIT_MS, () => store.records({ limit: PAGE, ...middle }));
  await within(checks, `${PAGE} before the middle`, PAGE_LIMIT_MS, () => store.records({ limit: PAGE, newestFirst: true, ...middle }));
}

/** What is asked, beginning with each filter by itself; what no record has makes a query look at all of them. */
function filtersOf(endMs: number): readonly (readonly [name: string, filters: RecordFilters])[] {
  const since = endMs - 30 * DAY_MS;
  return [
    ['org_id', { org_id: 'sales' }],
    ['workload_id', { workload_id: 'workload-7' }],
    ['decision', { decision: 'error' }],
    ['traffic_class', { traffic_class: 'ambient' }],
    ['provider', { provider: 'gemini' }],
    ['model', { model: 'sonnet' }],
    ['action_type', { action_type: 'ai.embed' }],
    ['record_tier', { record_tier: 'usage' }],
    ['connection_type', { connection_type: 'api' }],
    ['target_host', { target_host: 'api.example.com' }],
    ['stream_outcome', { stream_outcome: 'aborted' }],
    ['node_id', { node_id: 'other' }],
    ['credential_id', { credential_id: 'credential-4' }],
    ['api_key_id', { api_key_id: 'key-3' }],
    ['project_id', { project_id: 'project-11' }],
    ['account_id', { account_id: 'account-77' }],
    ['customer_id', { customer_id: 'customer-12345' }],
    ['label', { label: { key: 'env', value: 'prod' } }],
    ['label that none has', { label: { key: 'env', value: 'none' } }],
    ['min_cost_usd', { min_cost_usd: '0.999' }],
    ['min_cost_usd that none has', { min_cost_usd: '1000' }],
    ['since', { since }],
    ['until', { until: since }],
    ['three that have few together', { org_id: 'sales', decision: 'error', min_cost_usd: '0.9' }],
    ['three that none has together', { decision: 'deny', workload_id: 'workload-7', min_cost_usd: '0.1' }],
    ['three over a month', { since, model: 'mini', label: { key: 'team', value: 'team-4' } }],
  ];
}

/** Each query, newest and oldest first in turn. */
async function queries(checks: Checks, store: Store, count: number, endMs: number): Promise<void> {
  const all = filtersOf(endMs);
  const from = performance.now();
  await store.records({ record_tier: 'usage', limit: 1 });
  checks.note(`the first query of all reads the columns of ${count} records in ${(performance.now() - from).toFixed(0)} ms`);
  const cpu = process.cpuUsage();
  for (const [, filters] of all) {
    for (let times = 0; times < TIMES; times += 1) await store.records({ ...filters, newestFirst: times % 2 === 0, limit: PAGE });
  }
  const { user, system } = process.cpuUsage(cpu);
  checks.note(`${((user + system) / 1_000 / TIMES / all.length).toFixed(2)} ms of CPU a query`);
  const took: number[] = [];
  for (const [name, filters] of all) {
    const own: number[] = [];
    for (let times = 0; times < TIMES; times += 1) {
      for (const newestFirst of [true, false]) {
        const start = performance.now() - threadsWaitedForCoreMs(process.pid);
        await store.records({ ...filters, newestFirst, limit: PAGE });
        own.push(performance.now() - threadsWaitedForCoreMs(process.pid) - start);
      }
    }
    took.push(...own);
    const [half, worst] = [at(own, 0.5), at(own, 0.99)];
    checks.check(
      `a query by ${name}: ${half.toFixed(1)} ms, p99 ${worst.toFixed(1)}, at most ${QUERY_LIMIT_MS}`,
      half <= QUERY_LIMIT_MS ? [] : [`it takes ${half.toFixed(1)} ms`],
    );
  }
  const p99 = at(took, 0.99);
  checks.check(`all queries: p99 ${p99.toFixed(1)} ms, at most ${QUERY_LIMIT_MS}`, p99 <= QUERY_LIMIT_MS ? [] : [`${p99.toFixed(1)} ms`]);
}

function at(took: readonly number[], part: number): number {
  const sorted = [...took].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

function residentMb(): number {
  return process.memoryUsage.rss() / 2 ** 20;
}

/** Opens the store again, as a start does, and asks it. */
async function asked(checks: Checks, options: Parameters<typeof openEmbeddedStore>[0], count: number, endMs: number): Promise<void> {
  const before = residentMb();
  const from = performance.now();
  const store = await openEmbeddedStore(options);
  checks.note(`the store opens in ${(performance.now() - from).toFixed(0)} ms`);
  try {
    const opened = residentMb();
    await queries(checks, store, count, endMs);
    const { arrayBuffers } = process.memoryUsage();
    checks.note(
      `resident: ${before.toFixed(0)} MB before the start, ${opened.toFixed(0)} behind it, ${residentMb().toFixed(0)} behind the queries; memory outside of the heap ${(arrayBuffers / 2 ** 20).toFixed(0)} MB`,
    );
    const folder = join(options.dir, 'columns');
    const bytes = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
    checks.check(
      `columns: ${(bytes / count).toFixed(1)} bytes for a record, at most ${COLUMN_LIMIT_BYTES}`,
      bytes <= count * COLUMN_LIMIT_BYTES ? [] : [`${bytes} bytes`],
    );
  } finally {
    await store.close();
  }
}

async function answers(checks: Checks, gateway: ProofGateway, tally: Tally, endMs: number): Promise<void> {
  const day = (before: number) => timestamp(endMs - before * DAY_MS).slice(0, 10);
  const month = timestamp(endMs - 40 * DAY_MS).slice(0, 7);
  const paths: readonly (readonly [name: string, path: string])[] = [
    ['the summary of the last 24 hours', `/v1/dashboard/summary?org_id=default&to=${timestamp(endMs)}`],
    ['the summary of five weeks', `/v1/dashboard/summary?org_id=default&from=${day(40)}&to=${day(5)}`],
    ['the summary of everything', `/v1/dashboard/summary?org_id=default&from=${day(DAYS + 1)}&to=${day(0)}`],
    ['the summary of nine years', `/v1/dashboard/summary?org_id=default&from=${day(3_290)}&to=${day(0)}`],
    ['the decisions of five weeks', `/v1/dashboard/decisions?org_id=default&from=${day(40)}&to=${day(5)}`],
    ['the bill of a month', `/v1/admin/billing/summary?period=${month}`],
    ['the CSV of a month', `/v1/admin/billing/export.csv?period=${month}`],
    ['the usage of a month', `/v1/reports/usage?org_id=default&period=${month}`],
    ['the spend of a month', `/v1/reports/spend?org_id=default&period=${month}`],
  ];
  for (const [name, path] of paths) {
    const ask = async (): Promise<void> => {
      const { status, text } = await gateway.get(path);
      if (status !== 200) throw new Error(`${path} answers ${status}: ${text}`);
    };
    await within(checks, name, SUMMARY_LIMIT_MS, ask, gateway.pid);
  }
  const whole = JSON.parse((await gateway.get(paths[2]?.[1] ?? '')).text) as Record<string, string | number>;
  const [units = '', fraction = ''] = String(whole['total_cost_usd']).split('.');
  const same = (name: string, expected: unknown, got: unknown) =>
    expected === got ? [] : [`${name}: counted ${String(expected)}, answered ${String(got)}`];
  checks.check('the summary of everything is the sum of all records, to the last digit', [
    ...same('requests', tally.requests, whole['total_requests']),
    ...same('tokens', tally.tokens, Number(whole['total_tokens_in']) + Number(whole['total_tokens_out'])),
    ...same('pico-dollars', tally.pico, BigInt(units + fraction.padEnd(12, '0'))),
  ]);
}

/** The filters of the list that people ask for, as they ask for them. */
function listQueries(endMs: number): readonly string[] {
  const all = `from=${timestamp(endMs - DAYS * DAY_MS)}`;
  const filters = [
    [
      'workload_id=workload-7',
      'decision=deny',
      'decision=allow',
      'decision=error',
      'traffic_class=ambient',
      'provider=gemini',
      'model=sonnet',
    ],
    ['action_type=ai.embed', 'record_tier=usage', 'connection_type=direct_api', 'target_host=api.example.com', 'stream_outcome=aborted'],
    ['node=other', 'credential_id=credential-4', 'api_key_id=key-3', 'project=project-9', 'account=account-77', 'customer=customer-12345'],
    ['label_key=env&label_value=prod', 'label_key=env&label_value=none', 'min_cost_usd=0.999', 'min_cost_usd=1000'],
    ['record_id=00000000-0000-7000-8000-000000000000', 'decision=deny&workload_id=workload-7&min_cost_usd=0.1'],
  ];
  return ['', ...filters.flat().map((filter) => `${all}&${filter}`)];
}

/** The list of the management API: each filter in time, and a walk through all records of an org while others come. */
async function lists(checks: Checks, gateway: ProofGateway, tally: Tally, endMs: number): Promise<void> {
  const key = await gateway.managementKey('default');
  for (const query of listQueries(endMs)) {
    const ask = () => gateway.managed(key, `records?limit=${PAGE}&${query}`);
    await within(checks, `the list of records by ${query === '' ? 'nothing' : query}`, QUERY_LIMIT_MS, ask, gateway.pid);
  }
  const seen = new Set<string>();
  let [walked, cursor]: [number, string | null] = [0, ''];
  while (cursor !== null) {
    const query: string = `records?limit=500&from=${timestamp(endMs - DAYS * DAY_MS)}${cursor === '' ? '' : `&cursor=${cursor}`}`;
    const page = (await gateway.managed(key, query)) as { data: readonly { record_id: string }[]; next_cursor: string | null };
    for (const { record_id: id } of page.data) seen.add(id);
    walked += page.data.length;
    cursor = page.next_cursor;
    // A call of nobody who is registered: refused, and recorded.
    const stranger = {
      schema: 'gw.action_request.v2',
      org_id: 'default',
      workload_id: 'nobody',
      action: { type: 'ai.infer', method: 'GET' },
    };
    await gateway.ask('POST', '/v1/actions:execute', {
      ...stranger,
      action: { ...stranger.action, target_host: 'api.openai.com', params: {} },
    });
  }
  checks.check(`a walk through ${walked} records while others come`, [
    ...(seen.size === walked ? [] : [`${walked - seen.size} came twice`]),
    ...(walked === tally.requests ? [] : [`${tally.requests} are there, ${walked} came`]),
  ]);
}

/** What is told by days of a zone, and by who is charged. */
async function zones(checks: Checks, gateway: ProofGateway, endMs: number): Promise<void> {
  const key = await gateway.managementKey('default');
  const day = (before: number) => timestamp(endMs - before * DAY_MS).slice(0, 10);
  for (const [name, path, limitMs] of [
    ['the requests of the last day, by hour', 'spend', SUMMARY_LIMIT_MS],
    ['the dashboard of a day in Kathmandu', `dashboard?from=${day(9)}&to=${day(9)}&tz=Asia/Kathmandu`, ZONED_LIMIT_MS],
    ['the bill of a month in UTC', `billing/summary?from=${day(40)}&to=${day(10)}`, ZONED_LIMIT_MS],
    ['the bill of a month in Kathmandu', `billing/summary?from=${day(40)}&to=${day(10)}&tz=Asia/Kathmandu`, ZONED_LIMIT_MS],
    ['who was charged in the last two days', `attribution/summary?from=${timestamp(endMs - 2 * DAY_MS)}`, ZONED_LIMIT_MS],
  ] as const) {
    await within(checks, name, limitMs, () => gateway.managed(key, path), gateway.pid);
  }
}

async function million(checks: Checks, cleanUp: CleanUp): Promise<void> {
  const count = proofSettings().length === 'tenth' ? 100_000 : 1_000_000;
  const folders = proofFolders(cleanUp);
  const endMs = Date.now();
  const options = { dir: join(folders.data, 'store'), fsync: 1_000, clock: systemClock, log: silentLogger } as const;
  const store = await openEmbeddedStore(options);
  cleanUp.teardown(() => store.close());
  const counters = await RecordCounters.open(store, systemClock, ALL_REGISTERED);
  await countAgain(store, counters, silentLogger);
  const [started, cpu] = [performance.now(), process.cpuUsage()];
  const tally = await fill(store, counters, count, endMs);
  const { user, system } = process.cpuUsage(cpu);
  const seconds = ((performance.now() - started) / 1_000).toFixed(0);
  checks.note(`${count} records in ${seconds} s, ${((user + system) / count).toFixed(1)} µs of CPU each, making them included`);
  await pages(checks, store, count);
  await store.close();
  await asked(checks, options, count, endMs);
  const env = proofEnvironment(folders, { caPem: '', env: () => ({}) });
  const gateway = await ProofGateway.start(cleanUp, env, folders.work);
  checks.note(`the gateway starts on them in ${(gateway.startMs / 1_000).toFixed(1)} s`);
  await answers(checks, gateway, tally, endMs);
  await lists(checks, gateway, tally, endMs);
  await zones(checks, gateway, endMs);
  await gateway.stop();
}

await prove(million);
