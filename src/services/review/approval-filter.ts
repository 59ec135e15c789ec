import type { Approval, ApprovalStatus } from '../../base/model/approval.ts';

/** Which approvals a list has; what is undefined narrows nothing. */
export interface ApprovalFilter {
  readonly approvalId?: string | undefined;
  readonly orgId?: string | undefined;
  readonly workloadId?: string | undefined;
  readonly status?: ApprovalStatus | undefined;
}

/** @param approval as it counts now */
export function fitsApproval(approval: Approval, { approvalId, orgId, workloadId, status }: ApprovalFilter): boolean {
  return (
    (approvalId === undefined || approval.approval_id === approvalId) &&
    (orgId === undefined || approval.org_id === orgId) &&
    (workloadId === undefined || approval.workload_id === workloadId) &&
    (status === undefined || approval.status === status)
  );
}
