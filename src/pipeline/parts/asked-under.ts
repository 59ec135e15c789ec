import type { Approval } from '../../base/model/approval.ts';
import type { Parts } from './parts.ts';

/** The delegation under which a call is asked for: that of its token, else what its caller names. */
export function askedUnder({
  claims,
  delegated,
}: Pick<Parts, 'claims'> & Partial<Pick<Parts, 'delegated'>>): Pick<Approval, 'delegation_id' | 'principal_id'> {
  const id = delegated?.chain.leaf.delegationId ?? claims.delegationId;
  const principal = delegated?.facts.principal_id;
  return { ...(id === undefined ? {} : { delegation_id: id }), ...(principal === undefined ? {} : { principal_id: principal }) };
}
