import type { TokenCounts } from '../../base/model/usage.ts';

/** What stands beside the counts of one usage object, and shows what they mean. */
export interface CountForm {
  /** The format has no output that is counted. */
  readonly fixedOut: boolean;
  readonly hasIn: boolean;
  readonly hasOut: boolean;
  readonly total: number | undefined;
  readonly inBeside: number;
  readonly inUntold: boolean;
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
  if (inBeside > 0 && (total === undefined ? form.inUntold : total >= counts.tokens_in + stated + inBeside)) counts.tokens_in += inBeside;
  if (fixedOut) return counts;
  const output = bounded(stated + outBeside);
  counts.tokens_out = hasReasoningBeside(counts, output, form) ? bounded(output + (counts.reasoning_tokens_out ?? 0)) : output;
  if (total !== undefined) addRest(counts, total, form.restIn);
  return counts;
}

/** Reasoning cannot be a part of what is smaller. */
function hasReasoningBeside({ reasoning_tokens_out: reasoning = 0 }: TokenCounts, output: number, form: CountForm): boolean {
  return reasoning > output || form.reasoningBeside || (form.reasoningUntold && form.total === undefined);
}

/** What a total holds beyond both counts is reasoning, or what the model heard. */
function addRest(counts: TokenCounts, total: number, restIn: boolean): void {
  const rest = total - counts.tokens_in - counts.tokens_out;
  if (rest <= 0) return;
  if (restIn) {
    counts.tokens_in += rest;
    return;
  }
  if ((counts.reasoning_tokens_out ?? 0) === 0) counts.reasoning_tokens_out = rest;
  counts.tokens_out += rest;
}

function bounded(count: number): number {
  return Math.min(count, Number.MAX_SAFE_INTEGER);
}
