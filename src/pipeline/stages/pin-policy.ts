import { defineStage } from '../parts/stage.ts';

/** Takes the policy that the request is asked of; whatever is put in force from here on counts for those that come later. */
export const pinPolicy = defineStage({
  name: 'policy snapshot',
  reads: ['claims'],
  makes: ['snapshot'],
  run: ({ claims }, { policies }) => ({ snapshot: { active: policies.current(claims.orgId) } }),
});
