export const HOUR_MS = 3_600_000;

/** Sums over action records. Money in pico-dollars. */
export interface UsageSum {
  readonly requests: bigint;
  readonly tokensIn: bigint;
  readonly tokensOut: bigint;
  readonly costPico: bigint;
}

export const NO_USAGE: UsageSum = { requests: 0n, tokensIn: 0n, tokensOut: 0n, costPico: 0n };

/** Adds up some rows of usage. */
export function sumUsage(rows: Iterable<UsageSum>): UsageSum {
  let sum = NO_USAGE;
  for (const row of rows) sum = plus(sum, row);
  return sum;
}

/** The sum of two. */
export function plus(a: UsageSum, b: UsageSum): UsageSum {
  return {
    requests: a.requests + b.requests,
    tokensIn: a.tokensIn + b.tokensIn,
    tokensOut: a.tokensOut + b.tokensOut,
    costPico: a.costPico + b.costPico,
  };
}
