import type { ActivePolicy } from '../../services/policy/active-policy.ts';
import { defineStage } from '../parts/stage.ts';

function snapshotOf(active: ActivePolicy): { readonly snapshot: { readonly active: ActivePolicy } } {
  return { snapshot: { active } };
}

/** Takes the policy that the request is asked of; whatever is put in force from here on counts for those that come later. */
export const pinPolicy = defineStage({
  name: 'policy snapshot',
  reads: ['claims'],
  makes: ['snapshot'],
  run: ({ claims }, { policies }) => {
    const active = policies.ready(claims.orgId);
    return active instanceof Promise ? active.then(snapshotOf) : { snapshot: { active } };
  },
});
