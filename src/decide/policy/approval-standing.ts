import { timestamp } from '../../base/lib/clock.ts';
import type { Approval, ApprovalDecision, ApprovalNeed } from '../../base/model/approval.ts';
import type { CompiledPolicy } from './compiled.ts';
import type { ApprovalTerms } from './effects.ts';
import type { AskingRule } from './facts.ts';
import type { MatchedRule } from './verdict.ts';

/**
 * Of one request that are looked at when it comes again: those that stand, and spent ones, which a call under way may
 * give back.
 */
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

/**
 * One as it counts now: the time of one that waits, or was given and not used, may be over.
 * @param now epoch milliseconds
 */
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
 * What stands of a request: a denial before all, then what was given or waits for the rules that ask, then one that was
 * not decided or used in time.
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

/** How many persons have still to say yes. */
export function missingOf({ required, group }: ApprovalNeed, decisions: readonly ApprovalDecision[]): number {
  const yes = decisions.filter(({ status, groups, decided_by_principal: by }) => {
    return status === 'approved' && (group === undefined || by.kind === 'admin' || groups?.includes(group) === true);
  });
  return Math.max(0, required - yes.length);
}

/**
 * How many have still to say yes before a request is approved, at most: fewer where one of them is in several of the
 * groups that are asked. Who is in a group counts where anybody may decide, too.
 */
export function stillMissing({ needs = [{ required: 1 }], decisions = [] }: Pick<Approval, 'needs' | 'decisions'>): number {
  const missing = (ofGroup: boolean): number =>
    needs.filter(({ group }) => (group !== undefined) === ofGroup).reduce((sum, need) => sum + missingOf(need, decisions), 0);
  return Math.max(missing(true), missing(false));
}

/**
 * What a yes does, in words; undefined where none can be said or used any more.
 * @param approval as it counts now
 * @param now epoch milliseconds: when the yes would be said
 */
export function onApproval(approval: Approval, now: number): string | undefined {
  const { status, created_at: createdAt, expires_at: expiresAt, executed_at: executedAt, held, needs, decisions = [] } = approval;
  if (status === 'pending') {
    const does =
      held === undefined
        ? `allows one identical request until ${timestamp(now + Date.parse(expiresAt) - Date.parse(createdAt))}`
        : 'sends the waiting request now';
    const missing = stillMissing(approval);
    if (missing <= 1) return does;
    const most = (needs?.filter(({ group }) => group !== undefined).length ?? 0) > 1 ? 'at most ' : '';
    return `counts as ${decisions.length + 1} of ${most}${decisions.length + missing}; the last one ${does}`;
  }
  return status === 'approved' && executedAt === undefined ? `allows one identical request until ${expiresAt}` : undefined;
}

/**
 * What makes two requests the same for whoever decides: the action with the place where it goes, the project that pays,
 * the delegation (decision 9.1).
 */
export type BoundRequest = Pick<Approval, 'action_hash' | 'delegation_id' | 'principal_id'> & {
  readonly attribution: Pick<Approval['attribution'], 'project_id'>;
};

/** Whether two requests are the same. */
export function isSameRequest(one: BoundRequest, other: BoundRequest): boolean {
  return (
    one.action_hash === other.action_hash && one.attribution.project_id === other.attribution.project_id && isSameDelegation(one, other)
  );
}

/** Whether both are asked for under the same delegation, or under none. */
export function isSameDelegation(one: Pick<BoundRequest, 'delegation_id' | 'principal_id'>, other: typeof one): boolean {
  return one.delegation_id === other.delegation_id && one.principal_id === other.principal_id;
}

/** For which rules approvals were given, by id and content: what policy is told. */
export function approvedRules(given: readonly Approval[]): (rule: AskingRule) => boolean {
  return ({ layer, id, contentHash }) =>
    contentHash !== undefined && given.some((approval) => isForRule(approval, { id: `${layer}/${id}`, hash: contentHash }));
}

/** The approvals that are needed for these rules, the newest first, and the rules for which there is none. */
export function coverOf(
  rules: readonly AskedByRule[],
  given: readonly Approval[],
): { readonly by: readonly Approval[]; readonly open: readonly AskedByRule[] } {
  const needed = new Set<Approval>();
  const open: AskedByRule[] = [];
  for (const rule of rules) {
    const found = given.find((approval) => isForRule(approval, rule));
    if (found === undefined) open.push(rule);
    else needed.add(found);
  }
  return { by: given.filter((approval) => needed.has(approval)), open };
}

/** Entries from before contents were bound are for none. */
function isForRule({ rule_ids: ids, rule_hashes: hashes }: Approval, { id, hash }: Pick<AskedByRule, 'id' | 'hash'>): boolean {
  return hashes !== undefined && ids.some((name, at) => name === id && hashes[at] === hash);
}

/** A rule that asks for an approval of a request, whether or not one was given for it. */
export interface AskedByRule {
  /** `layer/id`. */
  readonly id: string;
  /** SHA-256 of what it says. */
  readonly hash: string;
  readonly reason: string | undefined;
  /** How it wants persons to be asked. */
  readonly terms?: ApprovalTerms | undefined;
}

const NONE: readonly AskedByRule[] = [];

/** Those of the rules that a request matched. */
export function askedBy({ askingRules }: CompiledPolicy, matched: readonly MatchedRule[]): readonly AskedByRule[] {
  if (askingRules.size === 0) return NONE;
  return matched.flatMap(({ layer, rule_id: name }) => {
    const id = `${layer}/${name}`;
    const rule = askingRules.get(id);
    return rule?.contentHash === undefined
      ? []
      : [{ id, hash: rule.contentHash, reason: rule.effects.reason, terms: rule.effects.approval }];
  });
}
