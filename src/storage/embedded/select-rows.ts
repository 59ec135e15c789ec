import type { RecordFilters } from '../contract/record-query.ts';
import { type Codes, comparablePico, type RecordColumns, textTests } from './record-columns.ts';

/** Rows that are still in question; used within one call only. */
let scratch = new Uint32Array(32_768);

/**
 * The first rows, or with `newestFirst` the last ones, of those between `from` and `to` (exclusive) of which all
 * filters are true, at most `limit`, in the order of the page. Column by column: a text that no row has ends it before
 * any row is looked at.
 */
export function selectRows(
  columns: RecordColumns,
  filters: RecordFilters,
  { from, to, limit, newestFirst }: { readonly from: number; readonly to: number; readonly limit: number; readonly newestFirst: boolean },
): readonly number[] {
  const passing: { readonly flags: Uint8Array; readonly column: number }[] = [];
  for (const [column, test] of textTests(filters)) {
    const flags = columns.passing(column, test);
    if (flags === undefined) return [];
    passing.push({ flags, column });
  }
  if (scratch.length < to - from) scratch = new Uint32Array((to - from) * 2);
  let count = 0;
  for (let row = from; row < to; row += 1) scratch[count++] = row;
  const { since, until, min_cost_usd: cost } = filters;
  if (since !== undefined) count = keepAtLeast(columns.times, since, count);
  if (until !== undefined) count = keepBelow(columns.times, until, count);
  for (const { flags, column } of passing) count = keepPassing(columns.codes(column), flags, count);
  if (cost !== undefined) count = keepAtLeast(columns.costs, comparablePico(cost), count);
  const wanted = newestFirst ? scratch.slice(Math.max(0, count - limit), count).reverse() : scratch.slice(0, Math.min(count, limit));
  return [...wanted];
}

function keepPassing(
  codes: { readonly array: Codes; readonly from: number; readonly stride: number },
  flags: Uint8Array,
  count: number,
): number {
  const { array, from, stride } = codes;
  let kept = 0;
  for (let at = 0; at < count; at += 1) {
    const row = scratch[at] ?? 0;
    if (flags[array[from + row * stride] ?? 0] === 1) scratch[kept++] = row;
  }
  return kept;
}

/** NaN is not at least anything. */
function keepAtLeast(numbers: Float64Array, least: number, count: number): number {
  let kept = 0;
  for (let at = 0; at < count; at += 1) {
    const row = scratch[at] ?? 0;
    if ((numbers[row] ?? Number.NaN) >= least) scratch[kept++] = row;
  }
  return kept;
}

function keepBelow(numbers: Float64Array, bound: number, count: number): number {
  let kept = 0;
  for (let at = 0; at < count; at += 1) {
    const row = scratch[at] ?? 0;
    if ((numbers[row] ?? Number.NaN) < bound) scratch[kept++] = row;
  }
  return kept;
}
