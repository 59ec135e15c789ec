import type { Store } from '../../storage/contract/store.ts';

interface WatchedSpaceOptions<V> {
  /** What an entity says; undefined when it is not one of these, and counts as absent. */
  readonly read: (value: unknown) => V | undefined;
  /** The org that an entity is of, for those of which one org's are asked for alone; undefined: of none. */
  readonly orgOf?: (value: V) => string | undefined;
  /** Told of each entity that is put or gone, also of those that a start reads. */
  readonly changed?: (key: string, value: V | undefined, before: V | undefined) => void;
}

/** A space of the store in memory, for what every call asks: also what other writers of the store put and delete is known at once. For spaces of few entities. */
export class WatchedSpace<V> {
  readonly #store: Store;
  readonly #space: string;
  readonly #options: WatchedSpaceOptions<V>;
  readonly #entries = new Map<string, V>();
  /** By org, those of none under undefined. */
  readonly #ofOrgs = new Map<string | undefined, Map<string, V>>();
  /** Keys that were told of while the space is read: what was told is newer. */
  #told: Set<string> | undefined;
  /** Goes up with each change that was told of. */
  #changes = 0;

  private constructor(store: Store, space: string, options: WatchedSpaceOptions<V>) {
    this.#store = store;
    this.#space = space;
    this.#options = options;
  }

  static async open<V>(store: Store, space: string, options: WatchedSpaceOptions<V>): Promise<WatchedSpace<V>> {
    const watched = new WatchedSpace(store, space, options);
    await store.watch(space, async (event) => {
      if (event.lost === true) await watched.#readAll();
      else watched.#learn(event.key, event.value);
    });
    await watched.#readAll();
    return watched;
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
    return [...(this.#ofOrgs.get(orgId)?.values() ?? [])];
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
      const value = await this.#store.get(this.#space, key);
      if (changes !== this.#changes) continue;
      this.#learn(key, value);
      return;
    }
  }

  #learn(key: string, value: unknown): void {
    this.#changes += 1;
    this.#told?.add(key);
    this.#set(key, value === undefined ? undefined : this.#options.read(value));
  }

  async #readAll(): Promise<void> {
    const told = new Set<string>();
    this.#told = told;
    const rows = await this.#store.list(this.#space);
    // Another reading began behind this one.
    if (this.#told !== told) return;
    this.#told = undefined;
    this.#changes += 1;
    const stored = new Set(rows.map(({ key }) => key));
    for (const key of [...this.#entries.keys()]) if (!stored.has(key) && !told.has(key)) this.#set(key, undefined);
    for (const { key, value } of rows) if (!told.has(key)) this.#set(key, this.#options.read(value));
  }

  #set(key: string, value: V | undefined): void {
    const before = this.#entries.get(key);
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
    if (group === undefined) this.#ofOrgs.set(org, new Map([[key, value]]));
    else group.set(key, value);
  }
}
