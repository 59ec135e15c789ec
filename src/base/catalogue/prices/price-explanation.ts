import type { PriceConstraint } from '../price-list/list-shape.ts';
import type { Price } from '../types.ts';
import type { PriceOrigin } from './price-links.ts';
import type { NameStep } from './price-names.ts';

/** Why a model costs what it costs: which source and which rule priced its name. JSON data. */
export interface PriceExplanation {
  readonly price: Price;
  /**
   * `override`: the operator's file; `correction`: a row above the price list; `list`: the price list; `own`: an own
   * row for what the list lacks; `free`: the provider says so in the name; `default`: nobody knows the model; `plan`: a
   * plan pays for every call to this provider.
   */
  readonly from: PriceOrigin | 'plan';
  /** The name under which it was found. */
  readonly name: string;
  /** The rules that led from the model's name to that one. */
  readonly steps: readonly NameStep[];
  /** Set for rows: that which holds, where it is from, and why it is there. */
  readonly row?: { readonly provider: string; readonly model: string; readonly origin?: string; readonly reason?: string };
  /** Set for the list: where in it, by which rule of matching, and what limits the price that holds. */
  readonly listed?: {
    readonly list: string;
    /** The list that knows the model, where it is not the one that was asked. */
    readonly through?: string;
    readonly model: string;
    readonly rule: string;
    readonly period?: PriceConstraint;
  };
}
