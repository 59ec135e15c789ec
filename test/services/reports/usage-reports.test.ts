// Usage between two times, to the millisecond; what a range inside of hours costs to find out.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { usdFromPico } from '../../../src/base/lib/money.ts';
import type { ExecutionRecord } from '../../../src/base/model/execution-record.ts';
import { rollUp } from '../../../src/record/roll-up.ts';
import { costsOf, filteredUsage } from '../../../src/services/reports/cost-report.ts';
import { UsageReports } from '../../../src/services/reports/usage-reports.ts';
import { NO_USAGE, plus, sumUsage } from '../../../src/services/reports/usage-sums.ts';
import type { RecordQuery as RecordPage } from '../../../src/storage/contract/record-query.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { runningClock } from '../../support/fake-clock.ts';
import { tempDir } from '../../support/temp-dir.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const START = Date.UTC(2026, 10, 22, 5);
/** A record each seven seconds, for a bit more than five hours, of two orgs in turn. */
const STEP = 7_001;
const COUNT = 2_600;

interface Given {
  readonly at: number;
  readonly org: string;
  readonly pico: bigint;
  readonly tokens: number;
  readonly tier: string;
  readonly decision: string;
}

const GIVEN: readonly Given[] = Array.from({ length: COUNT }, (_, n) => ({
  at: START + 30 * MINUTE + n * STEP,
  org: n % 2 === 0 ? 'mine' : '"mine"',
  pico: BigInt(n) * 1_234_567n + 1n,
  tokens: n % 91,
  tier: n % 50 === 0 ? 'usage' : n % 33 === 0 ? 'connection' : 'action',
  decision: n % 5 === 0 ? 'deny' : 'allow',
}));
const END = START + 30 * MINUTE + COUNT * STEP;

function recordOf({ at, org, pico, tokens, tier, decision }: Given, n: number): ExecutionRecord {
  return {
    completed_at: new Date(at).toISOString(),
    decision,
    labels: { odd: '"completed_at":"2020-01-01T00:00:00.000Z","org_id":"mine"' },
    metering: { cost_usd: usdFromPico(pico), tokens_in: tokens, tokens_out: 1 },
    org_id: org,
    reason_codes: [],
    record_hash: n.toString(16).padStart(64, '0'),
    record_id: `r-${n}`,
    record_tier: tier,
    workload_id: 'w',
  } as unknown as ExecutionRecord;
}

async function filled(t: Test): Promise<{ store: Store; pages: RecordPage[]; read(): number }> {
  const store = await openEmbeddedStore({
    dir: join(tempDir(t), 'store'),
    fsync: 'off',
    clock: runningClock,
    log: silentLogger,
    segmentBytes: 64 * 1024,
  });
  t.teardown(() => store.close());
  const commit = (given: Given, n: number) => {
    const record = recordOf(given, n);
    const { record_id, record_hash } = record;
    return store.commit({ record_id, record_hash, text: JSON.stringify(record), committed_at: given.at }, rollUp(record));
  };
  // A segment is closed between two groups of commits.
  for (let n = 0; n < COUNT; n += 50) await Promise.all(GIVEN.slice(n, n + 50).map((given, i) => commit(given, n + i)));
  const pages: RecordPage[] = [];
  let read = 0;
  const counting = new Proxy(store, {
    get(target, name) {
      if (name === 'records') {
        return async (page: RecordPage) => {
          pages.push(page);
          const found = await target.records(page);
          read += found.length;
          return found;
        };
      }
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
  return { store: counting, pages, read: () => read };
}

function recount(org: string, from: number, to: number): unknown {
  const own = GIVEN.filter((given) => given.org === org && given.tier !== 'connection' && given.at >= from && given.at < to);
  const costPico = own.reduce((sum, { pico }) => sum + pico, 0n);
  return {
    ...NO_USAGE,
    requests: BigInt(own.filter(({ tier }) => tier === 'action').length),
    tokensIn: BigInt(own.reduce((sum, { tokens }) => sum + tokens, 0)),
    tokensOut: BigInt(own.length),
    costPico,
    // None of them tells a usage.
    withoutUsage: BigInt(own.length),
    withoutUsagePico: costPico,
  };
}

t.test('a range is counted to the millisecond wherever it begins and ends', async (t) => {
  const { store } = await filled(t);
  const reports = new UsageReports(store);
  const someRecord = (GIVEN[777] as Given).at;
  const bounds = [
    START,
    START + 1,
    START + HOUR,
    START + HOUR + 17 * MINUTE,
    someRecord,
    someRecord + 1,
    START + 3 * HOUR,
    END - 1,
    END,
    END + HOUR,
  ];
  for (const from of bounds) {
    for (const to of bounds.filter((bound) => bound > from)) {
      for (const org of ['mine', '"mine"', 'nobody']) {
        const usage = await reports.byDecision(org, from, to, END + 2 * HOUR);
        t.strictSame(
          [usage.from, usage.to, sumUsage(usage.decisions.values())],
          [from, to, recount(org, from, to)],
          `${org} ${from - START} ${to - START}`,
        );
      }
    }
  }
});

// Holds: reports-add-up-counters
t.test('records are read of the hours at the edges alone, a few hundred at a time, and of whole hours none', async (t) => {
  const { store, pages, read } = await filled(t);
  const reports = new UsageReports(store);
  await reports.byDecision('mine', START, START + 5 * HOUR, END);
  await reports.byDecision('nobody', START + 1, END - 1, END);
  t.same(pages, [], 'counters are enough');
  await reports.byDecision('mine', START + 2 * HOUR + 1, START + 4 * HOUR, END);
  t.ok(pages.every(({ limit, since }) => limit <= 500 && since === START + 2 * HOUR));
  const [all, own] = [Math.ceil(HOUR / STEP), Math.floor(HOUR / STEP / 2)];
  t.ok(read() >= own && read() <= 500 && all > 500, `${read()} records: those of the org, and none of the other`);
});

t.test('the hour that is still running', async (t) => {
  const { store, pages } = await filled(t);
  const reports = new UsageReports(store);
  const usage = await reports.byDecision('mine', START, END, END);
  t.strictSame([usage.to, sumUsage(usage.decisions.values())], [END, recount('mine', START, END)]);
  t.same(pages, [], 'what comes later is not there yet');
  const now = START + 4 * HOUR + 30 * MINUTE;
  const part = await reports.byDecision('mine', START + 4 * HOUR + 1, START + 4 * HOUR + 9 * MINUTE, now);
  t.strictSame(sumUsage(part.decisions.values()), recount('mine', START + 4 * HOUR + 1, START + 4 * HOUR + 9 * MINUTE));
});

t.test('an hour whose records are gone is counted whole, and the range says so', async (t) => {
  const { store } = await filled(t);
  const reports = new UsageReports(store);
  t.ok((await store.removeRecordsBefore(START + 2 * HOUR)) > 0);
  const to = START + 3 * HOUR + 10 * MINUTE;
  const usage = await reports.byDecision('mine', START + HOUR + 5 * MINUTE, to, END);
  t.strictSame([usage.from, usage.to, sumUsage(usage.decisions.values())], [START + HOUR, to, recount('mine', START + HOUR, to)]);
  const inside = await reports.byDecision('mine', START + HOUR + 5 * MINUTE, START + HOUR + 6 * MINUTE, END);
  t.strictSame(
    [inside.from, inside.to, sumUsage(inside.decisions.values())],
    [START + HOUR, START + 2 * HOUR, recount('mine', START + HOUR, START + 2 * HOUR)],
  );
});

t.test('of removed records nobody knows whether a filter holds: they are told apart, and no filtered sum has them', async (t) => {
  const { store } = await filled(t);
  const range = { from: START, to: START + 6 * HOUR };
  const odd = '"completed_at":"2020-01-01T00:00:00.000Z","org_id":"mine"';
  const filters = (value: string) => [{ key: 'workload', name: 'w' } as const, { key: 'label:odd', name: value } as const];
  const total = recount('mine', range.from, range.to) as typeof NO_USAGE;
  t.strictSame(await filteredUsage(store, 'mine', range, filters(odd)), { usage: total, unsorted: NO_USAGE });
  t.ok((await store.removeRecordsBefore(START + 2 * HOUR)) > 0);
  const { usage, unsorted } = await filteredUsage(store, 'mine', range, filters(odd));
  t.ok(usage.requests > 0n && unsorted.requests > 0n);
  t.strictSame(plus(usage, unsorted), total);
  t.strictSame(await filteredUsage(store, 'mine', range, filters('even')), { usage: NO_USAGE, unsorted });
  t.strictSame(await costsOf(store, 'mine', { name: '', ...range }, ['workload'], 10, filters(odd)), [{ names: ['w'], usage }]);
  t.strictSame(
    await filteredUsage(store, 'mine', range, filters(odd).slice(0, 1)),
    { usage: total, unsorted: NO_USAGE },
    'totals alone outlast records',
  );
});
