import { RATE_KINDS } from '../../base/model/rate-kinds.ts';
import type { Pass, TokenCounts, Usage } from '../../base/model/usage.ts';

const COUNTS: readonly (keyof TokenCounts)[] = ['tokens_in', 'tokens_out', ...RATE_KINDS.map(({ tokens }) => tokens)];

/** The larger of each count. */
export function mostOf(a: TokenCounts, b: TokenCounts): TokenCounts {
  const most: TokenCounts = { tokens_in: 0, tokens_out: 0 };
  for (const name of COUNTS) {
    const count = Math.max(a[name] ?? -1, b[name] ?? -1);
    if (count >= 0) most[name] = count;
  }
  return most;
}

/**
 * The usage of a call whose answer lists what single models used (decision 6.3). What the counts of the call hold beyond the entries that are a part of them is a pass of the
 * call's own model; everything else is in addition.
 * @param own the counts of the call
 */
export function allOf(own: TokenCounts | undefined, listed: readonly { readonly pass: Pass; readonly inside: boolean }[]): Usage {
  const rest: Pass = { model: undefined, tokens_in: 0, tokens_out: 0 };
  for (const name of COUNTS) {
    const total = own?.[name];
    if (total === undefined) continue;
    const held = listed.reduce((sum, { pass, inside }) => sum + (inside ? (pass[name] ?? 0) : 0), 0);
    if (total > held) rest[name] = total - held;
  }
  const passes = listed.map(({ pass }) => pass);
  if (rest.tokens_in + rest.tokens_out > 0) passes.unshift(rest);
  const usage: Usage = { tokens_in: 0, tokens_out: 0 };
  for (const name of COUNTS) {
    for (const pass of passes) {
      const count = pass[name];
      if (count !== undefined) usage[name] = Math.min((usage[name] ?? 0) + count, Number.MAX_SAFE_INTEGER);
    }
  }
  // One pass of the call's own model says nothing that the counts do not.
  if (passes.length > 1 || passes[0]?.model !== undefined || passes[0]?.tool !== undefined) usage.passes = passes;
  return usage;
}
