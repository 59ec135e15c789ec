import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { createLogger, silentLogger } from '../../../src/base/lib/log.ts';
import { ClockWatch, clockToleranceMs } from '../../../src/services/keeper/clock-watch.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const DAY = 86_400_000;
const HOUR = 3_600_000;
const RETENTION = 90 * DAY;

/** One data folder through several runs of a gateway. */
class Machine {
  readonly said: string[] = [];
  confirmed: number | undefined;
  readonly #t: HasTeardown;
  readonly #dir: string;

  constructor(t: HasTeardown) {
    this.#t = t;
    this.#dir = tempDir(t);
  }

  /** A run with the clock at this time; what it says is in `said`, of which that of the runs before is forgotten. */
  async run(at: number): Promise<{ watch: ClockWatch; events: EventBus; clock: FakeClock; store: Store; stop: () => Promise<void> }> {
    this.said.length = 0;
    const clock = fakeClock(at);
    const store = await openEmbeddedStore({ dir: this.#dir, fsync: 'off', clock, log: silentLogger });
    const write = (line: string): void =>
      void this.said.push(/ahead|behind|should be|not that of now/.exec((JSON.parse(line) as { msg: string }).msg)?.[0] ?? line);
    const confirmation = {
      read: () => Promise.resolve(this.confirmed),
      clear: () => {
        this.confirmed = undefined;
        return Promise.resolve();
      },
    };
    const log = createLogger({ level: 'info', format: 'json', destination: { write } });
    const events = new EventBus(log);
    const watch = await ClockWatch.open({ store, clock, log, events, retentionMs: RETENTION, confirmation });
    const stop = async (): Promise<void> => {
      await watch.close();
      await store.close();
    };
    this.#t.teardown(stop);
    return { watch, events, clock, store, stop };
  }
}

/** Lets hours pass as they do: the watch looks every minute. */
async function pass(run: { watch: ClockWatch; clock: FakeClock }, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= HOUR) {
    run.clock.advance(Math.min(left, HOUR));
    await run.watch.check();
  }
}

const START = Date.UTC(2026, 10, 21, 12);

t.test('a clock that goes on as it should is believed, over restarts, nights, and weeks without a call', async (t) => {
  const machine = new Machine(t);
  const first = await machine.run(START);
  await pass(first, 20 * DAY);
  t.equal(first.watch.mayExpire, true);
  await first.stop();
  const second = await machine.run(START + 26 * DAY);
  t.equal(second.watch.mayExpire, true, 'off for six days');
  t.same(machine.said, []);
});

// Holds: no-removal-by-a-wrong-clock
t.test('a start far ahead of the last run holds removal until the clock is set right', async (t) => {
  const machine = new Machine(t);
  await (await machine.run(START)).stop();
  const wrong = await machine.run(START + 120 * DAY);
  t.equal(wrong.watch.mayExpire, false);
  t.same(machine.said, ['ahead']);
  await pass(wrong, 10 * HOUR);
  t.same(machine.said, ['ahead'], 'it is said once');
  await pass(wrong, 15 * HOUR);
  t.same(machine.said, ['ahead', 'ahead'], 'and once a day');
  await wrong.stop();
  const again = await machine.run(START + 122 * DAY);
  t.equal(again.watch.mayExpire, false, 'a restart with the same clock is no confirmation');
  let went = 0;
  again.events.subscribe(['clockBelieved'], () => {
    went += 1;
  });
  again.clock.set(START + 3 * DAY);
  t.equal(again.watch.mayExpire, true);
  t.equal(went, 0);
  again.clock.set(START + 122 * DAY);
  await again.watch.check();
  t.equal(went, 0);
  again.clock.set(START + 3 * DAY);
  await again.watch.check();
  t.equal(went, 1);
  t.same(machine.said, ['ahead', 'should be']);
});

t.test('a gateway that was off for so long waits for the confirmation of an operator, before its start or while it runs', async (t) => {
  const machine = new Machine(t);
  await (await machine.run(START)).stop();
  machine.confirmed = START + 120 * DAY;
  const before = await machine.run(START + 120 * DAY + HOUR);
  t.equal(before.watch.mayExpire, true);
  t.same(machine.said, ['ahead', 'should be']);
  t.equal(machine.confirmed, undefined, 'a confirmation counts once');
  await before.stop();
  const next = await machine.run(START + 121 * DAY);
  t.same(machine.said, [], 'and lasts');
  await next.stop();

  const running = await machine.run(START + 400 * DAY);
  let went = 0;
  running.events.subscribe(['clockBelieved'], () => {
    went += 1;
  });
  machine.confirmed = START + 350 * DAY;
  await running.watch.check();
  t.equal(running.watch.mayExpire, false);
  t.same(machine.said, ['ahead', 'not that of now'], 'another time was confirmed');
  machine.confirmed = running.clock.now();
  running.clock.advance(60_000);
  await running.watch.check();
  t.equal(running.watch.mayExpire, true, 'it is looked for every minute');
  t.equal(went, 1);
});

t.test('a clock that jumps while the gateway runs is doubted at once', async (t) => {
  const machine = new Machine(t);
  const run = await machine.run(START);
  await pass(run, 30 * HOUR);
  run.clock.set(START + 60 * DAY);
  t.equal(run.watch.mayExpire, false, 'not only at the next look');
  await run.watch.check();
  await pass(run, 2 * HOUR);
  run.clock.set(START + 32 * HOUR);
  t.equal(run.watch.mayExpire, true);
  run.clock.set(START + 32 * HOUR + 6 * DAY);
  t.equal(run.watch.mayExpire, true, 'days are no reason, at 90 of retention');
});

t.test('a clock that is behind what is stored is said, removes nothing too early, and goes on where it was', async (t) => {
  const machine = new Machine(t);
  const first = await machine.run(START);
  await pass(first, 3 * HOUR);
  await first.stop();
  const early = await machine.run(Date.UTC(2000, 0, 1));
  t.same(machine.said, ['behind']);
  t.equal(early.watch.mayExpire, true);
  early.clock.set(START + 4 * HOUR);
  await early.watch.check();
  t.same(machine.said, ['behind', 'should be'], 'a machine that gets its time a while after its start');
  early.clock.set(START);
  machine.confirmed = START;
  await early.watch.check();
  await pass(early, HOUR);
  t.same(machine.said, ['behind', 'should be', 'behind', 'should be'], 'it may be confirmed too');
});

t.test('a folder of an older version is judged by its newest record', async (t) => {
  const machine = new Machine(t);
  const older = await machine.run(START);
  const text = JSON.stringify({ completed_at: '2026-11-21T12:00:00.000Z' });
  await older.store.commit({ record_id: 'r', record_hash: '0'.repeat(64), text, committed_at: START }, [
    { op: 'delete', space: 'clock', key: 'last_known' },
  ]);
  await older.stop();
  const later = await machine.run(START + 30 * DAY);
  t.equal(later.watch.mayExpire, false);
  t.same(later.watch.moments, [START + 30 * DAY, START]);
});

t.test('how far a clock may go ahead depends on the retention', (t) => {
  const days = (retention: number): number => clockToleranceMs(retention * DAY) / DAY;
  t.same([1 / 24, 1, 4, 8, 28, 90, 3650].map(days), [1, 1, 1, 2, 7, 7, 7]);
  t.end();
});
