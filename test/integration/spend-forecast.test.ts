// Where the month will end, and which cap stops first (decision 6.21): of a gateway with a fixed time, against an
// independent sum of its records.

import t, { type Test } from 'tap';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ALLOW_ALL, CHAT, startGoverned } from '../support/governed.ts';
import { managedAs } from '../support/managed.ts';
import { gw } from '../support/run-gw.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** A gateway at a fixed time, with some calls of two projects. */
async function scene(t: Test, start: number) {
  const clock = fakeClock(start);
  const governed = await startGoverned(t, { clock, bundle: ALLOW_ALL });
  const managed = await managedAs(governed.gw, 'default');
  for (let round = 0; round < 3; round += 1)
    for (const project of ['apollo', 'zeus'])
      await governed.execute({ attribution: { project_id: project } }, { params: { ...CHAT, model: 'gpt-4o' } });
  const { key } = await managed.keyOf('default', ['read', 'write']);
  const make = async (body: object) => ((await managed.manage('POST', 'budgets/limits', body)).body as { limit_id: string }).limit_id;
  const told = async (query = '') =>
    (await managed.manage('GET', `billing/report?${query}`)).body as { forecast?: Forecast; total_cost_usd: string };
  const run = (words: string) => gw(words.split(' '), { env: { GW_PORT: String(governed.gw.port), GW_MGMT_KEY: key }, columns: 80 });
  return { ...governed, ...managed, clock, make, told, run };
}

interface Forecast {
  readonly period_end: string;
  readonly forecast_usd: string | null;
  readonly first_cap?: { readonly limit_id: string; readonly outlook: string; readonly reached_at: string | null };
}

t.test('where the month will end, and which cap stops first: of a fixed time, from the records', async (t) => {
  const { manage, run, clock, make, told } = await scene(t, Date.UTC(2026, 10, 1, 12));
  clock.advance(3 * DAY - 11 * HOUR);
  const { data } = (await manage('GET', 'records?from=2026-11-01&to=2026-11-04&limit=500')).body as { data: readonly ExecutionRecord[] };
  const [start, end, now] = [Date.UTC(2026, 10, 1), Date.UTC(2026, 11, 1), clock.now()];
  const comesTo = (amounts: readonly string[]) => {
    const [passed, whole] = [BigInt(now - start), BigInt(end - start)];
    const spent = amounts.reduce((sum, amount) => sum + picoFromUsd(amount), 0n);
    return usdFromPico((2n * spent * whole + passed) / (2n * passed));
  };
  const costs = (of: (record: ExecutionRecord) => boolean) => data.filter(of).map(({ metering }) => metering?.cost_usd ?? '0');
  const all = comesTo(costs(() => true));
  const plain = { period_end: '2026-12-01T00:00:00.000Z', forecast_usd: all };
  for (const query of ['', 'period=this-month&by=model', 'period=2026-11', 'from=2026-11-01'])
    t.same((await told(query)).forecast, plain, query);
  t.same((await told('project=apollo')).forecast, { ...plain, forecast_usd: comesTo(costs(({ project_id: id }) => id === 'apollo')) });
  for (const query of ['period=today', 'period=last-month', 'last=3d', 'from=2026-11-02', 'from=2026-11-01&to=2026-11-03'])
    t.notOk((await told(query)).forecast, `${query} is not this month`);
  const loose = await make({ scope: 'org', limit_usd: '1000', actions: ['cap'] });
  const alerting = await make({ scope: 'org', limit_usd: '0.0000001', actions: ['alert'] });
  t.notOk('first_cap' in ((await told()).forecast ?? {}), 'neither a cap that holds nor a limit that only alerts');
  const tight = await make({ scope: 'project', scope_id: 'apollo', limit_usd: '0.001', actions: ['cap'] });
  const first = (await told()).forecast?.first_cap;
  t.match(first, { limit_id: tight, scope: 'project', scope_id: 'apollo', period: 'monthly', outlook: 'will_be_reached' });
  const spent = costs(({ project_id: id }) => id === 'apollo').reduce((sum, amount) => sum + picoFromUsd(amount), 0n);
  const after = (10n ** 9n * BigInt(now - start) + spent - 1n) / spent;
  t.equal(Date.parse(first?.reached_at ?? ''), start + Number(after));
  const { data: limits } = (await manage('GET', 'budgets/limits')).body as {
    data: readonly { limit_id: string; forecast: Readonly<Record<string, unknown>> }[];
  };
  const of = (id: string) => limits.find((limit) => limit.limit_id === id)?.forecast;
  t.same(of(loose), { ...plain, outlook: 'holds', reached_at: null });
  t.same(of(alerting), { ...plain, outlook: 'reached', reached_at: null });
  t.match(of(tight), { outlook: 'will_be_reached', reached_at: String(first?.reached_at) });
  t.match((await run('spend')).out, /\nForecast: \$\d+\.\d+ for the whole month, which ends at 2026-12-01 00:00 UTC \(spent\nso far, /);
  t.match(
    (await run('spend')).out,
    /\nFirst cap: \$0\.0010 monthly of project apollo, of which \$0\.00\d+ are spent; it\nwill be reached at 2026-11-\d\d \d\d:\d\d UTC\.\n/,
  );
  t.match((await run('dashboard')).out, /\nForecast: \$/);
  t.match((await run('budgets list')).out, /\n {2}forecast \$0\.\d+: reached at 2026-11-\d\d \d\d:\d\d UTC\n/);
  clock.advance(Date.UTC(2026, 11, 1, 0, 30) - clock.now());
  const early = (await told()).forecast;
  t.match(early, { period_end: '2027-01-01T00:00:00.000Z' });
  t.equal(early?.forecast_usd, null, 'in the first hour of a month there is none');
  t.match((await run('spend')).out, /\nForecast: none before a 24th of the month \(28 to 31 hours\) has passed\.\nNo cap will be reached/);
  t.match((await run('budgets list')).out, /\n {2}forecast: none before a 24th of the period has passed\n/);
});

t.test('an override that ends before its amount is reached: the own amount of the limit is said to be reached', async (t) => {
  const { told, make, run, clock } = await scene(t, Date.UTC(2026, 10, 15));
  const limit = await make({ scope: 'project', scope_id: 'apollo', limit_usd: '0.0006', actions: ['cap'] });
  const until = new Date(clock.now() + HOUR).toISOString();
  const made = await run(`budgets override ${limit} --limit-usd 1 --until ${until} --reason launch`);
  t.match(made.out, /\nproject apollo +monthly +\$1\.00 /);
  t.match(made.out, /\n {2}overridden: instead of \$0\.0006 until 2026-11-15 01:00 UTC\n$/, 'the answer says until when');
  const held = / {2}forecast \$0\.\d+: reached at 2026-11-\d\d \d\d:\d\d UTC, when \$0\.0006 hold again\n/;
  t.match(made.out, held);
  t.match((await run('budgets list')).out, held);
  t.match((await told()).forecast?.first_cap, { limit_id: limit, effective_limit_usd: exactly('0.0006'), outlook: 'will_be_reached' });
  t.match((await run('spend')).out, /\nFirst cap: \$0\.0006 monthly of project apollo, of which/);
});

t.test(
  'a cap that is reached already stops first, until its month of 29 days ends; where nothing is spent the forecast is 0',
  async (t) => {
    const { told, make, clock, run } = await scene(t, Date.UTC(2028, 1, 15));
    const later = await make({ scope: 'project', scope_id: 'zeus', period: 'weekly', limit_usd: '100', actions: ['cap'] });
    const reached = await make({ scope: 'project', scope_id: 'apollo', limit_usd: '0.00001', actions: ['alert', 'cap'] });
    t.match((await told()).forecast?.first_cap, { limit_id: reached, outlook: 'reached', reached_at: null });
    t.match(
      (await run('spend')).out,
      /\nFirst cap: <?\$0\.0001 monthly of project apollo, of which \$0\.\d+ are spent; it is\nreached already \(gw budgets list shows each\)\.\n/,
    );
    t.match((await run('budgets list')).out, new RegExp(`\n {2}${reached}.*\n {2}reached already, forecast \\$0\\.\\d+\n`));
    t.match((await run('budgets list')).out, new RegExp(`\n {2}${later}.*\n {2}forecast \\$0\\.\\d+: not reached in this period\n`));
    clock.advance(14 * DAY + 12 * HOUR);
    const { forecast, total_cost_usd: spent } = await told();
    t.match(forecast, { period_end: '2028-03-01T00:00:00.000Z', forecast_usd: usdFromPico((picoFromUsd(spent) * 116n + 57n) / 114n) });
    clock.advance(12 * HOUR);
    t.same((await told()).forecast, { period_end: '2028-04-01T00:00:00.000Z', forecast_usd: null }, 'the next month begins anew');
    clock.advance(2 * DAY);
    t.same((await told()).forecast, { period_end: '2028-04-01T00:00:00.000Z', forecast_usd: '0' });
  },
);
