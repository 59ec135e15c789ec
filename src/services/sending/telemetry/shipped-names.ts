import type { ShippedCatalogue } from '../../../base/catalogue/catalogue.ts';

/** What is reported for every name that the shipped tables do not know. */
export const OTHER = 'other';

/** Of the rows of operations. */
const ACTION_TYPES: ReadonlySet<string> = new Set(['ai.infer', 'ai.embed', 'ai.moderate', 'http.request']);

/**
 * Names that may be reported: those of the tables that every copy of the program has. A name that an operator, an org
 * or a caller chose (a fine-tuned model, a host of his own, a connector) says whose gateway it is, and becomes `other`.
 */
export class ShippedNames {
  readonly #catalogue: ShippedCatalogue;
  readonly #hosts: ReadonlySet<string>;

  constructor(catalogue: ShippedCatalogue) {
    this.#catalogue = catalogue;
    this.#hosts = new Set(catalogue.providers.flatMap(({ hosts }) => hosts));
  }

  provider(id: string): string {
    return this.#catalogue.provider(id)?.id ?? OTHER;
  }

  model(provider: string, name: string): string {
    return this.#catalogue.spellsOutModel(provider, name) ? name.toLowerCase() : OTHER;
  }

  /**
   * A host that stands in the tables; of one that is covered by an entry, that entry, so that no customer's own part of
   * a host is told.
   */
  domain(host: string): string {
    return this.#hosts.has(host) ? host : (this.#catalogue.domain(host)?.domain ?? OTHER);
  }

  actionType(type: string): string {
    return ACTION_TYPES.has(type) ? type : OTHER;
  }
}
