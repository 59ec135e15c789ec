import { deny } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

/** A delegation token cannot be verified without a key, so none is accepted (specification, "Delegation"). */
export const delegation = defineStage({
  name: 'delegation',
  reads: ['action'],
  run({ action }) {
    if (action.request.delegation_token === undefined) return undefined;
    return deny('delegation_not_verifiable', 'This gateway has no key to verify delegation tokens with.');
  },
});
