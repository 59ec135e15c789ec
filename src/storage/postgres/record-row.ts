import { parseUsd } from '../../base/lib/money.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { doubtNames } from '../../base/model/cost-doubt.ts';
import { membersOf } from '../contract/commit-rules.ts';
import { codesOf, QUERY_TEXTS, type QueryText, type RecordFilters, type RecordMembers } from '../contract/record-query.ts';
import type { RecordCommit } from '../contract/store.ts';
import { boundTime, hourOf, monthOf, storedTime } from './record-months.ts';
import { textArray } from './sql.ts';

/*
 * What is kept of a record beside its text, so that it can be found, and how a query asks for it. Every text that is
 * compared whole is one of the record's facets, `name=text`, so that one index finds any of them however seldom it is;
 * a new line of `QUERY_TEXTS` needs nothing here, and finds the records that come after it.
 */

/** A row of a record but for its place, as text by column. */
export interface RecordRow {
  readonly id: string;
  readonly month: string;
  /** In which it was committed, hours since the epoch. */
  readonly hour: number;
  /** In the order of {@link RECORD_COLUMNS}. */
  readonly values: readonly (string | null)[];
}

interface RecordColumn {
  readonly name: string;
  readonly type: string;
  readonly of: (record: RecordCommit, members: RecordMembers) => string | null | undefined;
}

/** Texts that have a column, by which the records of an org are in order. */
const COLUMN_TEXTS = ['org_id', 'workload_id', 'decision'] as const satisfies readonly QueryText[];
const HAS_COLUMN: ReadonlySet<QueryText> = new Set(COLUMN_TEXTS);

/** All columns but `place`. */
export const RECORD_COLUMNS: readonly RecordColumn[] = [
  { name: 'committed_at', type: 'timestamptz', of: (record) => storedTime(record.committed_at) },
  { name: 'record_id', type: 'text', of: (record) => record.record_id },
  { name: 'record_hash', type: 'bytea', of: (record) => `\\x${record.record_hash}` },
  { name: 'text', type: 'text', of: (record) => record.text },
  ...COLUMN_TEXTS.map((name) => ({ name, type: 'text', of: (_: RecordCommit, members: RecordMembers) => keptText(members[name]) })),
  { name: 'model', type: 'text', of: (_, { model }) => withoutNul(model) },
  { name: 'cost_pico', type: 'numeric', of: (_, { metering }) => costText(metering?.cost_usd) },
  { name: 'facets', type: 'text[]', of: (_, members) => textArray(facetsOf(members)) },
];

/** @throws TypeError for a text that no database keeps */
export function recordRow(record: RecordCommit): RecordRow {
  if (record.text.includes('\0')) throw new TypeError('The text of a record is JSON, which has no NUL in it');
  const members = record.members ?? membersOf(record.text);
  const values = RECORD_COLUMNS.map(({ of }) => of(record, members) ?? null);
  return { id: record.record_id, month: monthOf(record.committed_at), hour: hourOf(record.committed_at), values };
}

/** UTF-16 units of a text in an index: of three such texts an entry still fits into a page. */
const MAX_KEPT = 300;
const KEPT_OF_LONG = 200;

/** A text that is compared whole. A long one is kept by its beginning and its digest: an index takes no more. */
function keptText(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined;
  const kept = withoutNul(text) ?? '';
  return kept.length <= MAX_KEPT ? kept : `${kept.slice(0, KEPT_OF_LONG)}…${sha256Hex(kept)}`;
}

/** PostgreSQL keeps no NUL in a text: what stands for it begins with what is no character. */
function withoutNul(text: unknown): string | undefined {
  return typeof text === 'string' ? text.replace(/[\0\uffff]/g, (odd) => (odd === '\0' ? '\uffff0' : '\uffff1')) : undefined;
}

/** Everything by which a record is found that is compared whole. */
function facetsOf(members: RecordMembers): readonly string[] {
  const facets: string[] = [];
  for (const name of QUERY_TEXTS) {
    const text: unknown = members[name];
    if (typeof text === 'string') facets.push(facet(name, text));
  }
  for (const code of codesOf(members) ?? []) facets.push(facet('reason_code', code));
  const doubts = doubtNames(members);
  if (doubts) for (const doubt of [...doubts, 'any']) facets.push(facet('cost_doubt', doubt));
  for (const [key, value] of Object.entries(members.labels ?? {})) facets.push(labelFacet(key), labelFacet(key, value));
  return facets;
}

function facet(name: string, text: string): string {
  return keptText(`${name}=${text}`) ?? '';
}

/** A label is found by its key, and by key and value; JSON tells the one from the other. */
function labelFacet(key: string, value?: string): string {
  return facet('label', value === undefined ? JSON.stringify(key) : `${JSON.stringify(key)}:${JSON.stringify(value)}`);
}

function costText(usd: unknown): string | undefined {
  return typeof usd === 'string' ? parseUsd(usd)?.toString() : undefined;
}

/** Conditions with the values that they name by number. */
export class Conditions {
  readonly values: string[] = [];
  readonly #tests: string[] = [];

  /** @param test is given the place of the value in the statement */
  add(value: string, test: (place: string) => string): void {
    this.values.push(value);
    this.#tests.push(test(`$${this.values.length}::text`));
  }

  /** With `WHERE` before it; empty where everything is wanted. */
  get text(): string {
    return this.#tests.length === 0 ? '' : `WHERE ${this.#tests.join(' AND ')}`;
  }
}

/** The conditions of a query's filters but for its record id. */
export function filterConditions(filters: RecordFilters): Conditions {
  const where = new Conditions();
  addFacets(where, filters);
  const { model, min_cost_usd: cost } = filters;
  if (model !== undefined) {
    const parts = textArray([model, model.toLowerCase()].map((part) => withoutNul(part) ?? ''));
    where.add(parts, (value) => `(strpos(model, (${value}::text[])[1]) > 0 OR strpos(model, (${value}::text[])[2]) > 0)`);
  }
  if (cost !== undefined) where.add(costText(cost) ?? '0', (value) => `cost_pico >= ${value}::numeric`);
  addTimes(where, filters);
  return where;
}

/**
 * A time is looked for between the places of its hours, so that the page is read in its order from where it begins. By
 * adding nothing the planner is kept from the index of times, out of which it would have to sort.
 */
function addTimes(where: Conditions, { since, until }: RecordFilters): void {
  if (since !== undefined) {
    where.add(boundTime(since), (value) => `committed_at + interval '0' >= ${value}::timestamptz`);
    where.add(`${hourOf(since)}`, (value) => `place >= (SELECT min(first_place) FROM gw_hours WHERE hour >= ${value}::bigint)`);
  }
  if (until !== undefined) {
    where.add(boundTime(until), (value) => `committed_at + interval '0' < ${value}::timestamptz`);
    where.add(`${hourOf(until)}`, (value) => `place <= (SELECT max(last_place) FROM gw_hours WHERE hour <= ${value}::bigint)`);
  }
}

/** What is compared whole. Of one org the columns are asked, because its records are in order by them. */
function addFacets(where: Conditions, filters: RecordFilters): void {
  const { org_id: org, reason_code: code, label, cost_doubt: doubt } = filters;
  const all: string[] = [];
  for (const name of QUERY_TEXTS) {
    const wanted = filters[name];
    if (typeof wanted !== 'string') {
      if (wanted !== undefined) where.add(textArray(wanted.map((text) => facet(name, text))), (value) => `facets && ${value}::text[]`);
    } else if (typeof org === 'string' && HAS_COLUMN.has(name)) where.add(keptText(wanted) ?? '', (value) => `${name} = ${value}`);
    else all.push(facet(name, wanted));
  }
  if (code !== undefined) all.push(facet('reason_code', code));
  if (doubt !== undefined) all.push(facet('cost_doubt', doubt));
  if (label !== undefined) all.push(labelFacet(label.key, label.value));
  if (all.length > 0) where.add(textArray(all), (value) => `facets @> ${value}::text[]`);
}
