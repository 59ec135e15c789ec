import t from 'tap';
import { Roster, type Seat } from '../../../src/base/lib/roster.ts';

t.test('a roster keeps the order in which things came, and lets any of them go once', async (t) => {
  const roster = new Roster<string>();
  const [a, b, c] = ['a', 'b', 'c'].map((value) => roster.add(value)) as [Seat<string>, Seat<string>, Seat<string>];
  t.strictSame([...roster], ['a', 'b', 'c']);
  t.ok(roster.remove(b));
  t.notOk(roster.remove(b));
  t.strictSame([...roster], ['a', 'c']);
  t.ok(roster.remove(c));
  roster.add('d');
  t.strictSame(
    roster.seats().map(({ value }) => value),
    ['a', 'd'],
  );
  t.ok(roster.remove(a));
  t.equal(roster.size, 1);
  t.strictSame([...roster], ['d']);
});

t.test('what is at hand in a walk may go, and what came meanwhile is walked', async (t) => {
  const roster = new Roster<string>();
  const seats = new Map(['a', 'b', 'c'].map((value) => [value, roster.add(value)]));
  const walked: string[] = [];
  for (const value of roster) {
    walked.push(value);
    const seat = seats.get(value);
    if (seat !== undefined) roster.remove(seat);
    if (value === 'b') roster.add('d');
  }
  t.strictSame(walked, ['a', 'b', 'c', 'd']);
  t.strictSame([...roster], ['d']);
});

t.test('what has left is linked to nothing that is there', async (t) => {
  const roster = new Roster<object>();
  const [first, second, third] = [{}, {}, {}].map((value) => roster.add(value)) as [Seat<object>, Seat<object>, Seat<object>];
  roster.remove(second);
  for (const seat of [first, third]) t.notOk(Object.values(second).includes(seat));
  roster.remove(first);
  t.notOk(Object.values(first).includes(third));
});
