// Events that are committed with what they tell of and delivered at least once, on the real store, in processes that
// are killed.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import type { Destination, DurableEvent } from '../../../src/base/events/destination.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { picoFromUsd } from '../../../src/base/lib/money.ts';
import type { BudgetAlert, BudgetLimit } from '../../../src/base/model/budget-limit.ts';
import { BudgetService, type Counted } from '../../../src/services/money/budgets.ts';
import { Outbox, type OutboxOptions } from '../../../src/services/sending/outbox.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { launch } from '../../support/child.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const LIMIT: BudgetLimit = {
  limit_id: 'l',
  org_id: 'o',
  scope: 'org',
  limit_usd: '1',
  period: 'monthly',
  warning_threshold_pct: 50,
  critical_threshold_pct: 80,
  actions: ['alert'],
  created_at: '2026-11-01T00:00:00.000Z',
};
const ALERT: BudgetAlert = {
  limit: LIMIT,
  level: 'warning',
  periodStart: '2026-11-01',
  spentUsd: '0.5',
};
const SPENDER = { orgId: 'o', projectId: 'p', workloadId: 'w', connectorId: 'openai', providerId: 'openai' };

/** Keeps what it is given, fails as often as it is told to, and lets a test wait for what comes. */
class Place implements Destination {
  readonly got: string[] = [];
  readonly batches: number[] = [];
  failures = 0;
  tries = 0;
  #wake: () => void = () => undefined;

  readonly id: string;

  constructor(id: string) {
    this.id = id;
  }

  deliver(batch: readonly DurableEvent[]): Promise<void> {
    this.tries += 1;
    const fails = this.failures > 0;
    if (fails) this.failures -= 1;
    else {
      this.got.push(...batch.map(({ event }) => (event as BudgetAlert).spentUsd));
      this.batches.push(batch.length);
    }
    this.#wake();
    return fails ? Promise.reject(new Error('the destination is away')) : Promise.resolve();
  }

  async until(reached: () => boolean): Promise<void> {
    while (!reached()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

async function someStore(t: HasTeardown, clock: FakeClock): Promise<Store> {
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

function openOutbox(store: Store, clock: FakeClock, destinations: readonly Destination[], more: Partial<OutboxOptions> = {}) {
  return Outbox.open({ store, clock, log: silentLogger, writer: 'node', destinations, ...more });
}

async function post(store: Store, outbox: Outbox, ...spent: readonly string[]): Promise<void> {
  for (const spentUsd of spent) {
    const posted = outbox.post('budgetAlert', { ...ALERT, spentUsd });
    await store.commit(undefined, posted.effects);
    posted.stored();
  }
}

t.test('every destination gets every event in order, and what all have taken is removed', async (t) => {
  const clock = fakeClock();
  const store = await someStore(t, clock);
  const [one, two] = [new Place('one'), new Place('two')];
  const outbox = await openOutbox(store, clock, [one, two]);
  await post(store, outbox, '1', '2');
  two.failures = 1;
  outbox.start();
  await one.until(() => one.got.length === 2);
  await two.until(() => two.tries === 1);
  await post(store, outbox, '3');
  await one.until(() => one.got.length === 3);
  t.same(two.got, []);
  t.equal(outbox.waiting, 3, 'one destination keeps back what it has not taken');
  clock.advance(1_000);
  await two.until(() => two.got.length === 3);
  await outbox.close();
  t.same(one.got, ['1', '2', '3']);
  t.same(two.got, ['1', '2', '3']);
  t.equal(outbox.waiting, 0);
  t.same(await store.list('outbox'), []);
});

// Holds: durable-events-are-not-lost
t.test('nothing passes an event that is handed over and not stored yet, and one that could not be stored goes nowhere', async (t) => {
  const clock = fakeClock();
  const store = await someStore(t, clock);
  const place = new Place('one');
  const outbox = await openOutbox(store, clock, [place]);
  outbox.start();
  const first = outbox.post('budgetAlert', { ...ALERT, spentUsd: '1' });
  const second = outbox.post('budgetAlert', { ...ALERT, spentUsd: '2' });
  await post(store, outbox, '3');
  await store.commit(undefined, second.effects);
  second.stored();
  t.same(place.got, []);
  first.failed();
  await place.until(() => place.got.length === 2);
  t.same(place.got, ['2', '3']);
  await outbox.close();
});

t.test('too many and too old events are dropped, the oldest first, and counted; for age not while the clock is in doubt', async (t) => {
  const clock = fakeClock();
  const store = await someStore(t, clock);
  const place = new Place('one');
  const before = await openOutbox(store, clock, [place], { maxWaiting: 2 });
  await post(store, before, '1', '2', '3');
  t.match(before, { waiting: 2, dropped: { number: 1, age: 0 } });
  clock.advance(8 * 86_400_000);
  await post(store, before, '4');
  await before.close();
  let mayExpire = false;
  const after = await openOutbox(store, clock, [place], { mayExpire: () => mayExpire });
  place.failures = 1;
  after.start();
  await place.until(() => place.tries === 1);
  await after.close();
  t.equal(after.waiting, 2);
  mayExpire = true;
  const last = await openOutbox(store, clock, [place], { mayExpire: () => mayExpire });
  last.start();
  await place.until(() => place.got.length === 1);
  await last.close();
  t.same(place.got, ['4']);
  t.match(last.dropped, { number: 0, age: 1 });
});

t.test('an alert is committed with the record that raises it, once per level, and again when that could not be stored', async (t) => {
  const clock = fakeClock();
  const store = await someStore(t, clock);
  const place = new Place('one');
  const outbox = await openOutbox(store, clock, [place]);
  const open = () => BudgetService.open({ store, clock, events: new EventBus(silentLogger), outbox });
  const budgets = await open();
  await budgets.create(LIMIT);
  const count = (service: BudgetService, usd: string) => service.count(SPENDER, picoFromUsd(usd), clock.now()) as Counted;
  t.same(count(budgets, '0.1').effects, []);
  const lost = count(budgets, '0.4');
  t.equal(lost.effects.length, 2);
  budgets.uncount(lost);
  const raised = count(budgets, '0.5');
  t.equal(raised.effects.length, 2);
  await store.commit(undefined, raised.effects);
  budgets.stored(raised);
  t.same(count(budgets, '0.1').effects, []);
  const again = await open();
  t.same(count(again, '0.6').effects, [], 'also after a start');
  outbox.start();
  await place.until(() => place.got.length === 1);
  await outbox.close();
  t.same(place.got, ['0.6']);
});

t.test(
  'destinations come and go: who comes later gets what happens from then on, who goes keeps nothing back, and no number is given twice',
  async (t) => {
    const clock = fakeClock();
    const store = await someStore(t, clock);
    const [one, two] = [new Place('one'), new Place('two')];
    const outbox = await openOutbox(store, clock, []);
    outbox.start();
    await post(store, outbox, 'nobody is there');
    t.same(await store.list('outbox'), []);
    one.failures = 1;
    outbox.add(one);
    await post(store, outbox, '1');
    await one.until(() => one.tries === 1);
    clock.advance(1);
    outbox.add(Object.assign(two, { since: clock.now() }));
    await post(store, outbox, '2');
    await two.until(() => two.got.length === 1);
    t.same(two.got, ['2'], 'what happened before it came is not for it');
    t.equal(outbox.waiting, 2);
    await outbox.remove('one');
    t.equal(outbox.waiting, 0, 'what waited for the other alone is gone');
    await outbox.remove('two');
    await outbox.close();
    t.same(await store.list('outbox'), []);
    const again = await openOutbox(store, clock, [new Place('three')]);
    const [put] = again.post('budgetAlert', ALERT).effects;
    t.match(put, { key: 'node|0000000000000003' });
    await again.close();
  },
);

t.test('what a destination does not want is not written for it, and keeps it from nothing', async (t) => {
  const clock = fakeClock();
  const store = await someStore(t, clock);
  const [all, some] = [new Place('all'), new Place('some')];
  const wanted = { of: 'p' };
  const outbox = await openOutbox(store, clock, [Object.assign(some, { wants: (_name: string, org?: string) => org === wanted.of })]);
  outbox.start();
  t.equal(outbox.wants('budgetAlert', 'o'), false);
  await post(store, outbox, '1');
  t.equal(outbox.waiting, 0);
  outbox.add(all);
  await post(store, outbox, '2', '3');
  await all.until(() => all.got.length === 2);
  wanted.of = 'o';
  outbox.reconsider();
  await post(store, outbox, '4');
  await some.until(() => some.got.length === 1);
  await all.until(() => all.got.length === 3);
  t.same(some.got, ['4']);
  await outbox.close();
  t.same(await store.list('outbox'), []);
});

t.test('without a destination nothing is made ready, read or written', async (t) => {
  const clock = fakeClock();
  const store = await someStore(t, clock);
  const outbox = await openOutbox(store, clock, []);
  outbox.start();
  const budgets = await BudgetService.open({ store, clock, events: new EventBus(silentLogger), outbox });
  await budgets.create(LIMIT);
  t.same((budgets.count(SPENDER, picoFromUsd('0.9'), clock.now()) as Counted).effects, []);
  t.same([...(await store.list('outbox')), ...(await store.list('outbox_cursor')), ...(await store.list('budget_alert_posted'))], []);
  await outbox.close();
});

// Holds: durable-events-are-not-lost
t.test('a process that is killed between delivery and cursor loses nothing, and repeats its last batch alone', async (t) => {
  const dir = tempDir(t);
  const program = join(fileURLToPath(new URL('.', import.meta.url)), '..', '..', 'support', 'killed-outbox.js');
  const first = await launch(t, process.execPath, [program, dir, '1', '150', 'kill']).ended;
  t.equal(first.signal, 'SIGKILL');
  t.match(first.stdout, /^1-100\n$/, 'its first batch was delivered');
  const second = await launch(t, process.execPath, [program, dir, '151', '160', 'end']).ended;
  t.equal(second.code, 0, second.stderr);
  t.equal(second.stdout, '1-100\n101-160\n');
  const third = await launch(t, process.execPath, [program, dir, '161', '161', 'end']).ended;
  t.equal(third.stdout, '161-161\n', 'what was noted does not come again');
});

/** One that is down until it is told otherwise, of one org or of all. */
class OrgPlace extends Place {
  isDown = true;
  readonly #org: string | undefined;

  constructor(id: string, org: string | undefined) {
    super(id);
    this.#org = org;
  }

  wants(_name: string, org: string | undefined): boolean {
    return this.#org === undefined || org === undefined || org === this.#org;
  }

  override deliver(batch: readonly DurableEvent[]): Promise<void> {
    this.failures = this.isDown ? 1 : 0;
    return super.deliver(batch);
  }
}

type Flood = (n: number) => { readonly org: string; readonly kind?: 'approval' };
const FLOODS: Readonly<Record<string, Flood>> = {
  'one org, all of one kind': () => ({ org: 'a' }),
  'one org, of two kinds': (n) => (n % 2 === 0 ? { org: 'a' } : { org: 'a', kind: 'approval' }),
  'orgs that are made up': (n) => ({ org: `made-up-${n}` }),
};

for (const [what, flood] of Object.entries(FLOODS)) {
  t.test(`a flood of ${what} takes no alert of another org, nor the gateway's own`, async (t) => {
    const clock = fakeClock();
    const store = await someStore(t, clock);
    const all = new OrgPlace('all', undefined);
    const own = new OrgPlace('own', 'b');
    const more = { maxWaiting: 20, knownOrg: (org: string) => !org.startsWith('made-up') };
    const outbox = await openOutbox(store, clock, [all, own], more);
    outbox.start();
    const say = async (org: string, spentUsd: string, kind?: 'approval') => {
      const limit = { ...ALERT.limit, org_id: org };
      const posted =
        kind === undefined
          ? outbox.post('budgetAlert', { ...ALERT, limit, spentUsd })
          : outbox.post(kind, { org_id: org, spentUsd } as unknown as Parameters<typeof outbox.post<'approval'>>[1]);
      await store.commit(undefined, posted.effects);
      posted.stored();
    };
    await say('b', 'first of b');
    await say('a', 'the one of its kind', 'approval');
    for (let n = 0; n < 100; n += 1) {
      const { org, kind } = flood(n);
      await say(org, `flood ${n}`, kind);
    }
    await say('b', 'second of b');
    for (let n = 100; n < 110; n += 1) await say(flood(n).org, `flood ${n}`);
    t.equal(outbox.waiting, 20);
    const lost = new Map(outbox.droppedByOrg().map(([org, reason, count]) => [`${org} ${reason}`, count]));
    t.equal(lost.get('b number') ?? 0, 0);
    t.equal(
      [...lost.values()].reduce((sum, count) => sum + count),
      outbox.dropped.number,
    );
    t.equal(outbox.dropped.number, 93);
    await outbox.close();
    t.equal((await store.list('outbox')).length, 20);
    // What was stored says the same after a start.
    const again = await openOutbox(store, clock, [all, own], more);
    t.equal(again.waiting, 20);
    for (const place of [all, own]) place.isDown = false;
    again.start();
    const wanted = ['first of b', 'second of b'];
    await own.until(() => own.got.length === 2);
    t.same(own.got, wanted);
    await all.until(() => all.got.length === 20);
    t.same(
      all.got.filter((one) => wanted.includes(one)),
      wanted,
    );
    if (what.includes('all of one kind')) t.ok(all.got.includes('the one of its kind'), 'kinds of an org have a place each');
    t.same(all.got.at(-1), 'flood 109', 'of what is too much the oldest is lost');
    await again.close();
    t.same(await store.list('outbox'), []);
  });
}

t.test('a destination that is down makes no other one lose, also of its own org', async (t) => {
  const clock = fakeClock();
  const store = await someStore(t, clock);
  const [down, up] = [new OrgPlace('down', 'o'), new OrgPlace('up', 'o')];
  const outbox = await openOutbox(store, clock, [down, up], { maxWaiting: 5 });
  outbox.start();
  await up.until(() => true);
  await post(store, outbox, '1', '2', '3');
  await up.until(() => up.tries === 1);
  up.isDown = false;
  clock.advance(1_000);
  await up.until(() => up.got.length === 3);
  for (const n of [4, 5, 6, 7, 8, 9]) {
    await post(store, outbox, String(n));
    await up.until(() => up.got.length === n);
  }
  t.same(up.got, ['1', '2', '3', '4', '5', '6', '7', '8', '9']);
  t.equal(outbox.waiting, 5);
  down.isDown = false;
  clock.advance(600_000);
  await down.until(() => down.got.length === 5);
  t.same(down.got, ['5', '6', '7', '8', '9']);
  await outbox.close();
  t.same(await store.list('outbox'), []);
});
