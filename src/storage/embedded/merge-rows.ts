/**
 * Rows of the index with what the tail changed laid over them, in key order. `stored` yields keys with the letter of their kind in front; the result is
 * without it. An undefined value in `changed` is a deletion.
 */
export async function mergeRows(
  stored: AsyncIterable<readonly [key: string, value: string]>,
  changed: ReadonlyMap<string, string | undefined>,
  page: { readonly after: string | undefined; readonly limit: number },
): Promise<readonly (readonly [key: string, value: string])[]> {
  const { after, limit } = page;
  const merged: (readonly [string, string])[] = [];
  const overlay = [...changed].filter(([key]) => after === undefined || key > after).sort(([a], [b]) => (a < b ? -1 : 1));
  let next = 0;
  const takeOverlay = (before: string | undefined): void => {
    for (; next < overlay.length && merged.length < limit; next += 1) {
      const [key, value] = overlay[next] ?? ['', undefined];
      if (before !== undefined && key >= before) return;
      if (value !== undefined) merged.push([key, value]);
    }
  };
  if (limit > 0) {
    for await (const [lettered, value] of stored) {
      const key = lettered.slice(1);
      takeOverlay(key);
      if (merged.length >= limit) break;
      if (!changed.has(key)) merged.push([key, value]);
      if (merged.length >= limit) break;
    }
  }
  takeOverlay(undefined);
  return merged;
}
