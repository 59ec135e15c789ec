import type { ChangedRow } from './tail.ts';

/**
 * Rows of the index with what the tail changed laid over them, in key order. `stored` yields keys with the letter of
 * their kind in front; the result is without it.
 * @param changed in key order; an undefined value is a deletion. It may end behind the `limit`th row that is none
 */
export async function mergeRows(
  stored: AsyncIterable<readonly [key: string, value: string]>,
  changed: readonly ChangedRow[],
  { limit }: { readonly limit: number },
): Promise<readonly (readonly [key: string, value: string])[]> {
  const merged: (readonly [string, string])[] = [];
  let next = 0;
  /** Takes what was changed and stands before a key, or at it. */
  const takeChanged = (upTo: string | undefined): void => {
    for (; next < changed.length && merged.length < limit; next += 1) {
      const [key, value] = changed[next] ?? ['', undefined];
      if (upTo !== undefined && key > upTo) return;
      if (value !== undefined) merged.push([key, value]);
    }
  };
  if (limit > 0) {
    for await (const [lettered, value] of stored) {
      const key = lettered.slice(1);
      takeChanged(key);
      if (merged.length >= limit) break;
      if (changed[next - 1]?.[0] !== key) merged.push([key, value]);
      if (merged.length >= limit) break;
    }
  }
  takeChanged(undefined);
  return merged;
}
