import type { Price } from '../types.ts';

/** By maximum output, of which the tables know a few: the same object for the same price. */
const known = new Map<number | undefined, Price>();

/** Prices of rows of the operator's file that name a provider. */
const stated = new WeakSet<Price>();

/** Marks a price that the operator states for one provider: it holds whoever pays. */
export function statedForProvider(price: Price): Price {
  stated.add(price);
  return price;
}

/**
 * The price of a call at a path that a plan pays for (`Operation.plan`): nothing, whatever it uses (decision 6.3).
 * Rates that the operator's file has for this very provider hold there too.
 * @param listed the price of its model
 */
export function planPrice(listed: Price): Price {
  if (stated.has(listed)) return listed;
  const { maxOutputTokens } = listed;
  let price = known.get(maxOutputTokens);
  if (price === undefined) {
    price = Object.freeze({ in: '0', out: '0', source: 'catalogue', maxOutputTokens, plan: true });
    known.set(maxOutputTokens, price);
  }
  return price;
}
