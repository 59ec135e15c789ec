import { setImmediate as turn } from 'node:timers/promises';
import { newestFirst } from '../base/lib/newest-first.ts';
import type { Store } from '../storage/contract/store.ts';

const AT_ONCE = 200;

/** What somebody asks of a list whose entities stand under {@link newestFirst} of their ids. */
export interface PageQuery {
  /** The id of the last item of the page before. */
  readonly after: string | undefined;
  /** At least 1. */
  readonly limit: number;
}

export interface EntitiesPage<T> {
  readonly items: readonly T[];
  /** The `after` of the next page; undefined when nothing comes behind this one. */
  readonly next: string | undefined;
}

/**
 * A page of a space, the newest first. A page stays what it is whatever is added meanwhile, and goes on behind an item that is gone. Other work goes on while entities are
 * passed over that are not wanted.
 * @param take what is shown of an entity; undefined: it is passed over
 */
export async function entityPage<T>(
  store: Pick<Store, 'list'>,
  space: string,
  { after, limit }: PageQuery,
  take: (value: unknown, id: string) => T | undefined,
): Promise<EntitiesPage<T>> {
  const items: T[] = [];
  let last: string | undefined;
  let from = after === undefined ? undefined : newestFirst(after);
  for (;;) {
    const rows = await store.list(space, { limit: AT_ONCE, ...(from === undefined ? {} : { after: from }) });
    for (const { key, value } of rows) {
      const id = newestFirst(key);
      const item = take(value, id);
      if (item === undefined) continue;
      if (items.length === limit) return { items, next: last };
      items.push(item);
      last = id;
    }
    if (rows.length < AT_ONCE) return { items, next: undefined };
    from = rows.at(-1)?.key;
    await turn();
  }
}
