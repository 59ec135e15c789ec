// Leases: one process of a store does what must be done once.
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { Leases } from '../../../src/services/keeper/lease.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

async function place(t: HasTeardown): Promise<Store> {
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock: fakeClock(), log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

function leasesOf(t: HasTeardown, store: Store, clock: FakeClock, holder: string, isShared = true): Leases {
  const leases = new Leases({ store, clock, log: silentLogger, holder, isShared });
  t.teardown(() => leases.close());
  return leases;
}

/** Lets what a timer began come to its end: everything that it waits for is committed before this is. */
async function settled(store: Store): Promise<void> {
  for (let turn = 0; turn < 4; turn += 1) {
    await store.list('lease');
    await store.commit(undefined, [{ op: 'put', space: 'turn', key: 'turn', value: turn }]);
  }
}

t.test('one of two that ask at once has the lease, for as long as it renews it', async (t) => {
  const clock = fakeClock();
  const store = await place(t);
  const [a, b] = [leasesOf(t, store, clock, 'a'), leasesOf(t, store, clock, 'b')];
  t.same([await Promise.all([a.hold('job'), b.hold('job')])].flat().toSorted(), [false, true]);
  const [mine, other] = a.has('job') ? [a, b] : [b, a];
  for (let time = 0; time < 6; time += 1) {
    clock.advance(20_000);
    await settled(store);
  }
  t.equal(mine.has('job'), true);
  t.equal(await other.hold('job'), false);
  t.same([...(await other.taken('j'))], ['job']);
  await mine.close();
  t.equal(await other.hold('job'), true, 'given up at the end, so that nobody waits for a minute');
  t.equal(await mine.hold('job'), false, 'a holder that has ended takes nothing');
});

t.test('what a killed process held is taken at once under its own name, and by another after a minute', async (t) => {
  const store = await place(t);
  const [killed, clock] = [fakeClock(), fakeClock()];
  await leasesOf(t, store, killed, 'a').hold('job');
  const other = leasesOf(t, store, clock, 'b');
  clock.advance(59_999);
  t.equal(await other.hold('job'), false);
  t.equal(await leasesOf(t, store, clock, 'a').hold('job'), true);
  clock.advance(1);
  t.equal(await other.hold('job'), false, 'renewed by the one that took it');
  const third = fakeClock(clock.now() + 60_000);
  t.equal(await leasesOf(t, store, third, 'c').hold('job'), true);
});

t.test('a holder that stood still notices that its lease has run out, and does not take it back from another', async (t) => {
  const store = await place(t);
  const [stopped, clock] = [fakeClock(), fakeClock()];
  const slow = leasesOf(t, store, stopped, 'slow');
  await slow.hold('job');
  clock.advance(60_000);
  const quick = leasesOf(t, store, clock, 'quick');
  t.equal(await quick.hold('job'), true);
  t.equal(slow.has('job'), true, 'its own minute has not passed');
  stopped.advance(60_000);
  t.equal(slow.has('job'), false);
  await settled(store);
  t.equal(await slow.hold('job'), false);
  t.equal(quick.has('job'), true);
});

t.test('a job under a lease runs in one process, and in another when that one has ended', async (t) => {
  const clock = fakeClock();
  const store = await place(t);
  const ran: string[] = [];
  const runner = (holder: string) => {
    const leases = leasesOf(t, store, clock, holder);
    const job = leases.every('job', { everyMs: 10_000, failed: '', run: (isHeld) => void (isHeld() && ran.push(holder)) });
    t.teardown(() => job.stop());
    return { leases, job };
  };
  const a = runner('a');
  await a.job.now();
  const b = runner('b');
  for (let time = 0; time < 3; time += 1) {
    clock.advance(10_000);
    await settled(store);
  }
  t.same(ran, ['a', 'a', 'a', 'a']);
  await a.job.stop();
  await a.leases.close();
  await b.job.now();
  t.same(ran.at(-1), 'b');
});

t.test('where no other process can have the store every lease is held, and nothing is stored', async (t) => {
  const store = await place(t);
  const leases = leasesOf(t, store, fakeClock(), 'a', false);
  t.equal(leases.hold('job'), true, 'at once');
  let runs = 0;
  const job = leases.every('job', { everyMs: 1_000, failed: '', run: () => void (runs += 1) });
  void job.now();
  t.equal(runs, 1, 'without waiting');
  await job.stop();
  await leases.close();
  t.same(await store.list('lease'), []);
});
