import { deny } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

/** With `GW_ORG_ID` set, a request for another org is denied (decision 4.1). */
export const org = defineStage({
  name: 'org',
  reads: ['claims'],
  run({ claims: { orgId } }, { settings }) {
    if (settings.orgId === undefined || settings.orgId === orgId) return undefined;
    return deny('org_mismatch', `This gateway does not serve org ${orgId}.`);
  },
});
