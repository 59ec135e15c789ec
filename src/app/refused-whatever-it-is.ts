import type { Config } from '../base/config/config.ts';
import type { NotReady } from '../base/model/not-ready.ts';
import { refusesAll } from '../decide/policy/refuses-all.ts';
import { NO_BUNDLE } from '../services/no-bundle.ts';
import type { OrgService } from '../services/orgs.ts';
import type { PolicyService } from '../services/policies.ts';

interface Judges {
  readonly policies: Pick<PolicyService, 'current'>;
  readonly orgs: Pick<OrgService, 'status'>;
  /** Undefined without a control plane. */
  readonly link: { readonly barsAll: boolean } | undefined;
}

/**
 * Why every call would be refused, whatever it is (decision 12.2): policy lets nothing through, or the gateway's org is not served. Without `GW_ORG_ID` what one org has laid
 * down says nothing of the others.
 */
export function refusedAnyway(
  { orgId, approvalEnabled }: Pick<Config, 'orgId' | 'approvalEnabled'>,
  { policies, orgs, link }: Judges,
): readonly NotReady[] {
  const reasons: NotReady[] = [];
  const { policy, bundle_id: bundleId, source } = policies.current(orgId);
  if (refusesAll(policy, approvalEnabled))
    reasons.push(source === 'control_plane' && bundleId === NO_BUNDLE.file ? 'no_bundle' : 'policy_denies_all');
  const status = orgId === undefined ? 'active' : orgs.status(orgId).status;
  if (status !== 'active') reasons.push(`org_${status}`);
  if (link?.barsAll === true) reasons.push('control_plane_unreachable');
  return reasons;
}
