import { parseUsd } from '../../base/lib/money.ts';
import { doubtNames } from '../../base/model/cost-doubt.ts';
import { codesOf, QUERY_TEXTS, queryTexts, type RecordFilters, type RecordMembers, type TextsOf } from '../contract/record-query.ts';

/*
 * What is kept of each record so that it can be found: one column for each text that queries compare, its labels as one
 * text, its time, its cost, and where its frame is.
 */

export type Codes = Uint8Array | Uint16Array | Uint32Array;

/** What a text must be. */
export type TextTest =
  | { readonly isOneOf: readonly string[] }
  | { readonly containsOneOf: readonly string[] }
  /** It is a list, as {@link listText} writes it, and this is one of its items. */
  | { readonly hasItem: string };

/** Between the items of a list that is kept as one text; in none of them. */
export const BETWEEN_ITEMS = '\u0000';

/** The columns of one segment. A text is kept once and stands in rows as a code; 0 is a row without one. */
export interface RecordColumns {
  readonly rows: number;
  /** `committed_at`. */
  readonly times: Float64Array;
  /** As {@link comparablePico} has them; NaN without a cost. */
  readonly costs: Float64Array;
  /** Of frames in the segment, ascending. */
  readonly offsets: Uint32Array;
  /** The code of a row is at `from + row * stride`. */
  codes(column: number): { readonly array: Codes; readonly from: number; readonly stride: number };
  /** 1 at each code whose text passes; undefined when none does. */
  passing(column: number, test: TextTest): Uint8Array | undefined;
}

/** The names of the columns of texts, in the order of {@link columnTexts}. */
export const TEXT_COLUMNS = [...QUERY_TEXTS, 'model', 'reason_codes', 'doubts', 'labels'] as const;

/** What the columns of texts have of a record. */
export function columnTexts(record: RecordMembers): TextsOf<typeof TEXT_COLUMNS> {
  const { model, labels } = record;
  return [...queryTexts(record), model, listText(codesOf(record)), doubtNames(record)?.join(), labels && JSON.stringify(labels)];
}

const COLUMN_OF = new Map<string, number>(TEXT_COLUMNS.map((name, column) => [name, column]));

/** The tests of a query, by column. */
export function textTests(filters: RecordFilters): readonly (readonly [column: number, test: TextTest])[] {
  const tests: (readonly [number, TextTest])[] = [];
  const add = (name: string, test: TextTest): void => {
    const column = COLUMN_OF.get(name);
    if (column !== undefined) tests.push([column, test]);
  };
  for (const name of QUERY_TEXTS) {
    const wanted = filters[name];
    if (wanted !== undefined) add(name, { isOneOf: typeof wanted === 'string' ? [wanted] : wanted });
  }
  if (filters.model !== undefined) add('model', { containsOneOf: [filters.model, filters.model.toLowerCase()] });
  if (filters.reason_code !== undefined) add('reason_codes', { hasItem: filters.reason_code });
  // Nothing is part of every text.
  if (filters.cost_doubt !== undefined) add('doubts', { containsOneOf: [filters.cost_doubt === 'any' ? '' : filters.cost_doubt] });
  if (filters.label) add('labels', { containsOneOf: labelTexts(filters.label) });
  return tests;
}

/** A list as one text; most lists have one item, which is then that text itself. */
function listText(items: readonly string[] | undefined): string | undefined {
  return items !== undefined && items.length > 1 ? items.join(BETWEEN_ITEMS) : items?.[0];
}

/**
 * What the text of labels holds that have this one. A quote inside of a key or value is escaped, so that what stands
 * before a key tells it from anything else.
 */
function labelTexts({ key, value }: { readonly key: string; readonly value?: string }): readonly string[] {
  const member = `${JSON.stringify(key)}:${value === undefined ? '' : JSON.stringify(value)}`;
  return [`{${member}`, `,${member}`];
}

/** The cost of a record in pico-dollars, or NaN. To be compared only: exact up to nine thousand dollars. */
export function costOf({ metering }: RecordMembers): number {
  return typeof metering?.cost_usd === 'string' ? comparablePico(metering.cost_usd) : Number.NaN;
}

/** An amount as costs are compared; NaN when it is none. */
export function comparablePico(usd: string): number {
  const pico = parseUsd(usd);
  // eslint-disable-next-line no-restricted-syntax -- what is larger is found by it; nothing is added up
  return pico === undefined ? Number.NaN : Number(pico);
}
