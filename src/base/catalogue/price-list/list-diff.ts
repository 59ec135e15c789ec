/*
 * What a newer price list changes, and how much of that may hold before a person has looked at it (decision 6.16): a
 * rate that would fall to zero, or change more than tenfold, keeps its old value. Here a model is compared with itself;
 * `held-names.ts` looks at which names come to which model.
 */
import { significant } from '../../lib/text.ts';
import { type PartRate, RATE_KINDS } from '../../model/usage.ts';
import type { Rates } from '../types.ts';
import { LIST_KEYS } from './list-keys.ts';
import { Periods } from './list-periods.ts';
import { decimalText } from './list-rates.ts';
import {
  type ConditionalPrices,
  conditionalPrices,
  isTiered,
  type KeyedPrices,
  type ListModel,
  type ListProvider,
  type PriceConstraint,
  type PricedEntry,
  type TieredPrice,
} from './list-shape.ts';

/** The most that a rate may change by itself. */
const TENFOLD = 10;
const RATE_NAMES: readonly (readonly [key: string, rate: 'in' | 'out' | PartRate])[] = [...LIST_KEYS].flatMap(([key, kind]) =>
  'rate' in kind ? [[key, kind.rate] as const] : [],
);
const KEY_OF = new Map(RATE_NAMES.map(([key, rate]) => [rate, key]));

/** A model by the list that it stands in. */
export interface ListedModel {
  readonly provider: string;
  readonly model: string;
}

/** One rate of a model that is another one in the newer list. */
export interface RateChange extends ListedModel {
  /** Key of the list, such as `input_mtok`. */
  readonly key: string;
  /** The rate of prompts with more tokens than this; undefined: of short ones. */
  readonly above: number | undefined;
  /** What limits the newer rate; undefined: nothing. */
  readonly period: PriceConstraint | undefined;
  /** Decimal texts; undefined: the list states none, and what is wider holds, or nothing. */
  readonly old: string | undefined;
  readonly new: string | undefined;
  /**
   * What is charged by the newer list over what is charged by the old one, four digits; undefined where the old is
   * zero.
   */
  readonly factor: number | undefined;
  /** It needs somebody's yes. */
  readonly held: boolean;
  /**
   * Set where the change is that another entry prices a name: that name, the first of those that show it. The model is
   * then the one that would price it.
   */
  readonly name: string | undefined;
}

export interface ListDiff {
  readonly added: readonly ListedModel[];
  readonly removed: readonly ListedModel[];
  readonly changed: readonly RateChange[];
}

/**
 * What a newer list says of its models that the old one does not. Models are the same by provider and id. Pure; both
 * lists hold no mistake.
 */
export function diffLists(old: readonly ListProvider[], newer: readonly ListProvider[]): ListDiff {
  const changed: RateChange[] = [];
  for (const { provider, before, after } of inBoth(old, newer)) {
    for (const [model, next] of modelsInBoth(before, after)) changed.push(...rateChanges({ provider, model: model.id }, model, next));
  }
  return { added: missingFrom(newer, old), removed: missingFrom(old, newer), changed };
}

/**
 * The newer list with the old value of every rate that is held. Where the times at which a model's prices hold are
 * others, all of its prices stay the old ones.
 * @param accepted whether somebody has said yes to a change that is held
 */
export function withHeld(
  old: readonly ListProvider[],
  newer: readonly ListProvider[],
  accepted: (change: RateChange) => boolean,
): readonly ListProvider[] {
  const both = new Map(inBoth(old, newer).map((one) => [one.provider, one]));
  const isHeld = (change: RateChange): boolean => change.held && !accepted(change);
  return newer.map((after) => {
    const before = both.get(after.id)?.before;
    if (before === undefined) return after;
    const byId = new Map(before.models.map((model) => [model.id, model]));
    const models = after.models.map((next) => {
      const model = byId.get(next.id);
      if (model === undefined) return next;
      return heldModel(model, next, rateChanges({ provider: after.id, model: model.id }, model, next).filter(isHeld));
    });
    return { ...after, models };
  });
}

function inBoth(old: readonly ListProvider[], newer: readonly ListProvider[]) {
  const byId = new Map(newer.map((provider) => [provider.id, provider]));
  return old.flatMap((before) => {
    const after = byId.get(before.id);
    return after === undefined ? [] : [{ provider: before.id, before, after }];
  });
}

function modelsInBoth(before: ListProvider, after: ListProvider): readonly (readonly [ListModel, ListModel])[] {
  const byId = new Map(after.models.map((model) => [model.id, model]));
  return before.models.flatMap((model) => {
    const next = byId.get(model.id);
    return next === undefined ? [] : [[model, next] as const];
  });
}

function missingFrom(lists: readonly ListProvider[], others: readonly ListProvider[]): readonly ListedModel[] {
  const known = new Set(others.flatMap(({ id, models }) => models.map((model) => `${id}\n${model.id}`)));
  return lists.flatMap(({ id, models }) =>
    models.flatMap((model) => (known.has(`${id}\n${model.id}`) ? [] : [{ provider: id, model: model.id }])),
  );
}

/**
 * What changes where one model's prices take the place of another's. Every moment at which one of the two has another
 * price is looked at.
 * @param place what the changes are told of
 */
export function rateChanges(place: ListedModel & { readonly name?: string }, old: PricedEntry, next: PricedEntry): readonly RateChange[] {
  const [before, after] = [conditionalPrices(old), conditionalPrices(next)];
  const [oldTimes, newTimes] = [new Periods(before), new Periods(after)];
  const moments = [...before.map((_, i) => oldTimes.momentOf(i)), ...after.map((_, i) => newTimes.momentOf(i))];
  const pairs = new Map(moments.map((at) => [`${oldTimes.indexAt(at)} ${newTimes.indexAt(at)}`, at]));
  const changes = [...pairs.values()].flatMap((at) => {
    const [one, other] = [before[oldTimes.indexAt(at)], after[newTimes.indexAt(at)]];
    if (one === undefined || other === undefined) return [];
    const where = { ...place, name: place.name, period: other.constraint };
    return changedKeys(one.prices, other.prices).map((change) => ({ ...where, ...change }));
  });
  // Two times of the old list may say the same of one of the newer list.
  return [...new Map(changes.map((change) => [JSON.stringify(change), change])).values()];
}

type KeyChange = Pick<RateChange, 'key' | 'above' | 'old' | 'new' | 'factor' | 'held'>;

function changedKeys(old: KeyedPrices, next: KeyedPrices): readonly KeyChange[] {
  const keys = [...LIST_KEYS.keys()].filter((key) => old[key] !== undefined || next[key] !== undefined);
  const starts = [...Object.values(old), ...Object.values(next)].flatMap((price) =>
    isTiered(price) ? price.tiers.map(({ start }) => start) : [],
  );
  const lengths = [undefined, ...[...new Set(starts)].sort((a, b) => a - b)];
  return keys.flatMap((key) => {
    let last = '';
    return lengths.flatMap((above) => {
      const [before, after] = [stated(old, key, above), stated(next, key, above)];
      // Of longer prompts only what is not the same once more.
      const seen = `${before} ${after}`;
      if (before === after || seen === last) return [];
      last = seen;
      const [oldCharge, newCharge] = [charged(old, key, above), charged(next, key, above)];
      const factor = oldCharge === 0 ? undefined : significant(newCharge / oldCharge, 4);
      return [{ key, above, old: text(before), new: text(after), factor, held: isHeldChange(oldCharge, newCharge) }];
    });
  });
}

function text(price: number | undefined): string | undefined {
  return price === undefined ? undefined : decimalText(price);
}

/** What cost nothing may get a price: that is no money that nobody counts. */
function isHeldChange(old: number, next: number): boolean {
  if (old === 0) return false;
  return next === 0 || next > old * TENFOLD || next * TENFOLD < old;
}

function stated(prices: KeyedPrices, key: string, above: number | undefined): number | undefined {
  const price = prices[key];
  return price === undefined ? undefined : atLength(price, above);
}

function atLength(price: number | TieredPrice, above: number | undefined): number {
  if (!isTiered(price)) return price;
  const reached = price.tiers.filter(({ start }) => above !== undefined && start <= above);
  return reached.reduce((best, tier) => (tier.start >= best.start ? tier : best), { start: -1, price: price.base }).price;
}

/** The rates of a row by the keys of the list. */
export function keyedRates(rates: Rates): KeyedPrices {
  return Object.fromEntries(RATE_NAMES.flatMap(([key, rate]) => (rates[rate] === undefined ? [] : [[key, Number(rates[rate])] as const])));
}

/** What is charged for what a key is for: tokens without a rate of their own have that of what they are a part of. */
function charged(prices: KeyedPrices, key: string, above: number | undefined): number {
  const own = stated(prices, key, above);
  const rate = RATE_NAMES.find(([name]) => name === key)?.[1];
  const kind = RATE_KINDS.find((one) => one.rate === rate);
  if (own !== undefined || kind === undefined) return own ?? 0;
  const wider = [...kind.within, kind.of].map((name) => stated(prices, KEY_OF.get(name) ?? '', above));
  return wider.find((price) => price !== undefined) ?? 0;
}

function heldModel(old: ListModel, next: ListModel, held: readonly RateChange[]): ListModel {
  if (held.length === 0) return next;
  const [before, after] = [conditionalPrices(old), conditionalPrices(next)];
  const isSameTimes = before.length === after.length && before.every((one, i) => sameTime(one, after[i]));
  if (!isSameTimes) return { ...next, prices: old.prices };
  const prices = after.map((one, i) => {
    const keys = held.filter(({ period }) => sameTime({ constraint: period }, one)).map(({ key }) => key);
    return { ...one, prices: withKeysOf(before[i]?.prices ?? {}, one.prices, new Set(keys)) };
  });
  const [only] = prices;
  return { ...next, prices: Array.isArray(next.prices) || only === undefined ? prices : only.prices };
}

function sameTime(
  one: { readonly constraint?: PriceConstraint | undefined },
  other: Pick<ConditionalPrices, 'constraint'> | undefined,
): boolean {
  return JSON.stringify(one.constraint) === JSON.stringify(other?.constraint);
}

function withKeysOf(old: KeyedPrices, next: KeyedPrices, keys: ReadonlySet<string>): KeyedPrices {
  const kept = Object.entries(next).filter(([key]) => !keys.has(key));
  const restored = Object.entries(old).filter(([key]) => keys.has(key));
  return Object.fromEntries([...kept, ...restored]);
}
