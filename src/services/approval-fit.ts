import type { Approval } from '../base/model/approval.ts';
import type { AskedByRule } from '../decide/policy/asking-rules.ts';
import type { AskingRule } from '../decide/policy/facts.ts';

/** What makes two requests the same for whoever decides: the action with the place where it goes, the project that pays, the delegation (decision 9.1). */
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
