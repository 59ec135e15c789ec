import { ERROR_CODES } from '../../base/model/error-codes.ts';
import type { Authentication } from '../parts/call-services.ts';
import type { Arrived, Claims } from '../parts/parts.ts';
import { deny, Refusal } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

/** What a suspended org is told on every door, whatever its clients expect of an error (specification, "Org status"; decision 8.1). */
const SUSPENDED_BODY = { error: 'org_suspended' };

/** With `GW_ORG_ID` set, a request for another org is denied (decision 4.1); one of an org that is not active is (decision 4.6), and any where the control plane is missed too long (decision 13.8). */
export const org = defineStage({
  name: 'org',
  reads: ['arrival', 'claims'],
  run({ arrival, claims }, { settings, orgs, authenticator, controlPlane }) {
    const { orgId } = claims;
    if (settings.orgId !== undefined && settings.orgId !== orgId) {
      return deny('org_mismatch', `This gateway does not serve org ${orgId}.`);
    }
    controlPlane?.awaken();
    if (!orgs.isActive(orgId)) {
      controlPlane?.checkInSoon();
      return suspended(arrival, claims, authenticator);
    }
    return controlPlane?.barsAll === true ? unreachable() : undefined;
  },
});

/** Past the grace period of an org that is strict (decision 13.8). */
function unreachable(): Refusal {
  const { status } = ERROR_CODES.control_plane_unreachable;
  return new Refusal({
    decision: 'error',
    status,
    reason: 'The control plane has not been reached for longer than the grace period of this org.',
    reasonCodes: ['control_plane_unreachable'],
    errorCode: 'control_plane_unreachable',
  });
}

function suspended({ line, head }: Arrived, { orgId, workloadId }: Claims, authenticator: Authentication): Refusal {
  authenticator.failed({
    surface: line === 'direct' ? 'api' : 'proxy',
    head,
    presented: undefined,
    reason: 'suspended',
    orgId,
    workloadId,
  });
  return deny('org_suspended', `The org ${orgId} is suspended.`, { body: SUSPENDED_BODY });
}
