// The spend of each scope by hour, which is made of what commits add to other counters, is the sum of the records.
import t from 'tap';
import { picoFromUsd } from '../../../src/base/lib/money.ts';
import type { ExecutionRecord } from '../../../src/base/model/execution-record.ts';
import { rollUp } from '../../../src/record/roll-up.ts';
import { SPEND_HOUR, type SpendKind, spendHourKey } from '../../../src/storage/contract/counter-spaces.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { counterRows } from '../../../src/storage/contract/store-pages.ts';
import { fc } from '../../support/properties.ts';
import { beside, MemoryJournal } from './cap-rig.ts';
import { PgRig } from './pg-rig.ts';
import { PgliteDatabase } from './pglite-database.ts';

const database = await PgliteDatabase.start(t);

const id = (name: string) => fc.constantFrom(`${name}1`, `${name} 2|`);
const records = fc.array(
  fc.record({
    record_tier: fc.constantFrom('action', 'usage', 'connection'),
    completed_at: fc.constantFrom(
      '2026-11-22T00:00:00.000Z',
      '2026-11-22T05:59:59.999Z',
      '2026-11-22T05:14:00.000Z',
      '2026-12-01T23:00:00.000Z',
    ),
    org_id: id('org'),
    workload_id: id('workload'),
    project_id: fc.option(fc.constantFrom('', 'p1', 'p 2'), { nil: undefined }),
    connector_id: fc.option(fc.constantFrom('openai', 'generic_http'), { nil: undefined }),
    provider: fc.option(fc.constant('openai'), { nil: undefined }),
    decision: fc.constantFrom('allow', 'deny'),
    metering: fc.option(
      fc.record({
        tokens_in: fc.nat(9),
        tokens_out: fc.nat(9),
        cost_usd: fc.constantFrom('0', '0.000000000001', '1.5', '12345678.000001'),
      }),
      { nil: undefined },
    ),
  }),
  { minLength: 1, maxLength: 12 },
);

/** What the records say, scope by scope. */
function expected(all: readonly ExecutionRecord[]): Readonly<Record<string, string>> {
  const sums = new Map<string, bigint>();
  for (const { record_tier: tier, metering, org_id: org, completed_at: time, ...one } of all) {
    const pico = tier === 'connection' ? 0n : picoFromUsd(metering?.cost_usd ?? '0');
    const add = (kind: SpendKind, of: string): void => {
      const key = spendHourKey({ org, kind, id: of, hour: time.slice(0, 13) });
      sums.set(key, (sums.get(key) ?? 0n) + pico);
    };
    add('org', '');
    add('project', one.project_id ?? '');
    add('workload', one.workload_id);
    add('provider', one.connector_id ?? '');
    if (one.provider !== undefined && one.provider !== one.connector_id) add('provider', one.provider);
  }
  return sorted([...sums].filter(([, pico]) => pico !== 0n).map(([key, pico]) => [key, `${pico}`]));
}

async function stored(store: Store): Promise<Readonly<Record<string, string>>> {
  const rows: [string, string][] = [];
  for await (const { key, amounts } of counterRows(store, SPEND_HOUR))
    if (amounts['cost_pico'] !== 0n) rows.push([key, `${amounts['cost_pico']}`]);
  return sorted(rows);
}

function sorted(rows: [string, string][]): Readonly<Record<string, string>> {
  return Object.fromEntries(rows.sort(([a], [b]) => (a < b ? -1 : 1)));
}

t.test('by commits, by a journal that is carried, and by the migration of a database that had none', { timeout: 300_000 }, async (t) => {
  await fc.assert(
    fc.asyncProperty(records, async (given) => {
      const all = given as unknown as readonly ExecutionRecord[];
      const rig = new PgRig(t, await database.clear());
      const { store } = await rig.open();
      const half = Math.floor(all.length / 2);
      await Promise.all(all.slice(0, half).map((record) => store.commit(undefined, rollUp(record))));
      const journal = new MemoryJournal();
      for (const record of all.slice(half)) journal.append(rollUp(record));
      await (await store.carrier({ node: 'one', incarnation: 'folder' })).carryAll(journal);
      const sums = expected(all);
      t.strictSame(await stored(store), sums);
      await store.close();
      await beside(database, (sql) =>
        sql.query(
          `DROP TABLE gw_leases; DROP TABLE gw_charges; ALTER TABLE gw_nodes DROP COLUMN number, DROP COLUMN told;
           DELETE FROM gw_counters WHERE space = 'spend_hour'; UPDATE gw_schema SET version = 5`,
        ),
      );
      const again = await rig.open();
      t.strictSame(await stored(again.store), sums);
      await again.store.close();
    }),
    { numRuns: Number(process.env['PROOF_SPEND_RUNS'] ?? 12) },
  );
});
