import type { CounterRow } from '../contract/store.ts';
import { decodeTotals } from './counters.ts';
import { type LevelIndex, ROW } from './level-index.ts';
import { mergeRows } from './merge-rows.ts';
import { joinKey } from './prepared-commit.ts';
import type { ChangedRow, Tail } from './tail.ts';

/*
 * What a store holds of all spaces, for who carries it elsewhere: the contract reads a space whose name is known.
 */

/** Where an entity or a counter stands among those of its kind: by space, then by key (code units). */
export interface RowPlace {
  readonly space: string;
  readonly key: string;
}

/** An entity with the text that is kept of its value. */
export interface EntityText extends RowPlace {
  readonly text: string;
}

export interface CounterOfSpace extends RowPlace, CounterRow {}

/** A page ends with the row by which it has so many, or so many UTF-16 units of values. */
export interface RowLimits {
  readonly rows: number;
  readonly units: number;
}

/** Where rows are read: those of the index, and what has changed since. */
export interface RowSources {
  readonly index: Pick<LevelIndex, 'rows'>;
  readonly tail: Pick<Tail, 'entities' | 'totals'>;
}

/** Visible entities behind a place, of all spaces; none behind the last one. A page is one state. */
export async function entitiesOfAll(
  { index, tail }: RowSources,
  after: RowPlace | undefined,
  limits: RowLimits,
): Promise<readonly EntityText[]> {
  return page(index, ROW.entity, (from) => tail.entities('', from, limits.rows), after, limits);
}

/** The same of counters. One without amounts is none. */
export async function countersOfAll(
  { index, tail }: RowSources,
  after: RowPlace | undefined,
  limits: RowLimits,
): Promise<readonly CounterOfSpace[]> {
  const rows = await page(index, ROW.counter, (from) => tail.totals('', from, limits.rows), after, limits);
  return rows.map(({ text, ...place }) => ({ ...place, amounts: Object.fromEntries(decodeTotals(text)) }));
}

/** @param kind of the rows of the index; `changed` has those of the tail behind a joined key */
async function page(
  index: RowSources['index'],
  kind: string,
  changed: (from: string | undefined) => readonly ChangedRow[],
  after: RowPlace | undefined,
  { rows: limit, units }: RowLimits,
): Promise<readonly EntityText[]> {
  const from = after && joinKey(after.space, after.key);
  const rows = await mergeRows(index.rows(kind, from && kind + from), changed(from), { limit, units });
  return rows.map(([joined, text]) => ({ ...placeOf(joined), text }));
}

function placeOf(joined: string): RowPlace {
  const between = joined.indexOf('\0');
  return { space: joined.slice(0, between), key: joined.slice(between + 1) };
}
