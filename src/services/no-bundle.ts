import { BUNDLE_SCHEMA, type PolicyText } from '../decide/policy/bundle.ts';

const NAME = 'no_bundle';

/** The bundle of a gateway that never had one of its control plane: it denies everything (decision 13.9). */
export const NO_BUNDLE: PolicyText = {
  file: NAME,
  text: JSON.stringify({
    schema: BUNDLE_SCHEMA,
    bundle_id: NAME,
    version: '0',
    inline_rules: {
      identity: [
        {
          id: NAME,
          priority: 1,
          effect: { decision: 'deny', reason: 'this gateway never had a policy bundle of its control plane', reason_codes: [NAME] },
        },
      ],
    },
  }),
};
