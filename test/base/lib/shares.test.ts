import t from 'tap';
import { Shares } from '../../../src/base/lib/shares.ts';

/** Takes until no place is left for them. */
function fill(shares: Shares, org: string, caller?: string): number {
  let taken = 0;
  for (; shares.full(org, caller) === undefined; taken++) shares.take(org, caller);
  return taken;
}

t.test('one org gets half of the places at most, and each further one finds some', async (t) => {
  const shares = new Shares(1_000);
  t.equal(fill(shares, 'a'), 500);
  t.equal(shares.full('a'), 'org');
  t.equal(fill(shares, 'b'), 250);
  t.equal(fill(shares, 'c'), 125);
  t.equal(shares.full('d'), undefined, 'a fourth one still finds a place');
});

t.test('one caller gets a third of the places at most, and others of his org find some', async (t) => {
  const shares = new Shares(900);
  t.equal(fill(shares, 'a', 'x'), 300);
  t.equal(shares.full('a', 'x'), 'caller');
  t.equal(fill(shares, 'a', 'y'), 100);
  t.equal(shares.full('a', 'z'), undefined);
  t.equal(shares.full('b', 'x'), undefined, 'the same name in another org is another caller');
});

t.test('what is given back can be taken by the same caller', async (t) => {
  const shares = new Shares(9);
  fill(shares, 'a', 'x');
  shares.give('a', 'x');
  t.equal(shares.full('a', 'x'), undefined);
  for (const _ of [1, 2]) shares.give('a', 'x');
  t.equal(shares.taken, 0);
  t.equal(shares.takenBy('a'), 0);
  shares.give('a', 'x');
  t.equal(shares.taken, 0, 'what was not taken is not given back');
});

t.test('when all places are taken everybody is refused, and the largest holder is named', async (t) => {
  const shares = new Shares(3);
  t.equal(shares.largest(), undefined);
  for (const org of ['a', 'b', 'b']) shares.take(org);
  t.equal(shares.full('new'), 'all');
  t.equal(shares.largest(), 'b');
  shares.take('a');
  t.equal(shares.taken, 4, 'what is there already counts, beyond the bound as well');
});
