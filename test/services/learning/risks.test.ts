// What is known of callers: held apart, within bounds, over restarts and failures of the store; and the alerts of their
// scores.
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { ExecutionRecord } from '../../../src/base/model/execution-record.ts';
import type { RiskAlert, RiskSignal } from '../../../src/base/model/risk-alert.ts';
import type { RiskRequest } from '../../../src/decide/risk/risk-profile.ts';
import { noticeOf, type RiskNotice } from '../../../src/decide/risk/risk-score.ts';
import { type RiskOptions, RiskService, type ScoredCall } from '../../../src/services/learning/risks.ts';
import type { QuarantineCaller } from '../../../src/services/review/quarantines.ts';
import { Outbox } from '../../../src/services/sending/outbox.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { boundTo } from '../../support/played-line.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const MINUTE = 60_000;
const ALICE: QuarantineCaller = { orgId: 'o', workloadId: 'w', callerId: 'alice', callerIp: '192.0.2.1' };
const NONE = { rate_spike: 0, cost_anomaly: 0, new_target: 0, off_hours: 0, deny_burst: 0, prompt_size_anomaly: 0 };
const ALLOWED = { decision: 'allow', metering: { cost_usd: '0.001' } } as unknown as ExecutionRecord;
const SPACE = 'risk_profile';

async function open(t: HasTeardown, more: Partial<RiskOptions> = {}) {
  const clock = fakeClock();
  const dir = tempDir(t);
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const events = new EventBus(silentLogger);
  const alerts: RiskAlert[] = [];
  events.subscribe(['riskAlert'], (alert) => void alerts.push(alert));
  const notices: RiskAlert[] = [];
  events.subscribe(['riskNotice'], (alert) => void notices.push(alert));
  const delivered: string[] = [];
  const siem = {
    id: 'siem',
    deliver: (batch: readonly { readonly name: string }[]) => Promise.resolve(void delivered.push(...batch.map(({ name }) => name))),
  };
  const outbox = await Outbox.open({ store, clock, log: silentLogger, writer: 'node', destinations: [siem] });
  const settings = {
    minSamples: 5,
    weights: { ...NONE, new_target: 0.8 },
    thresholds: { rate_spike: 4, cost_anomaly: 4, new_target: 2, off_hours: 6, deny_burst: 5, prompt_size_anomaly: 4 },
  };
  const options: RiskOptions = {
    store,
    clock,
    log: silentLogger,
    events,
    outbox,
    settings,
    alertAt: 0.7,
    maxCallers: 100,
    enabled: 'true',
    ...more,
  };
  const risks = new RiskService(options);
  t.teardown(() => risks.close());
  return { clock, store, outbox, options, alerts, notices, delivered, risks };
}

type Opened = Pick<Awaited<ReturnType<typeof open>>, 'risks' | 'clock' | 'store'>;

const asked = (at: number, target = 'a'): RiskRequest => ({ at, target, promptTokens: 100, costMicros: 1000 });

async function call({ risks, clock, store }: Opened, caller: QuarantineCaller, target?: string, record = ALLOWED): Promise<ScoredCall> {
  const scored = await risks.score(caller, 'r', asked(clock.now(), target));
  const effects = scored.effects(record);
  if (effects.length > 0) await store.commit(undefined, effects);
  scored.stored();
  clock.advance(1000);
  return scored;
}

async function known(opened: Opened, caller: QuarantineCaller, times = 60): Promise<void> {
  for (let n = 0; n < times; n += 1) await call(opened, caller);
}

t.test('what one caller does is nothing to another, and a name is not an address', async (t) => {
  const opened = await open(t);
  const others: readonly QuarantineCaller[] = [
    { ...ALICE, callerId: 'bob' },
    { ...ALICE, workloadId: 'x' },
    { ...ALICE, orgId: 'x' },
    { ...ALICE, callerId: undefined },
    { ...ALICE, callerId: '192.0.2.1' },
    { ...ALICE, callerId: undefined, callerIp: '192.0.2.2' },
  ];
  await known(opened, ALICE);
  for (const other of others) t.same((await call(opened, other, 'b')).risk, { score: 0, signals: [] });
  t.match(
    (await call(opened, { ...ALICE, callerIp: '198.51.100.1' }, 'b')).risk,
    { signals: ['new_target'] },
    'who has a name is known by it',
  );
  t.equal(opened.risks.callers, 1 + others.length);
});

t.test(
  'an alert is raised for every call before anything is decided, a notice for people once in five minutes, both with the record',
  async (t) => {
    const opened = await open(t);
    const { risks, clock, alerts, notices, delivered, outbox } = opened;
    outbox.start();
    await known(opened, ALICE);
    const scored = await risks.score(ALICE, 'r-1', asked(clock.now(), 'b'));
    t.match(alerts, [
      { risk_score: scored.risk.score, signals: ['new_target'], org_id: 'o', workload_id: 'w', caller_id: 'alice', record_id: 'r-1' },
    ]);
    t.match(alerts[0], { request_rate: /^\d+\.\d\d$/, cost_rate: /^0\.0\d+$/ });
    await opened.store.commit(undefined, scored.effects(ALLOWED));
    scored.stored();
    while (delivered.length < 2) await new Promise((resolve) => setImmediate(resolve));
    t.same(delivered, ['riskAlert', 'riskNotice']);
    await call(opened, ALICE, 'c');
    t.same([alerts.length, notices.length], [2, 1], 'an event for every call, and people know that something goes on');
    await call(opened, ALICE, 'a');
    t.equal(alerts.length, 2, 'none below the threshold');
    clock.advance(5 * MINUTE);
    await call(opened, ALICE, 'd');
    t.same([alerts.length, notices.length], [3, 2]);
    clock.advance(5 * MINUTE);
    const lost = await risks.score(ALICE, 'r-2', asked(clock.now(), 'e'));
    lost.effects(ALLOWED);
    lost.failed();
    await call(opened, ALICE, 'f');
    t.same([alerts.length, notices.length], [5, 4], 'one whose record could not be stored is given again');
  },
);

t.test('people are told at once when a score is higher by 0.1 than what they know, or another signal joins', (t) => {
  const steps: readonly (readonly [what: string, at: number, score: number, signals: readonly RiskSignal[], told: boolean])[] = [
    ['the first', 0, 0.7, ['new_target'], true],
    ['the same', 1, 0.7, ['new_target'], false],
    ['a little higher', 2, 0.7999, ['new_target'], false],
    ['higher by 0.1', 3, 0.8, ['new_target'], true],
    ['lower, and as high as before', 4, 0.7, ['new_target'], false],
    ['again as high', 5, 0.8, ['new_target'], false],
    ['another signal, at a lower score', 6, 0.75, ['new_target', 'off_hours'], true],
    ['the one without the other', 7, 0.75, ['off_hours'], false],
    ['a third in the place of both', 8, 0.75, ['rate_spike'], true],
    ['all of them', 9, 0.85, ['new_target', 'off_hours', 'rate_spike'], false],
    ['five minutes behind the last notice', 13, 0.7, ['off_hours'], true],
    ['what was known before that begins anew', 14, 0.8, ['off_hours'], true],
    ['so does another signal', 15, 0.8, ['new_target', 'off_hours'], true],
  ];
  let last: RiskNotice | undefined;
  for (const [what, minute, score, signals, told] of steps) {
    const next = noticeOf(last, { score, signals }, minute * MINUTE);
    t.equal(next !== undefined, told, what);
    last = next ?? last;
  }
  t.end();
});

// Holds: risk-keeps-no-names
t.test('what was learnt is stored within a minute and at the end, and is known after a restart', async (t) => {
  const opened = await open(t);
  const { store, clock, options, risks } = opened;
  await known(opened, ALICE, 30);
  t.same(await store.list(SPACE), []);
  clock.advance(MINUTE);
  while ((await store.list(SPACE)).length === 0) await new Promise((resolve) => setImmediate(resolve));
  await known(opened, ALICE, 30);
  await risks.close();
  const [row, ...more] = await store.list(SPACE);
  t.same(more, []);
  t.notMatch(JSON.stringify(row), /alice|192\.0\.2|"a"/, 'no name, address or target is kept');
  t.ok(JSON.stringify(row).length < 2_000);
  const again = { ...opened, risks: new RiskService(options) };
  t.match((await call(again, ALICE, 'b')).risk, { signals: ['new_target'] });
  t.match((await call(again, ALICE)).risk, { signals: [] });
  await again.risks.close();
  t.equal(await again.risks.removeBefore(clock.now() - 3_600_000), 0);
  t.equal(await again.risks.removeBefore(clock.now() + 1), 1);
  t.same(await store.list(SPACE), []);
});

t.test('memory has a bound: who was not heard of for longest is stored and read again', async (t) => {
  const opened = await open(t, { maxCallers: 50 });
  await known(opened, ALICE);
  for (let n = 0; n < 2_000; n += 1) {
    await call(opened, { ...ALICE, callerId: `c-${n}` });
    if (n % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  t.equal(opened.risks.callers, 50);
  t.match((await call(opened, ALICE, 'b')).risk, { signals: ['new_target'] });
});

t.test('ten thousand callers take less than 40 MB', async (t) => {
  const opened = await open(t, { maxCallers: 10_000 });
  const collect = globalThis.gc;
  if (collect === undefined) return;
  const settle = async (): Promise<number> => {
    let least = Number.POSITIVE_INFINITY;
    for (let same = 0; same < 3; ) {
      await new Promise((resolve) => setImmediate(resolve));
      collect();
      const now = process.memoryUsage().heapUsed;
      if (now < least - 100_000) [least, same] = [now, 0];
      else same += 1;
    }
    return least;
  };
  const before = await settle();
  for (let n = 0; n < 10_000; n += 1) await call(opened, { ...ALICE, callerId: `c-${n}` });
  const grown = (await settle()) - before;
  t.ok(grown < 40_000_000, `${(grown / 1e6).toFixed(1)} MB`);
});

t.test('a store that fails costs no request, and what it could not take is stored later', async (t) => {
  let fails = true;
  const refuse = () => Promise.reject(new GatewayError('record_store_unavailable', 'no'));
  const opened = await open(t);
  const store = {
    ...boundTo(opened.store),
    get: (...given: Parameters<Store['get']>) => (fails ? refuse() : opened.store.get(...given)),
    commit: (...given: Parameters<Store['commit']>) => (fails ? refuse() : opened.store.commit(...given)),
  };
  const risks = new RiskService({ ...opened.options, store: store as Store });
  const scored = await risks.score(ALICE, 'r', asked(opened.clock.now()));
  t.same(scored.risk, { score: 0, signals: [] });
  fails = false;
  const other = { ...opened, risks };
  await known(other, ALICE);
  fails = true;
  opened.clock.advance(MINUTE);
  await new Promise((resolve) => setImmediate(resolve));
  fails = false;
  await risks.close();
  t.equal((await opened.store.list(SPACE)).length, 1);
});
