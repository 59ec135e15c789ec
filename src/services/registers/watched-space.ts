import { nextTurn } from '../../base/lib/loop-turns.ts';
import type { Entity, Store } from '../../storage/contract/store.ts';

/** Entities that are read in one go: while they are, every other call waits. */
const AT_ONCE = 500;

export interface WatchedSpaceOptions<V> {
  /** What an entity says; undefined when it is not one of these, and counts as absent. */
  readonly read: (value: unknown) => V | undefined;
  /** The org that an entity is of, for spaces that are asked for the entities of one org; undefined: of none. */
  readonly orgOf?: (value: V) => string | undefined;
  /** Told of each entity that is put or gone, also of those that a start reads. */
  readonly changed?: (key: string, value: V | undefined, before: V | undefined) => void;
}

/**
 * A parser of stored entities: an object counts when all of these members are texts, which an entity of this kind never
 * lacks.
 */
export function entityWith<V extends object>(...texts: readonly (keyof V & string)[]): (value: unknown) => V | undefined {
  const isOne = (value: unknown): value is V =>
    typeof value === 'object' && value !== null && texts.every((name) => typeof Reflect.get(value, name) === 'string');
  return (value) => (isOne(value) ? value : undefined);
}

/**
 * A space of the store in memory, for what every call asks: also what other writers of the store put and delete is
 * known at once. For spaces of few entities.
 */
export class WatchedSpace<V> {
  protected readonly store: Store;
  protected readonly space: string;
  readonly #options: WatchedSpaceOptions<V>;
  readonly #entries = new Map<string, V>();
  /** Of each stored entity, also of those that count as absent: an entity that was told of twice is read once. */
  readonly #versions = new Map<string, string>();
  /** The keys of each org; those of none under undefined. */
  readonly #ofOrgs = new Map<string | undefined, Set<string>>();
  /** Keys that were told of while the space is read: what was told is newer. */
  #told: Set<string> | undefined;
  /** Goes up with each change that was told of. */
  #changes = 0;

  protected constructor(store: Store, space: string, options: WatchedSpaceOptions<V>) {
    this.store = store;
    this.space = space;
    this.#options = options;
  }

  static async open<V>(store: Store, space: string, options: WatchedSpaceOptions<V>): Promise<WatchedSpace<V>> {
    const watched = new WatchedSpace(store, space, options);
    await watched.begin();
    return watched;
  }

  /** Watches, and then reads. */
  protected async begin(): Promise<void> {
    await this.store.watch(this.space, async (event) => {
      if (event.lost === true) await this.#readAll();
      else this.#learn(event.key, event.version === undefined ? undefined : { value: event.value, version: event.version });
    });
    await this.#readAll();
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    return this.#entries.get(key);
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /** What one org has, however much others have (`orgOf`). @param orgId undefined: what is of none */
  ofOrg(orgId: string | undefined): readonly V[] {
    const found: V[] = [];
    for (const key of this.#ofOrgs.get(orgId) ?? []) {
      const value = this.#entries.get(key);
      if (value !== undefined) found.push(value);
    }
    return found;
  }

  /** The keys of what one org has. @param orgId undefined: of what is of none */
  keysOfOrg(orgId: string | undefined): readonly string[] {
    return [...(this.#ofOrgs.get(orgId) ?? [])];
  }

  keys(): IterableIterator<string> {
    return this.#entries.keys();
  }

  values(): IterableIterator<V> {
    return this.#entries.values();
  }

  entries(): IterableIterator<[key: string, value: V]> {
    return this.#entries.entries();
  }

  /** Brings in what this writer has committed of one entity, before anything else is done with it. */
  async refresh(key: string): Promise<void> {
    for (;;) {
      const changes = this.#changes;
      const entity = await this.store.entity(this.space, key);
      if (changes !== this.#changes) continue;
      this.#learn(key, entity);
      return;
    }
  }

  #learn(key: string, entity: Entity | undefined): void {
    this.#changes += 1;
    this.#told?.add(key);
    this.#set(key, entity);
  }

  async #readAll(): Promise<void> {
    const told = new Set<string>();
    this.#told = told;
    const rows = await this.#list();
    // Another reading began after this one.
    if (this.#told !== told) return;
    this.#told = undefined;
    this.#changes += 1;
    const stored = new Set(rows.map(({ key }) => key));
    for (const key of [...this.#versions.keys()]) if (!stored.has(key) && !told.has(key)) this.#set(key, undefined);
    for (const row of rows) if (!told.has(row.key)) this.#set(row.key, row);
  }

  /** Page by page: what changes between two pages is told of. */
  async #list(): Promise<readonly (Entity & { readonly key: string })[]> {
    const rows: (Entity & { readonly key: string })[] = [];
    for (;;) {
      const after = rows.at(-1)?.key;
      const page = await this.store.entities(this.space, { limit: AT_ONCE, ...(after === undefined ? {} : { after }) });
      rows.push(...page);
      if (page.length < AT_ONCE) return rows;
      await nextTurn();
    }
  }

  #set(key: string, entity: Entity | undefined): void {
    if (entity?.version === this.#versions.get(key)) return;
    if (entity === undefined) this.#versions.delete(key);
    else this.#versions.set(key, entity.version);
    const before = this.#entries.get(key);
    const value = entity === undefined ? undefined : this.#options.read(entity.value);
    if (value === undefined) this.#entries.delete(key);
    else this.#entries.set(key, value);
    if (this.#options.orgOf !== undefined) this.#group(this.#options.orgOf, key, value, before);
    if (value !== before) this.#options.changed?.(key, value, before);
  }

  #group(orgOf: (value: V) => string | undefined, key: string, value: V | undefined, before: V | undefined): void {
    if (before !== undefined) {
      const org = orgOf(before);
      const group = this.#ofOrgs.get(org);
      if (group?.delete(key) === true && group.size === 0) this.#ofOrgs.delete(org);
    }
    if (value === undefined) return;
    const org = orgOf(value);
    const group = this.#ofOrgs.get(org);
    if (group === undefined) this.#ofOrgs.set(org, new Set([key]));
    else group.add(key);
  }
}
