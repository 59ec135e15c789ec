import t from 'tap';
import type { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { BufferBudget, type BufferHold } from '../../src/pipeline/body/buffer-budget.ts';
import { fakeClock } from '../support/fake-clock.ts';

const refusal = (take: () => void): string | undefined => {
  try {
    take();
    return undefined;
  } catch (error) {
    return (error as GatewayError).message;
  }
};
const never = (): void => undefined;

t.test('a client holds half of it at most, all together hold all of it, and what is given back is there again', async (t) => {
  const budget = new BufferBudget(100, fakeClock());
  const first = budget.hold('a');
  first.take(30);
  const second = budget.hold('a');
  second.take(20);
  t.match(
    refusal(() => second.take(1)),
    /^This client holds its share/,
  );
  budget.hold('b').take(50);
  t.match(
    refusal(() => budget.hold('c').take(1)),
    /^All request buffers are in use/,
  );
  t.equal(budget.tryTake(1), false, 'nor is there room for what belongs to nobody');
  t.equal(budget.used, 100);
  first.keep(10);
  first.keep(10);
  t.equal(budget.used, 80);
  second.resize(25);
  t.equal(budget.used, 85);
  t.equal(budget.tryTake(15), true);
  budget.give(15);
  first.keep(0);
  second.resize(0);
  t.equal(budget.used, 50);
});

t.test('one body alone always fits, of a client in its share and of all in the whole', async (t) => {
  const budget = new BufferBudget(100, fakeClock());
  const alone = budget.hold('a');
  alone.take(60);
  alone.take(80);
  t.equal(budget.used, 140);
  t.match(
    refusal(() => budget.hold('b').take(1)),
    /^All request buffers are in use/,
  );
  alone.keep(60);
  budget.hold('b').take(40);
  t.match(
    refusal(() => alone.take(1)),
    /^All request buffers are in use/,
    'it is not alone any more',
  );
});

t.test('what does not move loses its place to who needs it, the laziest first, and nobody who moves', async (t) => {
  const clock = fakeClock();
  const budget = new BufferBudget(100_000, clock);
  const evicted: string[] = [];
  const arrive = (name: string, client: string, bytes: number): BufferHold => {
    const hold = budget.hold(client);
    hold.arrive(bytes, () => evicted.push(name));
    return hold;
  };
  arrive('lazy', 'a', 30_000);
  clock.advance(1_000);
  arrive('later', 'b', 30_000);
  const moving = arrive('moving', 'c', 10_000);
  const settled = arrive('settled', 'd', 20_000);
  settled.settle();
  clock.advance(3_900);
  t.match(
    refusal(() => budget.hold('e').take(20_000)),
    /^All/,
    'a moment ago all of them moved',
  );
  t.same(evicted, []);
  moving.arrive(10_000, never);
  clock.advance(200);
  budget.hold('e').take(20_000);
  t.same(evicted, ['lazy']);
  t.match(
    refusal(() => budget.hold('f').take(20_000)),
    /^All/,
  );
  clock.advance(1_000);
  t.equal(budget.tryTake(20_000), true);
  t.same(evicted, ['lazy', 'later']);
  clock.advance(60_000);
  t.match(
    refusal(() => budget.hold('f').take(50_000)),
    /^All/,
    'what has arrived stays',
  );
  t.same(evicted, ['lazy', 'later', 'moving']);
  t.equal(budget.used, 60_000);
});

t.test(
  'a trickle is no movement, nobody makes room for himself by his own body, and a share is freed of its own bodies only',
  async (t) => {
    const clock = fakeClock();
    const budget = new BufferBudget(100_000, clock);
    const reasons: string[] = [];
    const told = (name: string) => (error: Error) => void reasons.push(`${name}: ${error.message}`);
    const other = budget.hold('b');
    other.arrive(10_000, told('other'));
    const trickle = budget.hold('a');
    trickle.arrive(30_000, told('trickle'));
    for (let second = 0; second < 6; second += 1) {
      clock.advance(1_000);
      trickle.arrive(100, told('trickle'));
    }
    const second = budget.hold('a');
    second.arrive(25_000, told('second'));
    t.match(reasons, [/^trickle: The body came too slowly/]);
    t.equal(reasons.length, 1);
    clock.advance(6_000);
    second.arrive(30_000, told('second'));
    t.equal(reasons.length, 1, 'its only body may be more than its share');
    t.equal(budget.used, 65_000);
  },
);
