import type { ChangedRow } from './tail.ts';

/**
 * Rows of the index with what the tail changed laid over them, in key order. `stored` yields keys with the letter of
 * their kind in front; the result is without it.
 * @param changed in key order; an undefined value is a deletion. It may end behind the `limit`th row that is none
 * @param page it ends with the `limit`th row, or with the one by which it has so many UTF-16 units of values
 */
export async function mergeRows(
  stored: AsyncIterable<readonly [key: string, value: string]>,
  changed: readonly ChangedRow[],
  { limit, units = Number.POSITIVE_INFINITY }: { readonly limit: number; readonly units?: number },
): Promise<readonly (readonly [key: string, value: string])[]> {
  const merged: (readonly [string, string])[] = [];
  let next = 0;
  let size = 0;
  const isFull = (): boolean => merged.length >= limit || size >= units;
  const take = (key: string, value: string): void => {
    merged.push([key, value]);
    size += value.length;
  };
  /** Takes what was changed and stands before a key, or at it. */
  const takeChanged = (upTo: string | undefined): void => {
    for (; next < changed.length && !isFull(); next += 1) {
      const [key, value] = changed[next] ?? ['', undefined];
      if (upTo !== undefined && key > upTo) return;
      if (value !== undefined) take(key, value);
    }
  };
  if (limit > 0) {
    for await (const [lettered, value] of stored) {
      const key = lettered.slice(1);
      takeChanged(key);
      if (isFull()) break;
      if (changed[next - 1]?.[0] !== key) take(key, value);
      if (isFull()) break;
    }
  }
  takeChanged(undefined);
  return merged;
}
