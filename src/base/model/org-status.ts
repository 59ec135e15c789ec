/** States of an org (specification, "Org status"). `terminated` is set by a control plane only. */
export const ORG_STATES = ['active', 'suspended', 'terminated'] as const;
export type OrgStanding = (typeof ORG_STATES)[number];

export interface OrgStatus {
  readonly org_id: string;
  readonly status: OrgStanding;
  /** Absent when the org is active, or nobody gave a reason. */
  readonly suspended_reason?: string;
}
