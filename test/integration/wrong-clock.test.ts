// A whole gateway whose clock is wrong: what it keeps, and what its caps remember.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { confirmClock } from '../../src/services/keeper/clock-watch.ts';
import { eventually } from '../support/child.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import type { TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, type Governed, startGoverned } from '../support/governed.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const DAY = 86_400_000;
const START = Date.UTC(2026, 10, 21, 12);

async function run(
  t: HasTeardown,
  dataDir: string,
  clock: FakeClock,
  env: Record<string, string> = {},
  bundle = ALLOW_ALL,
): Promise<Governed & { said: string[] }> {
  const said: string[] = [];
  const log = createLogger({ level: 'warn', format: 'json', destination: { write: (line: string) => void said.push(line) } });
  return { ...(await startGoverned(t, { clock, log, bundle, env: { GW_DATA_DIR: dataDir, ...env } })), said };
}

async function metric(gw: TestGateway, name: string): Promise<string | undefined> {
  return new RegExp(`^${name} (.*)$`, 'm').exec((await gw.admin('GET', '/metrics')).text)?.[1];
}

// Holds: no-removal-by-a-wrong-clock
t.test('a start with the clock 120 days ahead removes nothing until the clock is confirmed', async (t) => {
  const dataDir = join(tempDir(t), 'data');
  const first = await run(t, dataDir, fakeClock(START));
  const { body } = await first.execute({ idempotency_key: 'i' });
  const id = String(body['record_id']);
  await first.gw.gateway.stop();

  const clock = fakeClock(START + 120 * DAY);
  const ahead = await run(t, dataDir, clock);
  t.equal(await metric(ahead.gw, 'gw_retention_held'), '1');
  t.match(
    ahead.said.filter((line) => line.includes('clock')).map((line) => JSON.parse(line) as unknown),
    [
      {
        level: 'warn',
        time: '2027-03-21T12:00:00.000Z',
        expected: '2026-11-21T12:00:00.000Z',
        msg: /nothing is removed .* "gw journal confirm-clock"$/,
      },
    ],
  );
  clock.advance(2 * 3_600_000);
  t.equal((await ahead.gw.record(id))['record_id'], id, 'two rounds of retention later');
  await ahead.gw.gateway.stop();

  const back = await run(t, dataDir, fakeClock(START + DAY / 4));
  t.equal(await metric(back.gw, 'gw_retention_held'), '0');
  t.equal((await back.gw.record(id))['record_id'], id);
  t.same((await back.execute({ idempotency_key: 'i' })).body['record_id'], id, 'the kept answer is still there, too');
  await back.gw.gateway.stop();

  const later = fakeClock(START + 120 * DAY);
  const really = await run(t, dataDir, later);
  t.equal((await really.gw.admin('GET', `/v1/records/${id}`)).status, 200);
  await confirmClock(dataDir, later.now());
  await eventually('the record to be removed', async () => {
    later.advance(60_000);
    return (await really.gw.admin('GET', `/v1/records/${id}`)).status === 404 || undefined;
  });
  t.equal(await metric(really.gw, 'gw_retention_held'), '0');
  t.equal(existsSync(join(dataDir, 'clock-confirmed')), false);
});

t.test('caps and limits remember the month of now when the clock was wrong at the start and is set right later', async (t) => {
  const dataDir = join(tempDir(t), 'data');
  const bundle = bundleOf(`  budgets:
    - {id: all, effect: {decision: allow}}
    - {id: capped, when: {field: attribution.project_id, equals: apollo}, effect: {budget: {monthly_usd_max: "0.0001"}}}
`);
  const env = { GW_MONTHLY_REQUEST_LIMIT: '4' };
  const params = { model: 'gpt-4o', messages: [], max_tokens: 1 };
  const capped = (gw: Governed) => gw.execute({ attribution: { project_id: 'apollo' } }, { params });
  const overCap = { status: 403, body: { reason_codes: ['budget_monthly_usd_max_exceeded'] } };
  const first = await run(t, dataDir, fakeClock(START), env, bundle);
  t.equal((await capped(first)).status, 200);
  t.match(await capped(first), overCap);
  await first.gw.gateway.stop();
  for (const wrong of [START + 120 * DAY, START - 400 * DAY]) {
    const clock = fakeClock(wrong);
    const next = await run(t, dataDir, clock, env, bundle);
    clock.set(START + 60_000);
    t.match(await capped(next), overCap, new Date(wrong).toISOString());
    if (wrong < START) t.match(await next.execute(), { status: 403, body: { reason: 'monthly_request_limit_exceeded' } });
    await next.gw.gateway.stop();
  }
});
