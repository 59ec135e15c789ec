import { newestFirst } from '../base/lib/newest-first.ts';
import type { Effect, Store } from '../storage/contract/store.ts';
import { type EntitiesPage, type PageQuery, pageOf, type TakeEntity } from './entity-page.ts';

/** Which indexes name everything that is in their space. */
const COMPLETE = 'org_index';
const AT_ONCE = 200;

/**
 * Which entities of a space are of which org, the newest first: a list of one org reads its own alone, however many another has (decision 7.12). The entities stand under
 * `newestFirst` of their ids; whatever puts or removes one commits the same of the index.
 */
export class OrgIndex {
  readonly #store: Pick<Store, 'get' | 'list' | 'commit'>;
  readonly #space: string;
  readonly #index: string;

  constructor(store: Pick<Store, 'get' | 'list' | 'commit'>, space: string) {
    this.#store = store;
    this.#space = space;
    this.#index = `${space}_by_org`;
  }

  put(orgId: string, id: string): Effect {
    return { op: 'put', space: this.#index, key: `${prefixOf(orgId)}${newestFirst(id)}`, value: true };
  }

  delete(orgId: string, id: string): Effect {
    return { op: 'delete', space: this.#index, key: `${prefixOf(orgId)}${newestFirst(id)}` };
  }

  /** Names what a version without such an index has stored. Done once for a folder. @throws Error when the store cannot be read or written */
  async complete(orgOf: (value: unknown) => string): Promise<void> {
    if ((await this.#store.get(COMPLETE, this.#space)) !== undefined) return;
    for (let after: string | undefined; ; ) {
      const rows = await this.#store.list(this.#space, { limit: AT_ONCE, ...(after === undefined ? {} : { after }) });
      const effects = rows.map(({ key, value }) => this.put(orgOf(value), newestFirst(key)));
      const isDone = rows.length < AT_ONCE;
      await this.#store.commit(undefined, isDone ? [...effects, { op: 'put', space: COMPLETE, key: this.#space, value: true }] : effects);
      if (isDone) return;
      after = rows.at(-1)?.key;
    }
  }

  /** A page of what an org has, the newest first, as `entityPage` gives it of the whole space. */
  page<T>(orgId: string, query: PageQuery, take: TakeEntity<T>): Promise<EntitiesPage<T>> {
    const prefix = prefixOf(orgId);
    const read = async (after: string | undefined, limit: number) => {
      const rows = await this.#store.list(this.#index, { prefix, limit, ...(after === undefined ? {} : { after: prefix + after }) });
      return this.values(rows.map(({ key }) => key.slice(prefix.length)));
    };
    return pageOf(read, query, take);
  }

  /** Entities by their keys; undefined for one that is gone. */
  values(keys: readonly string[]): Promise<readonly { readonly key: string; readonly value: unknown }[]> {
    return Promise.all(keys.map(async (key) => ({ key, value: await this.#store.get(this.#space, key) })));
  }
}

function prefixOf(orgId: string): string {
  return `${encodeURIComponent(orgId)}|`;
}
