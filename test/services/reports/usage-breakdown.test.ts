// Usage by days of any zone and by who is charged, against a recount of the records: at changes of the clock, in zones
// that are no whole hours from UTC, over a folder that is counted again.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { countAgain } from '../../../src/app/count-again.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { picoFromUsd, usdFromPico } from '../../../src/base/lib/money.ts';
import { dayAfter, TimeZone } from '../../../src/base/lib/time-zone.ts';
import type { ExecutionRecord } from '../../../src/base/model/execution-record.ts';
import { rollUp } from '../../../src/record/roll-up.ts';
import { requestBuckets, WINDOWS, type Window } from '../../../src/services/money/request-buckets.ts';
import { readUntil, type StoreReading } from '../../../src/services/registers/read-until.ts';
import { AttributionReports, OTHER } from '../../../src/services/reports/attribution-reports.ts';
import { NamedSums, OTHER_WORKLOADS } from '../../../src/services/reports/named-sums.ts';
import { OTHER_MODELS, RecordCounters, UNKNOWN_ORG, UNREGISTERED } from '../../../src/services/reports/record-counters.ts';
import { type UsageBreakdown, usageOnDays } from '../../../src/services/reports/usage-breakdown.ts';
import { UsageReports } from '../../../src/services/reports/usage-reports.ts';
import { NO_USAGE, sumUsage, type UsageSum } from '../../../src/services/reports/usage-sums.ts';
import type { Effect, Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { ALL_REGISTERED } from '../../support/all-registered.ts';
import { fakeClock, runningClock } from '../../support/fake-clock.ts';
import { tempDir } from '../../support/temp-dir.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const DECISIONS = ['allow', 'deny', 'downgrade', 'error', 'rate_limit'];

/** The n-th record: everything follows from its number. */
function recordAt(n: number, at: number, more: object = {}): ExecutionRecord {
  const tier = n % 41 === 0 ? 'connection' : n % 29 === 0 ? 'usage' : 'action';
  const metered = n % 5 !== 0;
  return {
    completed_at: new Date(at).toISOString(),
    decision: DECISIONS[n % DECISIONS.length],
    org_id: n % 3 === 0 ? 'a|b' : 'acme',
    workload_id: `w-${n % 3}`,
    record_hash: n.toString(16).padStart(64, '0'),
    record_id: `r-${n}`,
    record_tier: tier,
    connector_id: n % 7 === 0 ? undefined : `c-${n % 2}`,
    ...(metered
      ? {
          upstream_status: 200,
          metering: { cost_usd: usdFromPico(BigInt(n) * 1_234_567n + 1n), tokens_in: n % 91, tokens_out: n % 7, model: `m|${n % 4}` },
        }
      : {}),
    ...(n % 2 === 0 ? { project_id: `p ${n % 5}` } : {}),
    ...(n % 4 === 0 ? { customer_id: `ü${n % 3}`, labels: { team: `t${n % 3}`, __proto__x: '', env: n % 8 === 0 ? 'prod' : 'test' } } : {}),
    ...(n % 6 === 0 ? { caller_id: `user${n % 4}@example` } : {}),
    ...more,
  } as unknown as ExecutionRecord;
}

async function openStore(t: Test, dir = tempDir(t)): Promise<Store> {
  const store = await openEmbeddedStore({
    dir: join(dir, 'store'),
    fsync: 'off',
    clock: runningClock,
    log: silentLogger,
    segmentBytes: 64 * 1024,
  });
  t.teardown(() => store.close());
  return store;
}

async function commit(
  store: Store,
  records: readonly ExecutionRecord[],
  effects: (record: ExecutionRecord) => readonly Effect[],
): Promise<void> {
  for (let n = 0; n < records.length; n += 50) {
    await Promise.all(
      records.slice(n, n + 50).map((record) => {
        const { record_id, record_hash, completed_at } = record;
        return store.commit(
          { record_id, record_hash, text: JSON.stringify(record), committed_at: Date.parse(completed_at) },
          effects(record),
        );
      }),
    );
  }
}

interface Sum {
  requests: number;
  tokensIn: number;
  tokensOut: number;
  pico: bigint;
}

const shown = ({ requests, tokensIn, tokensOut, costPico }: UsageSum): Sum => ({
  requests: Number(requests),
  tokensIn: Number(tokensIn),
  tokensOut: Number(tokensOut),
  pico: costPico,
});
const shownAll = (sums: ReadonlyMap<string, UsageSum>) => Object.fromEntries([...sums].map(([name, sum]) => [name, shown(sum)]));

/** Records that count in totals. */
const counted = (records: readonly ExecutionRecord[], org: string) =>
  records.filter(({ org_id, record_tier }) => org_id === org && record_tier !== 'connection');

function recount(records: readonly ExecutionRecord[]): Sum {
  const sum: Sum = { requests: 0, tokensIn: 0, tokensOut: 0, pico: 0n };
  for (const { record_tier: tier, metering } of records) {
    sum.requests += tier === 'usage' ? 0 : 1;
    sum.tokensIn += metering?.tokens_in ?? 0;
    sum.tokensOut += metering?.tokens_out ?? 0;
    sum.pico += metering === undefined ? 0n : picoFromUsd(metering.cost_usd);
  }
  return sum;
}

function recountBy(records: readonly ExecutionRecord[], name: (record: ExecutionRecord) => string | undefined): Record<string, Sum> {
  const names = new Set(records.map(name));
  return Object.fromEntries(
    [...names].flatMap((one) => (one === undefined ? [] : [[one, recount(records.filter((record) => name(record) === one))] as const])),
  );
}

const modelOf = ({ upstream_status: status, metering }: ExecutionRecord) => (status === undefined ? '' : (metering?.model ?? ''));

function utc(): TimeZone {
  const zone = TimeZone.of('UTC');
  if (zone === undefined) throw new Error('there is no UTC');
  return zone;
}

/** The date of a moment, by the machine's own calendar. */
function localDay(zone: string): (record: ExecutionRecord) => string {
  const dates = new Intl.DateTimeFormat('sv-SE', { timeZone: zone });
  return ({ completed_at: time }) => dates.format(new Date(time));
}

function agrees(t: Test, usage: UsageBreakdown, inside: readonly ExecutionRecord[], zone: string, message: string): void {
  t.strictSame(shown(usage.total), recount(inside), `${message}: total`);
  t.strictSame(
    shownAll(usage.byWorkload),
    recountBy(inside, ({ workload_id: id }) => id),
    `${message}: workloads`,
  );
  t.strictSame(
    shownAll(usage.byConnector),
    recountBy(inside, ({ connector_id: id }) => id ?? ''),
    `${message}: connectors`,
  );
  t.strictSame(shownAll(usage.byModel), recountBy(inside, modelOf), `${message}: models`);
  const days = recountBy(inside, localDay(zone));
  t.strictSame(
    Object.fromEntries([...usage.byDay].filter(([, pico]) => pico > 0n)),
    Object.fromEntries(Object.entries(days).flatMap(([day, { pico }]) => (pico > 0n ? [[day, pico]] : []))),
    `${message}: days`,
  );
}

/** Zones, and a day around which their clock changes (or would). */
const ZONES: readonly (readonly [zone: string, day: string])[] = [
  ['UTC', '2026-10-25'],
  ['Europe/Berlin', '2026-10-25'],
  ['Europe/Berlin', '2026-03-29'],
  ['America/New_York', '2026-11-01'],
  ['Asia/Kathmandu', '2026-10-25'],
  ['Australia/Lord_Howe', '2026-10-04'],
  ['Australia/Lord_Howe', '2026-04-05'],
  ['Pacific/Chatham', '2026-09-27'],
  ['Africa/Cairo', '2026-04-24'],
  ['America/Havana', '2026-03-08'],
  ['America/Havana', '2026-11-01'],
  ['Pacific/Kiritimati', '2026-12-31'],
];

t.test('a day begins when its date does, also where the clock changes at midnight', (t) => {
  for (const [zone, day] of ZONES) {
    const of = TimeZone.of(zone);
    for (let one = dayAfter(day, -2); of !== undefined && one <= dayAfter(day, 2); one = dayAfter(one)) {
      const at = of.startOf(one);
      t.equal(of.dayOf(at), one, `${zone}, ${one}`);
      t.ok(of.dayOf(at - 1) < one, `${zone}, before ${one}`);
    }
  }
  const apia = TimeZone.of('Pacific/Apia');
  t.equal(apia?.startOf('2011-12-30'), apia?.startOf('2011-12-31'), 'a day that a zone left out');
  for (const name of ['', 'Mars/Olympus', '+02:00', 'Europe/Berlin; x', 'x'.repeat(99)]) t.equal(TimeZone.of(name), undefined, name);
  t.end();
});

// Holds: exact-days
t.test('days of every zone are a recount to the last digit, over changes of the clock', async (t) => {
  for (const [zone, day] of ZONES) {
    const store = await openStore(t);
    const counters = await RecordCounters.open(store, fakeClock(Date.parse(`${day}T00:00:00Z`)), ALL_REGISTERED);
    const start = Date.parse(`${day}T00:00:00Z`) - 3 * DAY;
    const records = Array.from({ length: 900 }, (_, n) => recordAt(n, start + n * 10 * MINUTE + (n % 7) * 997));
    await commit(store, records, (record) => counters.effects(record));
    const of = TimeZone.of(zone) ?? t.fail(zone);
    if (!(of instanceof TimeZone)) continue;
    const dayOf = localDay(zone);
    for (const [first, last] of [
      [dayAfter(day, -2), dayAfter(day, 2)],
      [day, day],
      [dayAfter(day, -9), dayAfter(day, 9)],
      [dayAfter(day, 20), dayAfter(day, 21)],
    ] as const) {
      for (const org of ['acme', 'a|b']) {
        const inside = counted(records, org).filter((record) => dayOf(record) >= first && dayOf(record) <= last);
        agrees(t, await usageOnDays(store, org, { first, last, zone: of }), inside, zone, `${zone} ${first}/${last} ${org}`);
      }
    }
  }
});

t.test('who is charged is a recount from any quarter of an hour on, and what nobody is charged for is the rest', async (t) => {
  const store = await openStore(t);
  const start = Date.UTC(2026, 10, 20, 22, 10);
  const clock = fakeClock(start);
  const counters = await RecordCounters.open(store, clock, ALL_REGISTERED);
  const records = Array.from({ length: 900 }, (_, n) => recordAt(n, start + n * 5 * MINUTE + (n % 7) * 997));
  await commit(store, records, (record) => counters.effects(record));
  const now = start + 900 * 5 * MINUTE;
  const reports = new AttributionReports(store);
  for (const from of [0, start - DAY, start, start + 7 * HOUR + 20 * MINUTE, Date.UTC(2026, 10, 22), now - 16 * MINUTE]) {
    for (const org of ['acme', 'a|b', 'nobody']) {
      const summary = await reports.summary(org, from, now);
      const inside = counted(records, org).filter(({ completed_at: time }) => Date.parse(time) >= summary.from);
      t.ok(from - summary.from < 15 * MINUTE && from >= summary.from);
      const message = `${org} from ${new Date(from).toISOString()}`;
      t.strictSame(
        shownAll(summary.by.project),
        recountBy(inside, ({ project_id: id }) => id),
        message,
      );
      t.strictSame(
        shownAll(summary.by.customer),
        recountBy(inside, ({ customer_id: id }) => id),
        message,
      );
      t.strictSame(
        shownAll(summary.by.caller),
        recountBy(inside, ({ caller_id: id }) => id),
        message,
      );
      t.strictSame(shownAll(summary.by.account), {}, message);
      t.strictSame(shown(summary.unattributed.project), recount(inside.filter(({ project_id: id }) => id === undefined)), message);
      t.strictSame(shown(summary.unattributed.account), recount(inside), message);
      const teams = recountBy(inside, ({ labels }) => labels?.['team']);
      const labels = await reports.labels(org, from, now);
      const used = labels.find(({ key }) => key === 'team');
      t.equal(
        Number(used?.requests ?? 0n),
        Object.values(teams).reduce((sum, { requests }) => sum + requests, 0),
        message,
      );
      t.notOk(
        labels.some(({ key }) => key === '__proto__x'),
        'an empty text is no value',
      );
      const values = await reports.label(org, 'team', from, now);
      t.strictSame(
        [...values].map(([value, { requests, costPico }]) => [value, Number(requests), costPico]),
        Object.entries(teams)
          .map(([value, { requests, pico }]) => [value, requests, pico])
          .sort(),
        message,
      );
    }
  }
});

// Holds: exact-days
t.test('beyond a thousand names of a month they are counted together, and a restart forgets none', async (t) => {
  const store = await openStore(t);
  const now = Date.UTC(2026, 10, 20, 12);
  const clock = fakeClock(now);
  const names = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, at) =>
      recordAt(1 + 42 * (from + at), now, {
        org_id: 'acme',
        record_tier: 'action',
        project_id: `p${from + at}`,
        labels: { [`k${(from + at) % 3}`]: `v${from + at}` },
      }),
    );
  const before = names(0, 700);
  const first = await RecordCounters.open(store, clock, ALL_REGISTERED);
  await commit(store, before, (record) => first.effects(record));
  const after = names(700, 1_200);
  const second = await RecordCounters.open(store, clock, ALL_REGISTERED);
  await commit(store, after, (record) => second.effects(record));
  const reports = new AttributionReports(store);
  const { by, unattributed } = await reports.summary('acme', now - HOUR, now);
  t.equal(by.project.size, 1_001);
  t.strictSame(shown(by.project.get(OTHER) ?? (t.fail('other') as never)), recount(after.slice(300)));
  t.strictSame(shown(by.project.get('p999') ?? (t.fail('p999') as never)), recount(after.slice(299, 300)));
  t.equal(unattributed.project.requests, 0n);
  const labels = await reports.labels('acme', now - HOUR, now);
  t.strictSame(
    labels.map(({ key, requests }) => [key, Number(requests)]),
    [
      ['k0', 400],
      ['k1', 400],
      ['k2', 400],
    ],
  );
  t.equal([...(await reports.label('acme', 'k0', now - HOUR, now)).keys()].filter((value) => value === OTHER).length, 1);
});

t.test(
  'what strangers name makes no rows: a refused call counts for all workloads that are not registered, under names that are there',
  async (t) => {
    const store = await openStore(t);
    const now = Date.UTC(2026, 10, 20, 12);
    const registered = { org: (id: string) => id === 'acme', workload: (_org: string, id: string) => id === 'ci' };
    const counters = await RecordCounters.open(store, fakeClock(now), registered);
    const refused = (n: number, more: object): ExecutionRecord =>
      recordAt(5 * (42 * n + 1), now, {
        org_id: 'acme',
        record_tier: 'action',
        decision: 'deny',
        connector_id: undefined,
        reason_codes: ['workload_not_registered'],
        project_id: 'p',
        labels: undefined,
        ...more,
      });
    const allowed = recordAt(1, now, { org_id: 'acme', workload_id: 'ci', record_tier: 'action', project_id: 'p', customer_id: undefined });
    const stranger = (n: number, more: object = {}) =>
      refused(n, {
        workload_id: `made-up-${n}`,
        project_id: `p${n}`,
        caller_id: `c${n}`,
        labels: { [`k${n}`]: 'v' },
        model: `m${n}`,
        ...more,
      });
    const strangers = Array.from({ length: 300 }, (_, n) => stranger(n));
    const elsewhere = Array.from({ length: 300 }, (_, n) =>
      stranger(n + 400, { org_id: `org-${n}`, workload_id: 'ci', reason_codes: ['org_mismatch'] }),
    );
    const rows = async (): Promise<number> => {
      const spaces = ['usage_day', 'usage_month', 'usage_hour', 'usage_quarter', 'attributed_day', 'attributed_quarter'];
      const all = await Promise.all(spaces.map((space) => store.counters(space, { limit: 10_000 })));
      return all.flat().length + (await store.list('attributed_name')).length;
    };
    await commit(store, [allowed, ...strangers.slice(0, 1), ...elsewhere.slice(0, 1)], (record) => counters.effects(record));
    const few = await rows();
    await commit(store, [...strangers.slice(1), ...elsewhere.slice(1), refused(300, { workload_id: 'made-up' })], (record) =>
      counters.effects(record),
    );
    t.equal(await rows(), few, 'six hundred more of them add nothing');

    const days = { first: '2026-11-20', last: '2026-11-20', zone: utc() };
    const usage = await usageOnDays(store, 'acme', days);
    t.strictSame(
      [...usage.byWorkload].map(([name, { requests }]) => [name, requests]),
      [
        ['ci', 1n],
        [UNREGISTERED, 301n],
      ],
    );
    t.strictSame((await usageOnDays(store, UNKNOWN_ORG, days)).total.requests, 300n);
    const { by } = await new AttributionReports(store).summary('acme', now - HOUR, now);
    t.strictSame(
      [...by.project].map(([name, { requests }]) => [name, requests]),
      [
        [OTHER, 300n],
        ['p', 2n],
      ],
      'a project that somebody has charged is known to them as well',
    );
  },
);

t.test('a call that no upstream has accepted counts under the model that it names, of which there is an end', async (t) => {
  const store = await openStore(t);
  const now = Date.UTC(2026, 10, 20, 12);
  const named = (n: number, more: object): ExecutionRecord =>
    recordAt(5 * (42 * n + 1), now, { org_id: 'acme', record_tier: 'action', decision: 'deny', reason_codes: [], ...more });
  const open = () => RecordCounters.open(store, fakeClock(now), ALL_REGISTERED);
  const first = await open();
  const denied = [named(0, { model: 'gpt-4o' }), named(1, { model: 'gpt-4o' }), named(2, {}), named(3, { model: '' })];
  const failed = named(4, {
    model: 'gpt-4o',
    decision: 'allow',
    upstream_status: 404,
    metering: { cost_usd: '0', tokens_in: 0, tokens_out: 0 },
  });
  await commit(store, [...denied, failed], (record) => first.effects(record));
  const second = await open();
  const many = Array.from({ length: 1_200 }, (_, n) => named(n + 10, { model: `made-up-${n}` }));
  await commit(store, many, (record) => second.effects(record));
  const { byModel } = await usageOnDays(store, 'acme', { first: '2026-11-20', last: '2026-11-20', zone: utc() });
  t.equal(byModel.get('gpt-4o')?.requests, 3n);
  t.equal(byModel.size, 1_001, 'a thousand names, and none');
  t.equal(byModel.get('')?.requests, 2n + 201n);
});

// Holds: exact-days
t.test(
  'models that an upstream accepts, whatever they are called, have an end as well: totals stay exact, and so they are after a restart',
  async (t) => {
    const store = await openStore(t);
    const now = Date.UTC(2026, 10, 20, 12);
    const registered = {
      org: () => true,
      workload: () => true,
      model: (provider: string, name: string) => provider === 'c-1' && name === 'priced',
    };
    const open = () => RecordCounters.open(store, fakeClock(now), registered);
    const called = (n: number, model: string): ExecutionRecord =>
      recordAt(n, now, {
        org_id: 'acme',
        record_tier: 'action',
        decision: 'allow',
        connector_id: 'c-1',
        workload_id: 'w',
        upstream_status: 200,
        metering: { cost_usd: '0.001', tokens_in: 2, tokens_out: 1, model },
        project_id: undefined,
        customer_id: undefined,
        caller_id: undefined,
        labels: undefined,
      });
    const rowsNow = async () =>
      (await Promise.all(['usage_day', 'usage_quarter'].map((space) => store.counters(space, { limit: 10_000 })))).map(
        ({ length }) => length,
      );
    const first = await open();
    const many = Array.from({ length: 1_500 }, (_, n) => called(n, `made-up-${n}`));
    await commit(store, many, (record) => first.effects(record));
    t.strictSame(await rowsNow(), [1_001, 1_001], 'a thousand names, and all others');
    const second = await open();
    const more = [
      ...Array.from({ length: 500 }, (_, n) => called(n + 1_500, `later-${n}`)),
      called(2_000, 'priced'),
      called(2_001, 'made-up-7'),
    ];
    await commit(store, more, (record) => second.effects(record));
    t.strictSame(await rowsNow(), [1_002, 1_002], 'a restart forgets none, and a model of the price list has always a row');
    const { byModel, total } = await usageOnDays(store, 'acme', { first: '2026-11-20', last: '2026-11-20', zone: utc() });
    t.equal(total.requests, 2_002n);
    t.equal(total.costPico, 2_002n * picoFromUsd('0.001'));
    // Of the 1,001 names with rows an answer shows a thousand, the dearest.
    t.strictSame([byModel.get(OTHER_MODELS)?.requests, byModel.get('made-up-7')?.requests, byModel.size], [1_001n, 2n, 1_001]);
  },
);

t.test(
  'orgs share the names of all: those that callers make up have one share together, and an org that comes late finds some',
  async (t) => {
    const store = await openStore(t);
    const now = Date.UTC(2026, 10, 20, 12);
    const registered = { org: (id: string) => id.startsWith('real'), workload: () => true };
    const counters = await RecordCounters.open(store, fakeClock(now), registered, 400);
    let n = 0;
    const charged = (org: string, project: string): ExecutionRecord =>
      recordAt(5 * n++ + 1, now, {
        org_id: org,
        record_tier: 'action',
        decision: 'allow',
        project_id: project,
        labels: undefined,
        customer_id: undefined,
        caller_id: undefined,
        connector_id: 'c',
      });
    const namesOf = async (org: string) => {
      const { by } = await new AttributionReports(store).summary(org, now - HOUR, now);
      return [...by.project.keys()].filter((name) => name !== OTHER).length;
    };
    const flood = Array.from({ length: 1_000 }, (_, at) => charged(`made-up-${at % 100}`, `p${at}`));
    await commit(store, flood, (record) => counters.effects(record));
    const greedy = Array.from({ length: 1_000 }, (_, at) => charged('real-greedy', `p${at}`));
    await commit(store, greedy, (record) => counters.effects(record));
    const late = Array.from({ length: 20 }, (_, at) => charged('real-late', `p${at}`));
    await commit(store, late, (record) => counters.effects(record));
    t.ok((await namesOf('real-greedy')) >= 90, `${await namesOf('real-greedy')} of the one`);
    t.equal(await namesOf('real-late'), 20, 'all of the other');
    const { by, unattributed } = await new AttributionReports(store).summary('real-greedy', now - HOUR, now);
    t.equal(
      [...by.project.values()].reduce((sum, { requests }) => sum + requests, 0n),
      1_000n,
      'none is lost',
    );
    t.equal(unattributed.project.requests, 0n);
  },
);

t.test('an answer has an end whatever an older version has counted: the dearest names, all others as one, and exact totals', async (t) => {
  const store = await openStore(t);
  const now = Date.UTC(2026, 10, 20, 12);
  const records = Array.from({ length: 11_000 }, (_, n) =>
    recordAt(n, now, {
      org_id: 'acme',
      record_tier: 'action',
      decision: 'allow',
      workload_id: `w${n % 10_500}`,
      connector_id: 'c',
      upstream_status: 200,
      metering: { cost_usd: usdFromPico(BigInt(n)), tokens_in: 1, tokens_out: 0, model: `m${n}` },
    }),
  );
  const effects = records.flatMap((record) => rollUp(record).filter(({ space }) => space.startsWith('usage')));
  for (let at = 0; at < effects.length; at += 2_000) await store.commit(undefined, effects.slice(at, at + 2_000));
  const { byModel, byWorkload, total } = await usageOnDays(store, 'acme', { first: '2026-11-20', last: '2026-11-20', zone: utc() });
  t.equal(total.requests, 11_000n);
  for (const [by, rest] of [
    [byModel, OTHER_MODELS],
    [byWorkload, OTHER_WORKLOADS],
  ] as const) {
    t.equal(by.size, 1_001);
    t.strictSame(shown(sumUsage(by.values())), shown(total), 'nothing is lost');
    t.ok((by.get(rest)?.requests ?? 0n) > 9_000n);
  }
  const many = new NamedSums('rest', 100);
  for (let n = 0; n < 150; n += 1) many.add(`n${n}`, { ...NO_USAGE, requests: 1n, costPico: BigInt(n) });
  t.strictSame(
    [...many.shown(2)].map(([name, { requests }]) => [name, requests]),
    [
      ['n98', 1n],
      ['n99', 1n],
      ['rest', 148n],
    ],
  );
  t.equal(new NamedSums('rest').shown().size, 0, 'no row for nothing');
});

t.test('a report ends, between two pages, when nobody waits for it any more', async (t) => {
  const store = await openStore(t);
  const now = Date.UTC(2026, 10, 20, 12);
  const records = Array.from({ length: 3_000 }, (_, n) =>
    recordAt(n, now, { org_id: 'acme', record_tier: 'action', workload_id: `w${n}`, customer_id: `c${n % 900}`, decision: 'allow' }),
  );
  const counters = await RecordCounters.open(store, fakeClock(now), ALL_REGISTERED);
  await commit(store, records, (record) => counters.effects(record));
  const days = { first: '2026-11-20', last: '2026-11-20', zone: utc() };
  const reports: Readonly<Record<string, (reading: StoreReading) => Promise<unknown>>> = {
    bill: (reading) => usageOnDays(reading, 'acme', days),
    attribution: (reading) => new AttributionReports(reading).summary('acme', now - DAY, now),
    month: async (reading) => {
      for await (const _rows of new UsageReports(reading).month('2026-11', 'acme'));
    },
  };
  for (const [name, report] of Object.entries(reports)) {
    const client = new AbortController();
    let pages = 0;
    const counting: StoreReading = {
      recordById: (id) => store.recordById(id),
      recordByHash: (hash) => store.recordByHash(hash),
      records: (query) => {
        pages += 1;
        return store.records(query);
      },
      counters: (space, page) => {
        pages += 1;
        return store.counters(space, page);
      },
    };
    await report(readUntil(client.signal, counting));
    const all = pages;
    pages = 0;
    const left = new Error('gone');
    const ended = report(
      readUntil(client.signal, {
        ...counting,
        counters: (space, page) => {
          if (pages === 1) client.abort(left);
          return counting.counters(space, page);
        },
      }),
    );
    await t.rejects(ended, left, name);
    t.equal(pages, 2, `${name}: of ${all} pages none behind that during which he left`);
    t.ok(all > 2, `${name}: ${all} pages`);
  }
});

t.test('buckets of every window are a recount', async (t) => {
  const store = await openStore(t);
  const now = Date.UTC(2026, 10, 21, 3, 17, 23);
  const counters = await RecordCounters.open(store, fakeClock(now), ALL_REGISTERED);
  const records = Array.from({ length: 1_500 }, (_, n) => recordAt(n, now - n * MINUTE));
  await commit(store, records, (record) => counters.effects(record));
  for (const window of Object.keys(WINDOWS) as Window[]) {
    const { lengthMs, bucketMs } = WINDOWS[window];
    const buckets = await requestBuckets(store, 'acme', window, now);
    t.equal(buckets.length, lengthMs / bucketMs);
    t.equal(buckets.at(-1)?.at, Math.floor(now / bucketMs) * bucketMs, 'the last one goes on');
    const expected = buckets.map(({ at }) => {
      const inside = counted(records, 'acme').filter(
        ({ completed_at: time }) => Date.parse(time) >= at && Date.parse(time) < at + bucketMs,
      );
      const of = (...decisions: string[]) => BigInt(recount(inside.filter(({ decision }) => decisions.includes(decision))).requests);
      return { at, allowed: of('allow', 'downgrade'), denied: of('deny') };
    });
    t.strictSame(buckets, expected, window);
  }
});

t.test('a folder of an older version is counted again once, also by a start that is cut off', async (t) => {
  const start = Date.UTC(2026, 10, 20, 22, 10);
  const clock = fakeClock(start);
  const records = Array.from({ length: 2_600 }, (_, n) => recordAt(n, start + n * 5 * MINUTE));
  const store = await openStore(t);
  await store.commit(undefined, [{ op: 'put', space: 'roll_up', key: 'hours_and_months', value: { records: 0 } }]);
  const old = (record: ExecutionRecord): readonly Effect[] =>
    rollUp(record)
      .filter(({ space }) => space !== 'usage_quarter')
      .map((effect) => (effect.op === 'add' ? { ...effect, amounts: withoutMinutes(effect.amounts) } : effect));
  await commit(store, records, old);
  let commits = 0;
  const failing = new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      if (name !== 'commit') return value.bind(target) as unknown;
      return (...args: Parameters<Store['commit']>) =>
        ++commits === 2 ? Promise.reject(new GatewayError('record_store_unavailable', 'full')) : target.commit(...args);
    },
  });
  await t.rejects(countAgain(failing, await RecordCounters.open(store, clock, ALL_REGISTERED), silentLogger), {
    code: 'record_store_unavailable',
  });
  for (const start of ['goes on', 'is done']) {
    await countAgain(store, await RecordCounters.open(store, clock, ALL_REGISTERED), silentLogger);
    const zone = TimeZone.of('Asia/Kathmandu');
    if (zone === undefined) throw new Error('no zone');
    const usage = await usageOnDays(store, 'acme', { first: '2026-11-21', last: '2026-11-25', zone });
    const dayOf = localDay(zone.name);
    const inside = counted(records, 'acme').filter((record) => dayOf(record) >= '2026-11-21' && dayOf(record) <= '2026-11-25');
    agrees(t, usage, inside, zone.name, start);
    const end = Date.parse(records.at(-1)?.completed_at ?? '');
    const { by } = await new AttributionReports(store).summary('acme', 0, end);
    t.strictSame(
      shownAll(by.project),
      recountBy(counted(records, 'acme'), ({ project_id: id }) => id),
      start,
    );
    const buckets = await requestBuckets(store, 'acme', '24h', end);
    const allowed = counted(records, 'acme').filter(
      ({ completed_at: time, decision }) => Date.parse(time) >= (buckets[0]?.at ?? 0) && ['allow', 'downgrade'].includes(decision),
    );
    t.equal(Number(buckets.reduce((sum, bucket) => sum + bucket.allowed, 0n)), recount(allowed).requests, start);
  }
});

function withoutMinutes(amounts: Readonly<Record<string, bigint>>): Readonly<Record<string, bigint>> {
  return Object.fromEntries(Object.entries(amounts).filter(([name]) => !name.startsWith('requests_m')));
}
