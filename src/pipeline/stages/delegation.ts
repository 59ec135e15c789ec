import { type Bearer, checkBearer, checkSent, type Sent } from '../../decide/delegation/judge-chain.ts';
import { DelegationError } from '../../decide/delegation/link.ts';
import type { Delegation } from '../../services/people/delegations.ts';
import type { Arrived, Claims, Content, PolicySnapshot, ReceivedAction } from '../parts/parts.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';
import { refusalFor } from '../route/delegation-scope.ts';

const NOT_DELEGATED = { delegated: undefined };

/**
 * A delegation token holds, may be used by who shows it, now and for what is asked (specification, "Delegation";
 * decision 9.4). Path and model are known later: see route/delegation-scope.ts.
 */
export const delegation = defineStage({
  name: 'delegation',
  reads: ['arrival', 'claims', 'snapshot', 'action', 'content'],
  makes: ['delegated'],
  run({ arrival, claims, snapshot, action, content }, { delegations }) {
    const token = action.request.delegation_token;
    if (token === undefined) return NOT_DELEGATED;
    let delegated: Delegation | undefined;
    try {
      delegated = delegations.verify(token);
      checkBearer(delegated.chain, bearerOf(arrival, claims, snapshot));
      if (delegations.isRevoked(delegated)) throw new DelegationError('delegation_revoked', 'The delegation has been revoked.');
      checkSent(delegated.chain, askedOf(action, content));
      return { delegated };
    } catch (error) {
      const refusal = refusalFor(error);
      // The record of what was refused says under which delegation it was asked, once that is certain.
      return delegated === undefined ? refusal : new EndedWith(refusal, { delegated });
    }
  },
});

function bearerOf({ createdAt: now }: Arrived, { orgId, workloadId, delegationId }: Claims, { active }: PolicySnapshot): Bearer {
  return { now, orgId, workloadId, delegationId, policyBundleId: active.bundle_id };
}

/** As far as the caller has said it. */
function askedOf({ request: { action } }: ReceivedAction, { model }: Content): Partial<Sent> {
  const { type: actionType, method, target_host: host, target_path: path } = action;
  return { actionType, method, host, ...(path === undefined ? {} : { path }), ...(model === undefined ? {} : { model }) };
}
