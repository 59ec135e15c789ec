/* What is measured of the price list; rows of the one table. */

export const PRICE_LIST_METRICS = {
  priceListAge: {
    name: 'gw_price_list_age_seconds',
    type: 'gauge',
    labels: [],
    help: 'From the day that the price list in force is of, seconds.',
  },
  priceListUpdates: {
    name: 'gw_price_list_updates_total',
    type: 'counter',
    labels: ['outcome'],
    help: 'Price lists that were given or asked for: `taken`; `unchanged`, the one in force or an older one; `refused` for what is wrong with them; `failed`, not to be had or not to be stored.',
  },
  priceListHeld: {
    name: 'gw_price_list_held_rates',
    type: 'gauge',
    labels: [],
    help: 'Rates of the newest price list that wait for a yes, because they would fall to zero or change more than tenfold (`gw prices accept`).',
  },
} as const;
