/*
 * The price list of `@pydantic/genai-prices`, as far as prices need it (decision 6.16): providers, the rules by which
 * names match, and rates. These are the names and the shapes of that package's published JSON.
 */

/** By which names a model, or a provider, is known. Names are compared in lower case. */
export type MatchRule =
  | { readonly equals: string }
  | { readonly starts_with: string }
  | { readonly ends_with: string }
  | { readonly contains: string }
  | { readonly regex: string }
  | { readonly or: readonly MatchRule[] }
  | { readonly and: readonly MatchRule[] };

/** A rate that depends on the length of the prompt: the last of the tiers that begins below it, else `base`. */
export interface TieredPrice {
  readonly base: number;
  readonly tiers: readonly { readonly start: number; readonly price: number }[];
}

/**
 * US dollars by what they are for: `input_mtok` per million tokens of input, `web_searches_kcount` per thousand
 * searches.
 */
export type KeyedPrices = Readonly<Record<string, number | TieredPrice>>;

/** When prices hold. Days begin at midnight UTC; a window of the day may pass midnight. */
export type PriceConstraint =
  | { readonly type: 'start_date'; readonly start_date: string }
  | { readonly type: 'time_of_date'; readonly start_time: string; readonly end_time: string };

export interface ConditionalPrices {
  /** Absent: always, unless a later one of the model's holds. */
  readonly constraint?: PriceConstraint;
  readonly prices: KeyedPrices;
}

export interface ListModel {
  readonly id: string;
  readonly match: MatchRule;
  readonly prices: KeyedPrices | readonly ConditionalPrices[];
}

/** The prices of a model, whatever its name is. */
export type PricedEntry = Pick<ListModel, 'prices'>;

export interface ListProvider {
  readonly id: string;
  readonly name: string;
  /** Regular expression for the beginning of its API's addresses. */
  readonly api_pattern: string;
  /** Models that it is the maker of. */
  readonly model_match?: MatchRule;
  readonly provider_match?: MatchRule;
  /** Lists that know its models where it does not; theirs are not asked in turn. */
  readonly fallback_model_providers?: readonly string[];
  readonly models: readonly ListModel[];
}

/**
 * Every price of a model with what limits it, as a list in the package's order: of several that hold the last one does.
 */
export function conditionalPrices({ prices }: PricedEntry): readonly ConditionalPrices[] {
  return isSeveral(prices) ? prices : [{ prices }];
}

function isSeveral(prices: ListModel['prices']): prices is readonly ConditionalPrices[] {
  return Array.isArray(prices);
}

export function isTiered(price: number | TieredPrice): price is TieredPrice {
  return typeof price === 'object';
}
