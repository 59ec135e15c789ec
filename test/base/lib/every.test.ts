// Work that takes turns, and jobs that run again and again.
import t from 'tap';
import { every } from '../../../src/base/lib/every.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { Turn, TurnPerKey } from '../../../src/base/lib/turn.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { heardLog } from '../../support/heard-log.ts';

/** Lets what was resolved go on to its end. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Work that ends when it is told to. */
function held() {
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  return {
    begun,
    end: () => ends.shift()?.(),
    work: (name: string) => async () => {
      begun.push(name);
      await new Promise<void>((resolve) => void ends.push(resolve));
      return name;
    },
  };
}

t.test('one turn begins when the one before it is over, and a failure stops nobody', async (t) => {
  const turn = new Turn();
  const { begun, end, work } = held();
  const first = turn.take(work('first'));
  const failed = turn.take(() => Promise.reject(new Error('second')));
  const third = turn.take(work('third'));
  let isOver = false;
  const over = turn.over().then(() => {
    isOver = true;
  });
  await settled();
  t.same(begun, ['first']);
  end();
  t.equal(await first, 'first');
  await t.rejects(failed, { message: 'second' });
  await settled();
  t.same(begun, ['first', 'third']);
  t.equal(isOver, false, 'the third is under way');
  end();
  t.equal(await third, 'third');
  await over;
});

t.test('turns of one key do not wait for those of another', async (t) => {
  const turns = new TurnPerKey();
  const { begun, end, work } = held();
  const all = [turns.take('a', work('a1')), turns.take('a', work('a2')), turns.take('b', work('b1'))];
  await settled();
  t.same(begun, ['a1', 'b1']);
  for (let time = 0; time < all.length; time += 1) {
    end();
    await settled();
  }
  t.same(await Promise.all(all), ['a1', 'a2', 'b1']);
  t.same(begun, ['a1', 'b1', 'a2']);
});

t.test('a job runs at its interval, first when it is told to, and no more once it is stopped', async (t) => {
  const clock = fakeClock();
  const ranAt: number[] = [];
  const job = every(
    { clock, log: silentLogger },
    {
      everyMs: 100,
      firstMs: 10,
      run: () => void ranAt.push(clock.monotonic()),
      failed: '',
    },
  );
  clock.advance(250);
  t.same(ranAt, [10, 110, 210]);
  await job.now();
  t.same(ranAt, [10, 110, 210, 250]);
  clock.advance(99);
  t.equal(ranAt.length, 4, 'the interval counts from the last run');
  await job.stop();
  clock.advance(1_000);
  await job.now();
  job.within(1);
  job.rearm();
  clock.advance(1_000);
  t.equal(ranAt.length, 4);
  t.equal(clock.pending, 0);
});

t.test('a job never runs twice at once; stopping it waits for the run under way', async (t) => {
  const clock = fakeClock();
  const { begun, end, work } = held();
  const job = every({ clock, log: silentLogger }, { everyMs: 100, run: work('run'), failed: '' });
  clock.advance(100);
  clock.advance(1_000);
  t.equal(begun.length, 1);
  const again = [job.now(), job.now()];
  await settled();
  t.equal(begun.length, 1);
  end();
  await settled();
  t.equal(begun.length, 2, 'both asked for one more');
  end();
  await Promise.all(again);
  clock.advance(100);
  let isStopped = false;
  const stopped = job.stop().then(() => {
    isStopped = true;
  });
  await settled();
  t.equal(isStopped, false);
  end();
  await stopped;
  clock.advance(1_000);
  t.equal(begun.length, 3);
});

t.test('what a job throws is logged, and it goes on', async (t) => {
  const clock = fakeClock();
  const { log, lines } = heardLog();
  let runs = 0;
  const job = every(
    { clock, log },
    {
      everyMs: 100,
      run: () => {
        runs += 1;
        if (runs === 1) throw new Error('at once');
        return runs === 2 ? Promise.reject(new Error('later')) : undefined;
      },
      failed: 'it did not work',
      failedLevel: 'error',
    },
  );
  clock.advance(100);
  clock.advance(100);
  await settled();
  clock.advance(100);
  t.equal(runs, 3);
  t.same(lines, ['error: it did not work', 'error: it did not work']);
  await job.stop();
});

t.test('an interval may be asked for each time; where there is none the job waits to be asked', async (t) => {
  const clock = fakeClock();
  const ranAt: number[] = [];
  let next: number | undefined;
  const job = every({ clock, log: silentLogger }, { everyMs: () => next, run: () => void ranAt.push(clock.monotonic()), failed: '' });
  clock.advance(1_000);
  t.same(ranAt, []);
  job.within(50);
  clock.advance(20);
  job.within(50);
  clock.advance(30);
  t.same(ranAt, [1_050], 'the sooner of both');
  next = 10;
  job.rearm();
  clock.advance(20);
  t.same(ranAt, [1_050, 1_060, 1_070]);
  next = undefined;
  job.rearm();
  clock.advance(1_000);
  t.equal(ranAt.length, 3);
  next = 2 ** 31 + 100;
  job.rearm();
  clock.advance(2 ** 31 + 99);
  t.equal(ranAt.length, 3, 'longer than a timer of Node can wait');
  clock.advance(1);
  t.equal(ranAt.length, 4);
  await job.stop();
});

t.test('what is asked for during a run counts from its end', async (t) => {
  const clock = fakeClock();
  const { begun, end, work } = held();
  const job = every({ clock, log: silentLogger }, { everyMs: 1_000, run: work('run'), failed: '' });
  void job.now();
  job.within(10);
  end();
  await settled();
  clock.advance(9);
  t.equal(begun.length, 1);
  clock.advance(1);
  t.equal(begun.length, 2);
  end();
  await job.stop();
});

t.test('what a run asks for before it waits for anything is not lost', async (t) => {
  const clock = fakeClock();
  const ranAt: number[] = [];
  for (const waits of [false, true]) {
    const job = every(
      { clock, log: silentLogger },
      {
        everyMs: () => undefined,
        run() {
          ranAt.push(clock.monotonic());
          job.within(10);
          return waits ? Promise.resolve() : undefined;
        },
        failed: '',
      },
    );
    const before = ranAt.length;
    job.within(0);
    clock.advance(0);
    await settled();
    clock.advance(9);
    await settled();
    t.equal(ranAt.length, before + 1);
    clock.advance(1);
    t.equal(ranAt.length, before + 2);
    await job.stop();
  }
});
