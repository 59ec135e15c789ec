import { deny } from '../refusals.ts';
import type { Stage } from '../stage.ts';

/** With `GW_ORG_ID` set, a request for another org is denied (decision 4.1). */
export const org: Stage = {
  name: 'org',
  run(exchange, { settings }) {
    if (settings.orgId === undefined || settings.orgId === exchange.orgId) return undefined;
    return deny('org_mismatch', `This gateway does not serve org ${exchange.orgId}.`);
  },
};
