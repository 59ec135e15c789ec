/* How sums of usage are told, on every face. */
import type { z } from 'zod';
import { usdFromPico } from '../base/lib/money.ts';
import type { UsageSum } from '../services/reports/usage-sums.ts';
import { count, usd } from './shapes.ts';

/** Of a breakdown, a part of which is rarely in doubt: left out where there is none (decision 6.17). */
export const DOUBTS = {
  requests_without_usage: count.optional().meta({ description: 'Of which the provider told no usage; absent: none' }),
  cost_without_usage_usd: usd.optional().meta({ description: 'What the gateway charged them all the same, approximated' }),
  requests_priced_by_default: count.optional().meta({ description: 'For which the price list has no rate; absent: none' }),
  cost_priced_by_default_usd: usd.optional().meta({ description: 'What they cost at the default rates' }),
};

/** The same of a whole. */
export const TOTAL_DOUBTS = {
  total_requests_without_usage: count
    .optional()
    .meta({ description: 'Of which the provider told no usage: what they cost is unknown; absent: none' }),
  total_cost_without_usage_usd: usd.optional().meta({ description: 'What the gateway charged them all the same, approximated' }),
  total_requests_priced_by_default: count.optional().meta({ description: 'For which the price list has no rate; absent: none' }),
  total_cost_priced_by_default_usd: usd.optional().meta({ description: 'What they cost at the default rates' }),
};

type Doubts = z.output<z.ZodObject<typeof DOUBTS>>;
type TotalDoubts = z.output<z.ZodObject<typeof TOTAL_DOUBTS>>;

/** What of a sum is in doubt. */
export function shownDoubts({ withoutUsage, withoutUsagePico, byDefault, byDefaultPico }: UsageSum): Doubts {
  return {
    ...(withoutUsage === 0n ? {} : { requests_without_usage: Number(withoutUsage), cost_without_usage_usd: usdFromPico(withoutUsagePico) }),
    ...(byDefault === 0n ? {} : { requests_priced_by_default: Number(byDefault), cost_priced_by_default_usd: usdFromPico(byDefaultPico) }),
  };
}

/** The same of a whole. */
export function shownTotalDoubts(sum: UsageSum): TotalDoubts {
  return Object.fromEntries(Object.entries(shownDoubts(sum)).map(([name, amount]) => [`total_${name}`, amount]));
}
