import { parseUsd } from '../../base/lib/money.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { doubtNames } from '../../base/model/cost-doubt.ts';
import { membersOf } from '../contract/commit-rules.ts';
import { codesOf, QUERY_TEXTS, type QueryText, type RecordFilters, type RecordMembers } from '../contract/record-query.ts';
import type { RecordCommit } from '../contract/store.ts';
import { boundTime, monthOf, storedTime } from './record-months.ts';
import { textArray } from './sql.ts';

/*
 * What is kept of a record beside its text, so that it can be found, and how a query asks for it. A new line of
 * `QUERY_TEXTS` needs nothing here.
 */

/** A row of a record but for its place, as text by column. */
export interface RecordRow {
  readonly id: string;
  readonly month: string;
  /** In the order of {@link RECORD_COLUMNS}. */
  readonly values: readonly (string | null)[];
}

interface RecordColumn {
  readonly name: string;
  readonly type: string;
  readonly of: (record: RecordCommit, members: RecordMembers) => string | null | undefined;
}

const TEXTS = Object.entries(QUERY_TEXTS) as readonly (readonly [QueryText, (members: RecordMembers) => string | undefined])[];

/** All columns but `place`. */
export const RECORD_COLUMNS: readonly RecordColumn[] = [
  { name: 'committed_at', type: 'timestamptz', of: (record) => storedTime(record.committed_at) },
  { name: 'record_id', type: 'text', of: (record) => record.record_id },
  { name: 'record_hash', type: 'bytea', of: (record) => `\\x${record.record_hash}` },
  { name: 'text', type: 'text', of: (record) => record.text },
  ...TEXTS.map(([name, of]) => ({ name, type: 'text', of: (_: RecordCommit, members: RecordMembers) => keptText(of(members)) })),
  { name: 'model', type: 'text', of: (_, { model }) => withoutNul(model) },
  { name: 'reason_codes', type: 'text[]', of: (_, members) => keptList(codesOf(members)) },
  { name: 'doubts', type: 'text[]', of: (_, members) => keptList(doubtNames(members)) },
  { name: 'label_texts', type: 'text[]', of: (_, { labels }) => labels && keptList(Object.entries(labels).flatMap(labelTexts)) },
  { name: 'cost_pico', type: 'numeric', of: (_, { metering }) => costText(metering?.cost_usd) },
];

/** @throws TypeError for a text that no database keeps */
export function recordRow(record: RecordCommit): RecordRow {
  if (record.text.includes('\0')) throw new TypeError('The text of a record is JSON, which has no NUL in it');
  const members = record.members ?? membersOf(record.text);
  const values = RECORD_COLUMNS.map(({ of }) => of(record, members) ?? null);
  return { id: record.record_id, month: monthOf(record.committed_at), values };
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

/** PostgreSQL keeps no NUL in a text: what stands for it is no character. */
function withoutNul(text: unknown): string | undefined {
  return typeof text === 'string' ? text.replaceAll('\0', '\uffff') : undefined;
}

function keptList(items: readonly string[] | undefined): string | undefined {
  return items === undefined ? undefined : textArray(items.map((item) => keptText(item) ?? null));
}

/** A label is found by its key, and by key and value; JSON tells the one from the other. */
function labelTexts([key, value]: readonly [string, string]): readonly string[] {
  return [JSON.stringify(key), labelText(key, value)];
}

function labelText(key: string, value: string): string {
  return `${JSON.stringify(key)}:${JSON.stringify(value)}`;
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

  addPlain(test: string): void {
    this.#tests.push(test);
  }

  /** With `WHERE` before it; empty where everything is wanted. */
  get text(): string {
    return this.#tests.length === 0 ? '' : `WHERE ${this.#tests.join(' AND ')}`;
  }
}

/** The conditions of a query's filters but for its record id. */
export function filterConditions(filters: RecordFilters): Conditions {
  const where = new Conditions();
  for (const [name] of TEXTS) {
    const wanted = filters[name];
    if (wanted !== undefined) addTextTest(where, name, typeof wanted === 'string' ? [wanted] : wanted);
  }
  const { model, reason_code: code, label, min_cost_usd: cost, cost_doubt: doubt, since, until } = filters;
  if (model !== undefined) {
    const parts = textArray([model, model.toLowerCase()].map((part) => withoutNul(part) ?? ''));
    where.add(parts, (value) => `(strpos(model, (${value}::text[])[1]) > 0 OR strpos(model, (${value}::text[])[2]) > 0)`);
  }
  if (code !== undefined) where.add(keptText(code) ?? '', (value) => `${value} = ANY (reason_codes)`);
  if (label !== undefined) {
    const text = label.value === undefined ? JSON.stringify(label.key) : labelText(label.key, label.value);
    where.add(keptText(text) ?? '', (value) => `${value} = ANY (label_texts)`);
  }
  if (cost !== undefined) where.add(costText(cost) ?? '0', (value) => `cost_pico >= ${value}::numeric`);
  if (doubt === 'any') where.addPlain('doubts IS NOT NULL');
  else if (doubt !== undefined) where.add(doubt, (value) => `${value} = ANY (doubts)`);
  if (since !== undefined) where.add(boundTime(since), (value) => `committed_at >= ${value}::timestamptz`);
  if (until !== undefined) where.add(boundTime(until), (value) => `committed_at < ${value}::timestamptz`);
  return where;
}

function addTextTest(where: Conditions, name: QueryText, wanted: readonly string[]): void {
  const texts = wanted.map((text) => keptText(text) ?? '');
  if (texts.length === 1) where.add(texts[0] ?? '', (value) => `${name} = ${value}`);
  else where.add(textArray(texts), (value) => `${name} = ANY (${value}::text[])`);
}
