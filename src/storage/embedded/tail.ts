import { addTo, type CounterCell, type Counters, encodeTotals } from './counters.ts';
import type { PreparedEffect } from './prepared-commit.ts';
import { SortedKeys } from './sorted-keys.ts';

/** A row of which the index has another state, or none; an undefined value is a deletion. */
export type ChangedRow = readonly [key: string, value: string | undefined];

/**
 * What commits changed since the index was last written; a tombstone is undefined. Keys are those of the index, without
 * their first letter.
 */
export class Generation {
  readonly records = new RecordRows();
  readonly entities = new Map<string, string | undefined>();
  readonly cells = new Map<string, CounterCell>();
  readonly entityKeys = new SortedKeys();
  readonly cellKeys = new SortedKeys();
  commits = 0;
  /** Characters of entity values, so that memory has a bound in bytes too. */
  weight = 0;
}

/** By what a record is looked up. */
export type RecordKey = 'id' | 'hash';

/**
 * Where the records of a generation lie. Many are added for one that is looked up before it is in the index, so that
 * maps are made for who asks.
 */
export class RecordRows {
  /** Id, hash and location of one record behind those of another. */
  readonly #rows: string[] = [];
  readonly #maps = { id: new Map<string, string>(), hash: new Map<string, string>() };
  /** As far as this the rows are in the maps. */
  #mapped = 0;

  add(id: string, hash: string, location: string): void {
    this.#rows.push(id, hash, location);
  }

  /** The location of a record. */
  find(by: RecordKey, name: string): string | undefined {
    for (let at = this.#mapped; at < this.#rows.length; at += 3) {
      const [id = '', hash = '', location = ''] = this.#rows.slice(at, at + 3);
      this.#maps.id.set(id, location);
      this.#maps.hash.set(hash, location);
    }
    this.#mapped = this.#rows.length;
    return this.#maps[by].get(name);
  }

  *[Symbol.iterator](): Generator<readonly [id: string, hash: string, location: string]> {
    const rows = this.#rows;
    for (let at = 0; at < rows.length; at += 3) yield [rows[at] ?? '', rows[at + 1] ?? '', rows[at + 2] ?? ''];
  }
}

/**
 * The commits that are in the journal and not yet in the index. There are at most two generations: the one that grows,
 * and the one that is being written to the index. Every read looks here first, newest first.
 */
export class Tail {
  readonly #counters: Counters;
  /** The one that grows. A field, because every commit asks for it. */
  active = new Generation();
  #frozen: Generation | undefined;

  constructor(counters: Counters) {
    this.#counters = counters;
  }

  /**
   * Makes a commit visible: `location` is its index row, `cells` are the pinned counters of its `add` effects in their
   * order.
   */
  apply(recordId: string, recordHash: string, location: string, effects: readonly PreparedEffect[], cells: readonly CounterCell[]): void {
    const { active } = this;
    active.commits += 1;
    if (recordId !== '') active.records.add(recordId, recordHash, location);
    let nextCell = 0;
    for (const effect of effects) {
      if (effect.op !== 'add') {
        const value = effect.op === 'put' ? effect.value : undefined;
        if (!active.entities.has(effect.key)) active.entityKeys.added.push(effect.key);
        active.entities.set(effect.key, value);
        active.weight += value?.length ?? 0;
      } else {
        const cell = cells[nextCell++];
        if (cell === undefined) throw new Error('A counter was not held');
        addTo(cell, effect.amounts);
        this.#markDirty(cell);
      }
    }
  }

  /** The location of a record that is not in the index yet. */
  record(by: RecordKey, name: string): string | undefined {
    return this.active.records.find(by, name) ?? this.#frozen?.records.find(by, name);
  }

  /**
   * The value of an entity; `{ value: undefined }` says that it was deleted, undefined that the tail does not know it.
   */
  entity(key: string): { readonly value: string | undefined } | undefined {
    const generation = this.active.entities.has(key) ? this.active : this.#frozen;
    return generation?.entities.has(key) ? { value: generation.entities.get(key) } : undefined;
  }

  /**
   * Entities whose key begins with `prefix` and is larger than `after`, in key order: deletions too, and no more behind
   * the `limit`th that is there.
   */
  entities(prefix: string, after = '', limit = Number.POSITIVE_INFINITY): readonly ChangedRow[] {
    const rows: ChangedRow[] = [];
    let left = limit;
    for (const key of this.#keys('entityKeys', prefix, after)) {
      if (left <= 0) break;
      const value = this.entity(key)?.value;
      rows.push([key, value]);
      if (value !== undefined) left -= 1;
    }
    return rows;
  }

  /**
   * Totals, as they are now, of the first `limit` counters, in key order, whose key begins with `prefix` and is larger
   * than `after`.
   */
  totals(prefix: string, after = '', limit = Number.POSITIVE_INFINITY): readonly ChangedRow[] {
    const rows: ChangedRow[] = [];
    for (const key of this.#keys('cellKeys', prefix, after)) {
      if (rows.length >= limit) break;
      const cell = this.active.cells.get(key) ?? this.#frozen?.cells.get(key);
      rows.push([key, encodeTotals(cell?.totals ?? new Map())]);
    }
    return rows;
  }

  /** Keys of both generations, each once, in order. */
  *#keys(of: 'entityKeys' | 'cellKeys', prefix: string, after: string): Generator<string, void> {
    const active = this.active[of].from(prefix, after);
    if (this.#frozen === undefined) return yield* active;
    const frozen = this.#frozen[of].from(prefix, after);
    let [one, other] = [active.next().value, frozen.next().value];
    while (one !== undefined || other !== undefined) {
      const isActive = other === undefined || (one !== undefined && one <= other);
      const key = isActive ? one : other;
      if (key !== undefined) yield key;
      const isBoth = one === other;
      if (isActive || isBoth) one = active.next().value;
      if (!isActive || isBoth) other = frozen.next().value;
    }
  }

  /** Starts a new generation and returns the old one, which stays readable until {@link drop}. */
  freeze(): Generation {
    if (this.#frozen) throw new Error('The generation before is still being written');
    const frozen = this.active;
    this.#frozen = frozen;
    this.active = new Generation();
    return frozen;
  }

  /** Forgets the frozen generation: the index has it. */
  drop(): void {
    for (const cell of this.#frozen?.cells.values() ?? []) this.#counters.unpin(cell);
    this.#frozen = undefined;
  }

  #markDirty(cell: CounterCell): void {
    if (this.active.cells.has(cell.key)) return;
    cell.pins += 1;
    this.active.cells.set(cell.key, cell);
    this.active.cellKeys.added.push(cell.key);
  }
}
