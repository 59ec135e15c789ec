import type { Provider } from '../types.ts';

/** Where the price of a provider's models is looked for. */
export interface PriceLane {
  /** Registry id, for the rows of tables and files; empty for a provider that no row can name. */
  readonly provider: string;
  /** Lists of the price list, in this order; undefined: each model's maker has one, or nobody. */
  readonly lists: readonly string[] | undefined;
  /**
   * Set where a model runs at one of several suppliers: a name may choose one, `model:supplier`; the id of its list
   * begins with this.
   */
  readonly suppliers: string | undefined;
}

/** Of a provider without a list: its models cost what their makers ask. */
export const MAKERS_LANE: PriceLane = Object.freeze({ provider: '', lists: undefined, suppliers: undefined });

export function laneOf({ id, priceLists, priceSuppliers }: Provider): PriceLane {
  return { provider: id, lists: priceLists.length === 0 ? undefined : priceLists, suppliers: priceSuppliers };
}
