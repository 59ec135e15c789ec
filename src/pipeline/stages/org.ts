import { ERROR_CODES } from '../../base/model/error-codes.ts';
import { deny, Refusal } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';
import { suspended } from '../parts/suspended.ts';

/** With `GW_ORG_ID` set, a request for another org is denied (decision 4.1); one of an org that is not active is (decision 4.6), and any where the control plane is missed too long (decision 13.8). */
export const org = defineStage({
  name: 'org',
  reads: ['arrival', 'claims'],
  run({ arrival, claims }, { settings, orgs, authenticator, controlPlane }) {
    const { orgId, workloadId } = claims;
    if (settings.orgId !== undefined && settings.orgId !== orgId) {
      return deny('org_mismatch', `This gateway does not serve org ${orgId}.`);
    }
    controlPlane?.awaken();
    if (!orgs.isActive(orgId)) {
      controlPlane?.checkInSoon();
      const { line, head } = arrival;
      return suspended({ surface: line === 'direct' ? 'api' : 'proxy', head, orgId, workloadId }, authenticator);
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
