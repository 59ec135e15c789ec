export const HOUR_MS = 3_600_000;

/** Sums over action records. Money in pico-dollars. */
export interface UsageSum {
  readonly requests: bigint;
  readonly tokensIn: bigint;
  readonly tokensOut: bigint;
  readonly costPico: bigint;
  /** Of the input, what the provider has read from a cache. */
  readonly cachedIn: bigint;
  /** How many are without usage, and what the gateway charged them all the same (decision 6.17). */
  readonly withoutUsage: bigint;
  readonly withoutUsagePico: bigint;
  /** How many were priced by default, and what they cost. */
  readonly byDefault: bigint;
  readonly byDefaultPico: bigint;
}

export const NO_USAGE: UsageSum = {
  requests: 0n,
  tokensIn: 0n,
  tokensOut: 0n,
  costPico: 0n,
  cachedIn: 0n,
  withoutUsage: 0n,
  withoutUsagePico: 0n,
  byDefault: 0n,
  byDefaultPico: 0n,
};

/** Adds up some rows of usage. */
export function sumUsage(rows: Iterable<UsageSum>): UsageSum {
  let sum = NO_USAGE;
  for (const row of rows) sum = plus(sum, row);
  return sum;
}

/** The sum of two. */
export function plus(a: UsageSum, b: UsageSum): UsageSum {
  return joined(a, b, (one, other) => one + other);
}

/** The difference of two. */
export function minus(a: UsageSum, b: UsageSum): UsageSum {
  return joined(a, b, (one, other) => one - other);
}

/** Whether nothing was counted. */
export function isNothing(sum: UsageSum): boolean {
  return Object.values(sum).every((amount) => amount === 0n);
}

/** Each member is named, so that all sums have one shape. */
function joined(a: UsageSum, b: UsageSum, of: (one: bigint, other: bigint) => bigint): UsageSum {
  return {
    requests: of(a.requests, b.requests),
    tokensIn: of(a.tokensIn, b.tokensIn),
    tokensOut: of(a.tokensOut, b.tokensOut),
    costPico: of(a.costPico, b.costPico),
    cachedIn: of(a.cachedIn, b.cachedIn),
    withoutUsage: of(a.withoutUsage, b.withoutUsage),
    withoutUsagePico: of(a.withoutUsagePico, b.withoutUsagePico),
    byDefault: of(a.byDefault, b.byDefault),
    byDefaultPico: of(a.byDefaultPico, b.byDefaultPico),
  };
}
