/*
 * How an entry of a newer price list is held back (decision 6.16): it is as it was in the old list, and what priced its
 * names is there again.
 */

import type { RateChange } from '../price-list/list-diff.ts';
import type { ListModel, ListProvider } from '../price-list/list-shape.ts';
import type { ListedLink, PriceLink } from './price-links.ts';

type Lists = readonly ListProvider[];

/** What prices a name before and after, and what of that needs a yes. */
export interface NameEffect {
  readonly old: PriceLink | undefined;
  readonly next: PriceLink;
  readonly changes: readonly RateChange[];
}

/** The newer list without these effects, as far as that can be seen without pricing names again. */
export function withoutEffects(before: Lists, newer: Lists, effects: readonly NameEffect[]): Lists {
  const links = effects.flatMap(({ old, next }) => [next.listed, old?.listed].filter((link) => link !== undefined));
  const restored = links.reduce((lists, link) => withEntryOf(before, lists, link), newer);
  return restored === newer ? withListsOf(before, newer, links) : restored;
}

/**
 * Where all entries are what they were, their order, or what leads to their list, is another: with the lists as they
 * were before.
 */
function withListsOf(before: Lists, lists: Lists, links: readonly ListedLink[]): Lists {
  const ids = new Set(links.flatMap(({ asked, list }) => [asked, list]));
  const kept = lists.flatMap((list) => (ids.has(list.id) ? (before.find(({ id }) => id === list.id) ?? []) : [list]));
  return [...kept, ...before.filter(({ id }) => ids.has(id) && !kept.some((list) => list.id === id))];
}

/** With the entry of a link as it was before. @returns the same lists where it is that already */
function withEntryOf(before: Lists, lists: Lists, { list: id, model }: ListedLink): Lists {
  const [was, is] = [before, lists].map((all) => all.find((list) => list.id === id));
  if (is === undefined) return was === undefined ? lists : [...lists, was];
  const models = withEntry(was?.models ?? [], is.models, model.id);
  return models === is.models ? lists : lists.map((list) => (list === is ? { ...is, models } : list));
}

function withEntry(before: readonly ListModel[], models: readonly ListModel[], id: string): readonly ListModel[] {
  const [was, is] = [before, models].map((all) => all.filter((model) => model.id === id)) as [ListModel[], ListModel[]];
  if (rulesOf(was) === rulesOf(is)) return models;
  const place = is.length > 0 ? models.findIndex((model) => model.id === id) : placeAfter(before, models, id);
  const [front, back] = [models.slice(0, place), models.slice(place)];
  return [...front, ...was, ...back.filter((model) => model.id !== id)];
}

/** Behind the nearest of those that stood before it. */
function placeAfter(before: readonly ListModel[], models: readonly ListModel[], id: string): number {
  const places = new Map(models.map((model, place) => [model.id, place]));
  const earlier = before.slice(
    0,
    before.findIndex((model) => model.id === id),
  );
  const nearest = earlier.findLast((model) => places.has(model.id));
  return nearest === undefined ? 0 : (places.get(nearest.id) ?? 0) + 1;
}

function rulesOf(models: readonly ListModel[]): string {
  return JSON.stringify(models.map(({ match }) => match));
}
