import { SPEND_HOUR } from '../contract/counter-spaces.ts';
import { spendByHour } from '../contract/spend-hours.ts';
import type { CounterSum, JudgedBatch, KnownState } from './judge-batch.ts';
import type { StoredKey } from './long-keys.ts';
import type { EntityChange, QueuedCommit } from './queued-commit.ts';
import { placeOf } from './record-places.ts';
import { RECORD_COLUMNS, type RecordRow } from './record-row.ts';
import { type Sql, textArray } from './sql.ts';

/*
 * How a batch of commits is read and written inside of a transaction that somebody else has begun and ends. Everything
 * is written by sets: what a batch costs does not follow from how many commits it has, but from what they touch.
 */

/** What a transaction that writes knows once it holds the row of changes. */
export interface LockedChange {
  /** The number of the change that it makes. */
  readonly change: bigint;
  /** No record has a larger id. */
  readonly lastRecordId: string;
}

/** Locks the row of changes until the transaction ends, and takes the next number. The text for one round trip. */
export const TAKE_CHANGE = 'UPDATE gw_state SET change = change + 1 RETURNING change::text, last_record_id';

/** The same for who changes nothing that has a number. */
export const HOLD_CHANGE = 'SELECT change::text, last_record_id FROM gw_state FOR UPDATE';

/** The answer to {@link TAKE_CHANGE}. */
export function lockedChange(row: Readonly<Record<string, string | null>> | undefined): LockedChange {
  if (row?.['change'] == null) throw new Error('The row of changes is missing in the database');
  return { change: BigInt(row['change']), lastRecordId: row['last_record_id'] ?? '' };
}

/**
 * Reads what a batch is judged by, and locks it, in key order. Records with an id larger than every other one need no
 * look.
 */
export async function knownState(sql: Sql, batch: readonly QueuedCommit[], { lastRecordId }: LockedChange): Promise<KnownState> {
  const wanted = new Map(batch.flatMap(({ expect }) => expect.map((one) => [one.id, one])));
  const ids = batch.flatMap(({ record }) => (record && record.id <= lastRecordId ? [record.id] : []));
  const versions = new Map<string, string>();
  if (wanted.size > 0) {
    const rows = await sql.query(
      `SELECT space, key, version FROM gw_entities
       WHERE (space, key) IN (SELECT * FROM unnest($1::text::text[], $2::text::text[])) ORDER BY space, key FOR UPDATE`,
      [textArray([...wanted.values()].map(({ space }) => space)), textArray([...wanted.values()].map(({ key }) => key))],
    );
    for (const { space, key, version } of rows) versions.set(`${space}\0${key}`, version ?? '');
  }
  if (ids.length === 0) return { versions, takenIds: new Set() };
  const taken = await sql.query('SELECT record_id FROM gw_records WHERE record_id = ANY ($1::text::text[])', [textArray(ids)]);
  return { versions, takenIds: new Set(taken.map(({ record_id: id }) => id ?? '')) };
}

/** Collects the parts of one statement and the values that they name. */
class Parts {
  readonly values: string[] = [];
  readonly #parts: string[] = [];

  /** The place of a list of texts, of this type. */
  list(items: readonly (string | null)[], type: string): string {
    this.values.push(textArray(items));
    return `$${this.values.length}::text::${type}[]`;
  }

  one(value: string, type: string): string {
    this.values.push(value);
    return `$${this.values.length}::text::${type}`;
  }

  add(statement: string): void {
    this.#parts.push(`part${this.#parts.length} AS (${statement})`);
  }

  get text(): string | undefined {
    return this.#parts.length === 0 ? undefined : `WITH ${this.#parts.join(',\n')} SELECT 1::text AS done`;
  }
}

/** Writes what a batch does, in one round trip. */
export async function writeBatch(
  sql: Sql,
  { records, entities, counters }: JudgedBatch,
  { change, lastRecordId }: LockedChange,
): Promise<void> {
  const parts = new Parts();
  if (records.length > 0) addRecords(parts, records, change, lastRecordId);
  const changes = [...entities.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  addPuts(parts, changes, change);
  addDeletions(parts, changes, change);
  addLongKeys(parts, [...changes, ...[...counters.values()].map(({ change: counter }) => counter)]);
  const rows = counterAdditions(counters.values());
  if (rows.length > 0) {
    rows.sort((a, b) => compare(a.space, b.space) || compare(a.key, b.key) || compare(a.name, b.name));
    parts.add(
      `INSERT INTO gw_counters AS old (space, key, name, amount)
       SELECT * FROM unnest(${parts.list(column(rows, 'space'), 'text')}, ${parts.list(column(rows, 'key'), 'text')},
                            ${parts.list(column(rows, 'name'), 'text')}, ${parts.list(column(rows, 'amount'), 'numeric')})
       ON CONFLICT (space, key, name) DO UPDATE SET amount = old.amount + excluded.amount`,
    );
  }
  if (parts.text !== undefined) await sql.query(parts.text, parts.values);
}

/** A row for each amount, and for what the amounts of some spaces add to the spend of an hour. */
function counterAdditions(sums: Iterable<CounterSum>): { space: string; key: string; name: string; amount: string }[] {
  const rows: { space: string; key: string; name: string; amount: string }[] = [];
  const spent = new Map<string, bigint>();
  for (const { change, amounts } of sums) {
    const { space, key, long } = change;
    for (const [name, amount] of amounts) rows.push({ space, key, name, amount: amount.toString() });
    for (const of of spendByHour(space, long ?? key, amounts)) spent.set(of.key, (spent.get(of.key) ?? 0n) + of.pico);
  }
  for (const [key, pico] of spent) if (pico !== 0n) rows.push({ space: SPEND_HOUR, key, name: 'cost_pico', amount: pico.toString() });
  return rows;
}

function column<K extends string>(rows: readonly Readonly<Record<K, string>>[], name: K): readonly string[] {
  return rows.map((row) => row[name]);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function addRecords(parts: Parts, records: readonly RecordRow[], change: bigint, lastRecordId: string): void {
  const places = parts.list(
    records.map((_, ordinal) => placeOf(change, ordinal)),
    'bigint',
  );
  // A list of lists would be taken apart as a whole: what is a list itself comes as text, and is read row by row.
  const lists = RECORD_COLUMNS.map(({ type }, at) =>
    parts.list(
      records.map(({ values }) => values[at] ?? null),
      type.endsWith('[]') ? 'text' : type,
    ),
  );
  const names = RECORD_COLUMNS.map(({ name }) => name);
  parts.add(
    `INSERT INTO gw_records (place, ${names.join(', ')})
     SELECT place, ${RECORD_COLUMNS.map(({ name, type }) => (type.endsWith('[]') ? `${name}::${type}` : name)).join(', ')}
     FROM unnest(${[places, ...lists].join(', ')}) AS given (place, ${names.join(', ')})`,
  );
  addHours(parts, records, change);
  const largest = records.reduce((last, { id }) => (id > last ? id : last), lastRecordId);
  if (largest > lastRecordId) parts.add(`UPDATE gw_state SET last_record_id = ${parts.one(largest, 'text')}`);
}

/** Between which places the records of each hour stand. */
function addHours(parts: Parts, records: readonly RecordRow[], change: bigint): void {
  const hours = new Map<number, { readonly first: string; last: string }>();
  for (const [ordinal, { hour }] of records.entries()) {
    const place = placeOf(change, ordinal);
    const range = hours.get(hour);
    if (range) range.last = place;
    else hours.set(hour, { first: place, last: place });
  }
  const rows = [...hours].sort(([a], [b]) => a - b).map(([hour, range]) => ({ hour: `${hour}`, ...range }));
  parts.add(
    `INSERT INTO gw_hours AS old (hour, first_place, last_place)
     SELECT * FROM unnest(${parts.list(column(rows, 'hour'), 'bigint')}, ${parts.list(column(rows, 'first'), 'bigint')},
                          ${parts.list(column(rows, 'last'), 'bigint')})
     ON CONFLICT (hour) DO UPDATE SET first_place = least(old.first_place, excluded.first_place),
                                      last_place = greatest(old.last_place, excluded.last_place)`,
  );
}

/** They stay when nothing has them any more: few keys are long. */
function addLongKeys(parts: Parts, keys: readonly StoredKey[]): void {
  const long = new Map(keys.flatMap(({ key, long }) => (long === undefined ? [] : [[key, long] as const])));
  if (long.size === 0) return;
  const rows = [...long].map(([stored, key]) => ({ stored, key })).sort((a, b) => compare(a.stored, b.stored));
  parts.add(
    `INSERT INTO gw_long_keys (stored, key)
     SELECT * FROM unnest(${parts.list(column(rows, 'stored'), 'text')}, ${parts.list(column(rows, 'key'), 'text')}) ON CONFLICT DO NOTHING`,
  );
}

function addPuts(parts: Parts, changes: readonly EntityChange[], change: bigint): void {
  const rows = changes.flatMap(({ space, key, text, version }) =>
    text === undefined ? [] : [{ space, key, text, version: version ?? '' }],
  );
  if (rows.length === 0) return;
  parts.add(
    `INSERT INTO gw_entities (space, key, value, version, change)
     SELECT *, ${parts.one(change.toString(), 'bigint')}
     FROM unnest(${parts.list(column(rows, 'space'), 'text')}, ${parts.list(column(rows, 'key'), 'text')},
                 ${parts.list(column(rows, 'text'), 'text')}, ${parts.list(column(rows, 'version'), 'text')})
     ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, version = excluded.version, change = excluded.change`,
  );
}

function addDeletions(parts: Parts, changes: readonly EntityChange[], change: bigint): void {
  const rows = changes.filter(({ text }) => text === undefined);
  if (rows.length === 0) return;
  const given = `unnest(${parts.list(column(rows, 'space'), 'text')}, ${parts.list(column(rows, 'key'), 'text')})`;
  parts.add(
    `DELETE FROM gw_entities USING ${given} AS gone (space, key) WHERE gw_entities.space = gone.space AND gw_entities.key = gone.key`,
  );
  parts.add(
    `INSERT INTO gw_deletions (space, key, change) SELECT *, ${parts.one(change.toString(), 'bigint')} FROM ${given}
     ON CONFLICT (space, key) DO UPDATE SET change = excluded.change, at = now()`,
  );
}
