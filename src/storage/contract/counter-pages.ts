import { nextTurn } from '../../base/lib/loop-turns.ts';
import type { CounterRow, Store } from './store.ts';

/** Rows that are handled in one go: while they are, every other call waits. */
export const COUNTER_PAGE = 500;

/**
 * All counters of a space whose key begins with `prefix`, in key order, page by page; behind each page the event loop turns once, whatever the driver does.
 * A key comes once. Its row holds every commit that was visible when reading began, and of those that became visible meanwhile the ones before its page was
 * read. A commit that adds to one row is therefore in it whole or not at all, and never in two.
 */
export async function* counterPages(
  store: Pick<Store, 'counters'>,
  space: string,
  prefix = '',
): AsyncGenerator<readonly CounterRow[], void> {
  let page: readonly CounterRow[] = [];
  do {
    const after = page.at(-1)?.key;
    page = await store.counters(space, { prefix, limit: COUNTER_PAGE, ...(after === undefined ? {} : { after }) });
    if (page.length === 0) return;
    yield page;
    await nextTurn();
  } while (page.length === COUNTER_PAGE);
}

/** The rows of {@link counterPages}, one by one. */
export async function* counterRows(store: Pick<Store, 'counters'>, space: string, prefix?: string): AsyncGenerator<CounterRow, void> {
  for await (const page of counterPages(store, space, prefix)) yield* page;
}
