import type { ShippedCatalogue } from './catalogue.ts';
import { withCustomRows } from './custom-catalogue.ts';
import { addressOf, type CustomRow } from './custom-row.ts';
import type { PriceList } from './price-list/price-list.ts';
import { planPrice } from './prices/plan-price.ts';
import type { PriceExplanation } from './prices/price-explanation.ts';
import type { Catalogue } from './types.ts';

/** Where whoever needs the catalogue takes it from, anew for each thing that it does, and once for all of that. */
export interface CurrentCatalogue {
  current(): Catalogue;
}

/**
 * The catalogue in force: an immutable snapshot, replaced as a whole, made of the tables that are shipped and the
 * connectors that orgs have made. A call that has begun goes on with the one that it took.
 */
export class CatalogueInForce implements CurrentCatalogue {
  #shipped: ShippedCatalogue;
  #custom: readonly CustomRow[] = [];
  #current: Catalogue;

  constructor(first: ShippedCatalogue) {
    this.#shipped = first;
    this.#current = first;
  }

  current(): Catalogue {
    return this.#current;
  }

  /** Without what orgs have made: for settings, which hold for all of them. */
  shipped(): ShippedCatalogue {
    return this.#shipped;
  }

  /**
   * Why a model costs what it costs at a provider, custom connectors included.
   * @param at epoch milliseconds
   */
  explainPrice(providerId: string, model: string, at: number): PriceExplanation {
    const provider = this.#current.provider(providerId);
    if (provider?.custom !== undefined) return this.#shipped.explainPriceAtAddress(addressOf(provider), model, at);
    const explained = this.#shipped.explainPrice(provider?.id ?? providerId, model, at);
    const price = provider?.planPaths.includes('/**') ? planPrice(explained.price) : explained.price;
    return price.plan === true ? { price, from: 'plan', name: explained.name, steps: [] } : explained;
  }

  /** Puts another price list in the place of the one before; everything else stays as it is (decision 6.16). */
  replacePriceList(list: PriceList): void {
    this.replace(this.#shipped.withPriceList(list));
  }

  replace(next: ShippedCatalogue): void {
    this.#shipped = next;
    this.#current = withCustomRows(next, this.#custom);
  }

  /** Puts these custom connectors in the place of those before. */
  replaceCustom(rows: readonly CustomRow[]): void {
    this.#custom = rows;
    this.#current = withCustomRows(this.#shipped, rows);
  }
}
