import { newestFirst } from '../../base/lib/ids.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { entityPages } from '../../storage/contract/store-pages.ts';
import { type EntitiesPage, type PageQuery, pageOf, type ReadEntities, type TakeEntity } from './entity-page.ts';

/** Which indexes name everything that is in their space. */
const COMPLETE = 'group_index';

/**
 * Which entities of a space are of which group (an org, a destination), the newest first: a list of one org reads its
 * own alone, however many another has (decision 7.12). The entities stand under `newestFirst` of their ids; whatever
 * puts or removes one commits the same of the index.
 */
export class GroupIndex {
  readonly #store: Pick<Store, 'get' | 'list' | 'commit'>;
  readonly #space: string;
  readonly #index: string;

  constructor(store: Pick<Store, 'get' | 'list' | 'commit'>, space: string, by: 'destination' | 'org') {
    this.#store = store;
    this.#space = space;
    this.#index = `${space}_by_${by}`;
  }

  put(group: string, id: string): Effect {
    return { op: 'put', space: this.#index, key: `${prefixOf(group)}${newestFirst(id)}`, value: true };
  }

  delete(group: string, id: string): Effect {
    return { op: 'delete', space: this.#index, key: `${prefixOf(group)}${newestFirst(id)}` };
  }

  /**
   * Names what a version without such an index has stored. Done once for a folder.
   * @throws Error when the store cannot be read or written
   */
  async complete(groupOf: (value: unknown) => string): Promise<void> {
    if ((await this.#store.get(COMPLETE, this.#index)) !== undefined) return;
    for await (const rows of entityPages(this.#store, this.#space)) {
      await this.#store.commit(
        undefined,
        rows.map(({ key, value }) => this.put(groupOf(value), newestFirst(key))),
      );
    }
    await this.#store.commit(undefined, [{ op: 'put', space: COMPLETE, key: this.#index, value: true }]);
  }

  /** A page of what a group has, the newest first, as `entityPage` gives it of the whole space. */
  page<T>(group: string, query: PageQuery, take: TakeEntity<T>): Promise<EntitiesPage<T>> {
    const prefix = prefixOf(group);
    const read = async (after: string | undefined, limit: number) => {
      const rows = await this.#store.list(this.#index, { prefix, limit, ...(after === undefined ? {} : { after: prefix + after }) });
      return this.#values(rows.map(({ key }) => key.slice(prefix.length)));
    };
    return pageOf(read, query, take);
  }

  /** How many a group has. */
  async count(group: string): Promise<number> {
    return (await this.#store.list(this.#index, { prefix: prefixOf(group) })).length;
  }

  /** Reads the entities of these keys, which are in order. */
  reader(keys: readonly string[]): ReadEntities {
    return (after, limit) => this.#values((after === undefined ? keys : keys.filter((key) => key > after)).slice(0, limit));
  }

  #values(keys: readonly string[]): ReturnType<ReadEntities> {
    return Promise.all(keys.map(async (key) => ({ key, value: await this.#store.get(this.#space, key) })));
  }
}

function prefixOf(group: string): string {
  return `${encodeURIComponent(group)}|`;
}
