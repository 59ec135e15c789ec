import type { Config } from '../base/config/config.ts';
import { FetchedVersions } from '../link/fetched-versions.ts';
import { HeldPlan } from '../link/held-plan.ts';
import { RemoteAddons } from '../link/remote-addons.ts';
import { RemoteKeys } from '../link/remote-keys.ts';
import { RemoteOverlays } from '../link/remote-overlays.ts';
import { RemotePolicy } from '../link/remote-policy.ts';
import type { OrgPlanService } from '../services/people/org-plans.ts';
import type { AddonService } from '../services/policy/addons.ts';
import type { PolicyService } from '../services/policy/policies.ts';
import type { Ground } from './ground.ts';
import { remoteName } from './remote-name.ts';

/** What policy is made of where a control plane gives it. */
export interface RemotePolicies {
  readonly keys: RemoteKeys;
  readonly policy: RemotePolicy;
  readonly addons: RemoteAddons;
  readonly overlays: RemoteOverlays;
  readonly plan: HeldPlan;
}

/** Opens them with what was fetched last, which is in force from then on; undefined without a control plane. */
export async function openRemotePolicies(
  { cpAddr, orgId }: Config,
  { store, clock, log, events }: Ground,
  { policies, addons, orgPlans }: { readonly policies: PolicyService; readonly addons: AddonService; readonly orgPlans: OrgPlanService },
): Promise<RemotePolicies | undefined> {
  // The settings refuse the one without the other.
  const from = remoteName({ cpAddr, orgId });
  if (from === undefined || orgId === undefined) return undefined;
  const keys = await RemoteKeys.open(store);
  return {
    keys,
    policy: await RemotePolicy.open({ store, clock, log, events, policies, keys, orgId }),
    addons: await RemoteAddons.open({ store, log, addons, orgId }),
    overlays: new RemoteOverlays({ store, orgId, versions: await FetchedVersions.open(store, from), policies, keys }),
    plan: new HeldPlan({ log, orgId, policies, orgPlans }),
  };
}
