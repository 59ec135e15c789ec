import { priceListSource } from './price-list-source.ts';
import { optional, required } from './setting.ts';
import * as type from './setting-types.ts';

/** Settings of what calls are charged (decisions 6.3, 6.16); rows of the one table. */
export const PRICE_SETTINGS = {
  pricingFile: optional(
    'GW_PRICING_FILE',
    type.file,
    'YAML file of rates that are laid over the shipped price list, those of caches and sound included; one that does not load stops the start.',
  ),
  pricingCached: required(
    'GW_PRICING_CACHED',
    type.boolean,
    'true',
    'Charges tokens that the price list has rates for (read from a cache, written to one, sound, pictures, …) at these, and what is billed beside tokens; `false` is the formula of the interface to the letter: one rate for input, one for output.',
  ),
  priceList: required(
    'GW_PRICE_LIST',
    priceListSource,
    'shipped',
    'Where the price list comes from: that of the package, a file (read at start and when it changes), or an address (asked at start and every `GW_PRICE_LIST_REFRESH`).',
  ),
  priceListRefresh: required(
    'GW_PRICE_LIST_REFRESH',
    type.duration('5m'),
    '24h',
    'How often the address of `GW_PRICE_LIST` is asked for a newer list.',
  ),
} as const;
