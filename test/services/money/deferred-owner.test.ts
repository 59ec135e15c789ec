// Responses that are waited for where several nodes share one store: each is of one of them, and no node that is gone
// takes its own with it.
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { CatalogueInForce } from '../../../src/base/catalogue/catalogue-in-force.ts';
import { EventBus } from '../../../src/base/events/bus.ts';
import type { UsageOutcome } from '../../../src/base/events/events.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { ExecutionRecord } from '../../../src/base/model/execution-record.ts';
import { estimatedMetering } from '../../../src/record/metering.ts';
import { LEASE_MS, Leases } from '../../../src/services/keeper/lease.ts';
import { BudgetService } from '../../../src/services/money/budgets.ts';
import { DeferredUsage } from '../../../src/services/money/deferred-usage.ts';
import { MemoryAllowance } from '../../../src/services/money/memory-allowance.ts';
import { takeRegardless } from '../../../src/services/money/record-cost.ts';
import { RecordCounters } from '../../../src/services/reports/record-counters.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { ALL_REGISTERED } from '../../support/all-registered.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const DAY = 86_400_000;
const SPENDER = { orgId: 'o', workloadId: 'w', projectId: '', connectorId: 'openai', providerId: 'openai' };
const PRICE = { in: '5', out: '15', source: 'catalogue', maxOutputTokens: undefined } as const;

async function openStore(t: HasTeardown): Promise<Store> {
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock: fakeClock(), log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

/** A node that is there until the store is closed: as one that was killed, it gives nothing up. */
async function node(t: HasTeardown, store: Store, clock: FakeClock, owner: string) {
  const events = new EventBus(silentLogger);
  const settled: UsageOutcome[] = [];
  events.subscribe(['usageSettled'], ({ outcome }) => void settled.push(outcome));
  const budgets = await BudgetService.open({ store, clock, events });
  const counters = await RecordCounters.open(store, clock, ALL_REGISTERED);
  const allowance = new MemoryAllowance({ rates: {} as never, months: {} as never, budgets });
  const leases = new Leases({ store, clock, log: silentLogger, holder: owner, isShared: true });
  await leases.announce();
  const catalogues = new CatalogueInForce(loadCatalogue());
  const ground = { store, clock, allowance, counters, events, log: silentLogger, leases, cachedRates: false, catalogues };
  const deferred = await DeferredUsage.open(ground);
  t.teardown(() => deferred.close());
  return {
    deferred,
    settled,
    begin: async (id: string): Promise<void> => {
      await takeRegardless(allowance, `grant ${id}`, SPENDER, 1_000n);
      const call = deferred.begin('api.openai.com', id, clock.now());
      if (call === undefined) throw new Error('a new response');
      const assumed = estimatedMetering({ tokensIn: 0, tokensOutMax: 1, pico: 1_000n, price: PRICE, model: undefined });
      const created = new Date(clock.now()).toISOString();
      const record = { record_id: id, org_id: 'o', workload_id: 'w', connector_id: 'openai', decision: 'allow', created_at: created };
      const deferral = { call, price: PRICE, assumed, completedAt: clock.now() };
      await store.commit(undefined, [deferred.effect(record as ExecutionRecord, deferral)]);
      await deferred.hold(call, `grant ${id}`, clock.now(), 'o');
    },
  };
}

// Holds: deferred-charged-once
t.test('what one node waits for the others leave alone, until it is gone: then one of them takes it over and charges it', async (t) => {
  const store = await openStore(t);
  const [killed, clock] = [fakeClock(), fakeClock()];
  const gone = await node(t, store, killed, 'a');
  await gone.begin('resp');
  const others = [await node(t, store, clock, 'b'), await node(t, store, clock, 'c')];
  const sizes = () => others.map(({ deferred }) => deferred.size).sort();
  const sweep = () => Promise.all(others.map(({ deferred }) => deferred.sweep()));
  await sweep();
  t.same(sizes(), [0, 0], 'it is heard of');
  clock.advance(LEASE_MS);
  await sweep();
  t.same(sizes(), [0, 1]);
  t.equal((await node(t, store, clock, 'a')).deferred.size, 0, 'and is not its own any more when it comes back');
  clock.advance(DAY);
  await sweep();
  t.same(
    others.flatMap(({ settled }) => settled),
    ['assumed'],
  );
  killed.advance(DAY);
  await gone.deferred.sweep();
  t.same([gone.deferred.size, gone.settled], [0, []], 'nor charged again by one that was only out of reach');
  t.same(await store.list('deferred_usage'), []);
});

t.test('what a version before owners has stored is taken by one of the nodes that start', async (t) => {
  const store = await openStore(t);
  const clock = fakeClock();
  await (await node(t, store, clock, 'a')).begin('resp');
  const [row] = await store.list('deferred_usage');
  const { owner, ...before } = (row?.value ?? {}) as Record<string, unknown>;
  t.equal(owner, 'a');
  await store.commit(undefined, [{ op: 'put', space: 'deferred_usage', key: row?.key ?? '', value: before }]);
  const nodes = await Promise.all(['b', 'c'].map((name) => node(t, store, clock, name)));
  t.same(nodes.map(({ deferred }) => deferred.size).sort(), [0, 1]);
});
