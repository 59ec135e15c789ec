import { sha256Hex } from '../../base/lib/sha256.ts';
import { type Sql, textArray } from './sql.ts';

/*
 * An entry of an index holds less than three kilobytes, and a key may be of any length: callers name labels in any
 * script. What is longer than this stands in its tables by its beginning and a digest, and whole in `gw_long_keys`.
 */

/** Nothing that stands in a table as it is has more characters. */
const LONGEST = 1_400;

/** A key as the tables have it. */
export interface StoredKey {
  readonly key: string;
  /** The whole of it, where that is longer. */
  readonly long: string | undefined;
}

export function storedKey(key: string): StoredKey {
  if (key.length <= LONGEST) return { key, long: undefined };
  return { key: key.slice(0, LONGEST) + sha256Hex(key), long: key };
}

/** How keys that begin so begin in the tables. @throws RangeError for more than any key begins with there */
export function storedPrefix(prefix: string): string {
  if (prefix.length > LONGEST) throw new RangeError(`A prefix has at most ${LONGEST} characters`);
  return prefix;
}

/** Rows with their keys as they were given. */
export async function withWholeKeys<R extends { readonly key: string }>(sql: Sql, rows: readonly R[]): Promise<readonly R[]> {
  const long = rows.flatMap(({ key }) => (key.length > LONGEST ? [key] : []));
  if (long.length === 0) return rows;
  const found = await sql.query('SELECT stored, key FROM gw_long_keys WHERE stored = ANY ($1::text::text[])', [textArray(long)]);
  const whole = new Map(found.map(({ stored, key }) => [stored, key]));
  return rows.map((row) => ({ ...row, key: whole.get(row.key) ?? row.key }));
}
