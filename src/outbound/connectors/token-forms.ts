import type { TokenCounts } from '../../base/model/usage.ts';

/** What stands beside the counts of one usage object, and shows what they mean. */
export interface CountForm {
  /** The format has no output that is counted. */
  readonly fixedOut: boolean;
  readonly hasIn: boolean;
  readonly hasOut: boolean;
  readonly total: number | undefined;
  readonly inBeside: number;
  readonly outBeside: number;
  readonly reasoningBeside: boolean;
  readonly reasoningUntold: boolean;
  readonly restIn: boolean;
}

/**
 * The tokens that counts mean (decision 6.3). Vendors of one format count alike under the same names but for a few things, which show in the counts themselves, so that
 * no host has to be known: reasoning may be missing in the count of output, cached input or sound in that of the input, and a total may hold what neither does. Where the counts leave it open the
 * dearer meaning holds.
 * @param counts as they stand in the answer; changed
 */
export function meant(counts: TokenCounts, form: CountForm): TokenCounts {
  const { fixedOut, total, inBeside, outBeside } = form;
  const stated = counts.tokens_out;
  // A total alone may all be output, which costs more; beside a count of one side it tells the other.
  if (total !== undefined && (fixedOut || (!form.hasIn && form.hasOut))) counts.tokens_in = Math.max(counts.tokens_in, total - stated);
  if (inBeside > 0 && total !== undefined && total >= counts.tokens_in + stated + inBeside) counts.tokens_in += inBeside;
  if (fixedOut) return counts;
  const reasoning = counts.reasoning_tokens_out ?? 0;
  let output = bounded(stated + outBeside);
  // Reasoning cannot be a part of what is smaller.
  const isBeside = reasoning > output || form.reasoningBeside || (form.reasoningUntold && total === undefined);
  if (isBeside) output = bounded(output + reasoning);
  if (total !== undefined && form.restIn && total - output > counts.tokens_in) counts.tokens_in = total - output;
  if (total !== undefined && total - counts.tokens_in > output) {
    if (reasoning === 0) counts.reasoning_tokens_out = total - counts.tokens_in - output;
    output = total - counts.tokens_in;
  }
  counts.tokens_out = output;
  return counts;
}

function bounded(count: number): number {
  return Math.min(count, Number.MAX_SAFE_INTEGER);
}
