import type { Config } from '../base/config/config.ts';
import { HeldPlan } from '../link/held-plan.ts';
import { RemoteAddons } from '../link/remote-addons.ts';
import { RemoteKeys } from '../link/remote-keys.ts';
import { RemotePolicy } from '../link/remote-policy.ts';
import type { Ground } from './ground.ts';
import type { AddonService } from '../services/addons.ts';
import type { OrgPlanService } from '../services/org-plans.ts';
import type { PolicyService } from '../services/policies.ts';

/** What policy is made of where a control plane gives it. */
export interface RemotePolicies {
  readonly keys: RemoteKeys;
  readonly policy: RemotePolicy;
  readonly addons: RemoteAddons;
  readonly plan: HeldPlan;
}

/** Opens them with what was fetched last, which is in force from then on; undefined without a control plane. */
export async function openRemotePolicies(
  { cpAddr, orgId }: Config,
  { store, clock, log, events }: Ground,
  { policies, addons, orgPlans }: { readonly policies: PolicyService; readonly addons: AddonService; readonly orgPlans: OrgPlanService },
): Promise<RemotePolicies | undefined> {
  // The settings refuse the one without the other.
  if (cpAddr === undefined || orgId === undefined) return undefined;
  const keys = await RemoteKeys.open(store);
  return {
    keys,
    policy: await RemotePolicy.open({ store, clock, log, events, policies, keys, orgId }),
    addons: await RemoteAddons.open({ store, log, addons, orgId }),
    plan: new HeldPlan({ log, orgId, policies, orgPlans }),
  };
}
