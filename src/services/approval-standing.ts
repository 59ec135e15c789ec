import { timestamp } from '../base/lib/clock.ts';
import type { Approval } from '../base/model/approval.ts';
import type { AskedByRule } from '../decide/policy/asking-rules.ts';
import { coverOf } from './approval-fit.ts';

/** Of one request that are looked at when it comes again: those that stand, and spent ones, which a call under way may give back. */
const MAX_STANDING = 100;
const MAX_SPENT = 4;

/** What stands of a request in place of another question. */
export interface StandingApproval {
  readonly kind: 'waiting' | 'approved' | 'rejected';
  readonly approval: Approval;
}

/** When approvals are looked at. */
export interface Moment {
  /** Epoch milliseconds. */
  readonly now: number;
  /** How long a denied or expired one rejects identical requests. */
  readonly rejectForMs: number;
}

/** One as it counts now: the time of one that waits, or was given and not used, may be over. @param now epoch milliseconds */
export function asOf(approval: Approval, now: number): Approval {
  const mayExpire = approval.status === 'pending' || (approval.status === 'approved' && approval.executed_at === undefined);
  return mayExpire && Date.parse(approval.expires_at) <= now ? { ...approval, status: 'expired' } : approval;
}

/** Whether a denied or expired one still rejects the same request. @param approval as it counts now */
export function rejects({ status, decided_at: decidedAt, expires_at: expiresAt }: Approval, { now, rejectForMs }: Moment): boolean {
  if (status === 'denied') return Date.parse(decidedAt ?? expiresAt) + rejectForMs > now;
  return status === 'expired' && Date.parse(expiresAt) + rejectForMs > now;
}

/**
 * What stands of a request: a denial before all, then what was given or waits for the rules that ask, then one that was not decided or used in time.
 * @param same all of the same request, the newest first
 * @returns else the rules for which nothing stands
 */
export function standingOf(
  same: readonly Approval[],
  rules: readonly AskedByRule[],
  moment: Moment,
): StandingApproval | readonly AskedByRule[] {
  const unspent = same.filter(isUnspent).map((approval) => asOf(approval, moment.now));
  const rejecting = unspent.filter((approval) => rejects(approval, moment));
  const denied = rejecting.find(({ status }) => status === 'denied');
  if (denied) return { kind: 'rejected', approval: denied };
  const having = (wanted: Approval['status']) => unspent.filter(({ status }) => status === wanted);
  const { by, open } = coverOf(rules, [...having('approved'), ...having('pending')]);
  const [first] = by;
  if (open.length === 0 && first) {
    const waiting = by.find(({ status }) => status === 'pending');
    return waiting ? { kind: 'waiting', approval: waiting } : { kind: 'approved', approval: first };
  }
  const [expired] = rejecting;
  return expired ? { kind: 'rejected', approval: expired } : open;
}

/** The ids of those that are looked at when their request comes again, the newest first. @param all the newest first */
export function keptOf(all: readonly Approval[], moment: Moment): readonly string[] {
  const standing = all.filter((approval) => isUnspent(approval) && stands(asOf(approval, moment.now), moment)).slice(0, MAX_STANDING);
  const spent = all.filter((approval) => !isUnspent(approval)).slice(0, MAX_SPENT);
  const kept = new Set([...standing, ...spent]);
  return all.filter((approval) => kept.has(approval)).map(({ approval_id: id }) => id);
}

function stands(approval: Approval, moment: Moment): boolean {
  return approval.status === 'pending' || approval.status === 'approved' || rejects(approval, moment);
}

function isUnspent({ executed_at: at }: Approval): boolean {
  return at === undefined;
}

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
