import { newestFirst } from '../../base/lib/ids.ts';
import { nextTurn } from '../../base/lib/loop-turns.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';

const AT_ONCE = 200;
/** Of one page, those that are passed over included. */
const MAX_LOOKED = REPORT_BOUNDS.pageLooked.one;

/** What somebody asks of a list whose entities stand under {@link newestFirst} of their ids. */
export interface PageQuery {
  /** The id of the last item of the page before. */
  readonly after: string | undefined;
  /** At least 1. */
  readonly limit: number;
}

export interface EntitiesPage<T> {
  readonly items: readonly T[];
  /**
   * The `after` of the next page; undefined when nothing comes behind this one. There may be one where this one is not
   * full, since a page has an end of what it looks at, too.
   */
  readonly next: string | undefined;
}

/** What is shown of an entity; undefined: it is passed over. */
export type TakeEntity<T> = (value: unknown, id: string) => T | undefined;

/** The next entities behind a key, by their keys, at most `limit`; a value that is undefined is gone. */
export type ReadEntities = (
  after: string | undefined,
  limit: number,
) => Promise<readonly { readonly key: string; readonly value: unknown }[]>;

/**
 * A page of a space, the newest first. A page stays what it is whatever is added meanwhile, and goes on behind an item
 * that is gone. Other work goes on while entities are passed over that are not wanted.
 */
export function entityPage<T>(store: Pick<Store, 'list'>, space: string, query: PageQuery, take: TakeEntity<T>): Promise<EntitiesPage<T>> {
  return pageOf((after, limit) => store.list(space, { limit, ...(after === undefined ? {} : { after }) }), query, take);
}

/** The same of what `read` finds in that order, such as what one org has. */
export async function pageOf<T>(read: ReadEntities, { after, limit }: PageQuery, take: TakeEntity<T>): Promise<EntitiesPage<T>> {
  const items: T[] = [];
  let last: string | undefined;
  let from = after === undefined ? undefined : newestFirst(after);
  for (let looked = AT_ONCE; ; looked += AT_ONCE) {
    const rows = await read(from, AT_ONCE);
    for (const { key, value } of rows) {
      const id = newestFirst(key);
      const item = value === undefined ? undefined : take(value, id);
      if (item === undefined) continue;
      if (items.length === limit) return { items, next: last };
      items.push(item);
      last = id;
    }
    const end = endOf(rows, looked);
    if (end !== undefined) return { items, ...end };
    from = rows.at(-1)?.key;
    await nextTurn();
  }
}

/**
 * Where a page ends behind what was read: with the list, or when it has looked at so many that whoever looks for what
 * hardly anything fits is to ask again, from here on.
 */
function endOf(rows: readonly { readonly key: string }[], looked: number): { readonly next: string | undefined } | undefined {
  if (rows.length < AT_ONCE) return { next: undefined };
  const last = rows.at(-1);
  return looked < MAX_LOOKED || last === undefined ? undefined : { next: newestFirst(last.key) };
}

/**
 * Removes entities of such a space. Those that were made later are not looked at.
 * @param isGone whether one of those that were made before `epochMs` is to be removed
 * @param also what goes with one
 * @returns how many were
 */
export async function removeEntities(
  store: Pick<Store, 'list' | 'commit'>,
  space: string,
  epochMs: number,
  isGone: (value: unknown) => boolean,
  also: (value: unknown) => readonly Effect[] | Promise<readonly Effect[]> = () => [],
): Promise<number> {
  let removed = 0;
  // Of this moment, so that all that were made earlier stand behind it.
  let after = newestFirst(`${hexTime(epochMs)}-0000-0000-000000000000`);
  for (;;) {
    const rows = await store.list(space, { limit: AT_ONCE, after });
    const gone = rows.filter(({ value }) => isGone(value));
    const effects: Effect[] = [];
    for (const { key, value } of gone) effects.push({ op: 'delete', space, key }, ...(await also(value)));
    if (effects.length > 0) await store.commit(undefined, effects);
    removed += gone.length;
    if (rows.length < AT_ONCE) return removed;
    after = rows.at(-1)?.key ?? after;
  }
}

/** The first 48 bits of a UUIDv7 of this moment. */
function hexTime(epochMs: number): string {
  const hex = Math.floor(epochMs).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}`;
}
