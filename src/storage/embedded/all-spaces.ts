import type { CounterRow } from '../contract/store.ts';
import { decodeTotals } from './counters.ts';
import { type LevelIndex, ROW } from './level-index.ts';
import { mergeRows } from './merge-rows.ts';
import { joinKey } from './prepared-commit.ts';
import type { Tail } from './tail.ts';

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
  const from = after && joinKey(after.space, after.key);
  const stored = index.rows(ROW.entity, from && ROW.entity + from);
  const rows = await mergeRows(stored, tail.entities('', from, limits.rows), { limit: limits.rows, units: limits.units });
  return rows.map(([joined, text]) => ({ ...placeOf(joined), text }));
}

/** The same of counters. One without amounts is none. */
export async function countersOfAll(
  { index, tail }: RowSources,
  after: RowPlace | undefined,
  limits: RowLimits,
): Promise<readonly CounterOfSpace[]> {
  const from = after && joinKey(after.space, after.key);
  const stored = index.rows(ROW.counter, from && ROW.counter + from);
  const rows = await mergeRows(stored, tail.totals('', from, limits.rows), { limit: limits.rows, units: limits.units });
  return rows.map(([joined, text]) => ({ ...placeOf(joined), amounts: Object.fromEntries(decodeTotals(text)) }));
}

function placeOf(joined: string): RowPlace {
  const between = joined.indexOf('\0');
  return { space: joined.slice(0, between), key: joined.slice(between + 1) };
}
