import { allNamed } from '../../base/catalogue/named-models.ts';
import { readingOf } from '../../base/catalogue/reading.ts';
import { DelegationError } from '../../decide/delegation/delegation-error.ts';
import { type Bearer, checkBearer, checkSent, type Sent } from '../../decide/delegation/judge-chain.ts';
import type { Delegation } from '../../services/people/delegations.ts';
import type { Arrived, CallRoute, Claims, Content, Parts, PolicySnapshot, ReceivedAction } from '../parts/parts.ts';
import { deny, type Refusal } from '../parts/refusal.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';

const NOT_DELEGATED = { delegated: undefined };

/**
 * A delegation token holds, may be used by who shows it, now and for what is asked (specification, "Delegation"; decision 9.4). What is asked is known better later on:
 * see {@link delegationScope}.
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

/** Whether a delegation allows what policy will be asked about: by now path and model are known. */
export const delegationScope = defineStage({
  name: 'delegation scope',
  reads: ['offer', 'asked'],
  sees: ['delegated'],
  run: ({ delegated, offer, asked }) => (delegated === undefined ? undefined : outOfScope(delegated, offer, asked)),
});

/** The same of what is sent, after policy has changed it. */
export const delegationScopeAgain = defineStage({
  name: 'delegation scope again',
  reads: ['route', 'mutated'],
  sees: ['delegated'],
  run: ({ delegated, route, mutated }) => (delegated === undefined ? undefined : outOfScope(delegated, route, mutated)),
});

function bearerOf({ createdAt: now }: Arrived, { orgId, workloadId, delegationId }: Claims, { active }: PolicySnapshot): Bearer {
  return { now, orgId, workloadId, delegationId, policyBundleId: active.bundle_id };
}

/** As far as the caller has said it. */
function askedOf({ request: { action } }: ReceivedAction, { model }: Content): Partial<Sent> {
  const { type: actionType, method, target_host: host, target_path: path } = action;
  return { actionType, method, host, ...(path === undefined ? {} : { path }), ...(model === undefined ? {} : { model }) };
}

/** Of each model that is named, wherever it stands (decision 6.3). */
function outOfScope({ chain }: Delegation, call: CallRoute, { params }: Pick<Parts['asked'], 'params'>): Refusal | undefined {
  const { actionType, method, host, path, model, provider, operation, named } = call;
  const { hidesModel, hidesBody } = readingOf(provider, operation, params['model'] !== undefined, named);
  try {
    checkSent(chain, { actionType, method, host, path, model: hidesModel || hidesBody ? undefined : model });
    for (const further of named === undefined ? [] : allNamed(model, named)) checkSent(chain, { model: further });
    return undefined;
  } catch (error) {
    return refusalFor(error);
  }
}

/** @throws what is no refusal */
function refusalFor(error: unknown): Refusal {
  if (error instanceof DelegationError) return deny(error.code, error.message);
  throw error;
}
