import type { CountPlace } from '../../base/catalogue/call-places.ts';
import { hasRoot, isMeant, statedCount, visitAt, wholeNumber } from '../../base/catalogue/holders.ts';
import { spelledValue } from '../../base/catalogue/spelling.ts';
import type { Dialect, Price } from '../../base/catalogue/types.ts';
import { unitsPico } from '../../base/lib/money.ts';

type Params = Readonly<Record<string, unknown>>;

/** What may be done in a call that is not told apart by tokens, pico-dollars. */
export interface AskedCosts {
  /** With a maximum of their own, or none: all of it. */
  readonly alone: bigint;
  /** With one maximum for all together: what each costs once. */
  readonly shared: readonly bigint[];
}

/**
 * Terms of billing that a call asks for, each as `name=value` (decision 6.3): those that its price knows, undefined where there are none. Whether the provider keeps
 * to them its answer says.
 */
export function askedTerms(params: Params, dialect: Dialect | undefined, { terms: known }: Price): readonly string[] | undefined {
  if (known === undefined || dialect === undefined) return undefined;
  const asked: string[] = [];
  for (const { term, at, same } of dialect.places.terms) {
    const value = spelledValue(params, at);
    if (typeof value !== 'string') continue;
    const stated = `${term}=${Object.hasOwn(same, value) ? (same[value] ?? value) : value}`;
    if (known.some((one) => one.term === stated)) asked.push(stated);
  }
  return asked.length === 0 ? undefined : asked;
}

/**
 * What a call may cost beside tokens (decision 6.16): so many units as it says that it may use, one where it does not say how many. A price per request is that of
 * every call. Undefined for nothing.
 */
export function askedUnits(params: Params, dialect: Dialect | undefined, { units: rates }: Price): AskedCosts | undefined {
  if (rates === undefined) return undefined;
  let alone = rates.requests === undefined ? 0n : unitsPico(1, rates.requests);
  let shared: bigint[] | undefined;
  for (const { unit, at, only, times } of dialect?.places.units ?? []) {
    const rate = rates[unit];
    if (rate === undefined || !hasRoot(params, at)) continue;
    visitAt(params, at, (holder) => {
      if (holder === null || holder === undefined || holder === false || !isMeant(holder, only)) return;
      const count = statedCount(holder, times) ?? 1;
      const cost = count === 0 ? 0n : unitsPico(count, rate);
      if (times.shared === undefined) alone += cost;
      else {
        shared ??= [];
        shared.push(cost);
      }
    });
  }
  return alone === 0n && shared === undefined ? undefined : { alone, shared: shared ?? [] };
}

/** What things cost together that share one maximum: each once where the call states none, else as often as that and each time the dearest. */
export function sharedCost(costs: readonly bigint[], most: number | undefined): bigint {
  let sum = 0n;
  let dearest = 0n;
  for (const cost of costs) {
    sum += cost;
    if (cost > dearest) dearest = cost;
  }
  return most === undefined ? sum : dearest * BigInt(most);
}

/** The maximum that a body states for all places that share it; undefined: none. */
export function sharedMost(params: Params, places: readonly CountPlace[]): number | undefined {
  for (const { shared } of places) if (shared !== undefined) return wholeNumber(spelledValue(params, shared));
  return undefined;
}
