// What is kept of refused calls whose callers have shown nothing, and how much of it there can be (decision 7.11).
import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { ExecutionRecord } from '../../../src/base/model/execution-record.ts';
import { StrangerBudget } from '../../../src/services/learning/stranger-budget.ts';
import { StrangerRecords } from '../../../src/services/learning/stranger-records.ts';
import { UNKNOWN_ORG } from '../../../src/services/reports/record-counters.ts';
import type { RecordCommit } from '../../../src/storage/contract/store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { testRecord } from '../../support/test-record.ts';

const RATE = { perSecond: 1, burst: 3 };

/** Sums over a store that can be full; `acme` and `globex` are known. */
function scene(known = new Set(['acme', 'globex'])) {
  const clock = fakeClock();
  const stored: ExecutionRecord[] = [];
  const disk = { full: false };
  const store = {
    writable: true,
    commit: (record: RecordCommit | undefined) => {
      if (disk.full) return Promise.reject(new GatewayError('record_store_unavailable', 'full'));
      stored.push(record?.members as ExecutionRecord);
      return Promise.resolve();
    },
  };
  const told: string[] = [];
  const events = { hears: () => true, emit: (name: string) => void told.push(name) };
  const strangers = new StrangerRecords({
    store,
    clock,
    log: silentLogger,
    events,
    counters: { effects: () => [] },
    nodeId: 'node-1',
    rate: RATE,
    known: { org: (org) => known.has(org), workload: () => false },
  });
  const refused = (over: Partial<Record<keyof ExecutionRecord, unknown>> = {}) =>
    strangers.sum(testRecord({ decision: 'deny', reason_codes: ['workload_not_registered'], ...over }), 1);
  const minute = async () => {
    clock.advance(60_000);
    for (let i = 0; i < 10_000; i++) await Promise.resolve();
  };
  const sums = () => stored.map(({ caller_ip: ip, org_id: org, summed_requests: summed }) => [ip, org, summed]);
  return { clock, disk, stored, told, strangers, refused, minute, sums };
}

t.test('a budget fills again, holds bytes, and is shared by a network of 64 bits', (t) => {
  const clock = fakeClock();
  const budget = new StrangerBudget(clock, RATE);
  const taken = (address: string, bytes = 100) => Array.from({ length: 5 }, () => budget.take(address, bytes)).filter(Boolean).length;
  t.equal(taken('192.0.2.1'), 3);
  t.equal(taken('::ffff:192.0.2.1'), 0, 'it is the same address');
  clock.advance(2_000);
  t.equal(taken('192.0.2.1'), 2);
  t.equal(taken('2001:db8::1', 4_000), 1, '3 records of 2 KiB');
  t.equal(taken('2001:db8::ffff', 4_000), 0);
  t.equal(taken('2001:db8:0:1::1'), 3);
  t.end();
});

t.test('addresses without end share four budgets', (t) => {
  const budget = new StrangerBudget(fakeClock(), RATE);
  let taken = 0;
  for (let i = 0; i < 100_000; i++) if (budget.take(`2001:db8:${(i >> 8).toString(16)}:${(i & 255).toString(16)}::1`, 100)) taken++;
  t.equal(taken, 12);
  t.end();
});

t.test('a minute has one record for each address, with the orgs that are known', async (t) => {
  const { refused, minute, sums, stored, told } = scene();
  for (let i = 0; i < 7; i++) refused({ caller_ip: '192.0.2.1', org_id: `made-up-${i}`, reason_codes: [`code-${i}`] });
  refused({ caller_ip: '192.0.2.1', org_id: 'acme' });
  refused({ caller_ip: '192.0.2.2', record_tier: 'connection' });
  await minute();
  t.same(sums(), [
    ['192.0.2.1', UNKNOWN_ORG, 7],
    ['192.0.2.1', 'acme', 1],
    ['192.0.2.2', 'acme', 1],
  ]);
  t.same(
    stored.map(({ record_tier: tier }) => tier),
    ['action', 'action', 'connection'],
  );
  t.same(stored[0]?.reason_codes, ['records_summed_up', ...Array.from({ length: 7 }, (_, i) => `code-${i}`)]);
  t.equal(told.filter((name) => name === 'execution').length, 3);
  t.equal(told.filter((name) => name === 'summed').length, 9);
  await minute();
  t.equal(stored.length, 3, 'nothing came');
});

t.test('neither addresses nor orgs without end make records without end, and each call is counted', async (t) => {
  const orgs = new Set(Array.from({ length: 5_000 }, (_, i) => `org-${i}`));
  const { refused, minute, stored } = scene(orgs);
  for (let i = 0; i < 30_000; i++) refused({ caller_ip: `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, org_id: `org-${i % 5_000}` });
  await minute();
  t.ok(stored.length <= 1_000 + 65, String(stored.length));
  t.equal(
    stored.reduce((sum, { summed_requests: summed = 0 }) => sum + summed, 0),
    30_000,
  );
  const one = scene(orgs);
  for (let i = 0; i < 5_000; i++) one.refused({ caller_ip: '192.0.2.1', org_id: `org-${i}` });
  one.refused({ caller_ip: '192.0.2.9', org_id: 'org-1' });
  await one.minute();
  t.match(
    one.stored.find(({ caller_ip: ip }) => ip === '192.0.2.9'),
    { org_id: 'org-1', summed_requests: 1 },
    'one address does not take all places',
  );
});

t.test('what cannot be written waits for the next minute, and the end writes what there is', async (t) => {
  const { refused, minute, sums, disk, strangers } = scene();
  refused({ caller_ip: '192.0.2.1' });
  refused({ caller_ip: '192.0.2.2' });
  disk.full = true;
  await minute();
  t.same(sums(), []);
  refused({ caller_ip: '192.0.2.1' });
  disk.full = false;
  await minute();
  t.same(sums().toSorted(), [
    ['192.0.2.1', 'acme', 2],
    ['192.0.2.2', 'acme', 1],
  ]);
  refused({ caller_ip: '192.0.2.3' });
  await strangers.close();
  t.same(sums().at(-1), ['192.0.2.3', 'acme', 1]);
});
