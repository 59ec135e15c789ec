// Records of calls under way: which of them a start makes, on a store that is this node's alone and on one that nodes
// share.
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { runProxied } from '../../../src/pipeline/enter.ts';
import type { UnhashedRecord } from '../../../src/record/canonical-record.ts';
import { Leases } from '../../../src/services/keeper/lease.ts';
import { Intents } from '../../../src/services/money/intents.ts';
import { RecordCounters } from '../../../src/services/reports/record-counters.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { ALL_REGISTERED } from '../../support/all-registered.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { ALLOW_ALL, CHAT } from '../../support/governed.ts';
import { arrivalOf, boundTo, openPlay, recordIn } from '../../support/played-line.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

async function openStore(t: HasTeardown, clock: FakeClock): Promise<Store> {
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

function open(t: HasTeardown, store: Store, clock: FakeClock, owner: string, isShared = true): Promise<Intents> {
  const opened = RecordCounters.open(store, clock, ALL_REGISTERED).then((counters) =>
    Intents.open({ store, clock, log: silentLogger, counters, leases: leasesOf(store, clock, owner, isShared) }),
  );
  t.teardown(async () => (await opened).close());
  return opened;
}

function leasesOf(store: Store, clock: FakeClock, holder: string, isShared = true): Leases {
  return new Leases({ store, clock, log: silentLogger, holder, isShared });
}

/** A record as a call has it before it is sent. */
async function draft(t: HasTeardown): Promise<() => UnhashedRecord> {
  const play = await openPlay(t, { bundle: ALLOW_ALL });
  const { record_hash: _, ...record } = recordIn(
    await runProxied(arrivalOf(play, { path: '/v1/chat/completions', body: CHAT }), play.pipeline),
  );
  return () => ({ ...record, record_id: randomUUID() }) as unknown as UnhashedRecord;
}

/** Which of these calls have a record. */
async function recorded(store: Store, ...calls: readonly UnhashedRecord[]): Promise<readonly boolean[]> {
  return Promise.all(calls.map(async ({ record_id: id }) => (await store.recordById(id)) !== undefined));
}

/** Lets what a timer began come to its end: everything that it waits for is committed before this is. */
async function settled(store: Store): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) {
    await store.list('intent');
    await store.commit(undefined, [{ op: 'put', space: 'turn', key: 'turn', value: turn }]);
  }
}

// Holds: one-record-a-call
t.test('a start makes records of what this node left, and of nothing that a sibling has under way', async (t) => {
  const clock = fakeClock();
  const store = await openStore(t, clock);
  const newDraft = await draft(t);
  const [mine, theirs] = [newDraft(), newDraft()];
  await (await open(t, store, clock, 'a')).write(mine);
  const sibling = await open(t, store, clock, 'b');
  await sibling.write(theirs);
  await open(t, store, clock, 'a');
  t.same(await recorded(store, mine, theirs), [true, false]);
  t.same(
    (await store.list('intent')).map(({ key }) => key),
    [theirs.record_id],
  );
  await store.commit(undefined, [sibling.settlement(theirs.record_id)]);
  t.same(await store.list('intent'), []);
});

t.test('what a node leaves that does not come back is recorded by another when its lease has run out, and once', async (t) => {
  const clock = fakeClock();
  const store = await openStore(t, clock);
  const newDraft = await draft(t);
  const lost = newDraft();
  // Killed: its timers never fire.
  const gone = await open(t, store, fakeClock(clock.now()), 'gone');
  await gone.write(lost);
  await gone.close();
  const running = newDraft();
  const others = [await open(t, store, clock, 'x'), await open(t, store, clock, 'y')];
  await others[0]?.write(running);
  clock.advance(50_000);
  await settled(store);
  t.same(await recorded(store, lost), [false], 'its lease has not run out');
  for (let time = 0; time < 4; time += 1) {
    clock.advance(20_000);
    await settled(store);
  }
  t.same(await recorded(store, lost, running), [true, false]);
  t.same(
    (await store.list('intent')).map(({ key }) => key),
    [running.record_id],
    'who is there keeps what is under way',
  );
});

// Holds: one-record-a-call
t.test(
  'what its node settles while another is about to take it over is not recorded twice, and a call that was not made not at all',
  async (t) => {
    const clock = fakeClock();
    const store = await openStore(t, clock);
    const newDraft = await draft(t);
    const [made, notMade] = [newDraft(), newDraft()];
    // Its timers stand still.
    const slow = await open(t, store, fakeClock(clock.now()), 'slow');
    await slow.write(made);
    await slow.write(notMade);
    await slow.close();
    clock.advance(61_000);
    const late = new Proxy(store, {
      get(of, name) {
        if (name !== 'entities') return boundTo(of)[name as keyof Store];
        return async (space: string) => {
          const found = await of.entities(space);
          await of.commit(undefined, [slow.settlement(made.record_id), slow.settlement(notMade.record_id)]);
          return found;
        };
      },
    });
    const counters = await RecordCounters.open(late, clock, ALL_REGISTERED);
    const other = await Intents.open({
      store: late,
      clock,
      log: silentLogger,
      counters,
      leases: leasesOf(late, clock, 'other'),
    });
    t.teardown(() => other.close());
    for (let time = 0; time < 4; time += 1) {
      clock.advance(20_000);
      await settled(store);
    }
    t.same(await recorded(store, made, notMade), [false, false]);
    t.same(await store.list('intent'), []);
  },
);

t.test('on a store of its own a node makes records of everything, whatever it was called before', async (t) => {
  const clock = fakeClock();
  const store = await openStore(t, clock);
  const left = (await draft(t))();
  await (await open(t, store, clock, 'old-name', false)).write(left);
  await open(t, store, clock, 'new-name', false);
  t.same(await recorded(store, left), [true]);
  t.same(await store.list('lease'), [], 'no lease is kept where nobody asks for one');
});
