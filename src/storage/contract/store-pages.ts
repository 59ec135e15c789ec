import { nextTurn } from '../../base/lib/loop-turns.ts';
import type { CounterRow, EntityPage, Store } from './store.ts';

/** Rows that are handled in one go: while they are, every other call waits. */
export const COUNTER_PAGE = 500;

/**
 * All counters of a space whose key begins with `prefix`, in key order, page by page; behind each page the event loop
 * turns once, whatever the driver does. A key comes once. Its row holds every commit that was visible when reading
 * began, and of those that became visible meanwhile the ones before its page was read. A commit that adds to one row is
 * therefore in it whole or not at all, and never in two.
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

/** Entities that are read in one go. */
const ENTITY_PAGE = 500;

/**
 * All entities of a space in key order, page by page; behind each page the event loop turns once, whatever the driver
 * does. Each page is one consistent state of its own.
 */
export async function* entityPages(
  store: Pick<Store, 'list'>,
  space: string,
  { prefix }: Pick<EntityPage, 'prefix'> = {},
): AsyncGenerator<readonly { readonly key: string; readonly value: unknown }[], void> {
  for (let after: string | undefined; ; ) {
    const from = { ...(prefix === undefined ? {} : { prefix }), ...(after === undefined ? {} : { after }) };
    const page = await store.list(space, { ...from, limit: ENTITY_PAGE });
    if (page.length === 0) return;
    yield page;
    after = page.at(-1)?.key;
    await nextTurn();
    if (page.length < ENTITY_PAGE) return;
  }
}

/** The entities of {@link entityPages}, one by one. */
export async function* entityRows(
  store: Pick<Store, 'list'>,
  space: string,
  page?: Pick<EntityPage, 'prefix'>,
): AsyncGenerator<{ readonly key: string; readonly value: unknown }, void> {
  for await (const rows of entityPages(store, space, page)) yield* rows;
}
