import { allNamed } from '../../base/catalogue/named-models.ts';
import { readingOf } from '../../base/catalogue/reading.ts';
import { checkSent } from '../../decide/delegation/judge-chain.ts';
import { DelegationError } from '../../decide/delegation/link.ts';
import type { Delegation } from '../../services/people/delegations.ts';
import type { CallRoute, Content } from '../parts/parts.ts';
import { deny, type Refusal } from '../parts/refusal.ts';

/**
 * The refusal of a call that its delegation does not allow, each of the models that it names included (decision 6.3).
 * Asked of what policy will be asked about, and again of what is sent.
 */
export function outOfScope({ chain }: Delegation, call: CallRoute, { params }: Pick<Content, 'params'>): Refusal | undefined {
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

/** How a call is refused whose delegation does not hold. @throws what is no refusal */
export function refusalFor(error: unknown): Refusal {
  if (error instanceof DelegationError) return deny(error.code, error.message);
  throw error;
}
