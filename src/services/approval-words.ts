import { timestamp } from '../base/lib/clock.ts';
import type { Approval } from '../base/model/approval.ts';

/**
 * What a yes does, in words; undefined where none can be said or used any more.
 * @param approval as it counts now
 * @param now epoch milliseconds: when the yes would be said
 */
export function onApproval(
  { status, created_at: createdAt, expires_at: expiresAt, executed_at: executedAt }: Approval,
  now: number,
): string | undefined {
  if (status === 'pending') return `allows one identical request until ${timestamp(now + Date.parse(expiresAt) - Date.parse(createdAt))}`;
  return status === 'approved' && executedAt === undefined ? `allows one identical request until ${expiresAt}` : undefined;
}
