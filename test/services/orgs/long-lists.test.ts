// Lists of which hardly anything is wanted, and pages of long items: a page has an end of what it looks at and of what
// it holds, and the rest is its token.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { newestFirst, uuidv7 } from '../../../src/base/lib/ids.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { nextTurn } from '../../../src/base/lib/loop-turns.ts';
import { REPORT_BOUNDS } from '../../../src/base/model/work-bounds.ts';
import { cursorPage, pageInMemory } from '../../../src/operations/management/cursor-pages.ts';
import { entityPage } from '../../../src/services/registers/entity-page.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { runningClock } from '../../support/fake-clock.ts';
import { startManaged } from '../../support/managed.ts';
import { tempDir } from '../../support/temp-dir.ts';

async function openStore(t: Test): Promise<Store> {
  const store = await openEmbeddedStore({ dir: join(tempDir(t), 'store'), fsync: 'off', clock: runningClock, log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

t.test('a page looks at so many entries, and its token goes on behind them, until every one was seen once', async (t) => {
  const store = await openStore(t);
  const ALL = 25_000;
  const start = Date.UTC(2026, 10, 1);
  for (let from = 0; from < ALL; from += 1_000) {
    const ids = Array.from({ length: 1_000 }, (_, at) => ({ n: from + at, id: uuidv7(start + from + at) }));
    await store.commit(
      undefined,
      ids.map(({ n, id }) => ({ op: 'put', space: 'x', key: newestFirst(id), value: { n } })),
    );
  }
  const seen: number[] = [];
  const looked: number[] = [];
  let pages = 0;
  for (let after: string | undefined; ; pages += 1) {
    const before = looked.length;
    const { items, next } = await entityPage(store, 'x', { after, limit: 50 }, (value) => {
      const { n } = value as { n: number };
      looked.push(n);
      return n % 9_999 === 17 ? n : undefined;
    });
    seen.push(...items);
    t.ok(looked.length - before <= REPORT_BOUNDS.pageLooked.one, `${looked.length - before} entries`);
    if (next === undefined) break;
    after = next;
  }
  t.strictSame(seen, [20_015, 10_016, 17], 'the newest first, and none twice');
  t.equal(new Set(looked).size, looked.length, 'nothing is looked at twice');
  t.equal(pages, 2);
});

t.test('of many that look through much one goes on in each turn, the first one first', async (t) => {
  const order: string[] = [];
  let turn = 0;
  const scan = async (name: string): Promise<void> => {
    for (let page = 0; page < 3; page += 1) {
      await nextTurn();
      order.push(`${turn} ${name}`);
    }
  };
  let counted: NodeJS.Immediate | undefined;
  const count = (): void => {
    turn += 1;
    counted = setImmediate(count);
  };
  count();
  await Promise.all([scan('a'), scan('b'), scan('c')]);
  clearImmediate(counted);
  const turns = order.map((one) => one.split(' ')[0]);
  t.equal(new Set(turns).size, turns.length, `each in a turn of its own: ${order.join(', ')}`);
  t.strictSame(
    order.map((one) => one.split(' ')[1]),
    ['a', 'b', 'c', 'a', 'b', 'c', 'a', 'b', 'c'],
  );
});

t.test('a page of records has an end in bytes, and its cursor is the rest', async (t) => {
  let store: Store | undefined;
  const { manage } = await startManaged(t, { store: (opened) => (store = opened) });
  const now = runningClock.now();
  for (let n = 0; n < 30; n += 1) {
    const record = { record_id: uuidv7(now - n), record_hash: n.toString(16).padStart(64, '0'), org_id: 'acme', decision: 'allow' };
    const text = JSON.stringify({ ...record, labels: { long: 'x'.repeat(300_000) } });
    await store?.commit({ ...record, text, committed_at: now }, []);
  }
  const ids: string[] = [];
  let pages = 0;
  for (let cursor = ''; ; pages += 1) {
    const { body } = await manage('GET', `records?limit=500${cursor}`);
    const {
      data,
      next_cursor: next,
      has_more: more,
    } = body as { data: { record_id: string }[]; next_cursor: string | null; has_more: boolean };
    t.ok(JSON.stringify(data).length <= REPORT_BOUNDS.pageBytes.one && data.length > 0, `${data.length} records`);
    ids.push(...data.map(({ record_id: id }) => id));
    t.equal(more, next !== null);
    if (next === null) break;
    cursor = `&cursor=${next}`;
  }
  t.equal(pages, 2);
  t.equal(ids.length, 30);
  t.equal(new Set(ids).size, 30, 'each once');
});

t.test('a page of what is laid down for an org has an end in bytes as well', (t) => {
  const items = Array.from({ length: 20 }, (_, n) => ({
    id: `i${String(n).padStart(2, '0')}`,
    text: 'x'.repeat(n === 5 ? 5_000_000 : 500_000),
  }));
  const ids: string[] = [];
  let cursor: string | undefined;
  let pages = 0;
  do {
    const page = pageInMemory(items, ({ id }) => id, cursorPage('items', { limit: 500, ...(cursor === undefined ? {} : { cursor }) }));
    const bytes = JSON.stringify(page.data).length;
    t.ok(page.data.length === 1 || bytes <= REPORT_BOUNDS.pageBytes.one + 100, `${page.data.length} items, ${bytes} bytes`);
    ids.push(...page.data.map(({ id }) => id));
    cursor = page.next_cursor ?? undefined;
    pages += 1;
  } while (cursor !== undefined);
  t.strictSame(
    ids,
    items.map(({ id }) => id),
    'each once, in order',
  );
  t.ok(pages > 3 && pages < 8, `${pages} pages`);
  t.end();
});
