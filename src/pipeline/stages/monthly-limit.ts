import { when } from '../../base/lib/maybe.ts';
import type { CountedRequest } from '../../services/money/monthly-requests.ts';
import type { MonthlyRequests } from '../parts/call-services.ts';
import { deny } from '../parts/refusal.ts';
import type { Settlement } from '../parts/settlement.ts';
import { defineStage } from '../parts/stage.ts';

/** The org's requests of this month (specification, "Errors", "Other conditions"). What is no call counts in no limit (decision 7.3). */
export const monthlyLimit = defineStage({
  name: 'monthly limit',
  reads: ['claims', 'target'],
  run({ claims, target }, { monthlyRequests }, control) {
    if (!target.isCall) return undefined;
    return when(monthlyRequests.count(claims.orgId), (counted) => {
      if (counted === 'over') return deny('monthly_request_limit_exceeded', 'monthly_request_limit_exceeded');
      if (counted !== undefined) control.settle(settlementOf(counted, monthlyRequests));
      return undefined;
    });
  },
});

/** It counts when its record is stored, and not at all when there is none. */
function settlementOf(counted: CountedRequest, requests: MonthlyRequests): Settlement {
  const uncount = (): void => requests.uncount(counted);
  return { effects: () => [requests.effect(counted)], failed: uncount, abandoned: uncount };
}
