/*
 * Which names would cost nothing, or more than tenfold or less than a tenth of what they cost, because a newer price
 * list prices them by another entry (decision 6.16). Lists are compared by what names cost: a name may be priced by a
 * list on which its own falls back, by a row of ours, or without its decorations, and any new rule may come before
 * that.
 */
import { withIsoDates } from '../price-list/iso-dates.ts';
import { keyedRates, type ListedModel, type RateChange, rateChanges } from '../price-list/list-diff.ts';
import { conditionalPrices, isTiered, type ListModel, type ListProvider, type PricedEntry } from '../price-list/list-shape.ts';
import { ModelMatcher } from '../price-list/match-names.ts';
import { PriceList } from '../price-list/price-list.ts';
import { type NameEffect, withoutEffects } from './held-entries.ts';
import { MAKERS_LANE, type PriceLane } from './price-lane.ts';
import type { PriceLink } from './price-links.ts';
import { decoratedNames } from './price-names.ts';
import { DEFAULT_PRICE, type PriceGrounds, PriceTable } from './price-table.ts';
import { plainNames } from './sample-names.ts';

type Lists = readonly ListProvider[];

/** Each holds back an entry that was held back by what the one before has shown. */
const MOST_ROUNDS = 8;
const DEFAULT_PRICED: PricedEntry = { prices: keyedRates(DEFAULT_PRICE) };

/** The changes that need a yes, of each entry by the first name that shows them. Pure; both lists hold no mistake. */
export function heldNames(before: Lists, after: Lists, grounds: PriceGrounds): readonly RateChange[] {
  const byEntry = new Map<string, readonly RateChange[]>();
  for (const { changes } of effectsOf(before, after, grounds)) {
    const key = `${changes[0]?.provider}\n${changes[0]?.model}`;
    if (!byEntry.has(key)) byEntry.set(key, changes);
  }
  return [...byEntry.values()].flat();
}

/**
 * The newer list without the entries that would price a name so: what they would have taken keeps its old price.
 * @param accepted whether somebody has said yes to what an entry changes
 */
export function withHeldNames(before: Lists, newer: Lists, grounds: PriceGrounds, accepted: (change: ListedModel) => boolean): Lists {
  let inForce = newer;
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const held = [...effectsOf(before, inForce, grounds)].filter(({ changes }) => !changes.every(accepted));
    if (held.length === 0) return inForce;
    inForce = withoutEffects(before, inForce, held);
  }
  return before;
}

/** Of the same two prices one effect. */
function* effectsOf(before: Lists, after: Lists, grounds: PriceGrounds): Generator<NameEffect> {
  const changed = changedLists(before, after);
  if (changed.size === 0) return;
  const [old, next] = [tableOf(before, grounds), tableOf(after, grounds)];
  const seen = new Map<unknown, Set<unknown>>();
  for (const lane of lanesOf(grounds, before, after)) {
    const lists = [...looksIn(lane, before), ...looksIn(lane, after)];
    const changes = [...new Set(lists.map(({ id }) => id))].flatMap((id) => changed.get(id) ?? []);
    if (changes.length === 0) continue;
    yield* effectsIn({ lane, lists, grounds, changes, old, next, seen });
  }
}

interface Comparison {
  readonly lane: PriceLane;
  /** In which the lane looks, of both sides. */
  readonly lists: Lists;
  readonly grounds: PriceGrounds;
  readonly changes: readonly ListChange[];
  readonly old: PriceTable;
  readonly next: PriceTable;
  /** What prices were compared with which. */
  readonly seen: Map<unknown, Set<unknown>>;
}

/**
 * Of one lane. A name as callers may write it cost what the plain one did, as far as the pair was looked at already.
 */
function* effectsIn(comparison: Comparison): Generator<NameEffect> {
  const { lane, old, next, seen } = comparison;
  for (const [plain, names] of namesIn(comparison)) {
    const before = old.source(lane, plain);
    for (const name of names) {
      const after = next.source(lane, name);
      if (!isFirst(seen, pricedBy(before), pricedBy(after))) continue;
      const effect = effectOn(name, name === plain ? before : old.source(lane, name), after);
      if (effect !== undefined) yield effect;
    }
  }
}

/**
 * Names that are spelt out, each with itself and what callers may write for it, as far as that may be priced otherwise.
 */
function* namesIn({ lane, lists, grounds, changes, next }: Comparison): Generator<readonly [plain: string, names: readonly string[]]> {
  const fallsBack = (list: string): readonly string[] => next.list.fallbacksOf(list);
  const isWhole = changes.some(({ whole }) => whole);
  const fits = (name: string): boolean => changes.some((change) => change.fits(name));
  for (const name of plainNames(lane, lists, grounds, fallsBack)) {
    // The lists of makers have lanes of their own.
    const forms = lane.lists === undefined ? [] : decoratedNames(lane, name, fallsBack, fits);
    const names = isWhole || fits(name) ? [name, ...forms] : forms;
    if (names.length > 0) yield [name, names];
  }
}

function isFirst(seen: Map<unknown, Set<unknown>>, from: unknown, to: unknown): boolean {
  const known = seen.get(from) ?? new Set();
  seen.set(from, known);
  return known.size < known.add(to).size;
}

/**
 * @returns undefined where the same entry prices the name (`diffLists` compares that) or none of the newer list does,
 * or where nothing needs a yes
 */
function effectOn(name: string, old: PriceLink | undefined, next: PriceLink | undefined): NameEffect | undefined {
  const entry = next?.listed;
  // Rows of ours say what they say. A name that nobody knows any more is charged at the default rates, which the status
  // tells.
  if (next === undefined || entry === undefined) return undefined;
  if (old?.listed?.list === entry.list && old.listed.model.id === entry.model.id) return undefined;
  const [before, after] = [old === undefined ? DEFAULT_PRICED : pricesOf(old), pricesOf(next)];
  // Nobody knew the name: it may get any price but none.
  if (old === undefined && !isFree(after)) return undefined;
  const place = { provider: entry.list, model: entry.model.id, name };
  const changes = rateChanges(place, before, after).filter(({ held }) => held);
  return changes.length === 0 ? undefined : { old, next, changes };
}

function pricesOf(link: PriceLink): PricedEntry {
  if (link.listed !== undefined) return link.listed.model;
  return { prices: keyedRates(link.priceAt(Number.POSITIVE_INFINITY) ?? DEFAULT_PRICE) };
}

function pricedBy(link: PriceLink | undefined): unknown {
  return link?.listed?.model ?? link?.rowAt?.(Number.POSITIVE_INFINITY)?.price ?? link?.origin;
}

/** Whether it costs nothing at some time. */
function isFree(model: PricedEntry): boolean {
  return conditionalPrices(model).some(({ prices }) =>
    Object.values(prices).every((price) => (isTiered(price) ? price.base === 0 : price === 0)),
  );
}

function tableOf(lists: Lists, grounds: PriceGrounds): PriceTable {
  return PriceTable.of(new PriceList(lists, { version: undefined, date: undefined }, ''), grounds);
}

/** Those of our providers, of the makers, and of each list that a connector of an org may have by its address. */
function lanesOf({ lanes }: PriceGrounds, before: Lists, after: Lists): readonly PriceLane[] {
  const known = new Set(lanes.flatMap(({ lists = [] }) => lists));
  const others = [...new Set([...before, ...after].map(({ id }) => id))].filter((id) => !known.has(id));
  const listed = lanes.filter(({ lists }) => lists !== undefined);
  const makers = lanes.filter(({ lists }) => lists === undefined);
  return [...listed, ...others.map((id) => ({ ...MAKERS_LANE, lists: [id] })), ...makers, MAKERS_LANE];
}

function looksIn({ lists, suppliers }: PriceLane, all: Lists): Lists {
  if (lists === undefined) return all;
  const fallbacks = all.flatMap(({ id, fallback_model_providers: more = [] }) => (lists.includes(id) ? more : []));
  return all.filter(({ id }) => lists.includes(id) || fallbacks.includes(id) || (suppliers !== undefined && id.startsWith(suppliers)));
}

/** What of a list may price a name otherwise. */
interface ListChange {
  /** Its order, or what leads to it, is another: that may be any name. */
  readonly whole: boolean;
  /** Whether the name fits a rule that one of the two lists does not have. */
  fits(name: string): boolean;
}

function changedLists(before: Lists, after: Lists): ReadonlyMap<string, ListChange> {
  const [old, next] = [new Map(before.map((list) => [list.id, list])), new Map(after.map((list) => [list.id, list]))];
  const ids = [...new Set([...old.keys(), ...next.keys()])];
  return new Map(
    ids.flatMap((id) => {
      const change = changeOf(old.get(id), next.get(id));
      return change === undefined ? [] : [[id, change] as const];
    }),
  );
}

function changeOf(before: ListProvider | undefined, after: ListProvider | undefined): ListChange | undefined {
  const [old, next] = [byRule(before), byRule(after)];
  const others = [...without(old, next), ...without(next, old)];
  const whole = before !== undefined && after !== undefined && (headOf(before) !== headOf(after) || isReordered(old, next));
  if (others.length === 0 && !whole) return undefined;
  const matcher = new ModelMatcher(others);
  return { whole, fits: (name) => matcher.find(name) !== undefined || matcher.find(withIsoDates(name)) !== undefined };
}

type ByRule = ReadonlyMap<string, ListModel>;

function byRule(list: ListProvider | undefined): ByRule {
  return new Map((list?.models ?? []).map((model) => [`${model.id}\n${JSON.stringify(model.match)}`, model]));
}

function without(one: ByRule, other: ByRule): readonly ListModel[] {
  return Array.from(one).flatMap(([key, model]) => (other.has(key) ? [] : [model]));
}

function isReordered(old: ByRule, next: ByRule): boolean {
  const order = [...old.keys()].filter((key) => next.has(key));
  return [...next.keys()].filter((key) => old.has(key)).some((key, i) => key !== order[i]);
}

function headOf({ model_match: maker, fallback_model_providers: fallbacks }: ListProvider): string {
  return JSON.stringify([maker, fallbacks]);
}
