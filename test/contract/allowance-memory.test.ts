// The allowance of this process, and the same where each verb has to be waited for.
import t, { type Test } from 'tap';
import { EventBus } from '../../src/base/events/bus.ts';
import { timestamp } from '../../src/base/lib/clock.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { usdFromPico } from '../../src/base/lib/money.ts';
import type { BudgetLimit } from '../../src/base/model/budget-limit.ts';
import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';
import { rollUp } from '../../src/record/roll-up.ts';
import type { Allowance, SettledCall } from '../../src/services/money/allowance.ts';
import { BudgetService } from '../../src/services/money/budgets.ts';
import { MemoryAllowance } from '../../src/services/money/memory-allowance.ts';
import { MonthlyRequestService } from '../../src/services/money/monthly-requests.ts';
import type { NodeCaps } from '../../src/services/money/node-caps.ts';
import { RateLimitService } from '../../src/services/money/rate-limits.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { PgRig } from '../storage/postgres/pg-rig.ts';
import { PgliteDatabase } from '../storage/postgres/pglite-database.ts';
import { elsewhere } from '../support/allowance-elsewhere.ts';
import { ledgerOf, nodeCaps } from '../support/shared-caps.ts';
import { tempDir } from '../support/temp-dir.ts';
import { type AllowanceOptions, type AllowanceUnderTest, allowanceContract } from './allowance.ts';

let limits = 0;

async function memory(
  store: Store,
  options: AllowanceOptions,
  place: (allowance: Allowance) => Allowance,
  share?: () => Promise<NodeCaps>,
): Promise<AllowanceUnderTest> {
  const { clock, monthlyLimit } = options;
  const plan = { limit: monthlyLimit, overage: false };
  const caps = await share?.();
  const budgets = await BudgetService.open({ store, clock, events: new EventBus(silentLogger), caps });
  const months = await MonthlyRequestService.open({ store, clock, plans: { alike: plan, of: () => plan }, caps });
  const initial = { refill_rate: 1_000, max_tokens: 1_000, window_duration: '1m' };
  const rates = await RateLimitService.open({ store, clock, initial, ownOrg: 'o' });
  return {
    allowance: place(new MemoryAllowance({ budgets, months, rates })),
    async limit(given) {
      const made: BudgetLimit = {
        limit_id: `limit-${limits++}`,
        org_id: 'o',
        scope: 'org',
        period: 'monthly',
        warning_threshold_pct: 80,
        critical_threshold_pct: 95,
        actions: ['cap'],
        created_at: '',
        ...given,
      };
      await budgets.create(made);
      return made;
    },
    commit: (effects, settled) => store.commit(undefined, [...rollUp(recordOf(settled)), ...effects]),
    reopen: async () => {
      await caps?.close();
      return memory(store, options, place, share);
    },
  };
}

/** What its counters are made of. */
function recordOf({ spender, pico, at }: SettledCall): ExecutionRecord {
  return {
    record_tier: 'action',
    completed_at: timestamp(at),
    org_id: spender.orgId,
    workload_id: spender.workloadId,
    project_id: spender.projectId,
    connector_id: spender.connectorId,
    provider: spender.providerId,
    decision: 'allow',
    metering: { tokens_in: 0, tokens_out: 0, cost_usd: usdFromPico(pico) },
  } as unknown as ExecutionRecord;
}

const open =
  (place: (allowance: Allowance) => Allowance) =>
  async (t: Test, options: AllowanceOptions): Promise<AllowanceUnderTest> => {
    const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock: options.clock, log: silentLogger });
    t.teardown(() => store.close());
    return memory(store, options, place);
  };

t.test('in the memory of this process', async (t) =>
  allowanceContract(
    t,
    open((allowance) => allowance),
  ),
);

t.test('elsewhere: each verb answers later', async (t) => allowanceContract(t, open(elsewhere)));

t.test('of a node that shares its caps with others', async (t) => {
  const database = await PgliteDatabase.start(t);
  allowanceContract(t, async (t, options) => {
    const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock: options.clock, log: silentLogger });
    t.teardown(() => store.close());
    const rig = new PgRig(t, await database.clear());
    const { store: shared } = await rig.open();
    const share = async () => {
      const caps = nodeCaps(ledgerOf(shared, 'one', store), options.clock);
      caps.start();
      return caps;
    };
    return memory(store, options, (allowance) => allowance, share);
  });
});

t.test('the memory of this process answers at once', async (t) => {
  const { fakeClock } = await import('../support/fake-clock.ts');
  const { allowance } = await open((here) => here)(t, { clock: fakeClock() });
  const spender = { orgId: 'o', workloadId: 'w', projectId: '', connectorId: 'openai', providerId: undefined };
  const ask = { id: 'a', orgId: 'o', workloadId: 'w', rate: { rules: [] }, spend: { spender, pico: '1' } };
  const answers = [
    allowance.peek(ask),
    allowance.take(ask),
    allowance.grow('a', 2n),
    allowance.settle('a', { spender, pico: 1n, at: 0, isMade: true }),
    allowance.stored('a'),
    allowance.failed('a'),
    allowance.giveBack('a'),
  ];
  t.notOk(answers.some((answer) => answer instanceof Promise));
});
