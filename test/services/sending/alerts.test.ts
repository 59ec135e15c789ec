// How alerts are delivered: tries and waits, what is given up, who waits for whom, and what two writers of one store
// see of each other.
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { SecretBox } from '../../../src/base/lib/secret-box.ts';
import type { BudgetAlert, BudgetLevel } from '../../../src/base/model/budget-limit.ts';
import type { PostAnswer, PostRequest, WayOut } from '../../../src/outbound/destinations/way-out.ts';
import { AlertService } from '../../../src/services/sending/alerts/alert-service.ts';
import { Outbox } from '../../../src/services/sending/outbox.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const BOX = new SecretBox([Buffer.alloc(32, 1)]);
const OK: PostAnswer = { status: 200, headers: new Map(), body: 'ok' };

function alertOf(level: BudgetLevel, periodStart = '2026-11-01'): BudgetAlert {
  return {
    limit: {
      limit_id: 'l',
      org_id: 'o',
      scope: 'org',
      limit_usd: '1',
      period: 'monthly',
    },
    level,
    periodStart,
    spentUsd: '0.5',
  };
}

/** Tells a test of what happens: posts, timers, whatever is asked for. */
class Bell {
  #wake: () => void = () => undefined;

  ring(): void {
    this.#wake();
  }

  async until(reached: () => boolean): Promise<void> {
    while (!reached()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** A clock that says when a wait of a second or more is set. */
function ringing(bell: Bell): { readonly clock: FakeClock; readonly waits: number[] } {
  const clock = fakeClock();
  const waits: number[] = [];
  const after = clock.after.bind(clock);
  const told: FakeClock = Object.assign(Object.create(clock) as FakeClock, {
    after: (ms: number, callback: () => void) => {
      const cancel = after(ms, callback);
      waits.push(ms);
      bell.ring();
      return cancel;
    },
  });
  return { clock: told, waits };
}

interface Scene {
  readonly clock: FakeClock;
  readonly store: Store;
  readonly outbox: Outbox;
  readonly alerts: AlertService;
  readonly posts: PostRequest[];
  readonly waits: readonly number[];
  readonly bell: Bell;
  post(alert: BudgetAlert): Promise<void>;
  channel(name: string, host: string): Promise<string>;
}

async function scene(t: HasTeardown, answer: (request: PostRequest) => PostAnswer, store?: Store): Promise<Scene> {
  const bell = new Bell();
  const { clock, waits } = ringing(bell);
  const shared = store ?? (await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock: fakeClock(), log: silentLogger }));
  if (store === undefined) t.teardown(() => shared.close());
  const outbox = await Outbox.open({ store: shared, clock, log: silentLogger, writer: store === undefined ? 'one' : 'two' });
  const posts: PostRequest[] = [];
  const door: WayOut = {
    post: async (request) => {
      posts.push(request);
      bell.ring();
      return answer(request);
    },
    connect: () => Promise.reject(new Error('nobody connects')),
    datagrams: () => Promise.reject(new Error('nobody sends datagrams')),
  };
  const options = {
    store: shared,
    clock,
    log: silentLogger,
    box: BOX,
    outbox,
    door,
    smtp: undefined,
    mayBePlain: () => false,
    place: { url: 'http://gw', pages: undefined },
  };
  const alerts = await AlertService.open(options);
  outbox.start();
  t.teardown(() => outbox.close());
  return {
    clock,
    store: shared,
    outbox,
    alerts,
    posts,
    waits,
    bell,
    post: async (alert) => {
      const posted = outbox.post('budgetAlert', alert);
      await shared.commit(undefined, posted.effects);
      posted.stored();
    },
    channel: async (name, host) => {
      const made = await alerts.channels.create('o', { name, kind: 'slack', config: { webhook_url: `https://${host}/hook` } });
      await alerts.subscriptions.create('o', made.channel_id, { limit_id: 'l' });
      return made.channel_id;
    },
  };
}

const history = async ({ alerts }: Scene) => (await alerts.history.page({ orgId: 'o' }, { after: undefined, limit: 50 })).items;

t.test('what fails is tried again after ever longer waits, and after ten tries it is given up with its reason', async (t) => {
  const all = await scene(t, () => ({ status: 503, headers: new Map(), body: '' }));
  const { clock, posts, waits, bell } = all;
  await all.channel('one', 'a.example');
  await all.post(alertOf('warning'));
  for (let tries = 1; tries < 10; tries += 1) {
    await bell.until(() => posts.length === tries && waits.length === tries);
    const last = waits.at(-1) ?? 0;
    const most = Math.min(1_000 * 2 ** (tries - 1), 300_000);
    t.ok(last <= most && last >= most * 0.8, `${last} of ${most}`);
    clock.advance(last);
  }
  await bell.until(() => posts.length === 10);
  while ((await history(all)).length === 0) await turn();
  t.match(await history(all), [{ outcome: 'failed', reason: 'server_error', detail: 'HTTP 503', attempts: 10 }]);
  t.match(all.alerts.subscriptions.list('o'), [{ last_alerted_at: null }], 'nobody was alerted');
});

t.test('who says when to come back is believed, and what nobody can mend is not tried again', async (t) => {
  const answers: PostAnswer[] = [
    { status: 429, headers: new Map([['retry-after', '30']]), body: '' },
    { status: 400, headers: new Map(), body: 'invalid_payload' },
    OK,
  ];
  const all = await scene(t, () => answers.shift() ?? OK);
  const { clock, posts, waits, bell } = all;
  await all.channel('one', 'a.example');
  await all.post(alertOf('warning'));
  await bell.until(() => waits.length === 1);
  t.equal(waits[0], 30_000);
  clock.advance(30_000);
  await bell.until(() => posts.length === 2);
  while ((await history(all)).length === 0) await turn();
  await all.post(alertOf('critical'));
  await bell.until(() => posts.length === 3);
  while ((await history(all)).length === 1) await turn();
  t.match(await history(all), [
    { outcome: 'delivered', level: 'critical', attempts: 1 },
    { outcome: 'failed', level: 'warning', reason: 'client_error', attempts: 2 },
  ]);
});

// Holds: receivers-keep-nobody-waiting
t.test('a dead channel keeps no other waiting, and a level is alerted once for each period', async (t) => {
  const all = await scene(t, ({ to }) => (to.authority.host === 'dead.example' ? { status: 500, headers: new Map(), body: '' } : OK));
  const alive = () => all.posts.filter(({ to }) => to.authority.host === 'alive.example').length;
  await all.channel('dead', 'dead.example');
  await all.channel('alive', 'alive.example');
  await all.post(alertOf('critical'));
  await all.post(alertOf('critical'));
  await all.post(alertOf('warning'));
  await all.post(alertOf('warning', '2026-12-01'));
  await all.bell.until(() => alive() === 2);
  while ((await history(all)).length < 2) await turn();
  t.same((await history(all)).map(({ level }) => level).sort(), ['critical', 'warning']);
  t.equal(all.posts.filter(({ to }) => to.authority.host === 'dead.example').length, 1, 'it waits for its second try');
});

// Holds: alerts-are-sent-once
t.test('an alert that is delivered again after a kill is known, and is not sent again', async (t) => {
  const all = await scene(t, () => OK);
  await all.channel('one', 'a.example');
  await all.post(alertOf('warning'));
  await all.bell.until(() => all.posts.length === 1);
  while ((await history(all)).length === 0) await turn();
  await all.outbox.close();
  // As if the process had been killed before the cursor was moved.
  const [cursor] = (await all.store.list('outbox_cursor')).filter(({ key }) => key.startsWith('alert-'));
  const effects = cursor === undefined ? [] : [{ op: 'delete' as const, space: 'outbox_cursor', key: cursor.key }];
  const event = { id: 'one|0000000000000001', name: 'budgetAlert', at: all.clock.now(), event: alertOf('warning') };
  await all.store.commit(undefined, [...effects, { op: 'put', space: 'outbox', key: event.id, value: event }]);
  const outbox = await Outbox.open({ store: all.store, clock: all.clock, log: silentLogger, writer: 'one' });
  t.equal(outbox.waiting, 1);
  const door: WayOut = { ...({} as WayOut), post: () => Promise.reject(new Error('it is sent again')) };
  await AlertService.open({
    store: all.store,
    clock: all.clock,
    log: silentLogger,
    box: BOX,
    outbox,
    door,
    smtp: undefined,
    mayBePlain: () => false,
    place: { url: '', pages: undefined },
  });
  outbox.start();
  while (outbox.waiting > 0) await turn();
  await outbox.close();
  t.equal((await history(all)).length, 1);
});

t.test('channels that another writer of the store makes and removes count here', async (t) => {
  const one = await scene(t, () => OK);
  const two = await scene(t, () => OK, one.store);
  const id = await one.channel('one', 'a.example');
  while (!two.outbox.wants('budgetAlert', 'o')) await turn();
  await two.post(alertOf('warning'));
  await two.bell.until(() => two.posts.length === 1);
  t.equal(one.posts.length, 0, 'whoever has written an event delivers it');
  while (one.alerts.subscriptions.list('o')[0]?.last_alerted_level !== 'warning') await turn();
  await two.alerts.remove('o', id);
  while (one.outbox.active) await turn();
  t.same(one.alerts.channels.list('o'), []);
});

// Holds: alerts-are-sent-once
t.test('what two nodes have to tell of one limit is told once, by whichever is first; also what fails', async (t) => {
  const answers: PostAnswer[] = [];
  const answer = (): PostAnswer => answers.shift() ?? OK;
  const one = await scene(t, answer);
  const two = await scene(t, answer, one.store);
  await one.channel('ops', 'a.example');
  const both = async (alert: BudgetAlert): Promise<number> => {
    const before = one.posts.length + two.posts.length;
    await Promise.all([one.post(alert), two.post(alert)]);
    while (one.outbox.waiting + two.outbox.waiting > 0) await turn();
    return one.posts.length + two.posts.length - before;
  };
  t.equal(await both(alertOf('warning')), 1);
  t.equal(await both(alertOf('warning')), 0, 'nor again');
  t.equal(await both(alertOf('critical')), 1);
  const shown = (): readonly unknown[] => two.alerts.subscriptions.list('o').map((last) => last.last_alerted_level);
  t.same(shown(), ['critical']);
  answers.push({ status: 404, headers: new Map(), body: 'gone' });
  await one.post(alertOf('exceeded'));
  while (one.outbox.waiting > 0) await turn();
  t.same(shown(), ['critical'], 'what did not arrive was not told');
  t.equal(await both(alertOf('exceeded')), 1, 'and another node may tell it');
  t.same(shown(), ['exceeded']);
  t.same((await history(one)).map(({ level, outcome }) => `${level} ${outcome}`).sort(), [
    'critical delivered',
    'exceeded delivered',
    'exceeded failed',
    'warning delivered',
  ]);
});
