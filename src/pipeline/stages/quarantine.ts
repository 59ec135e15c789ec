import { callerOf } from '../parts/known.ts';
import { Refusal } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

/** Whoever is in quarantine is refused as he was the first time, without asking policy, until a person releases him (specification, "Quarantine entry"; decision 9.2). */
export const quarantine = defineStage({
  name: 'quarantine',
  reads: ['arrival', 'claims'],
  run({ arrival, claims }, { quarantines }) {
    if (quarantines.active === 0) return undefined;
    const held = quarantines.holding(callerOf(arrival, claims));
    if (!held) return undefined;
    return new Refusal({ decision: 'quarantine', status: 403, reason: held.reason, reasonCodes: held.reason_codes });
  },
});
