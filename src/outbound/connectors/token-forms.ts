import type { PartTokens, TokenCounts } from '../../base/model/usage.ts';

/** Counts of one usage object, as they stand there. */
export interface Counted {
  readonly tokensIn: number | undefined;
  readonly tokensOut: number | undefined;
  /** The format has no output that is counted. */
  readonly fixedOut: boolean;
  readonly total: number | undefined;
  readonly inBeside: number;
  readonly outBeside: number;
  readonly reasoningBeside: boolean;
  readonly reasoningUntold: boolean;
  readonly parts: readonly (readonly [PartTokens, number | undefined])[];
}

/**
 * The tokens that counts mean (decision 6.3). Vendors of one format count alike under the same names but for three things, which show in the counts themselves, so that
 * no host has to be known: reasoning may be missing in the count of output, cached input in that of the input, and a total may hold what neither does. Where the counts leave it open the
 * dearer meaning holds.
 * @returns undefined when neither input nor output was counted
 */
export function tokensOf(counted: Counted): TokenCounts | undefined {
  const { fixedOut, total, inBeside, outBeside, parts } = counted;
  const hasOut = counted.tokensOut !== undefined && !fixedOut;
  if (counted.tokensIn === undefined && !hasOut && total === undefined) return undefined;
  const stated = counted.tokensOut ?? 0;
  let input = counted.tokensIn ?? 0;
  // A total alone may all be output, which costs more; beside a count of one side it tells the other.
  if (total !== undefined && (fixedOut || (counted.tokensIn === undefined && hasOut))) input = Math.max(input, total - stated);
  if (inBeside > 0 && total !== undefined && total >= input + stated + inBeside) input += inBeside;
  const counts: TokenCounts = { tokens_in: input, tokens_out: stated };
  for (const [part, count] of parts) if (count !== undefined) counts[part] = count;
  if (fixedOut) return counts;
  const reasoning = counts.reasoning_tokens_out ?? 0;
  let output = bounded(stated + outBeside);
  // It cannot be a part of what is smaller.
  const isBeside = counted.reasoningBeside || reasoning > output || (counted.reasoningUntold && total === undefined);
  if (isBeside) output = bounded(output + reasoning);
  if (total !== undefined && total - input > output) {
    if (reasoning === 0) counts.reasoning_tokens_out = total - input - output;
    output = total - input;
  }
  counts.tokens_out = output;
  return counts;
}

function bounded(count: number): number {
  return Math.min(count, Number.MAX_SAFE_INTEGER);
}
