import type { CounterRow, EntityPage } from '../contract/store.ts';
import { storedKey, storedPrefix, withWholeKeys } from './long-keys.ts';
import type { Sql } from './sql.ts';

/*
 * Reads of entities and counters. What strangers ask for comes in here as it is: a text that no key can be finds
 * nothing.
 */

/** An entity with the text of its value. */
export interface EntityRow {
  readonly key: string;
  readonly text: string;
  readonly version: string;
}

/** The entity of a key that can be one. */
export async function entityRow(sql: Sql, space: string, key: string): Promise<EntityRow | undefined> {
  const rows = await sql.query('SELECT value, version FROM gw_entities WHERE space = $1::text AND key = $2::text', [
    space,
    storedKey(key).key,
  ]);
  return rows.map((row) => ({ ...entityOf(row), key }))[0];
}

/** A page of a space, in key order. One statement, and so one state. */
export async function entityPage(sql: Sql, space: string, page: EntityPage = {}): Promise<readonly EntityRow[]> {
  const keys = keyRange(space, page);
  if (keys === undefined) return [];
  const rows = await sql.query(
    `SELECT key, value, version FROM gw_entities WHERE ${keys.where} ORDER BY key LIMIT $${keys.values.length + 1}::text::bigint`,
    [...keys.values, limitText(page.limit)],
  );
  return withWholeKeys(sql, rows.map(entityOf));
}

function entityOf(row: Readonly<Record<string, string | null>>): EntityRow {
  return { key: row['key'] ?? '', text: row['value'] ?? 'null', version: row['version'] ?? '' };
}

/** The totals of one counter. */
export async function counterTotals(sql: Sql, space: string, key: string): Promise<Readonly<Record<string, bigint>>> {
  const rows = await sql.query('SELECT name, amount::text FROM gw_counters WHERE space = $1::text AND key = $2::text ORDER BY name', [
    space,
    storedKey(key).key,
  ]);
  return Object.fromEntries(rows.map(({ name, amount }) => [name ?? '', BigInt(amount ?? '0')]));
}

/** A page of a space's counters, in key order. One statement, and so one state. */
export async function counterRowsOf(
  sql: Sql,
  space: string,
  page: { readonly prefix?: string; readonly after?: string; readonly limit: number },
): Promise<readonly CounterRow[]> {
  const keys = keyRange(space, page);
  if (keys === undefined) return [];
  const rows = await sql.query(
    `SELECT key, json_object_agg(name, amount::text)::text AS amounts FROM gw_counters WHERE ${keys.where}
     GROUP BY key ORDER BY key LIMIT $${keys.values.length + 1}::text::bigint`,
    [...keys.values, limitText(page.limit)],
  );
  const read = rows.map(({ key, amounts }) => {
    const totals = JSON.parse(amounts ?? '{}') as Readonly<Record<string, string>>;
    return { key: key ?? '', amounts: Object.fromEntries(Object.entries(totals).map(([name, amount]) => [name, BigInt(amount)])) };
  });
  return withWholeKeys(sql, read);
}

const ASCII = /^[\x01-\x7f]*$/;

/**
 * The condition for keys of a space that begin with `prefix` and come behind `after`; undefined where there can be
 * none.
 */
function keyRange(
  space: string,
  { prefix = '', after }: EntityPage,
): { readonly where: string; readonly values: readonly string[] } | undefined {
  if (!ASCII.test(space) || !ASCII.test(prefix)) return undefined;
  const tests = ['space = $1::text'];
  const values = [space];
  const add = (value: string, operator: string): void => {
    values.push(value);
    tests.push(`key ${operator} $${values.length}::text`);
  };
  // No key has a NUL, so that those behind a text with one are those behind what stands before it.
  if (after !== undefined) add(storedKey(after.split('\0', 1)[0] ?? '').key, '>');
  if (prefix !== '') {
    add(storedPrefix(prefix), '>=');
    // The first text behind all that begin with the prefix.
    add(prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1), '<');
  }
  return { where: tests.join(' AND '), values };
}

/** Null is no limit. */
function limitText(limit: number | undefined): string | null {
  return limit === undefined || !Number.isFinite(limit) ? null : `${Math.max(0, Math.floor(limit))}`;
}
