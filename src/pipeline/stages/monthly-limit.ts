import { when } from '../../base/lib/maybe.ts';
import { isRefused } from '../../services/money/allowance.ts';
import type { CallServices } from '../parts/call-services.ts';
import { limitRefusal } from '../parts/limits-of-call.ts';
import type { Settlement } from '../parts/settlement.ts';
import { defineStage } from '../parts/stage.ts';

/**
 * The org's requests of this month (specification, "Errors", "Other conditions"). What is no call counts in no limit
 * (decision 7.3).
 */
export const monthlyLimit = defineStage({
  name: 'monthly limit',
  reads: ['arrival', 'claims', 'target'],
  run({ arrival, claims, target }, { allowance }, control) {
    if (!target.isCall) return undefined;
    const { orgId, workloadId } = claims;
    return when(allowance.take({ id: `${arrival.recordId} month`, orgId, workloadId, month: true }), (grant) => {
      if (grant === undefined) return undefined;
      if (isRefused(grant)) return limitRefusal(grant, 0n, claims, arrival.line);
      control.settle(countedRequest(grant.id, allowance));
      return undefined;
    });
  },
});

/** It counts when its record is stored, and not at all when there is none. */
function countedRequest(id: string, allowance: CallServices['allowance']): Settlement {
  const giveBack = () => allowance.giveBack(id);
  return { effects: () => allowance.settle(id), stored: () => allowance.stored(id), failed: giveBack, abandoned: giveBack };
}
