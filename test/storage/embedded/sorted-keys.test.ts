// Keys in order, of which many are added for one that is read, and the rows of the tail that pages are made of.
import t from 'tap';
import type { Effect } from '../../../src/storage/contract/store.ts';
import { Counters } from '../../../src/storage/embedded/counters.ts';
import { mergeRows } from '../../../src/storage/embedded/merge-rows.ts';
import { prepareCommit } from '../../../src/storage/embedded/prepared-commit.ts';
import { SortedKeys } from '../../../src/storage/embedded/sorted-keys.ts';
import { type Generation, Tail } from '../../../src/storage/embedded/tail.ts';
import { Mulberry32 } from '../../support/mulberry32.ts';

t.test('keys come in order from any place of any prefix on, however they were added and read meanwhile', (t) => {
  const numbers = new Mulberry32(30);
  const random = () => numbers.next();
  const keys = new SortedKeys();
  const all = new Set<string>();
  for (let round = 0; round < 60; round += 1) {
    for (let count = Math.floor(random() * 400); count > 0; count -= 1) {
      const key = `${'abc'.charAt(Math.floor(random() * 3))}|${Math.floor(random() * 1e6).toString(36)}`;
      if (all.has(key)) continue;
      all.add(key);
      keys.added.push(key);
    }
    const ordered = [...all].sort();
    const prefix = ['', 'a|', 'b|', 'b|1', 'd'][Math.floor(random() * 5)] ?? '';
    const after = random() < 0.3 ? '' : (ordered[Math.floor(random() * ordered.length)] ?? '');
    const expected = ordered.filter((key) => key.startsWith(prefix) && key > after);
    t.strictSame([...keys.from(prefix, after)], expected, `round ${round}: ${prefix} behind ${after}`);
  }
  t.end();
});

t.test('a page of the tail is that of the whole, with deletions, of two generations and over the index', async (t) => {
  const numbers = new Mulberry32(31);
  const random = () => numbers.next();
  const counters = new Counters(() => undefined);
  const tail = new Tail(counters);
  const index = new Map<string, string>();
  const truth = new Map<string, string>();
  let frozen: Generation | undefined;
  const apply = (effects: readonly Effect[]): void => {
    const commit = prepareCommit(undefined, effects, 0, counters);
    tail.apply('', '', '', commit.effects, commit.cells);
    for (const effect of effects) {
      if (effect.op === 'put') truth.set(`s\0${effect.key}`, JSON.stringify(effect.value));
      if (effect.op === 'delete') truth.delete(`s\0${effect.key}`);
    }
  };
  const change = (): Effect => {
    const key = `k${Math.floor(random() * 300)}`;
    return random() < 0.4 ? { op: 'delete', space: 's', key } : { op: 'put', space: 's', key, value: Math.floor(random() * 1e6) };
  };
  async function* stored(prefix: string, after: string) {
    for (const [key, value] of [...index].sort(([a], [b]) => (a < b ? -1 : 1)))
      if (key.startsWith(prefix) && key > after) yield [`e${key}`, value] as const;
  }
  for (let round = 0; round < 40; round += 1) {
    apply(Array.from({ length: 20 }, change));
    if (round % 5 === 2) frozen = tail.freeze();
    for (const limit of [1, 7, 1_000]) {
      const prefix = ['s\0', 's\0k1'][round % 2] ?? '';
      const after = random() < 0.4 ? '' : `s\0k${Math.floor(random() * 300)}`;
      const rows = await mergeRows(stored(prefix, after), tail.entities(prefix, after, limit), { limit });
      const expected = [...truth]
        .filter(([key]) => key.startsWith(prefix) && key > after)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .slice(0, limit);
      t.strictSame(rows, expected, `round ${round}, limit ${limit}`);
    }
    if (round % 5 !== 4) continue;
    // What was frozen is in the index from now on.
    for (const [key, value] of frozen?.entities ?? []) {
      if (value === undefined) index.delete(key);
      else index.set(key, value);
    }
    tail.drop();
  }
});
