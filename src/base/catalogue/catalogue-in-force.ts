import type { Catalogue } from './types.ts';

/** Where whoever needs the catalogue takes it from, anew for each thing that it does, and once for all of that. */
export interface CurrentCatalogue {
  current(): Catalogue;
}

/** The catalogue in force: an immutable snapshot, replaced as a whole. A call that has begun goes on with the one that it took. */
export class CatalogueInForce implements CurrentCatalogue {
  #current: Catalogue;

  constructor(first: Catalogue) {
    this.#current = first;
  }

  current(): Catalogue {
    return this.#current;
  }

  replace(next: Catalogue): void {
    this.#current = next;
  }
}
