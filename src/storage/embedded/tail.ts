import { addTo, type CounterCell, type Counters, encodeTotals } from './counters.ts';
import type { PreparedEffect } from './prepared-commit.ts';

/** What commits changed since the index was last written; a tombstone is undefined. Keys are those of the index, without their first letter. */
export class Generation {
  readonly recordIds = new Map<string, string>();
  readonly recordHashes = new Map<string, string>();
  readonly entities = new Map<string, string | undefined>();
  readonly cells = new Map<string, CounterCell>();
  commits = 0;
  /** Characters of entity values, so that memory has a bound in bytes too. */
  weight = 0;
}

/** The names of the maps of a generation that readers look into. */
export type TailMap = 'recordIds' | 'recordHashes' | 'entities';

/**
 * The commits that are in the journal and not yet in the index. There are at most two generations: the one that grows, and the one that is being written
 * to the index. Every read looks here first, newest first.
 */
export class Tail {
  readonly #counters: Counters;
  #active = new Generation();
  #frozen: Generation | undefined;

  constructor(counters: Counters) {
    this.#counters = counters;
  }

  get active(): Generation {
    return this.#active;
  }

  /** Makes a commit visible: `location` is its index row, `cells` are the pinned counters of its `add` effects in their order. */
  apply(recordId: string, recordHash: string, location: string, effects: readonly PreparedEffect[], cells: readonly CounterCell[]): void {
    const active = this.#active;
    active.commits += 1;
    if (recordId !== '') {
      active.recordIds.set(recordId, location);
      active.recordHashes.set(recordHash, location);
    }
    let nextCell = 0;
    for (const effect of effects) {
      if (effect.op === 'put') {
        active.entities.set(effect.key, effect.value);
        active.weight += effect.value.length;
      } else if (effect.op === 'delete') {
        active.entities.set(effect.key, undefined);
      } else {
        const cell = cells[nextCell++];
        if (cell === undefined) throw new Error('A counter was not held');
        addTo(cell, effect.amounts);
        this.#markDirty(cell);
      }
    }
  }

  /** The value of a key; `{ value: undefined }` says that it was deleted, undefined that the tail does not know it. */
  find(map: TailMap, key: string): { readonly value: string | undefined } | undefined {
    if (this.#active[map].has(key)) return { value: this.#active[map].get(key) };
    if (this.#frozen?.[map].has(key)) return { value: this.#frozen[map].get(key) };
    return undefined;
  }

  /** Entities whose key begins with `prefix`. */
  entities(prefix: string): Map<string, string | undefined> {
    const found = new Map<string, string | undefined>();
    for (const generation of this.#generations()) {
      for (const [key, value] of generation.entities) if (key.startsWith(prefix)) found.set(key, value);
    }
    return found;
  }

  /** Totals, as they are now, of the counters whose key begins with `prefix`. */
  totals(prefix: string): Map<string, string> {
    const found = new Map<string, string>();
    for (const generation of this.#generations()) {
      for (const [key, cell] of generation.cells) if (key.startsWith(prefix)) found.set(key, encodeTotals(cell.totals));
    }
    return found;
  }

  /** Starts a new generation and returns the old one, which stays readable until {@link drop}. */
  freeze(): Generation {
    if (this.#frozen) throw new Error('The generation before is still being written');
    const frozen = this.#active;
    this.#frozen = frozen;
    this.#active = new Generation();
    return frozen;
  }

  /** Forgets the frozen generation: the index has it. */
  drop(): void {
    for (const cell of this.#frozen?.cells.values() ?? []) this.#counters.unpin(cell);
    this.#frozen = undefined;
  }

  #markDirty(cell: CounterCell): void {
    if (this.#active.cells.has(cell.key)) return;
    cell.pins += 1;
    this.#active.cells.set(cell.key, cell);
  }

  /** Oldest first, so that what is newer overwrites. */
  #generations(): readonly Generation[] {
    return this.#frozen ? [this.#frozen, this.#active] : [this.#active];
  }
}
