// What a store has of all spaces, page by page, whether it is in the index yet or not.
import t from 'tap';
import type { RowPlace } from '../../../src/storage/embedded/all-spaces.ts';
import { add, makeRecord, put } from '../../contract/store-under-test.ts';
import { fc } from '../../support/properties.ts';
import { StoreRig } from './store-rig.ts';

async function all<Row extends RowPlace>(
  page: (after: RowPlace | undefined) => Promise<readonly Row[]>,
): Promise<readonly (readonly Row[])[]> {
  const pages: (readonly Row[])[] = [];
  for (let rows = await page(undefined); rows.length > 0; rows = await page(rows.at(-1))) pages.push(rows);
  return pages;
}

t.test('entities and counters of all spaces, in the order of spaces and keys', async (t) => {
  const rig = new StoreRig(t);
  const before = await rig.open();
  await before.commit(makeRecord(1), [
    put('a', 1, 'two'),
    put('b', 2, 'two'),
    put('z', 'x'.repeat(90), 'one'),
    add('k', { n: 2n, m: -1n }, 'two'),
  ]);
  await before.close();
  const store = await rig.open();
  await store.commit(undefined, [{ op: 'delete', space: 'two', key: 'a' }, put('c', null, 'three'), put('b', 3, 'two')]);
  await store.commit(makeRecord(2), [add('k', { n: 5n }, 'two'), add('j', { n: 1n }, 'one'), add('none', {}, 'one')]);
  const entities = [
    { space: 'one', key: 'z', text: JSON.stringify('x'.repeat(90)) },
    { space: 'three', key: 'c', text: 'null' },
    { space: 'two', key: 'b', text: '3' },
  ];
  t.strictSame(await store.allEntities(undefined, { rows: 10, units: 1_000 }), entities);
  t.strictSame(await all((after) => store.allEntities(after, { rows: 2, units: 1_000 })), [entities.slice(0, 2), entities.slice(2)]);
  t.strictSame(
    await all((after) => store.allEntities(after, { rows: 10, units: 80 })),
    [entities.slice(0, 1), entities.slice(1)],
    'a page of bytes',
  );
  t.strictSame((await all((after) => store.allCounters(after, { rows: 1, units: 1_000 }))).flat(), [
    { space: 'one', key: 'j', amounts: { n: 1n } },
    { space: 'one', key: 'none', amounts: {} },
    { space: 'two', key: 'k', amounts: { n: 7n, m: -1n } },
  ]);
  t.equal(store.extent.records, 2);
  const { next } = await store.journal(undefined, { commits: 100, bytes: 1_000_000 });
  t.equal(store.extent.end, next);
  t.strictSame(await store.journal(store.extent.end, { commits: 1, bytes: 1 }), { commits: [], next, isLast: true });
  const kept = store.extent;
  await store.close();
  t.strictSame((await rig.open()).extent, kept, 'it stays the same when the store is opened again');
});

t.test('pages of any size have each row once', async (t) => {
  const row = fc.record({
    space: fc.constantFrom('a', 'a0', 'b'),
    key: fc.nat({ max: 20 }),
    size: fc.nat({ max: 50 }),
    isGone: fc.boolean(),
  });
  const cases = fc.asyncProperty(
    fc.array(row, { maxLength: 60 }),
    fc.integer({ min: 1, max: 9 }),
    fc.integer({ min: 1, max: 200 }),
    async (rows, count, units) => {
      const rig = new StoreRig(t);
      let store = await rig.open();
      const wanted = new Map<string, string>();
      for (const [n, { space, key, size, isGone }] of rows.entries()) {
        const value = 'x'.repeat(size);
        await store.commit(undefined, [isGone ? { op: 'delete', space, key: `${key}` } : put(`${key}`, value, space)]);
        if (isGone) wanted.delete(`${space}\0${key}`);
        else wanted.set(`${space}\0${key}`, JSON.stringify(value));
        if (n !== Math.floor(rows.length / 2)) continue;
        // What was before is in the index from here on.
        await store.close();
        store = await rig.open();
      }
      const found = (await all((after) => store.allEntities(after, { rows: count, units }))).flat();
      t.strictSame(
        found.map(({ space, key, text }) => [`${space}\0${key}`, text]),
        [...wanted].sort(([a], [b]) => (a < b ? -1 : 1)),
      );
      await store.close();
    },
  );
  await fc.assert(cases, { numRuns: 30 });
});
