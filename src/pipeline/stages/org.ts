import type { Authentication } from '../parts/call-services.ts';
import type { Arrived, Claims } from '../parts/parts.ts';
import { deny, type Refusal } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

/** What a suspended org is told on every door, whatever its clients expect of an error (specification, "Org status"; decision 8.1). */
const SUSPENDED_BODY = { error: 'org_suspended' };

/** With `GW_ORG_ID` set, a request for another org is denied (decision 4.1); one of an org that is not active is (decision 4.6). */
export const org = defineStage({
  name: 'org',
  reads: ['arrival', 'claims'],
  run({ arrival, claims }, { settings, orgs, authenticator }) {
    const { orgId } = claims;
    if (settings.orgId !== undefined && settings.orgId !== orgId) {
      return deny('org_mismatch', `This gateway does not serve org ${orgId}.`);
    }
    return orgs.isActive(orgId) ? undefined : suspended(arrival, claims, authenticator);
  },
});

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
