import { timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Approval, ApprovalDecision, ApprovalNeed } from '../../base/model/approval.ts';
import { type NamedPrincipal, namedPrincipal, type Principal, principalText, principalWord } from '../../base/model/principal.ts';
import { missingOf } from '../../decide/policy/approval-standing.ts';
import type { ApprovalTerms } from '../../decide/policy/effects.ts';

/**
 * Who has to say yes where several rules ask: of each group as many persons as the rule with most wants; undefined: one
 * person who may decide.
 */
export function needsOf(terms: readonly (ApprovalTerms | undefined)[]): readonly ApprovalNeed[] | undefined {
  const most = new Map<string | undefined, number>();
  for (const { group, required = 1 } of terms.map((one) => one ?? {})) most.set(group, Math.max(most.get(group) ?? 0, required));
  const needs = [...most].map(([group, required]) => (group === undefined ? { required } : { required, group }));
  const [only] = needs;
  return needs.length === 1 && only?.required === 1 && only.group === undefined ? undefined : needs;
}

/** What a person says of a request that waits. */
interface Saying {
  readonly status: 'approved' | 'denied';
  readonly note?: string | undefined;
  readonly reason: string | undefined;
  readonly principal: Principal;
}

/**
 * What becomes of a request that waits when a person has said something of it.
 * @param now epoch milliseconds
 * @param ttlMs how long what is given can be used
 * @throws GatewayError as {@link saidBy}
 */
export function afterSaying(approval: Approval, saying: Saying, now: number, ttlMs: number): Approval {
  const { status, note, reason, principal } = saying;
  const { decisions, isMissing } = saidBy(approval, saying, timestamp(now));
  if (isMissing) return { ...approval, decisions };
  const by = namedPrincipal(principal);
  return {
    ...approval,
    status,
    ...(approval.needs === undefined ? {} : { decisions }),
    decided_by: principalWord(by, note),
    decided_by_principal: by,
    ...(note === undefined ? {} : { decided_by_note: note }),
    decided_at: timestamp(now),
    ...(reason === undefined ? {} : { decision_reason: reason }),
    ...(status === 'approved' ? { expires_at: timestamp(now + ttlMs) } : {}),
  };
}

/**
 * What has been said of a request, with what is said now.
 * @param at RFC 3339
 * @returns `isMissing`: nobody has denied it, and not everybody has said yes who must
 * @throws GatewayError `not_in_group` for who is not asked, `conflict` for who has said it already
 */
function saidBy(
  { needs = [], decisions = [] }: Pick<Approval, 'needs' | 'decisions'>,
  { status, note, reason, principal }: Saying,
  at: string,
): { readonly decisions: readonly ApprovalDecision[]; readonly isMissing: boolean } {
  const by = namedPrincipal(principal);
  const groups = needs.flatMap(({ group }) => (group !== undefined && principal.groups?.includes(group) === true ? [group] : []));
  const isAsked = needs.length === 0 || by.kind === 'admin' || groups.length > 0 || needs.some(({ group }) => group === undefined);
  if (!isAsked) throw notAsked(needs);
  const person = personOf(by, principal.madeBy);
  const before = decisions.find(({ decided_by_principal: other, made_by: maker }) => personOf(other, maker) === person);
  if (before !== undefined) throw saidBefore(before);
  const own: ApprovalDecision = {
    status,
    decided_by: principalWord(by, note),
    decided_by_principal: by,
    ...(note === undefined ? {} : { decided_by_note: note }),
    ...(principal.madeBy === undefined ? {} : { made_by: principal.madeBy }),
    ...(groups.length === 0 ? {} : { groups }),
    decided_at: at,
    ...(reason === undefined ? {} : { reason }),
  };
  const all = [...decisions, own];
  return { decisions: all, isMissing: status === 'approved' && needs.some((need) => missingOf(need, all) > 0) };
}

/**
 * Names one person: the admin token is one, whoever shows it, and so are a key, all that it has made, and whoever has
 * signed in with one of them.
 * @param maker the first of the keys that have made this one; of a session, of the key that has signed in
 */
function personOf({ kind, id, user_id: userId }: NamedPrincipal, maker: string | undefined): string {
  // Nothing but management keys makes keys.
  if (maker !== undefined) return `management_key ${maker}`;
  return userId === undefined ? `${kind} ${id}` : `user ${userId}`;
}

function saidBefore({ status, decided_by_principal: by, decided_by_note: note, decided_at: at }: ApprovalDecision): GatewayError {
  const who = principalText(by, note);
  return new GatewayError(
    'conflict',
    `${who} has ${status} this approval already, at ${at}; a key and those that it has made are one person.`,
  );
}

function notAsked(needs: readonly ApprovalNeed[]): GatewayError {
  const groups = needs.map(({ group }) => `"${String(group)}"`).join(' or ');
  return new GatewayError('not_in_group', `This approval is decided by the group ${groups}, and this key is not in it.`);
}
