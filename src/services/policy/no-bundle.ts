import { BUNDLE_SCHEMA, type PolicyText } from '../../decide/policy/bundle.ts';

const NAME = 'no_bundle';
const NOT_LOADED = 'bundle_not_loaded';

/** The bundle of a gateway that never had one of its control plane: it denies everything (decision 13.9). */
export const NO_BUNDLE: PolicyText = denying(NAME, 'this gateway never had a policy bundle of its control plane');

/** What stands in the place of one that the plan tier does not include any more. */
export const BUNDLE_NOT_LOADED: PolicyText = denying(NOT_LOADED, 'the plan tier does not include the policy bundle');

function denying(name: string, reason: string): PolicyText {
  const rule = { id: name, priority: 1, effect: { decision: 'deny', reason, reason_codes: [name] } };
  return { file: name, text: JSON.stringify({ schema: BUNDLE_SCHEMA, bundle_id: name, version: '0', inline_rules: { identity: [rule] } }) };
}
