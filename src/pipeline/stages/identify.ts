import { readIdentity } from '../../inbound/normalise/identity.ts';
import { defineStage } from '../parts/stage.ts';

/** Who calls, as the head of a proxied request says it (specification, "Transparent proxy mode"). On the structured API that stands in the body. */
export const identify = defineStage({
  name: 'identify',
  reads: ['arrival'],
  makes: ['claims'],
  run({ arrival }, { settings, workloads }) {
    const identity = readIdentity(arrival.head);
    const orgId = identity.orgId ?? settings.orgId ?? 'default';
    return {
      claims: {
        requestId: arrival.recordId,
        orgId,
        workloadId: identity.workloadId ?? workloads.defaultWorkloadId(orgId),
        callerId: identity.callerId,
        attribution: identity.attribution,
        delegationId: identity.delegationId,
        idempotencyKey: undefined,
        identity,
      },
    };
  },
});
