import { deny } from '../refusals.ts';
import type { Stage } from '../stage.ts';

/** A delegation token cannot be verified without a key, so none is accepted (specification, "Delegation"). */
export const delegation: Stage = {
  name: 'delegation',
  run(exchange) {
    if (exchange.request?.delegation_token === undefined) return undefined;
    return deny('delegation_not_verifiable', 'This gateway has no key to verify delegation tokens with.');
  },
};
