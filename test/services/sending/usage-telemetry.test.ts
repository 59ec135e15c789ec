// Usage reports by a fake clock: what is counted of records, when a report leaves, and what becomes of those that fail.
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { EventBus } from '../../../src/base/events/bus.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { SentReport, TelemetryReport } from '../../../src/base/model/telemetry-report.ts';
import { UsageTelemetry } from '../../../src/services/sending/telemetry/usage-telemetry.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { testRecord } from '../../support/test-record.ts';

const HOUR = 3_600_000;
const catalogue = loadCatalogue();

interface Scene {
  readonly clock: FakeClock;
  readonly events: EventBus;
  readonly sent: TelemetryReport[];
  readonly telemetry: UsageTelemetry;
  call(record: Parameters<typeof testRecord>[0]): void;
  /** Lets an hour, or more, pass, and the answer arrive. */
  pass(ms?: number): Promise<void>;
}

function scene(answer: () => SentReport = () => ({ delivered: true, detail: 'HTTP 204', pauseMs: undefined })): Scene {
  const clock = fakeClock();
  const events = new EventBus(silentLogger);
  const sent: TelemetryReport[] = [];
  const telemetry = new UsageTelemetry({
    clock,
    log: silentLogger,
    events,
    store: { records: () => Promise.reject(new Error('nothing is read')) },
    nodeId: 'node-1',
    catalogue: () => catalogue,
    state: {
      sending: true,
      url: 'https://reports.example.com/in',
      send: (report) => {
        sent.push(report);
        return Promise.resolve(answer());
      },
    },
  });
  return {
    clock,
    events,
    sent,
    telemetry,
    call: (record) => events.emit('execution', { record: testRecord(record), durationMs: 1 }),
    pass: async (ms = HOUR) => {
      clock.advance(ms);
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

const metering = {
  tokens_in: 11,
  tokens_out: 7,
  cost_usd: '0',
  usage_reported: true,
  rate_in: '1',
  rate_out: '1',
  rate_source: 'catalogue',
} as const;

t.test('a report counts what records say, and nothing else stands in it', async (t) => {
  const { call, pass, sent, events } = scene();
  call({ metering });
  call({ metering, decision: 'deny' });
  call({ metering, decision: 'downgrade', provider: 'anthropic', model: 'claude-sonnet-4-5', target_host: 'api.anthropic.com' });
  call({ metering, decision: 'error' });
  call({ provider: undefined, model: undefined, action_type: 'http.request', target_host: 'www.example.com' });
  events.emit('usageSettled', { record: testRecord({ record_tier: 'usage', metering }), outcome: 'reported' });
  await pass();
  const [report] = sent;
  t.same(Object.keys(report ?? {}), [
    ...['schema', 'instance_id', 'version', 'window_start', 'window_end'],
    ...['providers', 'decisions', 'action_types', 'risk_alerts'],
  ]);
  t.match(report, { schema: 'gw.telemetry.v2', window_start: '2026-11-21T12:00:00.000Z', window_end: '2026-11-21T13:00:00.000Z' });
  t.same(report?.providers, {
    anthropic: {
      requests: 1,
      tokens_in: 11,
      tokens_out: 7,
      models: { 'claude-sonnet-4-5': 1 },
      domains: { 'api.anthropic.com': 1 },
      connection_types: { sdk_redirect: 1 },
    },
    openai: {
      requests: 3,
      tokens_in: 22,
      tokens_out: 14,
      models: { 'gpt-4o-mini': 3 },
      domains: { 'api.openai.com': 3 },
      connection_types: { sdk_redirect: 3 },
    },
  });
  t.same(report?.decisions, { allow: 2, deny: 1, downgrade: 1, error: 1 });
  t.same(report?.action_types, { 'ai.infer': 4, 'http.request': 1 });
});

// Holds: no-telemetry-unasked
t.test('no name that anybody chose is told: models, hosts, connectors and action types that are not shipped are `other`', async (t) => {
  const { call, pass, sent } = scene();
  const planted = 'planted-secret';
  call({
    record_id: planted,
    org_id: planted,
    workload_id: planted,
    caller_id: planted,
    caller_ip: '203.0.113.9',
    model: `ft:gpt-4o:${planted}`,
    target_host: `${planted}.openai.azure.com`,
    target_path: `/${planted}`,
    action_type: planted,
    labels: { [planted]: planted },
    reason: planted,
    error: { code: planted, message: planted },
  });
  call({ provider: planted, model: planted, target_host: `${planted}.example.com` });
  await pass();
  t.notMatch(JSON.stringify(sent), planted);
  t.notMatch(JSON.stringify(sent), '203.0.113');
  t.match(sent[0]?.providers, {
    openai: { models: { other: 1 } },
    other: { requests: 1, models: { other: 1 }, domains: { other: 1 } },
  });
  t.same(sent[0]?.action_types, { 'ai.infer': 1, other: 1 });
});

t.test('however many names callers make up, a report has its size', async (t) => {
  const { call, pass, sent } = scene();
  for (let n = 0; n < 20_000; n += 1)
    call({ model: `m${n}`, provider: `p${n}`, target_host: `h${n}.example`, action_type: `a${n}`, caller_id: `c${n}`, risk_score: 0.9 });
  await pass();
  t.ok(JSON.stringify(sent[0]).length < 2_000);
  t.equal(sent[0]?.risk_alerts, 20_000);
});

t.test('a caller whose score reaches 0.7 is one alert until it was below again, over the end of a window', async (t) => {
  const { call, pass, sent } = scene();
  for (const score of [0.2, 0.7, 0.95, 0.69, 0.7]) call({ caller_id: 'bob', risk_score: score });
  call({ caller_id: 'eve', risk_score: 0.8 });
  await pass();
  call({ caller_id: 'bob', risk_score: 0.9 });
  call({ caller_id: 'bob' });
  await pass();
  t.same(
    sent.map(({ risk_alerts: alerts }) => alerts),
    [3, 0],
  );
});

t.test('a report leaves every hour, each of the time since the one before; what fails is over', async (t) => {
  const answers = [true, false, true].map(
    (delivered): SentReport => ({ delivered, detail: delivered ? 'HTTP 204' : 'HTTP 503', pauseMs: undefined }),
  );
  const { call, pass, sent, telemetry } = scene(() => answers.shift() ?? { delivered: true, detail: '', pauseMs: undefined });
  await pass(HOUR - 1);
  t.equal(sent.length, 0);
  await pass(1);
  call({});
  await pass();
  t.match(sent[1]?.decisions, { allow: 1 });
  t.match((await telemetry.preview()).last, { delivered: false, detail: 'HTTP 503' });
  await pass();
  t.same(sent[2]?.decisions, {}, 'the counts of the one that failed are dropped');
  t.same(
    sent.map(({ window_start: start, window_end: end }) => [start.slice(11, 16), end.slice(11, 16)]),
    [
      ['12:00', '13:00'],
      ['13:00', '14:00'],
      ['14:00', '15:00'],
    ],
  );
  t.equal(new Set(sent.map(({ instance_id: id }) => id)).size, 1);
  t.not(sent[0]?.instance_id, (await scene().telemetry.preview()).report.instance_id);
});

t.test('the receiver may ask for a longer pause, a week at most, and never for a shorter one', async (t) => {
  const pauses = [3 * HOUR, 1_000, 10_000 * HOUR];
  const { pass, sent, telemetry } = scene(() => ({ delivered: true, detail: '', pauseMs: pauses.shift() }));
  await pass();
  t.equal((await telemetry.preview()).interval_seconds, 3 * 3_600);
  await pass(3 * HOUR - 1);
  t.equal(sent.length, 1);
  await pass(1);
  t.equal(sent.length, 2);
  await pass(HOUR - 1);
  t.equal(sent.length, 2);
  await pass(1);
  t.equal(sent.length, 3);
  await pass(7 * 24 * HOUR - 1);
  t.equal(sent.length, 3);
  await pass(1);
  t.equal(sent.length, 4);
});

t.test('after the end nothing is counted and nothing is sent', async (t) => {
  const { pass, sent, telemetry, clock, events } = scene();
  await telemetry.close();
  await pass();
  t.equal(sent.length, 0);
  t.equal(clock.pending, 0);
  t.notOk(events.hears('execution'));
});
