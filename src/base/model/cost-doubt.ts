import type { ExecutionRecord, Metering } from './execution-record.ts';

/** In which way the cost of a record is not the provider's own count at a known price (decision 6.17). */
export interface CostDoubt {
  /**
   * The provider gave no usage, or not all of it: the cost is unknown and 0, or it is what the gateway has
   * approximated.
   */
  readonly withoutUsage: boolean;
  /** For something that was charged the price list has no rate, so that the default rates were taken. */
  readonly byDefault: boolean;
}

type Metered = Pick<Metering, 'cost_usd'> & Partial<Pick<Metering, 'usage_reported' | 'rate_source' | 'billing' | 'rate_in' | 'rate_out'>>;

/** What of a record says so. */
export interface DoubtedRecord extends Pick<ExecutionRecord, 'upstream_status' | 'usage_record_id'> {
  readonly metering?: Metered | undefined;
}

const NO_DOUBT: CostDoubt = { withoutUsage: false, byDefault: false };

/**
 * Whether the cost of a record is certain. Certain is what costs nothing whatever was used: what an upstream refused,
 * what a plan pays for, what is free, and a call whose response has a record of its own. A call of which nothing is
 * metered is no question either.
 */
export function costDoubt({ metering, upstream_status: status, usage_record_id: later }: DoubtedRecord): CostDoubt {
  if (metering === undefined) return NO_DOUBT;
  const byDefault = metering.rate_source === 'default' && metering.cost_usd !== '0';
  if (metering.usage_reported === true && !byDefault) return NO_DOUBT;
  const certain =
    metering.usage_reported === true ||
    metering.billing === 'plan' ||
    later !== undefined ||
    (status !== undefined && status >= 400) ||
    (metering.rate_in === '0' && metering.rate_out === '0' && metering.cost_usd === '0');
  return { withoutUsage: !certain, byDefault };
}

/** Names of {@link CostDoubt} as logs and lists have them. */
export const DOUBT_NAMES = ['no_usage', 'default_rate'] as const;
export type DoubtName = (typeof DOUBT_NAMES)[number];

/** The doubts of a record by name; undefined for nearly every one. */
export function doubtNames(record: DoubtedRecord): readonly DoubtName[] | undefined {
  const { withoutUsage, byDefault } = costDoubt(record);
  if (!withoutUsage && !byDefault) return undefined;
  return [...(withoutUsage ? (['no_usage'] as const) : []), ...(byDefault ? (['default_rate'] as const) : [])];
}
