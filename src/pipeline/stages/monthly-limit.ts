import { deny } from '../refusals.ts';
import type { Stage } from '../stage.ts';

/** The org's requests of this month (specification, "Errors", "Other conditions"). What is no call counts in no limit (decision 7.3). */
export const monthlyLimit: Stage = {
  name: 'monthly limit',
  run(exchange, pipeline) {
    if (!exchange.isCall) return undefined;
    const counted = pipeline.monthlyRequests.count(exchange.orgId);
    if (counted === 'over') return deny('monthly_request_limit_exceeded', 'monthly_request_limit_exceeded');
    if (counted.length > 0) exchange.settlements.push(() => counted);
    return undefined;
  },
};
