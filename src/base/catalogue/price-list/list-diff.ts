/*
 * What a newer price list changes, and how much of that may hold before a person has looked at it (decision 6.16): a rate that would fall to zero, or change more than tenfold, keeps
 * its old value.
 */
import { significant } from '../../lib/numbers.ts';
import { type PartRate, RATE_KINDS } from '../../model/rate-kinds.ts';
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
  type MatchRule,
  type PriceConstraint,
  type TieredPrice,
} from './list-shape.ts';
import { ModelMatcher } from './match-names.ts';

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
  /** What is charged by the newer list over what is charged by the old one, four digits; undefined where the old is zero. */
  readonly factor: number | undefined;
  /** It needs somebody's yes. */
  readonly held: boolean;
  /** Set where the change is that another model now answers to a name: that name. */
  readonly name: string | undefined;
}

export interface ListDiff {
  readonly added: readonly ListedModel[];
  readonly removed: readonly ListedModel[];
  readonly changed: readonly RateChange[];
}

/** What a newer list says that the old one does not. Models are the same by provider and id. Pure; both lists hold no mistake. */
export function diffLists(old: readonly ListProvider[], newer: readonly ListProvider[]): ListDiff {
  const changed: RateChange[] = [];
  for (const { provider, before, after } of inBoth(old, newer)) {
    for (const [model, next] of modelsInBoth(before, after)) changed.push(...changesOf(provider, model, next));
    changed.push(...takenNames(provider, before, after).flatMap(({ changes }) => changes));
  }
  return { added: missingFrom(newer, old), removed: missingFrom(old, newer), changed };
}

/**
 * The newer list with the old value of every rate that is held. Where the times at which a model's prices hold are others, all of its prices stay the old ones; a name that another
 * model takes at such a price stays that of the old one.
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
      return model === undefined ? next : heldModel(model, next, changesOf(after.id, model, next).filter(isHeld));
    });
    const pinned = takenNames(after.id, before, after).filter(({ changes }) => changes.some(isHeld));
    const kept = pinned.map(({ name, model }): ListModel => ({ id: model.id, match: { equals: name }, prices: model.prices }));
    return { ...after, models: [...kept, ...models] };
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

/** Every moment at which one of the two has another price is looked at. */
function changesOf(provider: string, old: ListModel, next: ListModel, name?: string): readonly RateChange[] {
  const [before, after] = [conditionalPrices(old), conditionalPrices(next)];
  const [oldTimes, newTimes] = [new Periods(before), new Periods(after)];
  const moments = [...before.map((_, i) => oldTimes.momentOf(i)), ...after.map((_, i) => newTimes.momentOf(i))];
  const pairs = new Map(moments.map((at) => [`${oldTimes.indexAt(at)} ${newTimes.indexAt(at)}`, at]));
  const changes = [...pairs.values()].flatMap((at) => {
    const [one, other] = [before[oldTimes.indexAt(at)], after[newTimes.indexAt(at)]];
    if (one === undefined || other === undefined) return [];
    const place = { provider, model: old.id, period: other.constraint, name };
    return changedKeys(one.prices, other.prices).map((change) => ({ ...place, ...change }));
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

interface TakenName {
  readonly name: string;
  /** The model that had the name. */
  readonly model: ListModel;
  readonly changes: readonly RateChange[];
}

/** Names that the old list spells out and that another model has now, at a price that needs a yes: by a rule that is wider, or stands before. */
function takenNames(provider: string, before: ListProvider, after: ListProvider): readonly TakenName[] {
  const [oldNames, newNames] = [new ModelMatcher(before.models), new ModelMatcher(after.models)];
  const names = new Set(before.models.flatMap(({ id, match }) => [id, ...spelt(match)]).map((name) => name.toLowerCase()));
  return [...names].flatMap((name) => {
    const [model, next] = [modelAt(before, oldNames.find(name)), modelAt(after, newNames.find(name))];
    if (model === undefined || next === undefined || model.id === next.id) return [];
    const changes = changesOf(provider, model, next, name).filter(({ held }) => held);
    return changes.length === 0 ? [] : [{ name, model, changes }];
  });
}

function modelAt({ models }: ListProvider, index: number | undefined): ListModel | undefined {
  return index === undefined ? undefined : models[index];
}

function spelt(rule: MatchRule): readonly string[] {
  if ('or' in rule) return rule.or.flatMap(spelt);
  return 'equals' in rule ? [rule.equals] : [];
}
